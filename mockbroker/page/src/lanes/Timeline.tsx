/** The lanes of a group on a canvas; the names of the lanes are text beside it. */

import { effect, signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { connection, journalChanges, lanes, now, state } from "../data/live.ts";
import { visible } from "../data/names.ts";
import { place } from "../data/place.ts";
import { type By, COLOURS, hit, type Label, PATTERNS, type Picture, picture } from "./layout.ts";
import type { GroupLanes } from "./lanes.ts";
import { type Palette, paint, palette } from "./paint.ts";
import { currentWindow, fixedEnd, length, pan, readSpan, writeSpan, zoom } from "./span.ts";

/** The picture that is shown, for export. */
export const shownPicture = signal<Picture | null>(null);
/** Called after each drawing, so that curves below show the same span. */
export const drawn = new Set<() => void>();

const FASTEST = 200; // milliseconds between two drawings
const LARGE = 500; // the same for many lanes
const MANY = 30;
const CALM = 1_000; // for people who want reduced motion
const NARROW = 600;

export function gutterOf(width: number): number {
  return width < NARROW ? 92 : 168;
}

export function Timeline({ group, by }: { group: string; by: By }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const labels = useSignal<Label[]>([]);
  const tip = useSignal<{ x: number; y: number; text: string } | null>(null);

  useEffect(() => {
    const element = canvas.current;
    const around = box.current;
    if (!element || !around) return undefined;
    return draw(element, around, group, by, (next) => {
      if (signature(next) !== signature(labels.peek())) labels.value = next;
    });
  }, [group, by]);

  useEffect(() => (canvas.current ? steer(canvas.current, (next) => (tip.value = next)) : undefined), []);

  return (
    <div class="timeline" ref={box}>
      <canvas ref={canvas} role="img" aria-label={`Timeline of group ${visible(group)} by ${by}; the table of events below has the same in words`} />
      <div class="labels" aria-hidden="true">
        {labels.value.map((each) => (
          <LaneLabel key={each.y} label={each} />
        ))}
      </div>
      {tip.value && <Tip at={tip.value} />}
    </div>
  );
}

/** The name of a lane. Its place is set while it is rendered: an effect would run after the browser has drawn the label. */
function LaneLabel({ label }: { label: Label }) {
  return (
    <div class="lane-label" style={{ top: `${label.y}px`, height: `${label.height}px` }} title={label.title || label.text}>
      {label.colour >= 0 && <i class={`swatch c${label.colour % COLOURS} stripes-${Math.floor(label.colour / COLOURS) % PATTERNS}`} />}
      <bdi>{label.text}</bdi>
      {label.detail && <small>{label.detail}</small>}
    </div>
  );
}

function Tip({ at }: { at: { x: number; y: number; text: string } }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = element.current;
    const around = tip?.parentElement;
    if (!tip || !around) return;
    tip.style.left = `${Math.max(0, Math.min(at.x + 12, around.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${at.y + 16}px`;
  });
  return (
    <div ref={element} class="tip">
      {at.text}
    </div>
  );
}

function signature(rows: Label[]): string {
  return JSON.stringify(rows);
}

const NOTHING: GroupLanes = { id: "", rows: [], clients: new Map(), members: new Map(), partitions: new Map(), rebalances: [], generation: -1, eager: true, shared: false, epochs: false, stable: false };

/** Draw after each change, and each time the clock moves by one pixel. Returns the function that ends this. */
function draw(canvas: HTMLCanvasElement, around: HTMLElement, group: string, by: By, onRows: (rows: Label[]) => void): () => void {
  let colours: Palette = palette(canvas);
  let frame = 0;
  let timer = 0;
  let drawnAt = 0;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let pause = FASTEST;

  const drawNow = () => {
    frame = 0;
    clearTimeout(timer);
    drawnAt = performance.now();
    const width = around.clientWidth;
    const next = picture(lanes.get(group) ?? NOTHING, by, currentWindow(), width, gutterOf(width));
    pause = calm ? CALM : next.rows.length > MANY ? LARGE : FASTEST;
    canvas.style.height = `${next.height}px`;
    around.style.setProperty("--gutter", `${(100 * next.gutter) / Math.max(width, 1)}%`);
    paint(canvas, next, colours, Math.min(devicePixelRatio, 2));
    shownPicture.value = next;
    onRows(next.rows);
    for (const each of drawn) each();
    const runs = state.peek()?.clock.mode === "real" && connection.peek() === "live" && fixedEnd.peek() === null;
    if (runs) timer = window.setTimeout(soon, Math.max(pause, length.peek() / Math.max(width, 1)));
  };
  const soon = () => {
    clearTimeout(timer);
    const wait = drawnAt + pause - performance.now();
    if (frame) return;
    if (wait > 0) timer = window.setTimeout(soon, wait);
    else frame = requestAnimationFrame(drawNow);
  };
  const theme = matchMedia("(prefers-color-scheme: dark)");
  const recolour = () => {
    colours = palette(canvas);
    soon();
  };
  const sizes = new ResizeObserver(soon);
  sizes.observe(around);
  theme.addEventListener("change", recolour);
  const end = effect(() => {
    void [journalChanges.value, length.value, fixedEnd.value, state.value?.clock, connection.value, now()];
    soon();
  });
  return () => {
    end();
    sizes.disconnect();
    theme.removeEventListener("change", recolour);
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    shownPicture.value = null;
  };
}

/** Move the span by dragging, change its length with Ctrl and the wheel, and show what is under the pointer. */
function steer(canvas: HTMLCanvasElement, onTip: (tip: { x: number; y: number; text: string } | null) => void): () => void {
  let last: number | null = null;
  const plot = () => canvas.clientWidth - gutterOf(canvas.clientWidth);
  const handlers: { [K in "pointerdown" | "pointermove" | "pointerup" | "pointerleave" | "wheel"]: (event: HTMLElementEventMap[K]) => void } = {
    pointerdown(event) {
      if (event.offsetX < gutterOf(canvas.clientWidth)) return;
      last = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    },
    pointermove(event) {
      if (last !== null && event.clientX !== last) {
        pan(((last - event.clientX) / plot()) * length.peek());
        last = event.clientX;
        onTip(null);
        return;
      }
      const shown = shownPicture.peek();
      const found = shown && hit(shown, event.offsetX, event.offsetY);
      onTip(found ? { x: event.offsetX, y: event.offsetY, text: found.title } : null);
    },
    pointerup() {
      if (last !== null && fixedEnd.peek() !== null) writeSpan();
      last = null;
    },
    pointerleave() {
      onTip(null);
    },
    wheel(event) {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8);
      writeSpan();
    },
  };
  const names = Object.keys(handlers) as (keyof typeof handlers)[];
  for (const name of names) canvas.addEventListener(name, handlers[name] as EventListener, { passive: false });
  return () => names.forEach((name) => canvas.removeEventListener(name, handlers[name] as EventListener));
}

/** Follow the address: a link has a span. */
export function followAddress(): () => void {
  return effect(() => {
    void place.value;
    readSpan();
  });
}

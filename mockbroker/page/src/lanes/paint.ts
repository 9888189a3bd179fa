/** Draws a picture of lanes on a canvas. */

import { fits } from "./fit.ts";
import { AXIS, type Box, COLOURS, PATTERNS, type Picture, TOP } from "./layout.ts";

/** Colours of the page, from its style sheet. */
export interface Palette {
  text: string;
  dim: string;
  line: string;
  paper: string;
  wait: string;
  waiting: string;
  gap: string;
  gone: string;
  fills: string[];
  edges: string[];
}

/** Read the colours that apply now, in light or dark, where an element is. */
export function palette(element: Element): Palette {
  const probe = document.createElement("span"); // its colour is computed; a custom property is only text
  probe.style.setProperty("forced-color-adjust", "none"); // otherwise all colours are one where the system's are forced
  element.after(probe);
  const style = getComputedStyle(probe);
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return style.color;
  };
  const series = (name: string) => Array.from({ length: COLOURS }, (_, at) => colour(`${name}-${at}`));
  const found: Palette = {
    text: colour("text"),
    dim: colour("dim"),
    line: colour("line"),
    paper: colour("paper"),
    wait: colour("wait"),
    waiting: colour("waiting"),
    gap: colour("gap"),
    gone: colour("gone"),
    fills: series("fill"),
    edges: series("edge"),
  };
  probe.remove();
  return found;
}

const FONT = '11px system-ui, "Segoe UI", sans-serif';

/** Draw all of a picture. `ratio`: pixels of the screen for each pixel of the page. */
export function paint(canvas: HTMLCanvasElement, picture: Picture, colours: Palette, ratio: number): void {
  const width = Math.round(picture.width * ratio);
  const height = Math.round(picture.height * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, picture.width, picture.height);
  context.font = FONT;
  context.textBaseline = "middle";
  paintColumns(context, picture, colours);
  paintGrid(context, picture, colours);
  for (const box of picture.boxes) paintBox(context, box, colours);
  for (const sign of picture.signs) paintSign(context, sign, colours);
  context.fillStyle = colours.gone;
  for (const note of picture.notes) context.fillText(fits(note.labels, note.room), note.x, note.y);
  context.fillStyle = colours.dim;
  context.fillRect(picture.now, AXIS, 1, picture.height - AXIS);
}

function paintColumns(context: CanvasRenderingContext2D, picture: Picture, colours: Palette): void {
  context.fillStyle = colours.wait;
  for (const column of picture.columns) context.fillRect(column.x, AXIS, Math.max(column.width, 2), picture.height - AXIS);
  for (const column of picture.columns) {
    context.fillStyle = colours.waiting;
    context.fillRect(column.x, AXIS, 2, picture.height - AXIS);
    const text = fits(column.labels, column.room);
    context.fillStyle = colours.text;
    if (text) context.fillText(text, column.x + 6, AXIS + (TOP - AXIS) / 2);
  }
}

function paintGrid(context: CanvasRenderingContext2D, picture: Picture, colours: Palette): void {
  context.fillStyle = colours.line;
  for (const row of picture.rows) context.fillRect(0, row.y, picture.width, 1);
  for (const tick of picture.ticks) {
    context.fillStyle = colours.line;
    context.fillRect(tick.x, AXIS - 6, 1, picture.height - AXIS + 6);
    context.fillStyle = colours.dim;
    if (tick.x < picture.width - 58) context.fillText(tick.text, tick.x + 4, AXIS / 2);
  }
}

function paintBox(context: CanvasRenderingContext2D, box: Box, colours: Palette): void {
  const { x, y, width, height } = box;
  const at = box.colour % COLOURS;
  const waits = box.fill === "joins" || box.fill === "syncs";
  const edge = box.fill === "owns" ? colours.edges[at] : waits ? colours.waiting : box.fill === "unowned" ? colours.gone : colours.dim;
  if (box.fill !== "idle") {
    context.fillStyle = (box.fill === "owns" ? colours.fills[at] : waits ? colours.wait : box.fill === "unowned" ? colours.gap : "transparent") ?? "";
    context.fillRect(x, y, width, height);
    if (box.fill === "owns") paintStripes(context, box, edge ?? "");
  }
  context.fillStyle = edge ?? "";
  if (box.fill === "syncs") for (let stripe = x; stripe < x + width; stripe += 6) context.fillRect(stripe, y + height - 3, 3, 3);
  else context.fillRect(x, box.fill === "idle" ? y + height / 2 : y + height - (height > 12 ? 2 : 1), width, box.fill === "idle" ? 1 : height > 12 ? 2 : 1);
  if (box.known && width > 3) context.fillRect(x, y, 2, height);
  const text = height < 12 ? "" : fits(box.labels, width - 8);
  if (!text) return;
  context.fillStyle = box.fill === "idle" || box.fill === "away" ? colours.dim : colours.text;
  context.fillText(text, x + 5, y + height / 2 - (box.fill === "idle" ? 5 : 0));
}

/** Draw the stripes that distinguish the members with one colour. */
function paintStripes(context: CanvasRenderingContext2D, { x, y, width, height, colour }: Box, edge: string): void {
  const pattern = Math.floor(colour / COLOURS) % PATTERNS;
  const fill = pattern ? stripes(context, edge, pattern === 1) : null;
  if (!fill) return;
  context.fillStyle = fill;
  context.fillRect(x, y, width, height);
}

const TILE = 8; // pixels
const tiles = new Map<string, CanvasPattern | null>();

/** Return a pattern of diagonal lines, which rise or fall from left to right. */
function stripes(context: CanvasRenderingContext2D, edge: string, rises: boolean): CanvasPattern | null {
  const key = `${edge} ${rises}`;
  let pattern = tiles.get(key);
  if (pattern !== undefined) return pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = TILE;
  const lines = tile.getContext("2d");
  if (lines) {
    lines.globalAlpha = 0.22;
    lines.strokeStyle = edge;
    lines.lineWidth = 2;
    for (const at of [-TILE, 0, TILE]) {
      lines.moveTo(at, rises ? TILE : 0);
      lines.lineTo(at + TILE, rises ? 0 : TILE);
    }
    lines.stroke();
  }
  pattern = context.createPattern(tile, "repeat");
  tiles.set(key, pattern);
  return pattern;
}

function paintSign(context: CanvasRenderingContext2D, sign: Picture["signs"][number], colours: Palette): void {
  context.beginPath();
  cross(context, sign.x, sign.y);
  context.fillStyle = colours.gone;
  context.fill();
}

function cross(context: CanvasRenderingContext2D, x: number, y: number): void {
  for (const turn of [1, -1]) {
    context.moveTo(x - 5, y - 5 * turn);
    context.lineTo(x - 3, y - 6 * turn);
    context.lineTo(x + 5, y + 4 * turn);
    context.lineTo(x + 3, y + 6 * turn);
    context.closePath();
  }
}

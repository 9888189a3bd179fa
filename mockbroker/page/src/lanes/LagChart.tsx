/** The lag of a group and of its partitions over the span of its lanes. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { read } from "../data/api.ts";
import { encoded, visible } from "../data/names.ts";
import { connection, lags, lanes, now } from "../data/live.ts";
import { type Curves, valueAt } from "../data/lags.ts";
import type { LagHistory } from "../data/types.ts";
import { type Palette, palette } from "./paint.ts";
import { currentWindow } from "./span.ts";
import { clockText } from "./time.ts";
import { drawn, gutterOf } from "./Timeline.tsx";
import { placed } from "./fit.ts";
import { COLOURS } from "./layout.ts";

const HEIGHT = 150;
const MOST = 8; // curves of partitions beside that of the group: those with the largest lag

const STEPS: Pick<uPlot.Series, "paths"> = uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};

export function LagChart({ group }: { group: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => (box.current ? chart(box.current, group) : undefined), [group]);
  useEffect(() => {
    if (connection.value === "live") void read<LagHistory>(`/v1/groups/${encoded(group)}/lag`).then((past) => lags.merge(group, past), ignore);
  }, [group, connection.value]);
  return <div class="lag" ref={box} role="img" aria-label={`Lag of group ${visible(group)}; the table of partitions below has the numbers`} />;
}

function ignore(): void {
  // the group was deleted: nothing is shown of it
}

function chart(box: HTMLElement, group: string): () => void {
  let plot: uPlot | undefined;
  let names = "";

  const update = () => {
    const curves = lags.of(group);
    const width = box.clientWidth;
    if (!curves || !width) return;
    const shown = largest(curves);
    if (!plot || names !== shown.join()) {
      plot?.destroy();
      names = shown.join();
      plot = new uPlot(options(width, group, shown, palette(box)), data(curves, shown), box);
    } else plot.setData(data(curves, shown), false);
    if (plot.width !== width) plot.setSize({ width, height: HEIGHT });
    const { from, to } = currentWindow();
    plot.batch(() => {
      plot?.setScale("x", { min: from, max: to });
    });
  };
  const rebuild = () => {
    plot?.destroy();
    plot = undefined;
    update();
  };
  const theme = matchMedia("(prefers-color-scheme: dark)");
  theme.addEventListener("change", rebuild);
  drawn.add(update);
  update();
  return () => {
    drawn.delete(update);
    theme.removeEventListener("change", rebuild);
    plot?.destroy();
  };
}

/** Return the partitions with the largest lag so far, in the order of their names. */
function largest(curves: Curves): string[] {
  return [...curves.partitions]
    .map(([name, values]) => [name, values.reduce((most: number, each) => Math.max(most, each ?? 0), 0)] as const)
    .filter(([, most]) => most > 0)
    .sort(([, some], [, other]) => other - some)
    .slice(0, MOST)
    .map(([name]) => name)
    .sort();
}

/** Return a function that gives the colour of a partition's owner at a time; `none` while it has no owner. */
function colouring(group: string, partition: string, colours: Palette): (time: number) => string {
  const own = lanes.get(group);
  const owners = own?.partitions.get(partition)?.owners ?? [];
  const rows = new Map(own?.rows.flatMap((row) => row.lives.map((life) => [life.id, row.colour] as const)));
  return (time) => {
    const owner = owners.findLast((each) => each.begin <= time && (each.end ?? Number.POSITIVE_INFINITY) > time);
    return (owner && colours.edges[(rows.get(owner.member) ?? 0) % COLOURS]) ?? colours.dim;
  };
}

/** Return the curves, with a point of the present: the last lag lasts until now. */
function data(curves: Curves, names: string[]): uPlot.AlignedData {
  const lasting = <T,>(values: T[]) => [...values, values.at(-1)];
  const times = [...curves.times, Math.max(now(), curves.times.at(-1) ?? 0)];
  return [times, ...names.map((name) => lasting(curves.partitions.get(name) ?? [])), lasting(curves.total)] as uPlot.AlignedData;
}

function options(width: number, group: string, names: string[], colours: Palette): uPlot.Options {
  const axis = { stroke: colours.dim, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const lines = names.map((name) => ({ label: visible(name), width: 0, paths: () => null, points: { show: false } }));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 0, 8, 0],
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(most * 1.15, 4)] } },
    axes: [
      { ...axis, show: false, values: (_, times) => times.map(clockText) },
      { ...axis, size: gutterOf(width), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6, 1e7] },
    ],
    series: [{}, ...lines, { label: "all partitions", stroke: colours.text, width: 2, ...STEPS, points: { show: false } }],
    hooks: { draw: [(plot) => drawPartitions(plot, group, names, colours)] },
  };
}

/** Draw the lines of the partitions, each piece in the colour of its owner at that time, and the names of all lines. */
function drawPartitions(plot: uPlot, group: string, names: string[], colours: Palette): void {
  const { ctx, bbox } = plot;
  const [times = []] = plot.data;
  const colour = names.map((name) => colouring(group, name, colours));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  const first = Math.max(times.findIndex((time) => time >= (plot.scales["x"]?.min ?? 0)) - 1, 0);
  names.forEach((_, at) => {
    const values = plot.data[at + 1] ?? [];
    for (let point = first + 1; point < times.length; point += 1) {
      const [before, after] = [values[point - 1], values[point]];
      if (before === null || after === null || before === undefined || after === undefined) continue;
      ctx.strokeStyle = colour[at]?.(times[point - 1] ?? 0) ?? "";
      ctx.beginPath();
      ctx.moveTo(plot.valToPos(times[point - 1] ?? 0, "x", true), plot.valToPos(before, "y", true));
      ctx.lineTo(plot.valToPos(times[point] ?? 0, "x", true), plot.valToPos(before, "y", true));
      ctx.lineTo(plot.valToPos(times[point] ?? 0, "x", true), plot.valToPos(after, "y", true));
      ctx.stroke();
    }
  });
  const last = Math.min(times.at(-1) ?? 0, plot.scales["x"]?.max ?? 0);
  nameLines(plot, [...colour.map((each) => each(last)), colours.text], colours.paper);
  ctx.restore();
}

/** Write the name of each line, and its value at the end of what is shown, on a background that dims the lines. */
function nameLines(plot: uPlot, colours: string[], paper: string): void {
  const { ctx, bbox } = plot;
  const times = [...plot.data[0]];
  const ratio = devicePixelRatio;
  const ends = plot.series.slice(1).flatMap((series, at) => {
    const value = valueAt(times, [...(plot.data[at + 1] ?? [])], plot.scales["x"]?.max ?? 0);
    if (value === null) return [];
    return [{ text: `${String(series.label)}: ${value}`, y: plot.valToPos(value, "y", true) - 2 * ratio, colour: colours[at] ?? "" }];
  });
  const own = [...ends.slice(-1), ...ends.slice(0, -1)]; // the sum of all partitions first, so that it always has a label
  const shown = placed(own, bbox.top + 13 * ratio, bbox.top + bbox.height, 13 * ratio);
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "bottom";
  const right = bbox.left + bbox.width - 30 * ratio;
  ctx.fillStyle = paper;
  ctx.globalAlpha = 0.85;
  for (const { text, y } of shown) {
    const width = ctx.measureText(text).width + 6 * ratio;
    ctx.fillRect(right - width + 3 * ratio, y - 13 * ratio, width, 13 * ratio);
  }
  ctx.globalAlpha = 1;
  for (const { text, y, colour } of shown) {
    ctx.fillStyle = colour;
    ctx.fillText(text, right, y);
  }
}

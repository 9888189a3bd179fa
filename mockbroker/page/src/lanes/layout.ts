/** Where the lanes of a group are drawn: boxes, marks and labels in pixels, for the canvas and for the SVG. */

import { visible } from "../data/names.ts";
import { clientName, type GroupLanes, type MarkKind, type MemberLane, nameIn, named, type Owner, type Span, shortId } from "./lanes.ts";
import { clockText, duration, ticks } from "./time.ts";

/** The interval that is shown, in milliseconds of the journal, and where time 0 is in milliseconds since 1970. */
export interface Window {
  from: number;
  to: number;
  now: number;
  epoch: number;
}

export type Fill = "owns" | "joins" | "syncs" | "idle" | "away" | "unowned";

/** A bar. `labels`: texts for it, the longest first, of which the first that fits is drawn. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
  fill: Fill;
  colour: number;
  labels: string[];
  title: string;
  begin: number;
  end: number | null;
  known: boolean;
  lane: string;
}

export interface Sign {
  x: number;
  y: number;
  kind: MarkKind;
  title: string;
}

export interface Label {
  y: number;
  height: number;
  text: string;
  detail: string;
  title: string;
  colour: number;
}

/** A rebalance as a column through all lanes, with a text at its top. */
export interface Column {
  x: number;
  width: number;
  labels: string[];
  room: number;
  title: string;
}

/** The end of a member, with the room for a text until its client comes back. */
export interface Note {
  x: number;
  y: number;
  labels: string[];
  room: number;
}

export interface Picture {
  width: number;
  height: number;
  gutter: number;
  rows: Label[];
  boxes: Box[];
  signs: Sign[];
  notes: Note[];
  columns: Column[];
  /** Where the time is now; beyond the width if the span ends before. */
  now: number;
  ticks: { x: number; text: string }[];
}

export type By = "member" | "partition";

const NATURAL = new Intl.Collator("en", { numeric: true });
export const AXIS = 22; // height of the axis
export const CAPTIONS = 22; // height of the captions of rebalances
export const TOP = AXIS + CAPTIONS;
export const COLOURS = 8;
/** The ninth member has the colour of the first one, with stripes; the 17th with stripes in the other direction. */
export const PATTERNS = 3;

/** Return the picture of a group; only what overlaps the window is in it. */
export function picture(group: GroupLanes, by: By, window: Window, width: number, gutter: number): Picture {
  const scale = (time: number) => gutter + ((time - window.from) / (window.to - window.from)) * (width - gutter);
  const found = by === "member" ? memberRows(group, window) : partitionRows(group, window);
  const height = rowHeight(found.length);
  const result: Picture = {
    width,
    height: TOP + Math.max(found.length, 1) * height + 6,
    gutter,
    rows: [],
    boxes: [],
    signs: [],
    notes: [],
    columns: columns(group, window, scale, width),
    now: scale(window.now),
    ticks: ticks(window.epoch + window.from, window.epoch + window.to, (width - gutter) / 90).map((time) => ({
      x: scale(time - window.epoch),
      text: clockText(time),
    })),
  };
  found.forEach((row, at) => {
    const y = TOP + at * height;
    result.rows.push({ y, height, text: row.text, detail: row.detail, title: row.title, colour: row.colour });
    const inset = height > 20 ? 3 : 1;
    for (const bar of row.bars) {
      const x = Math.max(scale(bar.begin), gutter);
      const right = Math.min(scale(bar.end ?? window.now), width);
      if (right < gutter || x > width) continue;
      result.boxes.push({ ...bar, x, width: Math.max(right - x, 1), y: y + inset, height: height - 2 * inset });
    }
    for (const mark of row.marks) {
      const x = scale(mark.time);
      if (x < gutter || x > width) continue;
      result.signs.push({ x, y: y + height / 2, kind: mark.kind, title: mark.text });
      if (height <= 20) continue;
      const next = row.bars.find((bar) => bar.begin >= mark.time);
      const room = Math.min(next ? scale(next.begin) : result.now, width) - x - 12;
      result.notes.push({ x: x + 9, y: y + height / 2, labels: [room < 120 ? mark.kind : mark.short], room });
    }
  });
  return result;
}

/** Return the box or the sign at a point, or undefined. */
export function hit(picture: Picture, x: number, y: number): { title: string } | undefined {
  const near = picture.signs.filter((sign) => Math.abs(sign.x - x) < 6 && Math.abs(sign.y - y) < 14);
  if (near.length) return { title: near.map((sign) => sign.title).join("\n") };
  const box = picture.boxes.find((each) => x >= each.x && x <= each.x + each.width && y >= each.y && y <= each.y + each.height);
  return box ?? picture.columns.find((each) => x >= each.x && x <= each.x + Math.max(each.width, 4));
}

type Bar = Omit<Box, "x" | "y" | "width" | "height">;

interface LaneRow {
  text: string;
  detail: string;
  title: string;
  colour: number;
  bars: Bar[];
  marks: { time: number; kind: MarkKind; text: string; short: string }[];
}

function memberRows(group: GroupLanes, window: Window): LaneRow[] {
  const rows: LaneRow[] = [];
  for (const row of group.rows) {
    const bars: Bar[] = [];
    const marks: LaneRow["marks"] = [];
    for (const life of row.lives) {
      life.spans.forEach((span, at) => {
        if (overlaps(span, window)) bars.push(memberBar(group, life, span, life.spans[at - 1], row.colour, window));
      });
      for (const mark of life.marks) {
        const short = visible(named(mark.text, group));
        if (isEnd(mark.kind) && mark.time >= window.from && mark.time <= window.to) marks.push({ ...mark, short, text: `${clockText(window.epoch + mark.time)} ${nameOf(life)} ${short}` });
      }
    }
    if (!bars.length && !marks.length) continue;
    const last = row.lives.at(-1);
    const text = visible(clientName(row.client) || (last ? shortId(last.id) : "?"));
    const title = `client id ${visible(row.client)}\nmember id ${visible(last?.id ?? "")}`;
    rows.push({ text, detail: last && (group.clients.get(row.client) ?? 0) > 1 ? suffix(last) : "", title, colour: row.colour, bars, marks });
  }
  rows.sort((some, other) => NATURAL.compare(some.text, other.text) || NATURAL.compare(some.detail, other.detail)); // client-2 before client-10
  return rows;
}

/** Return whether a mark is drawn; the text of other marks is in the tooltip of the bar that begins there. */
function isEnd(kind: MarkKind): boolean {
  return kind === "left" || kind === "evicted";
}

function memberBar(group: GroupLanes, life: MemberLane, span: Span, before: Span | undefined, colour: number, window: Window): Bar {
  const fill: Fill = span.phase === "member" ? (span.owned.length ? "owns" : "idle") : span.phase;
  const list = summary(span.owned);
  const verb = group.shared ? "reads" : "owns"; // members of a share group share partitions
  const kept = new Set(span.owned);
  const lost = before ? before.owned.filter((name) => !kept.has(name)) : [];
  const labels: Record<Fill, string[]> = {
    owns: [...(lost.length ? [`${verb} ${list}; gave up ${summary(lost)}`] : []), `${verb} ${list}`, list, count(span.owned)],
    joins: [...(lost.length ? [`joining, gave up ${summary(lost)}`] : []), "joining, waits for the other members", "joining", "join"],
    syncs: ["syncing, waits for its assignment", "syncing", "sync"],
    idle: [...(lost.length ? [`gave up ${summary(lost)}`] : []), `${verb} no partition`, "no partition", "none"],
    away: [`away, keeps ${list}`, "away"],
    unowned: [],
  };
  const lasted = duration((span.end ?? window.now) - span.begin);
  const why = life.marks.filter((mark) => mark.time === span.begin && (mark.kind === "join" || mark.kind === "revoked"));
  const title = `${[`${nameOf(life)} ${labels[fill][0]}`, ...why.map((mark) => visible(named(mark.text, group)))].join("\n")}\n${unit(group)} ${span.generation}, ${span.known ? "" : "at least "}${lasted}${span.end === null ? " so far" : ""}`;
  return { fill, colour, labels: labels[fill], title, begin: span.begin, end: span.end, known: span.known, lane: life.id };
}

function partitionRows(group: GroupLanes, window: Window): LaneRow[] {
  const lanes = [...group.partitions.values()].filter((lane) => lane.owners.some((each) => overlaps(each, window)));
  lanes.sort((some, other) => (some.topic === other.topic ? some.index - other.index : some.topic < other.topic ? -1 : 1));
  const rows = new Map(group.rows.flatMap((row) => row.lives.map((life) => [life.id, { row, life }] as const)));
  return lanes.map((lane) => {
    const bars: Bar[] = [];
    lane.owners.forEach((owner, at) => {
      const next = lane.owners[at + 1];
      const gap = { begin: owner.end ?? window.to, end: next ? next.begin : null };
      if (overlaps(owner, window)) bars.push(ownerBar(group, lane.name, owner, rows.get(owner.member), window));
      if (owner.end !== null && !group.shared && overlaps(gap, window) && (gap.end ?? window.now) > gap.begin) bars.push(gapBar(lane.name, gap, window));
    });
    const sharer = group.shared ? rows.get(lane.owners.at(-1)?.member ?? "") : undefined;
    return { text: visible(lane.name), detail: sharer ? nameOf(sharer.life, group) : "", title: "", colour: -1, bars, marks: [] };
  });
}

function ownerBar(group: GroupLanes, name: string, owner: Owner, found: { row: { colour: number }; life: MemberLane } | undefined, window: Window): Bar {
  const member = found ? nameOf(found.life, group) : visible(shortId(owner.member));
  const isShared = (group.clients.get(found?.life.client ?? "") ?? 0) > 1;
  const short = !found ? member : isShared ? suffix(found.life) : visible(clientName(found.life.client));
  const lasted = duration((owner.end ?? window.now) - owner.begin);
  return {
    fill: "owns",
    colour: found?.row.colour ?? 0,
    labels: [member, short],
    title: `${visible(name)} is ${group.shared ? "read" : "owned"} by ${member}\nsince ${unit(group)} ${owner.generation}, ${owner.known ? "" : "at least "}${lasted}${owner.end === null ? " so far" : ""}`,
    begin: owner.begin,
    end: owner.end,
    known: owner.known,
    lane: name,
  };
}

function gapBar(name: string, gap: { begin: number; end: number | null }, window: Window): Bar {
  const lasted = duration((gap.end ?? window.now) - gap.begin);
  return { fill: "unowned", colour: -1, labels: [`no owner for ${lasted}`, "no owner"], title: `${visible(name)} has no owner for ${lasted}`, ...gap, known: true, lane: name };
}

function columns(group: GroupLanes, window: Window, scale: (time: number) => number, width: number): Column[] {
  const shown = group.rebalances.filter((each) => overlaps(each, window));
  return shown.map((each, at) => {
    const x = scale(Math.max(each.begin, window.from));
    const next = shown[at + 1];
    const lasted = each.end === null ? "lasts" : `took ${duration(each.end - each.begin)}`;
    const why = visible(named(each.why, group));
    const number = each.end === null ? "rebalancing" : `${unit(group)} ${each.generation}`;
    return {
      x,
      width: Math.max(scale(each.end ?? window.now) - x, 1),
      room: (next ? scale(next.begin) : width) - x - 6,
      labels: [`${number}: ${why}`, why, number, `${group.epochs ? "epoch" : "gen"} ${each.generation}`],
      title: `rebalance, ${lasted}, because ${why}`,
    };
  });
}

/** Return the unit in which a group counts its rebalances. */
export function unit(group: { epochs: boolean }): string {
  return group.epochs ? "epoch" : "generation";
}

function overlaps(span: { begin: number; end: number | null }, window: Window): boolean {
  return span.begin <= window.to && (span.end ?? window.now) >= window.from;
}

function rowHeight(rows: number): number {
  return rows <= 12 ? 30 : rows <= 30 ? 22 : 16;
}

/** Return the name of a member: its client id, and the start of its member id if the group has others with this client id. */
export function nameOf(life: { id: string; client: string }, group?: GroupLanes): string {
  return visible(nameIn(group, life.id, life.client));
}

/** Return what makes the name of a member unique, for the space beside its client id. */
function suffix(life: MemberLane): string {
  const id = shortId(life.id);
  return visible(id.startsWith(life.client) ? id.slice(life.client.length).replace(/^-/, "") : id);
}

function count(owned: readonly string[]): string {
  return `${owned.length} partition${owned.length === 1 ? "" : "s"}`;
}

/** Return partitions as text, such as `orders 0, 1, 2` or `orders 0-19`. */
export function summary(owned: readonly string[]): string {
  const topics = new Map<string, number[]>();
  for (const name of owned) {
    const at = name.lastIndexOf("-");
    const indexes = topics.get(name.slice(0, at)) ?? [];
    indexes.push(Number(name.slice(at + 1)));
    topics.set(name.slice(0, at), indexes);
  }
  return [...topics].map(([topic, indexes]) => `${visible(topic)} ${ranges(indexes)}`).join(", ");
}

function ranges(indexes: number[]): string {
  const sorted = [...indexes].sort((some, other) => some - other);
  const parts: string[] = [];
  for (let at = 0; at < sorted.length; ) {
    let last = at;
    while (sorted[last + 1] === (sorted[last] ?? 0) + 1) last += 1;
    parts.push(last - at > 1 ? `${sorted[at]}-${sorted[last]}` : sorted.slice(at, last + 1).join(", "));
    at = last + 1;
  }
  return parts.join(", ");
}

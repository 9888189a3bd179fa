/** Curves of the lag of groups and of their partitions, of bounded size. A lag is constant until the next point. */

import type { Group, LagHistory, State } from "./types.ts";

const POINTS = 1_200; // of a group; then every second one of the older half is removed
const INTERVAL = 250; // milliseconds between two points
const NEAR = 1_000; // milliseconds between two points of the server
const CURVES = 2_000; // partitions of all groups with a curve of their own

/** Lag at times: `partitions` has the points of each curve, null where it is unknown; `changes` counts its changes. */
export interface Curves {
  times: number[];
  total: number[];
  partitions: Map<string, (number | null)[]>;
  source: Group["offsets"];
  changes: number;
}

export class Lags {
  readonly #groups = new Map<string, Curves>();
  #curves = 0;

  /** Return the curves of a group; undefined if it has no committed offset. */
  of(group: string): Curves | undefined {
    return this.#groups.get(group);
  }

  clear(): void {
    this.#groups.clear();
    this.#curves = 0;
  }

  /** Add the lag in a state to the curves of the groups whose offsets have changed. `time`: in milliseconds. */
  sample(state: State, time: number): void {
    for (const [id, group] of Object.entries(state.groups)) {
      const known = this.#groups.get(id);
      if (known?.source === group.offsets || (!known && !Object.keys(group.offsets).length)) continue;
      this.#add(id, known, group.offsets, time);
    }
    for (const [id, { partitions }] of this.#groups) {
      if (id in state.groups) continue;
      this.#groups.delete(id);
      this.#curves -= partitions.size;
    }
  }

  /** Add what the server has recorded at times of which this page has no point, such as before it was opened. */
  merge(id: string, history: LagHistory): void {
    const curves: Curves = this.#groups.get(id) ?? { times: [], total: [], partitions: new Map(), source: {}, changes: 0 };
    const past = history.times_ms.map((_, at) => at).filter((at) => isFarFrom(curves.times, history.times_ms[at] ?? 0));
    if (!past.length) return;
    this.#groups.set(id, curves);
    const points = curves.times.length;
    const recorded = new Map<string, (number | null)[]>();
    for (const [topic, partitions] of Object.entries(history.partitions)) {
      for (const [index, values] of Object.entries(partitions)) {
        recorded.set(`${topic}-${index}`, values);
        this.#curve(curves, `${topic}-${index}`, points);
      }
    }
    const times = [...curves.times, ...past.map((at) => history.times_ms[at] ?? 0)];
    const order = times.map((_, at) => at).sort((some, other) => (times[some] ?? 0) - (times[other] ?? 0));
    const sorted = <T>(own: T[], others: T[], none: T) => order.map((at) => (at < points ? own[at] : others[past[at - points] ?? 0]) ?? none);
    curves.times = order.map((at) => times[at] ?? 0);
    curves.total = sorted(curves.total, history.total, 0);
    for (const [name, values] of curves.partitions) curves.partitions.set(name, sorted(values, recorded.get(name) ?? [], null));
    curves.changes += 1;
    while (curves.times.length > POINTS) thin(curves);
  }

  #add(id: string, known: Curves | undefined, offsets: Group["offsets"], time: number): void {
    const curves: Curves = known ?? { times: [], total: [], partitions: new Map(), source: offsets, changes: 0 };
    this.#groups.set(id, curves);
    curves.source = offsets;
    curves.changes += 1;
    const last = curves.times.at(-1);
    const replace = last !== undefined && time - last < INTERVAL && curves.times.length > 1;
    const at = replace ? curves.times.length - 1 : curves.times.length;
    curves.times[at] = replace ? last : time;
    let total = 0;
    const seen = new Set<string>();
    for (const [topic, partitions] of Object.entries(offsets)) {
      for (const [index, { lag }] of Object.entries(partitions)) {
        const name = `${topic}-${index}`;
        total += lag ?? 0;
        seen.add(name);
        this.#curve(curves, name, at)[at] = lag ?? null;
      }
    }
    for (const [name, values] of curves.partitions) if (!seen.has(name)) values[at] = null;
    curves.total[at] = total;
    if (curves.times.length > POINTS) thin(curves);
  }

  #curve(curves: Curves, name: string, points: number): (number | null)[] {
    let values = curves.partitions.get(name);
    if (!values) {
      values = new Array<null>(points).fill(null);
      if (this.#curves < CURVES) {
        this.#curves += 1;
        curves.partitions.set(name, values);
      }
    }
    return values;
  }
}

/** Return whether no time is within a second of `time`. `times`: in ascending order. */
function isFarFrom(times: number[], time: number): boolean {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < time - NEAR) low = middle + 1;
    else high = middle;
  }
  return low === times.length || (times[low] ?? 0) > time + NEAR;
}

/** Return the value of a curve at a time; null before the first point. */
export function valueAt<T>(times: readonly number[], values: readonly (T | null | undefined)[], time: number): T | null {
  const at = times.findLastIndex((each) => each <= time);
  return at < 0 ? null : (values[at] ?? null);
}

/** Remove every second point of the older half. */
function thin(curves: Curves): void {
  const half = curves.times.length >> 1;
  const stays = <T>(_: T, at: number) => at >= half || at % 2 === 0;
  curves.times = curves.times.filter(stays);
  curves.total = curves.total.filter(stays);
  for (const [name, values] of curves.partitions) curves.partitions.set(name, values.filter(stays));
}

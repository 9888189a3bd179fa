/** The time span that lanes and curves show together: the latest seconds, or an interval that stays. */

import { batch, signal } from "@preact/signals";
import { epoch, now } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import type { Window } from "./layout.ts";

export const LENGTHS = [10_000, 30_000, 60_000, 300_000, 1_800_000, 14_400_000] as const;
const USUAL = 60_000;
const SHORTEST = 100;
const LONGEST = 86_400_000;
const LATEST = 8.64e15; // the latest time that a date can have; at much later times, numbers have no single milliseconds

/** Length of the span in milliseconds, and its end; null while it follows the clock. */
export const length = signal(USUAL);
export const fixedEnd = signal<number | null>(null);

/** Take the span from the address of the page; a span that cannot be shown is the usual one. */
export function readSpan(): void {
  const { from = "", to = "", span = "" } = place.value.options;
  batch(() => {
    const end = from === "" || to === "" ? Number.NaN : Number(to);
    const fixed = Math.abs(end) <= LATEST && Number(from) < end;
    length.value = within(fixed ? end - Number(from) : Number(span)) || USUAL;
    fixedEnd.value = fixed ? end : null;
  });
}

/** Return a length between the shortest and the longest that are shown; 0 if it is none. */
function within(ms: number): number {
  return ms > 0 ? Math.min(Math.max(ms, SHORTEST), LONGEST) : 0;
}

/** Put the span into the address of the page, so that it can be shared. */
export function writeSpan(): void {
  const end = fixedEnd.value;
  const span = end === null && length.value !== USUAL ? String(Math.round(length.value)) : "";
  setOptions({ from: end === null ? "" : String(Math.round(end - length.value)), to: end === null ? "" : String(Math.round(end)), span });
}

export function currentWindow(): Window {
  const time = now();
  const to = fixedEnd.value ?? time + length.value * 0.02;
  return { from: to - length.value, to, now: time, epoch: epoch() };
}

export function pan(ms: number): void {
  fixedEnd.value = (fixedEnd.value ?? now()) + ms;
}

/** Make the span longer or shorter; a span that follows the clock still does so. */
export function zoom(factor: number): void {
  const next = within(length.value * factor);
  if (fixedEnd.value !== null) fixedEnd.value += (next - length.value) / 2;
  length.value = next;
}

export function setLength(ms: number): void {
  length.value = ms;
}

/** Stay at the interval that is shown now, or follow the clock again. */
export function pause(stay: boolean): void {
  fixedEnd.value = stay ? now() : null;
}

/** The state of the cluster and the events of its journal, as they arrive. */

import { batch, effect, signal } from "@preact/signals";
import { adopt, type Lanes, record } from "../lanes/lanes.ts";
import { Problem, read } from "./api.ts";
import { Lags } from "./lags.ts";
import { merged } from "./patch.ts";
import { Recent } from "./recent.ts";
import { follow, watched } from "./stream.ts";
import type { JournalEvent, State } from "./types.ts";

const KEPT_EVENTS = 2_000; // that are not commits: those only change offsets, which the state has
const DELIVERY = "share_records";
const BACKWARDS = 1_000; // milliseconds: time that goes back further is that of a reset cluster
const PAUSE = 200; // milliseconds between two changes of the page
const TREMBLE = 200; // milliseconds

export type Connection = "connecting" | "live" | "lost";

export const connection = signal<Connection>("connecting");
export const state = signal<State | null>(null);
/** Return whether the server has a capability: what it cannot do is not on the page. */
export function can(capability: string): boolean {
  return state.value?.cluster.capabilities.includes(capability) ?? false;
}

/** Return how many objects of a kind the server does not send, because there are too many. */
export function leftOut(what: string): number {
  return state.value?.left_out?.[what] ?? 0;
}

/** Counts the changes of `events` and `lanes`, which are changed in place. */
export const journalChanges = signal(0);
export const events = new Recent<JournalEvent>(KEPT_EVENTS);
/** The deliveries and acknowledgements of share groups, which would displace the events of rebalances. */
export const deliveries = new Recent<JournalEvent>(KEPT_EVENTS);
export const lanes: Lanes = new Map();
export const lags = new Lags();

let lastEvent = 0;
let firstTime = 0; // of the oldest event of the lanes
let lastTime = 0;
let clockOffset = 0; // time of a real clock minus performance.now()
let patches: unknown[] = [];
let arrived: JournalEvent[] = [];
let adopted = false;
let timer = 0;
let appliedAt = 0;
let endJournal = () => {};

/** Return the time of the journal in milliseconds; a real clock continues between patches. */
export function now(): number {
  const clock = state.value?.clock;
  if (!clock) return lastTime;
  return Math.max(clock.mode === "real" ? clockOffset + performance.now() : clock.time_ms, lastTime);
}

/** Return the milliseconds since 1970 at time 0 of the journal. */
export function epoch(): number {
  const clock = state.value?.clock;
  return clock ? Date.parse(clock.time) - clock.time_ms : 0;
}

/** Follow state and journal while the page is visible, or was visible in the last minutes. */
export function start(): void {
  effect(() => {
    if (!watched.value) return undefined;
    const onLoss = () => {
      lose();
      read("/v1/cluster").catch(askForToken);
    };
    const endState = follow("/v1/state/stream", { state: begin, patch: (data) => later(() => patches.push(data)) }, onLoss);
    return () => {
      endState();
      lose();
    };
  });
}

function lose(): void {
  endJournal();
  connection.value = "lost";
}

/** Load the page again if its session has ended, such as when the broker was restarted: the server then asks for the token. */
function askForToken(error: unknown): void {
  if (error instanceof Problem && error.status === 401) location.reload();
}

/** Begin with a new state, after each connection. The broker may be another one than before, on the same port. */
function begin(data: unknown): void {
  const next = data as State;
  const before = state.peek();
  patches = [];
  arrived = [];
  if (before && (before.cluster.cluster_id !== next.cluster.cluster_id || next.events.last < lastEvent)) forget();
  batch(() => {
    state.value = next;
    connection.value = "live";
    readClock(next, true);
    lags.sample(next, now());
    adoptMembers();
    journalChanges.value += 1;
  });
  endJournal();
  endJournal = follow(() => `/v1/events/stream?after=${lastEvent}`, { message: (event) => later(() => arrived.push(event as JournalEvent)) });
}

/** Do something together with everything else that arrives until then: at once, but at most five times each second. */
function later(note: () => void): void {
  note();
  if (!timer) timer = window.setTimeout(apply, Math.max(appliedAt + PAUSE - performance.now(), 0));
}

function apply(): void {
  timer = 0;
  appliedAt = performance.now();
  batch(() => {
    for (const patch of patches.splice(0)) applyPatch(patch);
    let changed = false;
    for (const event of arrived.splice(0)) changed = take(event) || changed;
    if (adoptMembers() || changed) journalChanges.value += 1;
  });
}

function applyPatch(patch: unknown): void {
  const before = state.value;
  if (!before) return;
  const next = merged(before, patch) as State;
  if (next.clock.time_ms + BACKWARDS < before.clock.time_ms) forget();
  readClock(next, next.clock.mode !== before.clock.mode);
  state.value = next;
  lags.sample(next, now());
}

/** A running clock is set only if it is off by much, so that the lanes do not tremble. */
function readClock(next: State, changed: boolean): void {
  const offset = next.clock.time_ms - performance.now();
  if (changed || Math.abs(offset - clockOffset) > TREMBLE) clockOffset = offset;
}

/** Returns whether the event changes more than offsets. */
function take(event: JournalEvent): boolean {
  if (event.kind === "gap") {
    const partial = event.kinds !== undefined; // only events of frequent kinds, such as commits, are no longer kept
    if (!partial) {
      forget();
      events.add(event);
    }
    lastEvent = event.id;
    return !partial;
  }
  if (event.time_ms + BACKWARDS < lastTime) forget();
  if (!firstTime) firstTime = event.time_ms;
  lastEvent = event.id;
  lastTime = event.time_ms;
  if (event.kind === "commit") return false;
  (event.kind === DELIVERY ? deliveries : events).add(event);
  record(lanes, event);
  return true;
}

/** Add lanes of members that joined before the first event that is kept, once all events have arrived. Returns whether it did. */
function adoptMembers(): boolean {
  const current = state.value;
  if (adopted || !current || lastEvent < current.events.last) return false;
  adopted = true;
  for (const group of Object.values(current.groups)) adopt(lanes, group, firstTime || now());
  return true;
}

function forget(): void {
  lastEvent = lastTime = firstTime = 0;
  adopted = false;
  events.clear();
  deliveries.clear();
  lanes.clear();
  lags.clear();
}

/**
 * The lanes of a group, from the events of the journal: what each member did, who owned each partition, and why.
 *
 * There is no clock and no document in this module: `record` adds one event to the lanes, in the order of the journal.
 */

import type { Assignment, Group, JournalEvent } from "../data/types.ts";

/** What a member does: it waits for the others to join, waits for its assignment, consumes, or is away (KIP-345). */
export type Phase = "joins" | "syncs" | "member" | "away";

/** An interval in which a member does the same. `end` is null while it lasts; `known` is whether its begin is known. */
export interface Span {
  begin: number;
  end: number | null;
  phase: Phase;
  owned: readonly string[];
  generation: number;
  known: boolean;
}

export type MarkKind = "join" | "sync" | "revoked" | "left" | "evicted";

/** A moment in a lane; `text` has the event and its reason. */
export interface Mark {
  time: number;
  kind: MarkKind;
  text: string;
}

/** A member id, from its first JoinGroup to its end. `assigned` is its assignment in the current generation. */
export interface MemberLane {
  id: string;
  client: string;
  spans: Span[];
  marks: Mark[];
  assigned: readonly string[];
  gone: boolean;
}

/** The members with one client id that follow one another in one lane. */
export interface Row {
  client: string;
  colour: number;
  lives: MemberLane[];
}

/** An interval in which a partition has the same owner. */
export interface Owner {
  begin: number;
  end: number | null;
  member: string;
  generation: number;
  known: boolean;
}

export interface PartitionLane {
  name: string;
  topic: string;
  index: number;
  owners: Owner[];
}

/** A rebalance; `end` is null while it lasts. */
export interface Rebalance {
  begin: number;
  end: number | null;
  generation: number;
  why: string;
}

export interface GroupLanes {
  id: string;
  rows: Row[];
  /** Number of rows of each client id. */
  clients: Map<string, number>;
  members: Map<string, MemberLane>;
  partitions: Map<string, PartitionLane>;
  rebalances: Rebalance[];
  generation: number;
  /** Whether members revoke all partitions before they join again (KIP-429). */
  eager: boolean;
  /** Whether a partition has several owners (KIP-932). Then it has a lane for each of them. */
  shared: boolean;
  /** Whether the group has epochs instead of generations (KIP-848). */
  epochs: boolean;
  /** Whether the generation has its assignment: a SyncGroup returns it at once. */
  stable: boolean;
}

export type Lanes = Map<string, GroupLanes>;

const MAX_GROUPS = 1_000; // with groups that were deleted; beyond it, those without members are removed
const MAX_SPANS = 4_000; // of the members of a group; the oldest are removed
const MAX_OWNERS = 20_000; // of the partitions of a group
const MAX_MARKS = 300; // of a member
const MAX_REBALANCES = 1_000;
const RANDOM = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w+/-]{22})$/; // member ids of clients (KIP-1082): Java has - and _, librdkafka + and /
const SHARE_ASSIGNOR = "simple";
const FENCED = /, (.+) is fenced$/s;

/** Add an event to the lanes of its group. */
export function record(lanes: Lanes, event: JournalEvent): void {
  if (!event.group || !Object.hasOwn(STEPS, event.kind)) return;
  const group = lanes.get(event.group) ?? addGroup(lanes, event.group);
  STEPS[event.kind]?.(group, event, event.member_id ? group.members.get(event.member_id) : undefined);
  trim(group);
}

/**
 * Add the members of a group whose events are not known, because they joined before the first event that is kept.
 *
 * `since`: the time of the first event that is kept; the members have been there at least since then.
 */
export function adopt(lanes: Lanes, group: Group, since: number): void {
  const own = lanes.get(group.id) ?? addGroup(lanes, group.id);
  own.generation = Math.max(own.generation, group.generation);
  own.stable ||= group.state === "Stable";
  own.shared = group.type === "share";
  own.epochs = group.epoch !== undefined;
  if (group.protocol) own.eager = group.type === "classic" && !group.protocol.includes("cooperative");
  for (const member of Object.values(group.members)) {
    if (own.members.has(member.member_id)) continue;
    const lane = newMember(own, member.member_id, member.client_id);
    lane.assigned = flat(member.assignment);
    open(lane, since, "member", lane.assigned, own.generation, false);
    ownAll(own, lane, since, own.generation, false);
  }
}

/** Return the partitions of an assignment, such as `orders-0`. */
export function flat(assignment: Assignment | null | undefined): string[] {
  return Object.entries(assignment ?? {}).flatMap(([topic, indexes]) => indexes.map((index) => `${topic}-${index}`));
}

/** Return the name of a member: its client id, and the start of the part of its member id that makes it unique. */
export function memberName(id: string, client: string): string {
  if (id.startsWith(client) || !id) return shortened(id) || clientName(client);
  return `${clientName(client)} ${shortId(id)}`;
}

/** Return the name of a member in its group: the client id alone if no other member has it. */
export function nameIn(group: GroupLanes | undefined, id: string, client: string): string {
  return client && group?.clients.get(client) === 1 ? clientName(client) : memberName(id, client);
}

/** Return a member id with four characters of its random part. */
export function shortId(id: string): string {
  return RANDOM.test(id) ? `${id.slice(0, 4)}…` : shortened(id);
}

/** Return a client id with four characters of its random part; a thread of Kafka Streams as `app-1a2b… thread 1`. */
export function clientName(client: string): string {
  return shortened(client).replace(/-StreamThread-(\d+)-consumer$/, " thread $1");
}

/** Return a text in which UUIDs, such as those of member ids, have four characters: `app-1a2b…`. */
export function shortened(text: string): string {
  return text.replace(/([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "$1…");
}

/** Return a text of the journal with the names of members instead of their ids. */
export function named(text: string, group: GroupLanes | undefined): string {
  const names = text.replace(/[\w+/-]{22,}/g, (id) => {
    const member = group?.members.get(id);
    return member ? nameIn(group, id, member.client) : id;
  });
  return shortened(names);
}

function addGroup(lanes: Lanes, id: string): GroupLanes {
  const group = newGroup(id);
  const idle = lanes.size < MAX_GROUPS ? undefined : [...lanes.values()].find((each) => [...each.members.values()].every((member) => member.gone));
  if (idle) lanes.delete(idle.id);
  lanes.set(id, group);
  return group;
}

function newGroup(id: string): GroupLanes {
  return {
    id,
    rows: [],
    clients: new Map(),
    members: new Map(),
    partitions: new Map(),
    rebalances: [],
    generation: -1,
    eager: true,
    shared: false,
    epochs: false,
    stable: false,
  };
}

type Step = (group: GroupLanes, event: JournalEvent, member: MemberLane | undefined) => void;

const STEPS: Record<string, Step> = {
  join(group, event) {
    const member = newMember(group, event.member_id ?? "", event.client ?? "");
    mark(member, event.time_ms, "join", `joined: ${event.reason || "a new member"}`);
    open(member, event.time_ms, "joins", [], group.generation);
  },
  rejoin(group, event, member = newMember(group, event.member_id ?? "", event.client ?? "")) {
    const fenced = group.members.get(FENCED.exec(event.reason ?? "")?.[1] ?? "");
    if (fenced && fenced !== member) {
      member.assigned = fenced.assigned;
      end(group, fenced, event.time_ms, "evicted", "fenced: another member has its group.instance.id");
    }
    const owned = group.eager || fenced ? [] : (current(member)?.owned ?? []);
    const revoked = (current(member)?.owned.length ?? 0) - owned.length;
    mark(member, event.time_ms, "join", `joined again${event.reason ? `: ${event.reason}` : ""}`);
    if (revoked > 0) {
      mark(member, event.time_ms, "revoked", `revoked all ${revoked}, as ${group.eager ? "eager" : "static"} members do before they join again`);
      disown(group, member, event.time_ms, new Set());
    }
    open(member, event.time_ms, "joins", owned, group.generation);
  },
  rebalance(group, event) {
    group.stable = false;
    const last = group.rebalances.at(-1);
    if (last && last.end === null) last.why += `; ${event.reason ?? ""}`;
    else group.rebalances.push({ begin: event.time_ms, end: null, generation: group.generation, why: event.reason ?? "" });
  },
  generation(group, event) {
    group.generation = event.generation ?? group.generation;
    const last = group.rebalances.at(-1);
    group.epochs = !event.leader;
    if (last && (last.end === null || (group.epochs && last.generation < group.generation))) Object.assign(last, { end: null, generation: group.generation });
    if (event.protocol === SHARE_ASSIGNOR) group.shared = true;
    if (group.epochs) return; // there are no phases
    group.eager = !event.protocol?.includes("cooperative");
    group.stable = false;
    const present = new Set(event.members ?? []);
    for (const member of group.members.values()) {
      if (member.gone) continue;
      member.assigned = [];
      if (present.size && !present.has(member.id)) end(group, member, event.time_ms, "evicted", `not in generation ${group.generation}`);
      else open(member, event.time_ms, "syncs", current(member)?.owned ?? [], group.generation);
    }
  },
  sync(group, event, member) {
    if (!member) return;
    mark(member, event.time_ms, "sync", "sent SyncGroup");
    const waits = current(member)?.phase === "joins" || current(member)?.phase === "syncs";
    if (group.stable && waits) take(group, member, event.time_ms, member.assigned);
  },
  assign(group, event, member = newMember(group, event.member_id ?? "", event.client ?? "")) {
    group.generation = Math.max(group.generation, event.generation ?? -1);
    group.stable = true;
    take(group, member, event.time_ms, flat(event.assignment));
    const last = group.rebalances.at(-1);
    if (last && (last.end === null || last.generation === event.generation)) last.end = event.time_ms; // until the last member
  },
  away(group, event, member) {
    if (member) open(member, event.time_ms, "away", current(member)?.owned ?? [], group.generation);
  },
  leave(group, event, member) {
    if (member) end(group, member, event.time_ms, "left", `left${event.reason ? `: ${event.reason}` : ""}`);
  },
  expire(group, event, member) {
    if (member) end(group, member, event.time_ms, "evicted", `evicted: ${event.reason ?? ""}`);
  },
  empty: endAll,
  delete: endAll,
};

function endAll(group: GroupLanes, event: JournalEvent): void {
  for (const member of group.members.values()) if (!member.gone) end(group, member, event.time_ms, "left", "the group is empty");
  const last = group.rebalances.at(-1);
  group.generation = event.generation ?? group.generation;
  if (last && last.end === null) Object.assign(last, { end: event.time_ms, generation: group.generation });
}

function newMember(group: GroupLanes, id: string, client: string): MemberLane {
  const lane: MemberLane = { id, client, spans: [], marks: [], assigned: [], gone: false };
  group.members.set(id, lane);
  const free = group.rows.find((row) => row.client === client && row.lives.every((life) => life.gone));
  if (free) free.lives.push(lane);
  else {
    group.rows.push({ client, colour: group.rows.length, lives: [lane] });
    group.clients.set(client, (group.clients.get(client) ?? 0) + 1);
  }
  return lane;
}

/** Give a member its assignment; partitions that it owned before and no longer owns are revoked. */
function take(group: GroupLanes, member: MemberLane, time: number, owned: readonly string[]): void {
  const before = current(member)?.owned ?? [];
  const kept = new Set(owned);
  const revoked = before.filter((name) => !kept.has(name));
  if (revoked.length) mark(member, time, "revoked", `revoked ${revoked.join(", ")} in generation ${group.generation}`);
  member.assigned = owned;
  open(member, time, "member", owned, group.generation);
  disown(group, member, time, kept);
  ownAll(group, member, time, group.generation, true);
}

function ownAll(group: GroupLanes, member: MemberLane, time: number, generation: number, known: boolean): void {
  for (const name of current(member)?.owned ?? []) {
    const lane = partitionOf(group, name, member.id);
    const last = lane.owners.at(-1);
    if (last && last.end === null) {
      if (last.member === member.id) continue;
      last.end = time;
    }
    lane.owners.push({ begin: time, end: null, member: member.id, generation, known });
  }
}

function disown(group: GroupLanes, member: MemberLane, time: number, kept: ReadonlySet<string>): void {
  for (const lane of group.partitions.values()) {
    const last = lane.owners.at(-1);
    if (last && last.end === null && last.member === member.id && !kept.has(lane.name)) last.end = time;
  }
}

function end(group: GroupLanes, member: MemberLane, time: number, kind: MarkKind, text: string): void {
  const last = current(member);
  if (last) last.end = time;
  mark(member, time, kind, text);
  member.gone = true;
  disown(group, member, time, new Set());
}

function partitionOf(group: GroupLanes, name: string, member: string): PartitionLane {
  const key = group.shared ? `${name} ${member}` : name;
  let lane = group.partitions.get(key);
  if (!lane) {
    const at = name.lastIndexOf("-");
    lane = { name, topic: name.slice(0, at), index: Number(name.slice(at + 1)), owners: [] };
    group.partitions.set(key, lane);
  }
  return lane;
}

/** Return the span of a member that lasts; undefined if it is gone. */
export function current(member: MemberLane): Span | undefined {
  const last = member.spans.at(-1);
  return last && last.end === null ? last : undefined;
}

function open(member: MemberLane, time: number, phase: Phase, owned: readonly string[], generation: number, known = true): void {
  const last = current(member);
  if (last && last.phase === phase && same(last.owned, owned) && phase !== "syncs") {
    last.generation = generation;
    return;
  }
  if (last) last.end = time;
  member.spans.push({ begin: time, end: null, phase, owned, generation, known });
}

function mark(member: MemberLane, time: number, kind: MarkKind, text: string): void {
  member.marks.push({ time, kind, text });
  if (member.marks.length > MAX_MARKS) member.marks.splice(0, MAX_MARKS / 2);
}

function same(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name, at) => name === others[at]);
}

/** Remove the oldest spans of a group that has more than the limits. */
function trim(group: GroupLanes): void {
  if (group.rebalances.length > MAX_REBALANCES) group.rebalances.splice(0, MAX_REBALANCES / 2);
  const spans = group.rows.reduce((sum, row) => sum + row.lives.reduce((count, life) => count + life.spans.length, 0), 0);
  if (spans > MAX_SPANS) trimMembers(group);
  let owners = 0;
  for (const lane of group.partitions.values()) owners += lane.owners.length;
  if (owners > MAX_OWNERS) for (const lane of group.partitions.values()) lane.owners.splice(0, lane.owners.length >> 1);
}

function trimMembers(group: GroupLanes): void {
  for (const row of group.rows) {
    const gone = row.lives.filter((life) => life.gone);
    for (const life of gone.slice(0, gone.length - 1)) group.members.delete(life.id);
    row.lives = row.lives.filter((life) => group.members.has(life.id));
    for (const life of row.lives) life.spans.splice(0, life.spans.length >> 1);
  }
  group.rows = group.rows.filter((row) => row.lives.some((life) => !life.gone || life.spans.length > 0));
  group.clients.clear();
  for (const { client } of group.rows) group.clients.set(client, (group.clients.get(client) ?? 0) + 1);
}

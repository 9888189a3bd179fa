import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent } from "../src/data/types.ts";
import { adopt, type GroupLanes, type Lanes, record } from "../src/lanes/lanes.ts";

let ids = 0;

function event(time_ms: number, kind: string, member_id = "", more: Partial<JournalEvent> = {}): JournalEvent {
  return { id: (ids += 1), time_ms, kind, group: "g", member_id, client: member_id.slice(0, 1), ...more };
}

function lanesOf(...events: JournalEvent[]): GroupLanes {
  const lanes: Lanes = new Map();
  for (const each of events) record(lanes, each);
  return lanes.get("g") as GroupLanes;
}

/** The spans of a member, such as `0-10 joins`, and of a partition, such as `10- a1`. */
function spans(group: GroupLanes, member: string): string[] {
  return (group.members.get(member)?.spans ?? []).map((each) => `${each.begin}-${each.end ?? ""} ${each.phase}${each.owned.length ? ` ${each.owned.join()}` : ""}`);
}

function owners(group: GroupLanes, partition: string): string[] {
  return (group.partitions.get(partition)?.owners ?? []).map((each) => `${each.begin}-${each.end ?? ""} ${each.member}`);
}

function marks(group: GroupLanes, member: string): string[] {
  return (group.members.get(member)?.marks ?? []).map((each) => `${each.time} ${each.kind}`);
}

const assign = (time: number, member: string, partitions: number[], generation = 1) => event(time, "assign", member, { generation, assignment: { t: partitions } });

/** A generation that two members have joined. */
const FIRST = [
  event(0, "join", "a1", { reason: "a new member" }),
  event(0, "rebalance", "", { reason: "a1 joined" }),
  event(3, "join", "b1"),
  event(10, "generation", "", { generation: 1, leader: "a1", protocol: "range", members: ["a1", "b1"] }),
  event(12, "sync", "b1"),
  event(14, "sync", "a1"),
  assign(14, "a1", [0, 1]),
  assign(14, "b1", [2]),
];

test("an epoch that begins after an assignment of the previous one belongs to the rebalance", () => {
  const group = lanesOf(event(0, "join", "a1"), event(1, "rebalance", "", { reason: "a1 joined" }), assign(2, "a1", []), event(5, "generation", "", { generation: 4, protocol: "sticky" }), assign(9, "a1", [0], 4));
  assert.deepEqual(group.rebalances, [{ begin: 1, end: 9, generation: 4, why: "a1 joined" }]);
});

test("a partition of a share group has a lane for each owner", () => {
  const group = lanesOf(event(0, "join", "a1"), event(0, "generation", "", { generation: 1, protocol: "simple", members: ["a1"] }), assign(0, "a1", [0]), event(4, "join", "b1"), assign(5, "b1", [0], 2));
  assert.deepEqual([...group.partitions.values()].map((lane) => [lane.name, lane.owners.map((each) => each.member).join()]), [["t-0", "a1"], ["t-0", "b1"]]);
  assert.deepEqual([...group.partitions.values()].map((lane) => lane.owners[0]?.end), [null, null]);
});

test("a member joins, syncs, and owns partitions", () => {
  const group = lanesOf(...FIRST);
  assert.deepEqual(spans(group, "a1"), ["0-10 joins", "10-14 syncs", "14- member t-0,t-1"]);
  assert.deepEqual(spans(group, "b1"), ["3-10 joins", "10-14 syncs", "14- member t-2"]);
  assert.deepEqual(owners(group, "t-0"), ["14- a1"]);
  assert.deepEqual(group.rebalances, [{ begin: 0, end: 14, generation: 1, why: "a1 joined" }]);
});

test("eager members revoke all partitions when they join again", () => {
  const group = lanesOf(...FIRST, event(20, "rebalance"), event(25, "rejoin", "a1"), event(26, "rejoin", "b1"));
  assert.deepEqual(spans(group, "a1").slice(2), ["14-25 member t-0,t-1", "25- joins"]);
  assert.deepEqual(owners(group, "t-2"), ["14-26 b1"]);
  assert.deepEqual(marks(group, "a1"), ["0 join", "14 sync", "25 join", "25 revoked"]);
});

test("cooperative members keep partitions until they are revoked", () => {
  const first = FIRST.map((each) => (each.kind === "generation" ? { ...each, protocol: "cooperative-sticky" } : each));
  const again = event(30, "generation", "", { generation: 2, leader: "a1", protocol: "cooperative-sticky", members: ["a1", "b1"] });
  const group = lanesOf(...first, event(20, "rebalance"), event(25, "rejoin", "a1"), again, assign(32, "a1", [0], 2), assign(32, "b1", [2], 2));
  assert.deepEqual(spans(group, "a1").slice(2), ["14-25 member t-0,t-1", "25-30 joins t-0,t-1", "30-32 syncs t-0,t-1", "32- member t-0"]);
  assert.deepEqual(owners(group, "t-1"), ["14-32 a1"]);
  assert.deepEqual(owners(group, "t-0"), ["14- a1"]);
  assert.equal(group.members.get("a1")?.marks.at(-1)?.text, "revoked t-1 in generation 2");
});

test("members of the consumer protocol get and lose partitions one by one", () => {
  const group = lanesOf(
    event(0, "join", "a1"),
    event(0, "generation", "", { generation: 1, protocol: "uniform", members: ["a1"] }),
    assign(0, "a1", [0, 1]),
    event(5, "join", "b1"),
    event(5, "generation", "", { generation: 2, protocol: "uniform", members: ["a1", "b1"] }),
    assign(7, "a1", [0], 2),
    assign(9, "b1", [1], 2),
  );
  assert.deepEqual(spans(group, "a1"), ["0-0 joins", "0-7 member t-0,t-1", "7- member t-0"]);
  assert.deepEqual(spans(group, "b1"), ["5-9 joins", "9- member t-1"]);
  assert.deepEqual(owners(group, "t-1"), ["0-7 a1", "9- b1"]);
});

test("a rebalance lasts until the last member has the assignment of its epoch", () => {
  const next = event(5, "generation", "", { generation: 2, protocol: "uniform", members: ["a1", "b1"] });
  const group = lanesOf(event(0, "join", "a1"), assign(0, "a1", [0, 1]), event(5, "rebalance", "", { reason: "b1 joined" }), next, assign(7, "a1", [0], 2), assign(9, "b1", [1], 2), assign(20, "b1", [1], 3));
  assert.deepEqual(group.rebalances, [{ begin: 5, end: 9, generation: 2, why: "b1 joined" }]);
});

for (const [kind, mark] of [["leave", "left"], ["expire", "evicted"]] as const) {
  test(`a member that has ${mark} owns nothing, with the reason`, () => {
    const group = lanesOf(...FIRST, event(40, kind, "b1", { reason: "no heartbeat" }));
    assert.deepEqual(spans(group, "b1").at(-1), "14-40 member t-2");
    assert.deepEqual(owners(group, "t-2"), ["14-40 b1"]);
    assert.match(group.members.get("b1")?.marks.at(-1)?.text ?? "", new RegExp(`^${mark}: no heartbeat`));
    assert.equal(group.members.get("b1")?.gone, true);
  });
}

test("a client that comes back continues its row", () => {
  const group = lanesOf(...FIRST, event(40, "leave", "b1"), event(50, "join", "b2"), event(51, "join", "c1"));
  assert.deepEqual(group.rows.map((row) => row.lives.map((life) => life.id).join()), ["a1", "b1,b2", "c1"]);
});

test("members with one client id at a time have rows of their own", () => {
  const group = lanesOf(event(0, "join", "a1"), event(0, "join", "a2"));
  assert.equal(group.rows.length, 2);
});

test("a static member that returns fences the old member id", () => {
  const group = lanesOf(...FIRST, event(30, "rejoin", "b2", { reason: "static member i rejoined, b1 is fenced" }), event(31, "sync", "b2"));
  assert.deepEqual(spans(group, "b1").at(-1), "14-30 member t-2");
  assert.deepEqual(spans(group, "b2"), ["30-31 joins", "31- member t-2"]);
  assert.deepEqual(owners(group, "t-2"), ["14-30 b1", "31- b2"]);
});

test("a member that a generation lacks is gone", () => {
  const group = lanesOf(...FIRST, event(30, "generation", "", { generation: 2, leader: "a1", protocol: "range", members: ["a1"] }));
  assert.equal(group.members.get("b1")?.gone, true);
});

test("members from before the first event that is kept begin with it", () => {
  const lanes: Lanes = new Map();
  const member = { member_id: "a1", client_id: "a", host: "h", assignment: { t: [0] } };
  const known = { id: "g", type: "classic", state: "Stable", generation: 7, protocol_type: "consumer", leader: "a1", coordinator: 0, members: { a1: member }, offsets: {} };
  adopt(lanes, known, 100);
  adopt(lanes, known, 200);
  const group = lanes.get("g") as GroupLanes;
  assert.deepEqual(spans(group, "a1"), ["100- member t-0"]);
  assert.equal(group.members.get("a1")?.spans[0]?.known, false);
});

test("lanes of a group that rebalances all day have a bounded size", () => {
  const lanes: Lanes = new Map();
  const partitions = Array.from({ length: 20 }, (_, index) => index);
  for (let at = 0; at < 20_000; at += 1) {
    record(lanes, event(3 * at, "rejoin", "a1"));
    record(lanes, assign(3 * at + 1, "a1", partitions, at));
    record(lanes, event(3 * at, "join", `b${at}`));
    record(lanes, event(3 * at + 1, "expire", `b${at}`, { reason: "no heartbeat" }));
  }
  const group = lanes.get("g") as GroupLanes;
  const count = group.rows.reduce((sum, row) => sum + row.lives.reduce((inner, life) => inner + life.spans.length + life.marks.length, 0), 0);
  const owned = [...group.partitions.values()].reduce((sum, lane) => sum + lane.owners.length, 0);
  assert.ok(count < 10_000 && group.members.size < 4_100 && owned <= 20_020, `${count} ${group.members.size} ${owned}`);
});

test("events of transactions, faults and commits are not lanes", () => {
  const lanes: Lanes = new Map();
  for (const kind of ["commit", "txn_begin", "fault", "constructor", "__proto__"]) record(lanes, event(0, kind));
  record(lanes, { ...event(0, "join", "a1"), group: "" });
  assert.equal(lanes.size, 0);
});

test("lanes of groups without members are removed beyond a limit, the oldest first", () => {
  const lanes: Lanes = new Map();
  for (let at = 0; at < 3_000; at += 1) {
    record(lanes, event(at, "join", "a1", { group: `g${at}` }));
    if (at) record(lanes, event(at, "leave", "a1", { group: `g${at}` }));
  }
  assert.equal(lanes.size, 1_000);
  assert.deepEqual([...lanes.keys()].slice(0, 2), ["g0", "g2001"]);
});

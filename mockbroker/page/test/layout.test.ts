import assert from "node:assert/strict";
import { test } from "node:test";
import { hit, picture, summary } from "../src/lanes/layout.ts";
import { type GroupLanes, type Lanes, memberName, named, record, shortened } from "../src/lanes/lanes.ts";
import { escaped, svg } from "../src/lanes/svg.ts";
import { clockText, duration, ticks } from "../src/lanes/time.ts";
import { fits, placed } from "../src/lanes/fit.ts";

const HOSTILE = `</title><script>alert(1)</script>"'\u202e`;

function group(client = "a"): GroupLanes {
  const lanes: Lanes = new Map();
  const base = { group: "g", client, member_id: "m" };
  record(lanes, { ...base, id: 1, time_ms: 0, kind: "rebalance", reason: `${client} joined` });
  record(lanes, { ...base, id: 2, time_ms: 0, kind: "join" });
  record(lanes, { ...base, id: 3, time_ms: 500, kind: "assign", generation: 1, assignment: { [client]: [0] } });
  record(lanes, { ...base, id: 4, time_ms: 800, kind: "expire", reason: client });
  return lanes.get("g") as GroupLanes;
}

const WINDOW = { from: 0, to: 1_000, now: 1_000, epoch: 0 };

test("the boxes of a member are where its spans are", () => {
  const { boxes } = picture(group(), "member", WINDOW, 1_100, 100);
  assert.deepEqual(boxes.map((box) => [box.fill, box.x, box.width]), [["joins", 100, 500], ["owns", 600, 300]]);
});

test("a partition without owner has a box", () => {
  const { boxes } = picture(group(), "partition", WINDOW, 1_100, 100);
  assert.deepEqual(boxes.map((box) => [box.fill, box.x, box.width]), [["owns", 600, 300], ["unowned", 900, 200]]);
});

test("what is outside of the window is not drawn", () => {
  const { boxes, rows } = picture(group(), "member", { ...WINDOW, from: 2_000, to: 3_000, now: 3_000 }, 1_100, 100);
  assert.deepEqual([boxes, rows], [[], []]);
});

test("what is at a point is found", () => {
  const shown = picture(group(), "member", WINDOW, 1_100, 100);
  const [box] = shown.boxes;
  assert.match(hit(shown, 300, (box?.y ?? 0) + 2)?.title ?? "", /joining/);
  assert.equal(hit(shown, 1_050, 70), undefined);
});

test("names become text in the SVG, which is well-formed", () => {
  const text = svg(picture(group(HOSTILE), "member", WINDOW, 1_100, 100), HOSTILE);
  assert.ok(!text.includes("<script>") && !text.includes("\u202e"));
  assert.equal(text.match(/<title>/g)?.length, text.match(/<\/title>/g)?.length);
});

test("characters that XML does not allow are replaced", () => {
  assert.equal(escaped("a\u0000b\ud800c\u{1f600}<&"), "a\ufffdb\ufffdc\u{1f600}&#60;&#38;");
});

const SUMMARIES: [string[], string][] = [
  [[], ""],
  [["t-0"], "t 0"],
  [["t-1", "t-0"], "t 0, 1"],
  [["t-0", "t-1", "t-2", "t-9"], "t 0-2, 9"],
  [["a-b-0", "c-3"], "a-b 0, c 3"],
];

for (const [owned, expected] of SUMMARIES) test(`partitions as text: ${expected}`, () => assert.equal(summary(owned), expected));

const NAMES: [string, string, string][] = [
  ["app-1-9402153f-7674-4869-88f2-61c501234567", "app-1", "app-1-9402…"],
  ["9402153f-7674-4869-88f2-61c501234567", "app", "app 9402…"],
  ["VQ8p3bqTQ5C2uXl0oAbCdE", "app", "app VQ8p…"],
  ["5wvdU5NCTyWXS/7rRSkPbQ", "app", "app 5wvd…"],
  ["dUaJdBCwSam+0A1oHAl1mg", "app", "app dUaJ…"],
  ["chosen", "app", "app chosen"],
  ["", "app", "app"],
  ["VQ8p3bqTQ5C2uXl0oAbCdE", "app-9402153f-7674-4869-88f2-61c501234567-StreamThread-1-consumer", "app-9402… thread 1 VQ8p…"],
];

for (const [id, client, name] of NAMES) test(`the name of member ${id || "without id"} is ${name}`, () => assert.equal(memberName(id, client), name));

test("members have names in the reasons of the journal", () => {
  const lanes: Lanes = new Map();
  record(lanes, { id: 1, time_ms: 0, kind: "join", group: "g", member_id: "VQ8p3bqTQ5C2uXl0oAbCdE", client: "app" });
  assert.equal(named("VQ8p3bqTQ5C2uXl0oAbCdE joined, VQ8p3bqTQ5C2uXl0oAbCdF left", lanes.get("g")), "app joined, VQ8p3bqTQ5C2uXl0oAbCdF left");
  record(lanes, { id: 2, time_ms: 0, kind: "join", group: "g", member_id: "5wvdU5NCTyWXS/7rRSk+bQ", client: "librdkafka" });
  assert.equal(named("5wvdU5NCTyWXS/7rRSk+bQ joined", lanes.get("g")), "librdkafka joined");
});

test("a lane has the start of its member id only if others have its client id", () => {
  const lanes: Lanes = new Map();
  const join = (id: number, client: string) => record(lanes, { id, time_ms: id, kind: "join", group: "g", member_id: `${client}-${id}402153f-7674-4869-88f2-61c501234567`, client });
  join(1, "a");
  join(2, "b");
  join(3, "b");
  const { rows } = picture(lanes.get("g") as GroupLanes, "member", WINDOW, 1_100, 100);
  assert.deepEqual(rows.map((row) => [row.text, row.detail, row.colour]), [["a", "", 0], ["b", "2402…", 1], ["b", "3402…", 2]]);
});

test("a bar has what its member gave up", () => {
  const lanes: Lanes = new Map();
  const assign = (id: number, partitions: number[]) => record(lanes, { id, time_ms: id, kind: "assign", group: "g", member_id: "m", client: "a", generation: id, assignment: { t: partitions } });
  assign(1, [0, 1]);
  assign(2, [0]);
  const { boxes, signs } = picture(lanes.get("g") as GroupLanes, "member", WINDOW, 1_100, 100);
  assert.deepEqual([boxes.map((box) => box.labels[0]), signs], [["owns t 0, 1", "owns t 0; gave up t 1"], []]);
});

test("a member id is the client id and four characters", () => {
  assert.equal(shortened("app-1-9402153f-7674-4869-88f2-61c501234567 joined"), "app-1-9402… joined");
});

test("the first text that fits is taken, and the last one is cut", () => {
  assert.equal(fits(["a long text", "short"], 40), "short");
  assert.equal(fits(["a long text", "shorter text"], 40), "short…");
  assert.equal(fits(["a long text"], 34), "");
  assert.equal(fits(["a long text"], 10), "");
});

test("of labels at one height the first is placed, and those below the bottom are left out", () => {
  const names = (...wanted: [string, number][]) => placed(wanted.map(([text, y]) => ({ text, y })), 13, 60, 13).map(({ text, y }) => `${text} ${y}`);
  assert.deepEqual(names(["all", 58], ["a", 58], ["b", 58]), ["all 58"]);
  assert.deepEqual(names(["all", 20], ["a", 25], ["b", 58], ["c", 40]), ["all 20", "a 33", "c 46", "b 59"]);
  assert.deepEqual(names(["all", 2]), ["all 13"]);
});

test("times and durations as text", () => {
  assert.deepEqual([0, 61_000, 86_400_000 + 250, -1_000].map(clockText), ["00:00:00", "00:01:01", "00:00:00.250", "23:59:59"]);
  assert.deepEqual([0, 999, 1_250, 59_000, 60_000, 3_600_000].map(duration), ["0 ms", "999 ms", "1.3 s", "59 s", "1 min 0 s", "1 h 0 min"]);
  assert.deepEqual([999.6, 9_970, 59_960, 119_600, 3_599_700, 7_199_900].map(duration), ["1.0 s", "10 s", "1 min 0 s", "2 min 0 s", "1 h 0 min", "2 h 0 min"]);
  assert.deepEqual(ticks(0, 60_000, 6), [0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
});

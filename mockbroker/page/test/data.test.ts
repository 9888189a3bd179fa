import assert from "node:assert/strict";
import { test } from "node:test";
import { Lags, valueAt } from "../src/data/lags.ts";
import { Recent } from "../src/data/recent.ts";
import type { State } from "../src/data/types.ts";
import { draftOf, inWords, linkOf, NEW, ruleOf } from "../src/faults/rule.ts";

function stateOf(lag: number): State {
  return { groups: { g: { id: "g", offsets: { t: { 0: { offset: 1, lag }, 1: { offset: 1 } } } } } } as unknown as State;
}

test("the lag of a group has a point for each change", () => {
  const lags = new Lags();
  [5, 7, 7].forEach((lag, at) => lags.sample(stateOf(lag), 1_000 * at));
  assert.deepEqual(lags.of("g")?.total, [5, 7, 7]);
  assert.deepEqual(lags.of("g")?.partitions.get("t-1"), [null, null, null]);
});

test("curves keep their span but not all points", () => {
  const lags = new Lags();
  for (let at = 0; at < 20_000; at += 1) lags.sample(stateOf(at), 1_000 * at);
  const { times = [], total = [], partitions } = lags.of("g") ?? {};
  assert.ok(times.length <= 1_200 && times.length === total.length && partitions?.get("t-0")?.length === times.length);
  assert.deepEqual([times[0], times.at(-1)], [0, 19_999_000]);
});

test("what the server has recorded comes before the first point of the page", () => {
  const lags = new Lags();
  lags.sample(stateOf(5), 10_000);
  lags.merge("g", { times_ms: [0, 4_000, 9_500], total: [1, 2, 3], partitions: { t: { 0: [1, 2, 3] }, u: { 0: [null, 7, 8] } } });
  const { times, total, partitions } = lags.of("g") ?? {};
  assert.deepEqual([times, total, partitions?.get("t-0"), partitions?.get("u-0")], [[0, 4_000, 10_000], [1, 2, 5], [1, 2, 5], [null, 7, null]]);
});

test("the server fills the time in which the page was not connected", () => {
  const lags = new Lags();
  [0, 20_000].forEach((time) => lags.sample(stateOf(time), time));
  lags.merge("g", { times_ms: [200, 8_000, 19_100], total: [1, 2, 3], partitions: {} });
  lags.merge("g", { times_ms: [8_000], total: [2], partitions: {} });
  assert.deepEqual([lags.of("g")?.times, lags.of("g")?.total], [[0, 8_000, 20_000], [0, 2, 20_000]]);
});

test("a lag lasts until the next point", () => {
  assert.deepEqual([0, 1_000, 1_999, 9_000].map((time) => valueAt([1_000, 2_000], [5, 6], time)), [null, 5, 5, 6]);
});

test("a group that was deleted has no curve", () => {
  const lags = new Lags();
  lags.sample(stateOf(1), 0);
  lags.sample({ groups: {} } as unknown as State, 1_000);
  assert.equal(lags.of("g"), undefined);
});

test("partitions of deleted groups do not count for the limit of curves", () => {
  const lags = new Lags();
  for (let at = 0; at < 3_000; at += 1) {
    lags.sample({ groups: { [`g${at}`]: { offsets: { t: { 0: { offset: 1, lag: at } } } } } } as unknown as State, 1_000 * at);
    assert.deepEqual(lags.of(`g${at}`)?.partitions.get("t-0"), [at]);
  }
});

test("the latest items are kept, and replaced by id", () => {
  const recent = new Recent<{ id: number; answered?: boolean }>(10);
  for (let id = 1; id <= 100; id += 1) recent.put({ id });
  assert.equal(recent.put({ id: 99, answered: true }), true);
  assert.deepEqual(recent.latest(2), [{ id: 100 }, { id: 99, answered: true }]);
  assert.ok(recent.size <= 20);
});

test("the form gives the JSON that the control API reads", () => {
  const draft = { ...NEW, error: "REBALANCE_IN_PROGRESS", match: { group: "billing", partition: "3" }, occurrence: { skip: "1", every: "", probability: "", times: "always" } };
  assert.deepEqual(ruleOf(draft), {
    match: { api: "Heartbeat", group: "billing", partition: 3 },
    occurrence: { skip: 1, times: "always" },
    action: { error: "REBALANCE_IN_PROGRESS" },
  });
});

test("a rule of the form survives as a link", () => {
  const draft = { ...NEW, api: "Fetch", match: { group: "a&b=c#%" }, fields: { respond: '{"x": 1}' }, occurrence: { ...NEW.occurrence, times: "" } };
  assert.deepEqual(draftOf(linkOf(draft)), draft);
  assert.deepEqual([linkOf(NEW), draftOf("")], ["", NEW]);
});

test("a link that is not a rule is a new one", () => {
  for (const link of ["{", "[]", "null", '{"match": 5}', '{"match": {"group": {"a": {}}}}', '{"api": ["x"]}', '{"__proto__": {"a": "b"}, "x": "y"}']) {
    assert.deepEqual(draftOf(link), NEW, link);
  }
});

const ACTIONS: [Partial<typeof NEW>, unknown][] = [
  [{ action: "hold" }, { hold: true }],
  [{ action: "hold", fields: { when: "after" } }, { hold: true, when: "after" }],
  [{ action: "delay_ms", fields: { delay_ms: "20" } }, { delay_ms: 20 }],
  [{ action: "disconnect" }, { disconnect: "before" }],
  [{ action: "disconnect", fields: { disconnect: "after", reset: "yes" } }, { disconnect: "after", reset: true }],
  [{ action: "malform", malform: "crc", fields: { add: "5" } }, { malform: "crc", add: 5 }],
  [{ action: "respond", fields: { respond: '{"a": 1}' } }, { respond: { a: 1 } }],
  [{ action: "evict" }, { evict: true }],
];

for (const [draft, action] of ACTIONS) test(`the action ${JSON.stringify(action)}`, () => assert.deepEqual(ruleOf({ ...NEW, ...draft })["action"], action));

test("a rule in words", () => {
  const rule = { match: { api: ["Fetch", "Produce"], topic: "t" }, action: { no_response: true }, occurrence: { times: 2 } };
  assert.equal(inWords(rule), "Fetch, Produce, topic t → no response (times 2)");
});

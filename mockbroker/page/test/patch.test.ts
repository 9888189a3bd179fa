import assert from "node:assert/strict";
import { test } from "node:test";
import { merged } from "../src/data/patch.ts";

// The cases of RFC 7396, appendix A.
const CASES: [unknown, unknown, unknown][] = [
  [{ a: "b" }, { a: "c" }, { a: "c" }],
  [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
  [{ a: "b" }, { a: null }, {}],
  [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
  [{ a: ["b"] }, { a: "c" }, { a: "c" }],
  [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
  [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
  [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
  [["a", "b"], ["c", "d"], ["c", "d"]],
  [{ a: "b" }, ["c"], ["c"]],
  [{ a: "foo" }, null, null],
  [{ a: "foo" }, "bar", "bar"],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: "b", c: null }, { a: "b" }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];

for (const [target, patch, expected] of CASES) {
  test(`${JSON.stringify(target)} patched by ${JSON.stringify(patch)}`, () => {
    assert.equal(JSON.stringify(merged(target, patch)), JSON.stringify(expected));
  });
}

test("objects that a patch does not touch are shared, and the target is not changed", () => {
  const target = { a: { x: 1 }, b: { y: 2 } };
  const result = merged(target, { a: { x: 3 } }) as typeof target;
  assert.equal(result.b, target.b);
  assert.deepEqual(target, { a: { x: 1 }, b: { y: 2 } });
});

test("a key __proto__ is a key", () => {
  const result = merged({}, JSON.parse('{"__proto__": {"polluted": true}}'));
  assert.deepEqual(Object.keys(result as object), ["__proto__"]);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
});

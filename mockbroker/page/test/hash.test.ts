import assert from "node:assert/strict";
import { test } from "node:test";
import { formatted, parsed, type Place } from "../src/data/hash.ts";
import { decoded, encoded, visible } from "../src/data/names.ts";

const PLACES: [string, Place][] = [
  ["#/groups", { view: "groups", name: "", options: {} }],
  ["#/groups/billing?by=partition&from=1000&to=60000", { view: "groups", name: "billing", options: { by: "partition", from: "1000", to: "60000" } }],
  ["#/requests?api=Fetch&id=12", { view: "requests", name: "", options: { api: "Fetch", id: "12" } }],
  ["#/topics/a%2Fb%3Fc%23d%25", { view: "topics", name: "a/b?c#d%", options: {} }],
  ["#/groups/%3Cscript%3E", { view: "groups", name: "<script>", options: {} }],
  ["#/groups/%FFx%C3%A9", { view: "groups", name: "\udcffxé", options: {} }],
];

for (const [hash, place] of PLACES) {
  test(`${hash} is a place, and back`, () => {
    assert.deepEqual(parsed(hash), place);
    assert.equal(formatted(place), hash);
  });
}

test("a hash that is no place is the list of groups", () => {
  for (const hash of ["", "#", "#/", "#/nothing/x", "#%E0%A4%A", "#/constructor"]) assert.equal(parsed(hash).view, "groups");
});

test("options without a value are left out", () => {
  assert.equal(formatted({ view: "requests", name: "", options: { api: "", id: "3" } }), "#/requests?id=3");
});

test("every name of one segment survives", () => {
  for (const name of ["a b", "%", "%zz", "\udc80", "\udcc3é", "日本", "\u{1f600}", "..", "a&b=c"]) assert.equal(decoded(encoded(name)), name);
});

test("characters without a shape are shown by their code", () => {
  assert.equal(visible("a\u202eb\u0000\udcff<i>"), "a⟨202e⟩b⟨0000⟩⟨dcff⟩<i>");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEvent, Transaction } from "../src/data/types.ts";
import { openFor, shareWords, transactionWords } from "../src/lanes/words.ts";

function event(kind: string, more: Partial<JournalEvent>): JournalEvent {
  return { id: 1, time_ms: 0, kind, group: "", ...more };
}

function transaction(state: string, started_ms: number | null): Transaction {
  return { transactional_id: "t", state, started_ms } as Transaction;
}

test("events of a transaction are sentences", () => {
  const words = (kind: string, reason = "") => transactionWords(event(kind, { transactional_id: "t", reason }));
  assert.equal(words("txn_begin"), "the transaction of t begins");
  assert.equal(words("txn_prepare", "abort"), "the coordinator decides to abort the transaction of t");
  assert.equal(words("txn_commit"), "the transaction of t is committed");
  assert.equal(words("txn_abort"), "the transaction of t is aborted");
  assert.equal(words("txn_expire", "open for more than 1 s"), "the transaction of t exceeds its timeout: open for more than 1 s");
  assert.equal(words("txn_fence", "InitProducerId"), "the producer of t is fenced: InitProducerId");
});

test("numbers of records are added up over the partitions", () => {
  const records = { orders: { 0: { acquired: 3, accepted: 1 }, 1: { acquired: 2 } } };
  assert.equal(shareWords(event("share_records", { records }), "m"), "m accepts 1 record of orders 0; acquires 5 of orders 0, 1");
  const expired = { orders: { 0: { released: 4 }, 1: { archived: 1 } } };
  const ended = event("share_records", { records: expired, reason: "acquisition locks have ended" });
  assert.equal(shareWords(ended, ""), "acquisition locks have ended: 4 records of orders 0 are released; 1 of orders 1 is archived");
});

test("only a transaction that is not complete is open", () => {
  assert.equal(openFor(transaction("Ongoing", 1_000), 62_500), "1 min 1 s");
  assert.equal(openFor(transaction("PrepareCommit", 1_000), 1_999), "under 1 s");
  for (const state of ["CompleteAbort", "CompleteCommit", "Empty"]) assert.equal(openFor(transaction(state, 1_000), 62_500), "");
  assert.equal(openFor(transaction("Ongoing", null), 62_500), "");
});

/** Events of transactions and of records of share groups in words. */

import { visible } from "../data/names.ts";
import type { JournalEvent, Transaction } from "../data/types.ts";
import { summary } from "./layout.ts";
import { duration } from "./time.ts";

const SECOND = 1_000;

/** Return an event of a transaction as a sentence. */
export function transactionWords({ kind, transactional_id = "", reason = "" }: JournalEvent): string {
  const id = visible(transactional_id);
  const because = reason ? `: ${visible(reason)}` : "";
  switch (kind) {
    case "txn_begin":
      return `the transaction of ${id} begins`;
    case "txn_prepare":
      return `the coordinator decides to ${visible(reason)} the transaction of ${id}`;
    case "txn_commit":
      return `the transaction of ${id} is committed`;
    case "txn_abort":
      return `the transaction of ${id} is aborted`;
    case "txn_expire":
      return `the transaction of ${id} exceeds its timeout${because}`;
    case "txn_fence":
      return `the producer of ${id} is fenced${because}`;
    default:
      return `${visible(kind)} of ${id}${because}`;
  }
}

/** Return what happened to records of a share group, such as `worker: 5 acquired (orders 0-1), 3 accepted (orders 0)`. */
export function shareWords(event: JournalEvent, member: string): string {
  const numbers = new Map<string, { count: number; partitions: string[] }>();
  for (const [topic, partitions] of Object.entries(event.records ?? {})) {
    for (const [partition, counts] of Object.entries(partitions)) {
      for (const [what, count] of Object.entries(counts)) {
        const sum = numbers.get(what) ?? { count: 0, partitions: [] };
        sum.count += count;
        sum.partitions.push(`${topic}-${partition}`);
        numbers.set(what, sum);
      }
    }
  }
  const subject = event.reason ? visible(event.reason) : member;
  return `${subject}: ${[...numbers].map(([what, { count, partitions }]) => `${count} ${visible(what)} (${summary(partitions)})`).join(", ") || "no records"}`;
}

/** Return for how long a transaction is open, in whole seconds; "" if it is not open. `now`: milliseconds, as `started_ms`. */
export function openFor({ started_ms, state }: Transaction, now: number): string {
  const open = state === "Ongoing" || state.startsWith("Prepare");
  if (!open || started_ms === null || started_ms === undefined) return "";
  const ms = now - started_ms;
  return ms < SECOND ? "under 1 s" : duration(Math.floor(ms / SECOND) * SECOND).replace(".0", "");
}

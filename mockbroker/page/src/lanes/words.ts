/** Events of transactions and of records of share groups in words. */

import { visible } from "../data/names.ts";
import { counted, number } from "../data/numbers.ts";
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

const ACTIONS: Record<string, [by: string, to: string]> = {
  accepted: ["accepts", "accepted"],
  released: ["releases", "released"],
  rejected: ["rejects", "rejected"],
  renewed: ["renews the locks of", "locked again"],
  gap: ["skips", "skipped"],
  acquired: ["acquires", "acquired"],
  archived: ["archives", "archived"],
};

/**
 * Return what happened to records of a share group, such as `worker accepts 3 records of orders 0; releases 1 of orders 1`.
 * An event with a reason has no member.
 */
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
  const order = Object.keys(ACTIONS);
  const parts = [...numbers].sort(([some], [other]) => order.indexOf(some) - order.indexOf(other)).map(([what, { count, partitions }], at) => {
    const [by, to] = ACTIONS[what] ?? [visible(what), visible(what)];
    const records = `${at ? number(count) : counted(count, "record")} of ${summary(partitions)}`;
    return event.reason ? `${records} ${count === 1 ? "is" : "are"} ${to}` : `${by} ${records}`;
  });
  return `${event.reason ? `${visible(event.reason)}:` : member} ${parts.join("; ") || "no record"}`;
}

/** Return for how long a transaction is open, in whole seconds; "" if it is not open. `now`: milliseconds, as `started_ms`. */
export function openFor({ started_ms, state }: Transaction, now: number): string {
  const open = state === "Ongoing" || state.startsWith("Prepare");
  if (!open || started_ms === null || started_ms === undefined) return "";
  const ms = now - started_ms;
  return ms < SECOND ? "under 1 s" : duration(Math.floor(ms / SECOND) * SECOND).replace(".0", "");
}

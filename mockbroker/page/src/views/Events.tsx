/** The events of the journal in words. */

import { epoch, events, journalChanges, lanes } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import type { JournalEvent } from "../data/types.ts";
import { flat, named, nameIn } from "../lanes/lanes.ts";
import { summary, unit } from "../lanes/layout.ts";
import { clockText } from "../lanes/time.ts";
import { shareWords, transactionWords } from "../lanes/words.ts";
import { visible } from "../data/names.ts";
import { memo } from "../parts/memo.tsx";
import { counted, Empty, Name, Table } from "../parts/widgets.tsx";

const SHOWN = 60;
const NONE = "No event yet. Commits are not listed: they change the lag.";

export function Events() {
  const { group = "", kind = "" } = place.value.options;
  return (
    <section>
      <h2>Events</h2>
      <div class="toolbar">
        <label>
          Group <input value={group} onChange={(event) => setOptions({ group: event.currentTarget.value })} />
        </label>
        <label>
          Kind <input value={kind} onChange={(event) => setOptions({ kind: event.currentTarget.value })} />
        </label>
      </div>
      <EventTable matches={(event) => (!group || event.group === group) && (!kind || event.kind === kind)} groups />
    </section>
  );
}

/** The latest events that match, the newest first. */
export function EventTable({ matches, groups = false, none = NONE }: { matches: (event: JournalEvent) => boolean; groups?: boolean; none?: string }) {
  void journalChanges.value;
  const found = events.latest(SHOWN, matches);
  if (!found.length) return <Empty>{none}</Empty>;
  return (
    <Table label="Events" tall columns={groups ? ["Time (UTC)", "Group", "Event"] : ["Time (UTC)", "Event"]}>
      {found.map((event) => (
        <Row key={event.id} event={event} epoch={epoch()} groups={groups} />
      ))}
    </Table>
  );
}

const Row = memo(({ event, epoch, groups }: { event: JournalEvent; epoch: number; groups: boolean }) => (
  <tr class={`kind-${event.kind}`}>
    <td>
      <time>{clockText(epoch + event.time_ms)}</time>
    </td>
    {groups && <td>{event.group && <Name of={event.group} />}</td>}
    <td>{sentence(event)}</td>
  </tr>
));

/** Return an event as a sentence. */
export function sentence(event: JournalEvent): string {
  const group = lanes.get(event.group);
  const member = visible(nameIn(group, event.member_id ?? "", event.client ?? ""));
  const reason = visible(named(event.reason ?? "", group));
  const number = `${group ? unit(group) : "generation"} ${event.generation}`;
  const because = reason ? `: ${reason}` : "";
  switch (event.kind) {
    case "id_given":
      return `${member} gets its member id, and has to join with it`;
    case "join":
      return `${member} joins${because}`;
    case "rejoin":
      return `${member} joins again${because}`;
    case "rebalance":
      return `a rebalance begins${because}`;
    case "generation":
      return `${number} with ${counted(event.members?.length ?? 0, "member")} begins${event.leader ? `; ${visible(named(event.leader, group))} leads` : ""}${event.protocol ? ` and assigns by ${visible(event.protocol)}` : ""}`;
    case "sync":
      return `${member} sends SyncGroup`;
    case "assign":
      return `${member} ${group?.shared ? "reads" : "owns"} ${summary(flat(event.assignment)) || "no partition"}, in ${number}`;
    case "leave":
      return `${member} leaves${because}`;
    case "away":
      return `${member} is away and keeps its partitions${because}`;
    case "expire":
      return `${member} is evicted${because}`;
    case "empty":
      return "the group is empty";
    case "gap":
      return `${event.missed} events are no longer kept`;
    case "fault":
      return `fault ${visible(event.fault ?? "")}${because}`;
    case "release":
      return `fault ${visible(event.fault ?? "")} releases its requests${because}`;
    case "share_records":
      return shareWords(event, member);
    default:
      if (event.transactional_id) return transactionWords(event);
      return `${visible(event.kind)}${because}`;
  }
}

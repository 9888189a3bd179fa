/** The events of the journal in words. */

import { deliveries, epoch, events, journalChanges, lanes } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import type { Recent } from "../data/recent.ts";
import type { JournalEvent } from "../data/types.ts";
import { flat, named, nameIn } from "../lanes/lanes.ts";
import { summary, unit } from "../lanes/layout.ts";
import { clockText } from "../lanes/time.ts";
import { shareWords, transactionWords } from "../lanes/words.ts";
import { visible } from "../data/names.ts";
import { memo } from "../parts/memo.tsx";
import { counted } from "../data/numbers.ts";
import { Empty, Name, Table } from "../parts/widgets.tsx";

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
      <EventTable from={[events, deliveries]} matches={(event) => (!group || event.group === group) && (!kind || event.kind === kind)} groups />
    </section>
  );
}

interface TableProps {
  matches: (event: JournalEvent) => boolean;
  from?: Recent<JournalEvent>[];
  label?: string;
  groups?: boolean;
  none?: string;
}

/** The latest events that match, the newest first. `from`: where they are. */
export function EventTable({ matches, from = [events], label = "Events", groups = false, none = NONE }: TableProps) {
  void journalChanges.value;
  const all = from.flatMap((each) => each.latest(SHOWN, matches));
  const found = all.sort((some, other) => other.id - some.id).slice(0, SHOWN);
  if (!found.length) return <Empty>{none}</Empty>;
  return (
    <Table label={label} tall columns={groups ? ["Time (UTC)", "Group", "Event"] : ["Time (UTC)", "Event"]}>
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
      return `${number}${event.members?.length ? ` with ${counted(event.members.length, "member")}` : ""} begins${event.leader || event.protocol ? `; ${event.leader ? visible(named(event.leader, group)) : "the coordinator"} ${event.protocol ? `assigns by ${visible(event.protocol)}` : "leads"}` : ""}`;
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

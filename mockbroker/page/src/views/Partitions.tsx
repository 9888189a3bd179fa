/** The partitions of a group: owner, committed offset and lag. */

import { can, journalChanges, lanes, state } from "../data/live.ts";
import type { Group } from "../data/types.ts";
import { nameOf } from "../lanes/layout.ts";
import { memo } from "../parts/memo.tsx";
import { number } from "../data/numbers.ts";
import { Empty, Name, Table } from "../parts/widgets.tsx";

const COLUMNS = ["Partition", "Owner", "#Committed", "#End", "#Lag", "Relative"];
const SHARED = ["Partition", "Members", "#Start", "#End", "#Lag", "#In flight", "Relative"]; // of a share group (KIP-932)
const UNKNOWN = -1; // records in flight that the server does not know, such as a proxy

interface Line {
  topic: string;
  index: number;
  owner: string;
  committed: number | null;
  lag: number | null;
  flight: number | null;
}

export function Partitions({ group }: { group: Group }) {
  void journalChanges.value; // the names of owners are those of their lanes
  const lines = linesOf(group);
  const most = Math.max(1, ...lines.map((line) => line.lag ?? 0));
  return (
    <section>
      <h3>
        Partitions <small>{lines.length}</small>
      </h3>
      {lines.length ? (
        <Table label="Partitions" tall columns={group.type === "share" ? SHARED : COLUMNS}>
          {lines.map((line) => (
            <Row
              key={`${line.topic}-${line.index}`}
              topic={line.topic}
              index={line.index}
              owner={line.owner}
              committed={line.committed}
              lag={line.lag}
              flight={line.flight}
              end={state.value?.topics[line.topic]?.partitions[line.index]?.end ?? null}
              share={Math.round((20 * (line.lag ?? 0)) / most)}
            />
          ))}
        </Table>
      ) : (
        <Empty>No partition is assigned, and no offset is committed.</Empty>
      )}
    </section>
  );
}

const Row = memo(({ topic, index, owner, committed, lag, flight, end, share }: Line & { end: number | null; share: number }) => (
  <tr>
    <th scope="row">
      <Name of={`${topic}-${index}`} />
    </th>
    <td>{owner ? <Name of={owner} /> : <span class="dim">no owner</span>}</td>
    <td class="number">{committed === null ? "–" : number(committed)}</td>
    <td class="number">{end === null || end < 0 ? "–" : number(end)}</td>
    <td class="number">{lag === null ? "–" : number(lag)}</td>
    {flight !== null && <td class="number">{flight === UNKNOWN ? "–" : number(flight)}</td>}
    <td class="bar" aria-hidden="true">
      {"▇".repeat(share)}
    </td>
  </tr>
));

function linesOf(group: Group): Line[] {
  const lines = new Map<string, Line>();
  const line = (topic: string, index: number) => {
    const key = `${topic}-${index}`;
    const found = lines.get(key) ?? { topic, index, owner: "", committed: null, lag: null, flight: group.type !== "share" ? null : can("records") ? 0 : UNKNOWN };
    lines.set(key, found);
    return found;
  };
  for (const [topic, partitions] of Object.entries(group.offsets)) {
    for (const [index, { offset, lag }] of Object.entries(partitions)) Object.assign(line(topic, Number(index)), { committed: offset, lag: lag ?? null });
  }
  for (const member of Object.values(group.members)) {
    const owner = nameOf({ id: member.member_id, client: member.client_id }, lanes.get(group.id));
    for (const [topic, indexes] of Object.entries(member.assignment ?? {})) for (const index of indexes) line(topic, index).owner += `${line(topic, index).owner && ", "}${owner}`;
  }
  for (const [topic, partitions] of Object.entries(state.value?.shares?.[group.id] ?? {})) {
    for (const [index, { start, lag, acquired }] of Object.entries(partitions)) {
      const flight = Object.values(acquired).reduce((sum, each) => sum + each, 0);
      Object.assign(line(topic, Number(index)), { committed: start, lag, flight });
    }
  }
  return [...lines.values()].sort((some, other) => (some.topic === other.topic ? some.index - other.index : some.topic < other.topic ? -1 : 1));
}

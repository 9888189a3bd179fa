/** The members of a group. */

import { ask } from "../data/api.ts";
import { can, now, state } from "../data/live.ts";
import { encoded, visible } from "../data/names.ts";
import type { Group, Member } from "../data/types.ts";
import { clientName, flat, shortId } from "../lanes/lanes.ts";
import { nameOf, summary } from "../lanes/layout.ts";
import { duration } from "../lanes/time.ts";
import { memo } from "../parts/memo.tsx";
import { act } from "../parts/notices.tsx";
import { number } from "../data/numbers.ts";
import { Empty, Name, Table } from "../parts/widgets.tsx";

export function Members({ group }: { group: Group }) {
  const members = Object.values(group.members);
  return (
    <section>
      <h3>
        Members <small>{members.length}</small>
      </h3>
      {members.length ? (
        <Table label="Members" tall columns={["Client id", "Member id", "Partitions", group.type === "share" ? "#In flight" : "#Lag", "#Heartbeat", "Host", ...(can("group_changes") ? ["Action"] : [])]}>
          {members.map((member) => (
            <Row key={member.member_id} group={group.id} member={member} leader={member.member_id === group.leader} lag={group.type === "share" ? inFlight(group, member) : lagOf(group, member)} age={ageOf(member)} />
          ))}
        </Table>
      ) : (
        <Empty>The group has no members.</Empty>
      )}
    </section>
  );
}

interface Props {
  group: string;
  member: Member;
  leader: boolean;
  lag: number | null;
  age: string;
}

const Row = memo(({ group, member, leader, lag, age }: Props) => {
  const short = nameOf({ id: member.member_id, client: member.client_id });
  const path = `/v1/groups/${encoded(group)}/members/${encoded(member.member_id)}?reason=on%20the%20live%20page`;
  return (
    <tr>
      <th scope="row">
        <bdi class="name" title={visible(member.client_id)}>{visible(clientName(member.client_id))}</bdi>
      </th>
      <td title={visible(member.member_id)}>
        <Name of={shortId(member.member_id)} /> {leader && <small>leader</small>} {member.instance_id && <small>static: <Name of={member.instance_id} /></small>}
        {member.state && <small class="line">{member.state}, epoch {member.epoch}</small>}
      </td>
      <td>
        {summary(flat(member.assignment)) || <span class="dim">none</span>}
        {member.tasks && <small class="line">tasks: {tasksOf(member.tasks)}</small>}
      </td>
      <td class="number">{lag === null ? "–" : number(lag)}</td>
      <td class="number">{age}</td>
      <td>{member.host}</td>
      {can("group_changes") && (
        <td>
          <button type="button" aria-label={`Evict ${short}`} onClick={() => act(ask("DELETE", path), `${short} is evicted`)}>
            Evict
          </button>
        </td>
      )}
    </tr>
  );
});

/** Return the tasks of a member of a Streams group, such as `active 0_0, 0_1`. */
function tasksOf(tasks: NonNullable<Member["tasks"]>): string {
  const kinds = Object.entries(tasks).map(([kind, found]) => {
    const ids = Object.entries(found).flatMap(([subtopology, indexes]) => indexes.map((index) => `${subtopology}_${index}`));
    return ids.length ? `${kind} ${ids.join(", ")}` : "";
  });
  return visible(kinds.filter((each) => each).join("; "));
}

/** Return the number of records that a member of a share group has acquired and not acknowledged; null if it is not known. */
function inFlight(group: Group, member: Member): number | null {
  if (!can("records")) return null;
  const shares = Object.values(state.value?.shares?.[group.id] ?? {}).flatMap((topic) => Object.values(topic));
  return shares.reduce((sum, each) => sum + (each.acquired[member.member_id] ?? 0), 0);
}

/** Return the lag of the partitions of a member; null if none of them has a committed offset. */
function lagOf(group: Group, member: Member): number | null {
  const partitions = Object.entries(member.assignment ?? {}).flatMap(([topic, indexes]) => indexes.map((index) => group.offsets[topic]?.[index]));
  const committed = partitions.filter((each) => each !== undefined);
  return committed.length || !partitions.length ? committed.reduce((sum, each) => sum + (each?.lag ?? 0), 0) : null;
}

function ageOf(member: Member): string {
  if (member.last_heartbeat_ms === null || member.last_heartbeat_ms === undefined) return "–";
  const age = Math.max(now() - member.last_heartbeat_ms, 0);
  return `${duration(age < 1_000 ? 0 : Math.round(age / 1_000) * 1_000).replace(".0", "")} ago`.replace("0 ms ago", "just now");
}

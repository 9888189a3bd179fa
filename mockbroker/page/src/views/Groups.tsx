/** The groups, and one of them in detail. */

import type { Group } from "../data/types.ts";
import { state } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import { memo } from "../parts/memo.tsx";
import { counted, number } from "../data/numbers.ts";
import { Badge, Empty, Link, Missing, Name } from "../parts/widgets.tsx";
import { GroupDetail } from "./GroupDetail.tsx";

const LISTED = 100;

export function Groups() {
  const { filter = "" } = place.value.options;
  const groups = Object.values(state.value?.groups ?? {}).sort((some, other) => (some.id < other.id ? -1 : 1));
  const chosen = place.value.name || groups[0]?.id || "";
  const found = groups.filter((group) => group.id.includes(filter));
  if (!groups.length) return <NoGroups />;
  return (
    <div class="split">
      <nav aria-label="Groups" class="list">
        {groups.length > 8 && <input type="search" aria-label="Filter groups" placeholder="Filter groups" value={filter} onInput={(event) => setOptions({ filter: event.currentTarget.value })} />}
        <ul>
          {found.slice(0, LISTED).map((group) => (
            <Item key={group.id} group={group} current={group.id === chosen} filter={filter} lag={lagOf(group)} />
          ))}
        </ul>
        {found.length > LISTED && <p class="dim">{found.length - LISTED} further groups match: filter for them</p>}
      </nav>
      <div class="detail">
        {state.value?.groups[chosen] ? <GroupDetail group={state.value.groups[chosen]} /> : <Missing what="group" name={chosen} />}
      </div>
    </div>
  );
}

function NoGroups() {
  const servers = state.value?.cluster.bootstrap_servers ?? "";
  return (
    <Empty>
      There is no consumer group yet. Connect a consumer with <code>bootstrap.servers={servers}</code> and a <code>group.id</code>; it appears here when it joins.
    </Empty>
  );
}

const Item = memo(({ group, current, filter, lag }: { group: Group; current: boolean; filter: string; lag: number | null }) => (
  <li>
    <Link to={{ view: "groups", name: group.id, options: filter ? { filter } : {} }} current={current}>
      <Name of={group.id} />
      <span class="facts">
        <Badge kind={group.state.toLowerCase()}>{group.state}</Badge> {counted(Object.keys(group.members).length, "member")} · lag {lag === null ? "–" : number(lag)}
      </span>
    </Link>
  </li>
));

/** Return the lag of all partitions of a group together; null if it has no committed offset. */
function lagOf(group: Group): number | null {
  const topics: Record<string, { lag?: number | null }>[] = Object.values(group.type === "share" ? (state.value?.shares?.[group.id] ?? {}) : group.offsets);
  const partitions = topics.flatMap((topic) => Object.values(topic));
  return partitions.length ? partitions.reduce((sum, each) => sum + (each.lag ?? 0), 0) : null;
}

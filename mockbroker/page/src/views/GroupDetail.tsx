/** One group: its lanes, lag, members, partitions and events. */

import { useEffect } from "preact/hooks";
import { ask } from "../data/api.ts";
import { encoded } from "../data/names.ts";
import type { Group } from "../data/types.ts";
import { can, deliveries, epoch, journalChanges, lanes, now, state } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import { named } from "../lanes/lanes.ts";
import { LagChart } from "../lanes/LagChart.tsx";
import { type By, unit } from "../lanes/layout.ts";
import { svg } from "../lanes/svg.ts";
import { clockText, duration } from "../lanes/time.ts";
import { followAddress, shownPicture, Timeline } from "../lanes/Timeline.tsx";
import { act } from "../parts/notices.tsx";
import { SpanControls } from "../parts/SpanControls.tsx";
import { Badge, Choice, Name, save } from "../parts/widgets.tsx";
import { visible } from "../data/names.ts";
import { EventTable } from "./Events.tsx";
import { Members } from "./Members.tsx";
import { Partitions } from "./Partitions.tsx";

const BY = [
  ["member", "By member"],
  ["partition", "By partition"],
] as const;

export function GroupDetail({ group }: { group: Group }) {
  useEffect(followAddress, []);
  const by: By = place.value.options["by"] === "partition" ? "partition" : "member";
  return (
    <>
      <Heading group={group} />
      <section class="panel" aria-label="Timeline">
        <div class="toolbar">
          <Choice label="Lanes" value={by} options={BY} onChange={(value) => setOptions({ by: value === "member" ? "" : value })} />
          <SpanControls />
          <button type="button" onClick={() => exportSvg(group.id, by)}>
            Save as SVG
          </button>
        </div>
        <Timeline group={group.id} by={by} />
        {Object.keys(group.offsets).length > 0 && (
          <>
            <h3 class="inline">
              Lag <small>records between the committed offset and the end of the log</small>
            </h3>
            <LagChart group={group.id} />
          </>
        )}
      </section>
      <div class="columns">
        <Members group={group} />
        <Partitions group={group} />
      </div>
      {group.type === "share" && can("records") && (
        <section>
          <h3>
            Deliveries <small>records that members acquire and acknowledge</small>
          </h3>
          <EventTable label="Deliveries" from={[deliveries]} matches={(event) => event.group === group.id} none="No record has been delivered." />
        </section>
      )}
      <section>
        <h3>What happened, and why</h3>
        <EventTable matches={(event) => event.group === group.id} />
      </section>
    </>
  );
}

function Heading({ group }: { group: Group }) {
  const brokers = state.value?.cluster.brokers ?? [];
  const path = `/v1/groups/${encoded(group.id)}`;
  return (
    <div class="heading">
      <h2>
        <Name of={group.id} /> <Badge kind={group.state.toLowerCase()}>{group.state}</Badge>
      </h2>
      <p class="facts">
        {group.type} protocol · {group.epoch === undefined ? "generation" : "epoch"} {group.epoch ?? group.generation}
        {group.protocol ? ` · assignor ${visible(group.protocol)}` : ""}
        {group.coordinator >= 0 ? ` · coordinator is broker ${group.coordinator}` : ""}
      </p>
      <LastRebalance group={group.id} />
      <div class="toolbar">
        {can("group_changes") && (
          <button type="button" onClick={() => act(ask("POST", `${path}/rebalance`, { reason: "on the live page" }), "A rebalance begins")}>
            Rebalance
          </button>
        )}
        {brokers.length > 1 && can("moves") && (
          <label>
            Move the coordinator to{" "}
            <select value="" onChange={(event) => moveCoordinator(path, event.currentTarget)}>
              <option value="">broker…</option>
              {brokers.map((broker) => (
                <option key={broker.id} value={broker.id} disabled={broker.id === group.coordinator}>
                  broker {broker.id}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
    </div>
  );
}

function moveCoordinator(path: string, select: HTMLSelectElement): void {
  const broker = Number(select.value);
  select.value = "";
  void act(ask("POST", `${path}/coordinator`, { broker }), `Broker ${broker} is the coordinator`);
}

/** One sentence about the last rebalance: when, why, and how long it took. */
function LastRebalance({ group }: { group: string }) {
  void journalChanges.value;
  const own = lanes.get(group);
  const last = own?.rebalances.at(-1);
  if (!own || !last) return <p class="sentence">No rebalance was seen in the events that are kept.</p>;
  const why = visible(named(last.why, own));
  if (last.end === null) return <p class="sentence">Rebalancing for {duration(now() - last.begin)}, because {why}.</p>;
  return (
    <p class="sentence">
      The last rebalance, at {clockText(epoch() + last.begin)}, took {duration(last.end - last.begin)} and led to {unit(own)} {last.generation}: {why}.
    </p>
  );
}

function exportSvg(group: string, by: By): void {
  const shown = shownPicture.peek();
  if (shown) save(`group-by-${by}.svg`, svg(shown, `Group ${group} by ${by}`), "image/svg+xml");
}

/** Fault rules: those that apply now, a form for a new one, and presets. */

import { ask } from "../data/api.ts";
import { state } from "../data/live.ts";
import { encoded } from "../data/names.ts";
import type { Fault } from "../data/types.ts";
import { FaultForm } from "../faults/FaultForm.tsx";
import { Presets } from "../faults/Presets.tsx";
import { inWords } from "../faults/rule.ts";
import { memo } from "../parts/memo.tsx";
import { act } from "../parts/notices.tsx";
import { number } from "../data/numbers.ts";
import { Badge, Empty, Name, Table } from "../parts/widgets.tsx";
import { EventTable } from "./Events.tsx";

const COLUMNS = ["Rule", "Requests and what happens to them", "#Matched", "#Applied", "#Holding", "State", "Actions"];

export function Faults() {
  const faults = Object.values(state.value?.faults ?? {}).sort((some, other) => some.position - other.position);
  return (
    <>
      <section>
        <h2>Fault rules</h2>
        {faults.length ? (
          <Table label="Fault rules" columns={COLUMNS}>
            {faults.map((fault) => (
              <Row key={fault.name} fault={fault} />
            ))}
          </Table>
        ) : (
          <Empty>No rule: every request is processed as Kafka does. Add a rule or a preset below.</Empty>
        )}
        {faults.length > 1 && (
          <div class="toolbar">
            <button type="button" onClick={() => act(ask("DELETE", "/v1/faults"), "All rules are removed")}>
              Remove all
            </button>
          </div>
        )}
      </section>
      <div class="columns">
        <FaultForm />
        <Presets />
      </div>
      <section>
        <h2>What the rules did</h2>
        <EventTable matches={(event) => event.kind === "fault" || event.kind === "release"} none="No rule was applied yet." />
      </section>
    </>
  );
}

const Row = memo(({ fault }: { fault: Fault }) => {
  const path = `/v1/faults/${encoded(fault.name)}`;
  return (
    <tr>
      <th scope="row">
        <Name of={fault.name} />
      </th>
      <td>
        {inWords(fault)}
        {fault.warnings?.map((warning, at) => (
          <p key={at} class="warning">
            {warning.detail}
          </p>
        ))}
      </td>
      <td class="number">{number(fault.matched)}</td>
      <td class="number">{number(fault.applied)}</td>
      <td class="number">{number(fault.holding)}</td>
      <td>
        <Badge kind={fault.holding ? "holding" : fault.exhausted ? "exhausted" : "active"}>{fault.holding ? "holds requests" : fault.exhausted ? "used up" : "active"}</Badge>
      </td>
      <td class="actions">
        {fault.holding > 0 && (
          <>
            <button type="button" class="main" aria-label={`Release one request of ${fault.name}`} onClick={() => act(ask("POST", `${path}/release`, { count: 1 }), "One request is released")}>
              Release one
            </button>
            <button type="button" aria-label={`Release all requests of ${fault.name}`} onClick={() => act(ask("POST", `${path}/release`, {}), "All requests are released")}>
              Release all
            </button>
          </>
        )}
        <button type="button" aria-label={`Remove ${fault.name}`} onClick={() => act(ask("DELETE", path), `${fault.name} is removed`)}>
          Remove
        </button>
      </td>
    </tr>
  );
});

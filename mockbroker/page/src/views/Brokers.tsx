/** The brokers and the connections of clients. */

import { ask } from "../data/api.ts";
import { can, now, epoch, state } from "../data/live.ts";
import { visible } from "../data/names.ts";
import type { Broker, Connection } from "../data/types.ts";
import { duration } from "../lanes/time.ts";
import { memo } from "../parts/memo.tsx";
import { act } from "../parts/notices.tsx";
import { number } from "../data/numbers.ts";
import { Badge, Empty, Name, Table } from "../parts/widgets.tsx";

export function Brokers() {
  const cluster = state.value?.cluster;
  const connections = Object.values(state.value?.connections ?? {});
  return (
    <>
      <section>
        <h2>Brokers</h2>
        <Table label="Brokers" columns={["Broker", "State", "Address", "#Connections", "Leads", ...(can("brokers") ? ["Actions"] : [])]}>
          {cluster?.brokers.map((broker) => (
            <BrokerRow key={broker.id} broker={broker} connections={connections.filter((each) => each.broker === broker.id).length} leads={leadsOf(broker.id)} />
          ))}
        </Table>
      </section>
      <section>
        <h2>
          Connections <small>{connections.length}</small>
        </h2>
        {connections.length ? (
          <Table label="Connections" tall columns={["Client", "Address", "Broker", "Listener", "Principal", "#Requests", "#Open for", "Actions"]}>
            {connections.map((each) => (
              <ConnectionRow key={each.id} connection={each} age={age(each)} />
            ))}
          </Table>
        ) : (
          <Empty>No client is connected.</Empty>
        )}
      </section>
    </>
  );
}

function leadsOf(broker: number): number {
  let count = 0;
  for (const topic of Object.values(state.value?.topics ?? {})) {
    if (!topic.internal) for (const partition of Object.values(topic.partitions)) count += Number(partition.leader === broker);
  }
  return count;
}

function age(connection: Connection): string {
  const ms = Math.max(epoch() + now() - Date.parse(connection.since), 0);
  return duration(Math.floor(ms / 1_000) * 1_000).replace(".0", "");
}

const BrokerRow = memo(({ broker, connections, leads }: { broker: Broker; connections: number; leads: number }) => {
  const send = (action: string, done: string) => () => act(ask("POST", `/v1/brokers/${broker.id}`, { action }), `Broker ${broker.id} ${done}`);
  return (
    <tr>
      <th scope="row">{broker.id}</th>
      <td>
        <Badge kind={broker.state}>{broker.state}</Badge>
      </td>
      <td>
        <code>
          {broker.host}:{broker.port}
        </code>
      </td>
      <td class="number">{connections}</td>
      <td>{leads} partitions</td>
      {can("brokers") && (
        <td class="actions">
          {broker.state === "running" ? (
            <>
              <button type="button" aria-label={`Stop broker ${broker.id}`} onClick={send("stop", "is stopped")}>Stop</button>
              <button type="button" aria-label={`Kill broker ${broker.id}`} onClick={send("kill", "is killed")}>Kill</button>
              <button type="button" aria-label={`Freeze metadata of broker ${broker.id}`} onClick={send("freeze_metadata", "returns old metadata")}>Freeze metadata</button>
              <button type="button" aria-label={`Thaw metadata of broker ${broker.id}`} onClick={send("thaw_metadata", "returns current metadata")}>Thaw</button>
            </>
          ) : (
            <button type="button" aria-label={`Start broker ${broker.id}`} onClick={send("start", "runs")}>Start</button>
          )}
        </td>
      )}
    </tr>
  );
});

const ConnectionRow = memo(({ connection, age }: { connection: Connection; age: string }) => {
  const close = (reset: boolean) => () => act(ask("DELETE", `/v1/connections/${connection.id}?reset=${reset}`), `The connection of ${visible(connection.client_id)} is closed`);
  return (
    <tr>
      <th scope="row">
        <Name of={connection.client_id} />
      </th>
      <td>
        <code>{connection.address}</code>
      </td>
      <td>{connection.broker}</td>
      <td>
        <Name of={connection.listener} />
      </td>
      <td>
        <Name of={connection.principal} />
      </td>
      <td class="number">{number(connection.requests)}</td>
      <td class="number">{age}</td>
      <td class="actions">
        <button type="button" aria-label={`Close connection ${connection.id}`} onClick={close(false)}>Close</button>
        <button type="button" aria-label={`Reset connection ${connection.id}`} onClick={close(true)}>Reset</button>
      </td>
    </tr>
  );
});

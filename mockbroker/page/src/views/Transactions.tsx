/** Transactional ids, their transactions, and what happened to them. */

import { epoch, now, state } from "../data/live.ts";
import type { Transaction } from "../data/types.ts";
import { summary } from "../lanes/layout.ts";
import { duration } from "../lanes/time.ts";
import { openFor } from "../lanes/words.ts";
import { memo } from "../parts/memo.tsx";
import { Badge, Empty, Name, Table } from "../parts/widgets.tsx";
import { EventTable } from "./Events.tsx";

const COLUMNS = ["Transactional id", "State", "Partitions", "#Open for", "#Timeout", "#Producer id", "#Epoch", "Coordinator"];

export function Transactions() {
  const found = Object.values(state.value?.transactions ?? {});
  return (
    <>
      <section>
        <h2>Transactions</h2>
        {found.length ? (
          <Table label="Transactions" tall columns={COLUMNS}>
            {found.map((each) => (
              <Row key={each.transactional_id} transaction={each} open={openFor(each, presentTime(each))} />
            ))}
          </Table>
        ) : (
          <Empty>No producer has called InitProducerId with a transactional id yet.</Empty>
        )}
      </section>
      <section>
        <h2>What happened</h2>
        <EventTable matches={(event) => event.kind.startsWith("txn_")} />
      </section>
    </>
  );
}

/** The present time as `started_ms` has it: since 1970, or since the start of the journal. */
function presentTime({ started_ms }: Transaction): number {
  return (started_ms ?? 0) > 1e11 ? epoch() + now() : now();
}

const Row = memo(({ transaction, open }: { transaction: Transaction; open: string }) => (
  <tr>
    <th scope="row">
      <Name of={transaction.transactional_id} />
    </th>
    <td>
      <Badge kind={transaction.state.toLowerCase()}>{transaction.state}</Badge>
    </td>
    <td>{summary((transaction.partitions ?? []).map((each) => `${each.topic}-${each.partition}`))}</td>
    <td class="number">{open}</td>
    <td class="number">{duration(transaction.timeout_ms)}</td>
    <td class="number">{transaction.producer_id}</td>
    <td class="number">{transaction.epoch}</td>
    <td>broker {transaction.coordinator}</td>
  </tr>
));

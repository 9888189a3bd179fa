"""The checker of invariant I31: no transaction depends on its own result (anomaly G1c), and records are in the order in
which they were acknowledged and sent.

Transactions that overlap in time may write to two partitions in opposite orders (a write cycle, anomaly G0): Kafka
does not isolate writers from each other. For the other writes, the second rule excludes write cycles.

Source: A. Adya, Weak Consistency; Jepsen, Redpanda 21.10.1 and Bufstream 0.1.0.
"""

from __future__ import annotations

from collections import deque
from graphlib import CycleError, TopologicalSorter

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import Place, Result, Transaction, Write


def find_cycle(log: FinalLog) -> str:
    """Return a description of the first violation of I31; "" if I31 holds.

    There are two kinds of violations: a cycle of transactions that depend on each other, and a record that was sent
    after another one was acknowledged, but has a lower offset.

    Transaction B depends on transaction A if B has read a record of A, or if the client of A began B after A.

    ``log``: the records at the end of the run.
    """
    before: dict[Transaction, list[Transaction]] = {}
    last: dict[tuple[str, int], Transaction] = {}
    for transaction in log.history.transactions:
        edges = before.setdefault(transaction, [])
        if transaction.client in last:
            edges.append(last[transaction.client])
        last[transaction.client] = transaction
        for place, offset in transaction.sources:
            write = log.writes.get(log.all.get(place, {}).get(offset, b""))
            if write is not None and write.transaction is not None:
                edges.append(write.transaction)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return "each transaction has read the next one: " + ", ".join(each.name for each in error.args[1])
    return _reordered(log)


def _reordered(log: FinalLog) -> str:
    """Return a description of a record with a lower offset than a record that was acknowledged before it was sent, or
    "" if there is no such record.

    ``log``: the records at the end of the run.
    """
    writes: dict[Place, list[Write]] = {}
    for write in log.history.writes:
        if write.result is Result.DONE and write.offset >= 0:
            writes.setdefault(write.place, []).append(write)
    for place, sent in writes.items():
        acknowledged = deque(sorted(sent, key=lambda each: each.done_at))
        last = acknowledged[0]
        for write in sorted(sent, key=lambda each: each.sent_at):
            while acknowledged and acknowledged[0].done_at < write.sent_at:
                last = max(last, acknowledged.popleft(), key=lambda each: each.offset)
            if last.done_at < write.sent_at and write.offset < last.offset:
                return (
                    f"{write.values[0].decode()} was sent after {last.values[0].decode()} was acknowledged, but is "
                    f"before it in {named(place)}, at offset {write.offset} instead of one after {last.offset}"
                )
    return ""

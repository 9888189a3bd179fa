"""The checker of invariant I31: no transaction depends on its own result (anomaly G1c).

Dependencies between two writes (ww edges) are ignored: Kafka lets transactions interleave their writes, so ww edges
between producers can form cycles.

Source: A. Adya, Weak Consistency; Jepsen's analyses of Kafka.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.history import Transaction


def find_cycle(log: FinalLog) -> str:
    """Return a description of a cycle of transactions that depend on each other, or "" if there is no cycle.

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
    return ""

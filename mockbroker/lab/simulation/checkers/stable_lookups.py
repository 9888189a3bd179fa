"""The checker of invariant I37: while a transaction has a pending offset, OffsetFetch with require_stable returns no
offset (KIP-447).
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import OffsetOperation, Place, Result


def find_unstable_lookup(log: FinalLog) -> str:
    """Return a description of a lookup that ignored a pending offset; "" if no lookup did.

    All lookups use require_stable. An offset was certainly pending between the response to TxnOffsetCommit and the
    EndTxn, if the EndTxn succeeded.

    ``log``: the records at the end of the run.
    """
    pending: dict[tuple[str, Place], list[OffsetOperation]] = {}
    for each in log.history.offsets:
        transaction = each.transaction
        if each.result is Result.DONE and transaction is not None and transaction.result is Result.DONE:
            pending.setdefault((each.group, each.place), []).append(each)
    for lookup in log.history.offsets:
        for each in pending.get((lookup.group, lookup.place), ()) if not lookup.write else ():
            assert each.transaction is not None
            if each.done_at <= lookup.sent_at and lookup.done_at <= each.transaction.decided_at:
                return (
                    f"the lookup of {named(lookup.place)} of group {lookup.group} at {lookup.sent_at:.3f} s returned"
                    f" {lookup.offset}, while {each.transaction.name} had the pending offset {each.offset}"
                )
    return ""

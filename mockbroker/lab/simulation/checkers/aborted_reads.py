"""The checker of invariant I29: read_committed readers get the records of committed transactions only.

If a transaction is committed, such a reader gets all its records, but not before the commit. If a transaction is not
committed, such a reader gets none of its records. Records outside a transaction are visible to every reader.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import READ_COMMITTED, Place, Result, Transaction


def find_aborted_read(log: FinalLog) -> str:
    """Return a description of the first violation of I29, or "" if I29 holds.

    There are three kinds of violations:

    - A client read a record that the broker rejected.
    - A client read a record of a transaction that was not committed, or read it before the commit.
    - Only a part of a transaction is visible at the end.

    ``log``: the records at the end of the run.
    """
    for read in log.history.reads:
        for offset, value in read.records:
            write = log.writes.get(value)
            if write is None:
                continue
            where = f"{value.decode()} at offset {offset} of {named(read.place)}"
            if write.result is Result.REFUSED:
                return f"{read.client[0]} has read {where}, which the broker had refused"
            transaction = write.transaction
            if transaction is None or read.isolation != READ_COMMITTED:
                continue
            if not transaction.may_be_committed:
                return f"{read.client[0]} has read {where} of {transaction.name}, which was not committed"
            if read.at < transaction.decided_at:
                return f"{read.client[0]} has read {where} before the commit of {transaction.name}"
    return _part(log, log.places(committed=True))


def _part(log: FinalLog, visible: dict[bytes, tuple[Place, int]]) -> str:
    """Return a description of a transaction that is only partly visible at the end of the run, or "" if no transaction
    is partly visible.

    Args:
        log: the records at the end of the run.
        visible: value -> partition and offset, for all records that read_committed readers get at the end.
    """
    by_transaction: dict[Transaction, list[bytes]] = {}
    for write in log.history.writes:
        if write.transaction is not None and write.result is Result.DONE:
            first = write.offset if write.offset >= 0 else -len(write.values)
            kept = [value for at, value in enumerate(write.values, first) if not log.is_deleted(write.place, at)]
            by_transaction.setdefault(write.transaction, []).extend(kept)
    for transaction, values in by_transaction.items():
        missing = [value for value in values if value not in visible]
        if missing and len(missing) < len(values):
            return f"{len(values) - len(missing)} of {len(values)} records of {transaction.name} are visible"
    return ""

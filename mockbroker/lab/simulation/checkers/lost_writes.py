"""The checker of invariant I27: at the end of the run, each acknowledged record is in the log at the acknowledged
offset.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import Result


def find_lost_write(log: FinalLog) -> str:
    """Return a description of an acknowledged record that is not in the log at the end of the run; "" if no record was
    lost.

    Records of committed transactions and records without a transaction must be visible to read_committed readers.
    Records of aborted transactions must be in the log.

    ``log``: the records at the end of the run.
    """
    everywhere, committed = log.places(committed=False), log.places(committed=True)
    for write in log.history.writes:
        if write.result is not Result.DONE:
            continue
        for number, value in enumerate(write.values):
            text = f"{value.decode()} was acknowledged in {named(write.place)} at offset {write.offset + number}"
            if log.is_deleted(write.place, write.offset + number if write.offset >= 0 else -1):
                continue
            found = everywhere.get(value)
            if found is None:
                return f"{text}, but is not in the log at the end"
            if write.offset >= 0 and log.all[write.place].get(write.offset + number) != value:
                return f"{text}, but is at offset {found[1]} of {named(found[0])}"
            visible = write.transaction is None or write.transaction.is_committed
            if visible and value not in committed:
                name = "" if write.transaction is None else f" of {write.transaction.name}, which was committed,"
                return f"{text}, but{name} is not visible to read_committed readers at the end"
    return ""

"""The checker of invariant I30: an offset always has the same record, and a reader skips no record."""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named


def find_inconsistent_read(log: FinalLog) -> str:
    """Return a description of the first violation of I30; "" if I30 holds.

    There are three kinds of violations: a position was out of range although the record was not deleted, a read
    returned offsets twice or in the wrong order, or a read differs from the log at the end of the run.

    ``log``: the records at the end of the run.
    """
    for place, offset, client in log.history.out_of_range:
        if log.is_deleted(place, offset):
            continue
        return f"{client} had the position {offset} in {named(place)}, which is out of range"
    for read in log.history.reads:
        records = log.of(read.isolation).get(read.place, {})
        got = dict(read.records)
        offsets = [offset for offset, _ in read.records]
        what = f"{read.client[0]} has read the offsets {read.start} to {read.end - 1} of {named(read.place)}"
        if offsets != sorted(set(offsets)):
            return f"{what} in the order {offsets}"
        for offset in range(max(read.start, log.starts.get(read.place, 0)), read.end):
            before, after = got.get(offset), records.get(offset)
            if before != after:
                return f"{what}: offset {offset} had {_text(before)}, and at the end {_text(after)}"
    return ""


def _text(value: bytes | None) -> str:
    return "no record" if value is None else value.decode(errors="replace")

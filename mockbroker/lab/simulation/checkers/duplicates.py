"""The checker of invariant I28: the records of an idempotent producer are stored once, in order, and unchanged."""

from __future__ import annotations

from kwire import ErrorCode as E
from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import Place, Write


def find_duplicate(log: FinalLog) -> str:
    """Return a description of the first violation of I28, or "" if there is none.

    There are two kinds of violations: a batch outside a transaction that was rejected because of its sequence number,
    and a wrongly stored record. A record is wrongly stored if it is stored twice or out of order, if no client sent it
    to this partition, or if records before it or the rest of its batch are missing. Batches of producers that are not
    idempotent may be stored repeatedly, and in another order.

    ``log``: the records at the end of the run.
    """
    for sent in log.history.writes:
        gap = sent.error in (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID)
        if sent.producer is not None and sent.transaction is None and gap:
            name = E(sent.error).name
            return f"the next batch {sent.values[0].decode()} of an idempotent producer was refused with {name}"
    for place, records in log.all.items():
        seen: dict[bytes, int] = {}
        last: dict[tuple[int, int], tuple[int, bytes]] = {}  # producer -> its last sequence number
        for offset, value in sorted(records.items()):
            write = log.writes.get(value)
            if write is None or write.place != place:
                return f"{value.decode(errors='replace')} is in {named(place)}, but was never sent to it"
            if write.producer is None:
                continue
            if value in seen:
                return f"{value.decode()} of an idempotent producer is in {named(place)} at {seen[value]} and {offset}"
            seen[value] = offset
            sequence = write.sequence + write.values.index(value)
            before = last.get(write.producer)
            if before is not None and before[0] >= sequence:
                return f"{value.decode()} was sent before {before[1].decode()}, but is after it in {named(place)}"
            if before is not None and before[0] + 1 != sequence:
                missing = f"{before[0] + 1} to {sequence - 1}"
                return f"{value.decode()} is in {named(place)} without the sequence numbers {missing} before it"
            last[write.producer] = sequence, value
        if torn := _torn(log, place, seen):
            return torn
    return ""


def _torn(log: FinalLog, place: Place, seen: dict[bytes, int]) -> str:
    """Return a description of a batch that is only partly in the log; "" if no batch is incomplete.

    Args:
        log: the records at the end of the run.
        place: the partition.
        seen: value -> offset of each record of an idempotent producer in the partition.
    """
    for write in log.history.writes:
        if write.place == place and write.producer is not None and _is_torn(write, seen, log.starts.get(place, 0)):
            return (
                f"only some records of the batch of {write.values[0].decode()} are in {named(place)}, or not together"
            )
    return ""


def _is_torn(write: Write, seen: dict[bytes, int], start: int) -> bool:
    offsets = [seen.get(value) for value in write.values]
    if offsets[0] is None and start in offsets:  # the first records of the batch were deleted
        offsets = offsets[offsets.index(start) :]
    if offsets[0] is None:
        return any(offset is not None for offset in offsets)
    return offsets != list(range(offsets[0], offsets[0] + len(offsets)))

"""The checker of invariant I42, which is about retention.

Retention deletes all records that are too old. It deletes a younger record only if the log exceeds its maximum size.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.upkeep_history import NO_LIMIT, KeyedBatch, LogStart, Place, Policy

SLACK_MS = 1_000  # of rounded times and delays of messages


def find_wrong_retention(log: FinalLog) -> str:
    """Return a description of the first violation of I42, or "" if retention was correct.

    There are three kinds of violations: a log start that moved backwards or too far, a missing record, and an old
    record that was not deleted.

    ``log``: the records at the end of the run.
    """
    upkeep = log.history.upkeep
    for topic, policy in upkeep.policies.items():
        if policy.compact:
            continue
        places = sorted({each.place for each in upkeep.batches if each.place[0] == topic})
        for place in places:
            if found := _check(log, place, policy):
                return found
    return ""


def _check(log: FinalLog, place: Place, policy: Policy) -> str:
    history, upkeep = log.history, log.history.upkeep
    batches = [each for each in upkeep.batches if each.place == place]
    known = sorted((each for each in batches if each.offset >= 0), key=lambda each: each.offset)
    starts = sorted((each for each in upkeep.starts if each.place == place), key=lambda each: each.done_at)
    seen, before = 0, list[LogStart]()
    for start in starts:
        if lower := next(
            (each for each in before if each.done_at <= start.sent_at and each.offset > start.offset), None
        ):
            return f"the start of {named(place)} was {lower.offset}, and {start.offset} at {start.done_at:.3f} s"
        before.append(start)
        for batch in known:
            if seen <= batch.last_offset < start.offset and not _may_be_deleted(
                log, batch, batches, policy, start.done_at
            ):
                return (
                    f"the start of {named(place)} was {start.offset} at {start.done_at:.3f} s, but the record at "
                    f"{batch.offset} was neither old nor did it exceed the size"
                )
        seen = max(seen, start.offset)
    for scan in (each for each in upkeep.scans if each.place == place):
        found = {offset for offset, _, _ in scan.records}
        for batch in known:
            written = scan.start <= batch.offset and batch.last_offset < scan.end
            if written and batch.done_at <= scan.sent_at and batch.offset not in found:
                return f"a reader of all records of {named(place)} has not got the offset {batch.offset}"
    for start in (each for each in starts if each.final):
        now_ms = history.broker_time(start.sent_at) * 1000
        for batch in known:
            lasts = policy.segment_ms + policy.retention_ms + upkeep.retention_interval * 1000 + SLACK_MS
            due_ms = history.broker_time(batch.done_at) * 1000 + lasts
            if policy.retention_ms != NO_LIMIT and batch.offset >= start.offset and due_ms < now_ms:
                return f"the record at {batch.offset} of {named(place)} still exists {now_ms - due_ms:.0f} ms too long"
    return ""


def _may_be_deleted(log: FinalLog, batch: KeyedBatch, batches: list[KeyedBatch], policy: Policy, at: float) -> bool:
    """Return whether retention may have deleted a batch by a given time.

    Args:
        log: the records at the end of the run.
        batch: the batch.
        batches: all batches that were sent to the partition of the batch.
        policy: cleanup policy of the topic.
        at: virtual time, seconds.
    """
    if policy.retention_ms != NO_LIMIT and batch.timestamp < log.history.broker_time(at) * 1000 - policy.retention_ms:
        return True
    later = (each for each in batches if each.sent_at <= at and not 0 <= each.offset <= batch.offset)
    return policy.retention_bytes != NO_LIMIT and sum(each.size for each in later) >= policy.retention_bytes

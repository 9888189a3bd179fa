"""The checker of invariant I43, which is about compaction.

Compaction must keep four kinds of records: the last record of each key, the records at the end of the log, records
younger than min.compaction.lag.ms, and tombstones younger than delete.retention.ms. All other records must be removed.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.upkeep_history import FOREVER, Place, Policy, Scan

SLACK_MS = 1_000  # of rounded times and delays of messages
Written = dict[int, tuple[bytes, bytes | None, int, float]]  # offset -> key, value, timestamp in ms, virtual time


def find_wrong_compaction(log: FinalLog) -> str:
    """Return a description of a record that compaction has lost, changed, or not removed in time; "" if compaction was
    correct.

    Only records whose offset is known from a response are checked. A record counts as superseded as soon as a later
    record with its key may have been stored.

    ``log``: the records at the end of the run.
    """
    upkeep = log.history.upkeep
    for scan in upkeep.scans:
        policy = upkeep.policies[scan.place[0]]
        if policy.compact and (found := _check(log, scan, policy)):
            return f"a reader of {named(scan.place)} at {scan.done_at:.3f} s {found}"
    return ""


def _check(log: FinalLog, scan: Scan, policy: Policy) -> str:
    written = _written(log, scan.place)
    found = {offset: (key, value) for offset, key, value in scan.records}
    if len(found) < len(scan.records) or list(found) != sorted(found):
        return f"got the offsets {[offset for offset, _, _ in scan.records]}"
    for offset, record in found.items():
        if offset in written and written[offset][:2] != record:
            return f"got {record} at the offset {offset}, where {written[offset][:2]} was written"
    now_ms = log.history.broker_time(scan.done_at) * 1000
    ours = {at: each for at, each in written.items() if scan.start <= at < scan.end and each[3] <= scan.sent_at}
    for offset, (_, _, timestamp, _) in ours.items():
        if offset in found:
            continue
        if offset == scan.end - 1 and not _is_followed(log, scan, offset):
            return f"has not got the last record of the log, at the offset {offset}"
        if timestamp > now_ms - policy.min_lag_ms:
            return f"has not got the record at the offset {offset}, which is younger than {policy.min_lag_ms} ms"
    latest = {key: offset for offset, (key, *_) in sorted(ours.items())}
    for key, offset in latest.items():
        if offset in found or _may_be_superseded(log, scan, key, offset):
            continue
        if why := _wrongly_removed(log, scan, policy, key, offset, ours):
            return why
        old = [at for at, record in found.items() if record[0] == key]
        if old and _is_brief(log, scan, policy):
            return f"got the key {key.decode()} at the offset {old[0]}, although {offset} supersedes it"
    return _remaining(log, scan, policy, written, found) if scan.final else ""


def _is_followed(log: FinalLog, scan: Scan, offset: int) -> bool:
    """Return whether a partition may have had a record after a given offset at the time when a scan was completed.

    Args:
        log: the records at the end of the run.
        scan: a scan: the records of the partition as one client read them, from the start to the end of the log.
        offset: the offset.
    """
    batches = (each for each in log.history.upkeep.batches if each.place == scan.place)
    return any(each.sent_at < scan.done_at and not 0 <= each.offset <= offset for each in batches)


def _written(log: FinalLog, place: Place) -> Written:
    """Return all records of a partition whose offset is known: offset -> (key, value, timestamp, time of the response).

    Timestamps are in milliseconds since 1970, times of responses are virtual times in seconds.

    Args:
        log: the records at the end of the run.
        place: the partition.
    """
    return {
        batch.offset + number: (key, value, batch.timestamp, batch.done_at)
        for batch in log.history.upkeep.batches
        if batch.place == place and batch.offset >= 0
        for number, (key, value) in enumerate(batch.records)
    }


def _may_be_superseded(log: FinalLog, scan: Scan, key: bytes, offset: int) -> bool:
    """Return whether the log may have had a later record of a key before a scan was completed.

    Args:
        log: the records at the end of the run.
        scan: a scan: the records of a partition as one client read them, from the start to the end of the log.
        key: the key.
        offset: offset of a record of the key.
    """
    batches = (each for each in log.history.upkeep.batches if any(other == key for other, _ in each.records))
    batches = (each for each in batches if each.place == scan.place and each.sent_at < scan.done_at)
    return any(not 0 <= each.offset <= offset for each in batches)


def _wrongly_removed(log: FinalLog, scan: Scan, policy: Policy, key: bytes, offset: int, ours: Written) -> str:
    """Return the reason why the last record of a key must not be missing from a scan, or "" if it may be missing.

    Args:
        log: the records at the end of the run.
        scan: a scan: the records of a partition as one client read them, from the start to the end of the log.
        policy: cleanup policy of the topic.
        key: key of the record.
        offset: offset of the record.
        ours: the records whose offset is known, as ``_written`` returns them.
    """
    _, value, timestamp, _ = ours[offset]
    if value is not None:
        return f"has not got the last record of the key {key.decode()}, at the offset {offset}"
    age_ms = log.history.broker_time(scan.done_at) * 1000 - timestamp
    if age_ms < policy.delete_retention_ms:
        return f"has not got the tombstone at the offset {offset}, which is only {age_ms:.0f} ms old"
    return ""


def _is_brief(log: FinalLog, scan: Scan, policy: Policy) -> bool:
    """Return whether a scan took less time than tombstones are retained.

    In such a scan, a superseded record must be followed by the tombstone that supersedes the record.

    Args:
        log: the records at the end of the run.
        scan: a scan: the records of a partition as one client read them, from the start to the end of the log.
        policy: cleanup policy of the topic.
    """
    seconds = log.history.broker_time(scan.done_at) - log.history.broker_time(scan.sent_at)
    return seconds * 1000 < policy.delete_retention_ms


def _remaining(
    log: FinalLog, scan: Scan, policy: Policy, written: Written, found: dict[int, tuple[bytes, bytes | None]]
) -> str:
    """Return a description of a superseded record that compaction had to remove by the end of the run
    (max.compaction.lag.ms).

    The result is "" if no such record remains. Compaction removes records from closed segments only. A segment is
    closed by the first batch that is more than segment.ms younger than the first record of the segment.

    Args:
        log: the records at the end of the run.
        scan: a scan at the end of the run.
        policy: the cleanup policy of the topic.
        written: the records whose offset is known, as ``_written`` returns them.
        found: offset -> key and value of the records of the scan.
    """
    if policy.max_lag_ms == FOREVER:
        return ""
    interval_ms = log.history.upkeep.compaction_interval * 1000
    due_ms = log.history.broker_time(scan.sent_at) * 1000 - policy.max_lag_ms - 2 * interval_ms - SLACK_MS
    latest: dict[bytes, int] = {}  # key -> offset of its last record in a closed segment
    newest = -1  # latest timestamp of the records after an offset
    closed = set[int]()
    for offset, (key, _, timestamp, done_at) in sorted(written.items(), reverse=True):
        begun_ms = log.history.broker_time(done_at) * 1000  # the segment began earlier
        if begun_ms < newest - policy.segment_ms and begun_ms < due_ms:
            closed.add(offset)
            latest.setdefault(key, offset)
        newest = max(newest, timestamp)
    for offset, (key, _) in found.items():
        if offset in closed and latest[key] > offset:
            return f"got the record at the offset {offset}, which {latest[key]} supersedes, long after the maximum lag"
    return ""

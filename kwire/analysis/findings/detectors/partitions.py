from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kwire.analysis.columns import values_of
from kwire.analysis.events import partition_name
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    NOTICE,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import Committed, GroupView, Place, median


def detect_stuck(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition whose committed offset did not advance for at least ``stuck_ms``.

    The time begins when the partition has a record after the committed offset. During this time the member must have
    committed offsets of other partitions, or the same offset again. ``stuck_ms`` is a threshold in ``limits``.
    """
    if not group.marks:
        return  # no later records are known
    wait = limits["stuck_ms"] * 1000
    times: dict[str | None, list[int]] = defaultdict(list)
    for outcome, member, ts in values_of(group.commits, "outcome", "member_id", "ts"):
        if outcome == "committed":
            times[member].append(ts)
    for place, rows in sorted(group.of_partition.items()):
        for begin, until, offset in _standstills(rows, group.end):
            since = group.first_mark_above(place, offset, begin)
            if since is None or until - since < wait:
                continue
            if not any(since + wait / 2 < ts <= until for ts in times[rows[-1].member_id]):
                continue  # its member commits nothing at all: that is another finding
            yield Finding(
                severity=CRITICAL,
                begin=since,
                end=until,
                cost=(until - since) / 1000,
                client_id=rows[-1].client_id,
                member_id=rows[-1].member_id,
                topic=place[0],
                partition=place[1],
                sentence=f"{quoted(group.group_id)} is stuck at offset {offset} of `{partition_name(*place)}` for "
                f"{seconds(until - since)}, although there are later records.",
                evidence=[reference("offset_commits", topic=place[0], partition=place[1], offset=offset)],
            )
            break


def _standstills(rows: Sequence[Committed], end: int) -> Iterator[tuple[int, int, int]]:
    """Yield each period in which the committed offset of a partition was the same: begin, end and offset.

    Times are microseconds since 1970.

    Args:
        rows: commits of the partition, in order, at least one.
        end: end of the last period, in microseconds since 1970.
    """
    begin, offset = rows[0].ts, rows[0].offset
    for row in rows[1:]:
        if row.offset != offset:
            yield begin, row.ts, offset
            begin, offset = row.ts, row.offset
    yield begin, max(end, begin), offset


def detect_lagging(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition whose lag is at least ``records`` and has grown at least by the factor
    ``growth``.

    The median lag of the last third of the commits is compared with the median lag of the first third. The partition
    must have at least ``commits`` commits with a known lag. ``records``, ``growth`` and ``commits`` are thresholds in
    ``limits``.
    """
    for place, rows in sorted(group.of_partition.items()):
        lags = [(row.ts, row.lag) for row in rows if row.lag is not None]
        if len(lags) < limits["commits"]:
            continue
        third = max(len(lags) // 3, 1)
        first, last = (median([lag for _, lag in some]) for some in (lags[:third], lags[-third:]))
        if last < limits["records"] or last < first * limits["growth"] or lags[-1][1] < limits["records"]:
            continue
        yield Finding(
            severity=WARNING,
            begin=lags[0][0],
            end=lags[-1][0],
            cost=lags[-1][1],
            client_id=rows[-1].client_id,
            member_id=rows[-1].member_id,
            topic=place[0],
            partition=place[1],
            sentence=f"The lag of {quoted(group.group_id)} on `{partition_name(*place)}` grew from {lags[0][1]} to "
            f"{lags[-1][1]} records in {seconds(lags[-1][0] - lags[0][0])}.",
            evidence=[reference("offset_commits", topic=place[0], partition=place[1])],
        )


def detect_hot(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition that receives far more records than the remaining partitions of its topic.

    The partition must have at least ``records`` new records, and at least ``ratio`` times the median of the remaining
    partitions. The topic must have at least ``partitions`` partitions. All three are thresholds in ``limits``.
    """
    by_topic: dict[str, list[tuple[int, Place, int, int]]] = defaultdict(list)
    for place in {*group.marks, *group.of_partition}:
        marks, rows = group.marks.get(place, ()), group.of_partition.get(place, ())
        offsets = [*(offset for _, offset in marks), *(row.offset for row in rows)]
        times = [ts for ts, _ in (*marks[:1], *marks[-1:])] + [row.ts for row in (*rows[:1], *rows[-1:])]
        by_topic[place[0]].append((max(offsets) - min(offsets), place, min(times), max(times)))
    for _, grown in sorted(by_topic.items()):
        if len(grown) < max(limits["partitions"], 2):
            continue
        for records, place, begin, end in sorted(grown):
            others = median([one[0] for one in grown if one[1] != place])
            if records >= limits["records"] and records >= max(others, 1) * limits["ratio"]:
                yield Finding(
                    severity=NOTICE,
                    begin=begin,
                    end=end,
                    cost=records,
                    topic=place[0],
                    partition=place[1],
                    sentence=f"`{partition_name(*place)}` is hot: {records} records in {seconds(end - begin)}, the "
                    f"median of the other partitions that {quoted(group.group_id)} reads is {others:.0f}.",
                    evidence=[reference("offset_commits", topic=place[0], partition=place[1])],
                )


STUCK = Detector(
    "stuck-partition",
    GROUP,
    "The committed offset of a partition does not advance although there are records after it. Meanwhile the member "
    "commits other partitions, or the same offset again. The member cannot process a record, or one of its threads "
    "hangs.",
    detect_stuck,
    (Threshold("stuck_ms", 60_000, "time since the first record after the committed offset, in ms"),),
)
LAGGING = Detector(
    "lagging-partition",
    GROUP,
    "The lag of a partition at its commits is large and grows. The detector compares the median lag of the last third "
    "of the commits with the median lag of the first third, so a group that catches up is not a finding.",
    detect_lagging,
    (
        Threshold("records", 1_000, "lag at the last commit, in records"),
        Threshold("growth", 1.5, "median lag of the last third, divided by the median lag of the first third"),
        Threshold("commits", 6, "minimum number of commits of the partition with a known lag"),
    ),
)
HOT = Detector(
    "hot-partition",
    GROUP,
    "A partition receives far more records than the other partitions of its topic that the group reads. The keys are "
    "distributed unevenly, so additional members do not help.",
    detect_hot,
    (
        Threshold("ratio", 4, "new records of the partition, divided by the median of the remaining partitions"),
        Threshold("records", 500, "new records of the partition"),
        Threshold("partitions", 3, "minimum number of partitions of the topic"),
    ),
)

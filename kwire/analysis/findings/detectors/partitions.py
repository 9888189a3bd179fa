from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.events import partition_name
from kwire.analysis.findings.evidence import SAMPLES, Place, Standstill
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
from kwire.analysis.findings.views import GroupView, median


def detect_stuck(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition whose committed offset did not advance for at least ``stuck_ms``.

    The time begins when the partition has a record after the committed offset. If the offset does not advance until the
    end, the member must have committed offsets of other partitions, or the same offset again, in the second half of
    ``stuck_ms`` or later. ``stuck_ms`` is a threshold in ``limits``. Of several such times of a partition, the longest
    one is the finding.
    """
    wait = limits["stuck_ms"] * 1000
    for place, standstill in sorted(group.evidence.standstills.items()):
        last = group.of_partition[place][-1]
        found = _longest(standstill, group.end, group.evidence.commits.get(last.member_id, -1), wait)
        if found is None:
            continue
        since, until, offset = found
        yield Finding(
            severity=CRITICAL,
            begin=since,
            end=until,
            cost=(until - since) / 1000,
            client_id=last.client_id,
            member_id=last.member_id,
            topic=place[0],
            partition=place[1],
            sentence=f"{quoted(group.group_id)} is stuck at offset {offset} of `{partition_name(*place)}` for "
            f"{seconds(until - since)}, although there are later records.",
            evidence=[reference("offset_commits", topic=place[0], partition=place[1], offset=offset)],
        )


def _longest(standstill: Standstill, end: int, committed: int, wait: float) -> tuple[int, int, int] | None:
    """Return begin, end and offset of the longest time in which a partition had records after its committed offset.

    Times are microseconds since 1970. The result is None if no such time is long enough.

    Args:
        standstill: standstill of the partition.
        end: end of the current standstill.
        committed: time of the last commit of the member that committed the partition last.
        wait: shortest time in microseconds.
    """
    found = [standstill.longest] if standstill.longest is not None else []
    since = standstill.since
    if since is not None and committed > since + wait / 2:  # otherwise it commits nothing at all: another finding
        found.append((since, end, standstill.offset))
    found = [one for one in found if one[1] - one[0] >= wait]
    return max(found, key=lambda one: one[1] - one[0], default=None)


def detect_lagging(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition whose lag is at least ``records`` and has grown at least by the factor
    ``growth``.

    The median lag of the last third of the commits is compared with the median lag of the first third. The partition
    must have at least ``commits`` commits with a known lag. ``records``, ``growth`` and ``commits`` are thresholds in
    ``limits``.
    """
    for place, lags in sorted(group.evidence.lags.items()):
        if lags.count < limits["commits"]:
            continue
        third = max(len(lags.samples) // 3, 1)
        first, last = median(lags.samples[:third]), median(lags.samples[-third:])
        if last < limits["records"] or last < first * limits["growth"] or lags.last[1] < limits["records"]:
            continue
        commit = group.of_partition[place][-1]
        yield Finding(
            severity=WARNING,
            begin=lags.first[0],
            end=lags.last[0],
            cost=lags.last[1],
            client_id=commit.client_id,
            member_id=commit.member_id,
            topic=place[0],
            partition=place[1],
            sentence=f"The lag of {quoted(group.group_id)} on `{partition_name(*place)}` grew from {lags.first[1]} "
            f"to {lags.last[1]} records in {seconds(lags.last[0] - lags.first[0])}.",
            evidence=[reference("offset_commits", topic=place[0], partition=place[1])],
        )


def detect_hot(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each partition that receives far more records than the remaining partitions of its topic.

    The partition must have at least ``records`` new records, and at least ``ratio`` times the median of the remaining
    partitions. The topic must have at least ``partitions`` partitions. All three are thresholds in ``limits``.
    """
    by_topic: dict[str, list[tuple[int, Place, int, int]]] = defaultdict(list)
    for place, growth in group.evidence.growths.items():
        by_topic[place[0]].append((growth.high - growth.low, place, growth.begin, growth.end))
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
    "of the commits with the median lag of the first third, so a group that catches up is not a finding. "
    f"After {SAMPLES} commits it uses every second one, after {2 * SAMPLES} every fourth, and so on.",
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

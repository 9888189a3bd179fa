from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.findings.evidence import Place
from kwire.analysis.findings.model import (
    GROUP,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView

_ALIVE = {"heartbeat", "heartbeat_error"}


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that sent no commit for at least ``gap_ms`` although its partitions had new
    records.

    The time begins with the first new record after a commit. During this time the member must have sent heartbeats, and
    partitions of the group must have been fetched. ``gap_ms`` is a threshold in ``limits``.
    """
    if not group.marks:
        return  # no new records are known
    by_member: dict[str, list[Row]] = defaultdict(list)
    for row in group.commits:
        if row["outcome"] == "committed" and row["member_id"]:
            by_member[row["member_id"]].append(row)
    gap = limits["gap_ms"] * 1000
    for member, commits in sorted(by_member.items()):
        left = next((row["left_ts"] for (_, one), row in group.memberships.items() if one == member), None)
        end = min(left or group.end, group.end)
        offsets: dict[Place, int] = {}
        worst: tuple[int, int] | None = None
        by_time: dict[int, list[Row]] = defaultdict(list)
        for row in commits:
            by_time[row["ts"]].append(row)
        times = sorted(by_time)
        for ts, later in zip(times, [*times[1:], end], strict=True):
            committed = {(row["topic"], row["partition"]): row["offset"] for row in by_time[ts]}
            offsets |= {place: offset for place, offset in committed.items() if place in group.marks}
            since = [mark for place, offset in offsets.items() if (mark := group.first_mark_above(place, offset, ts))]
            if since and later - min(since) >= gap and (worst is None or later - min(since) > worst[1] - worst[0]):
                worst = min(since), later
        if worst is None:
            continue
        begin, until = worst
        events = group.of_member.get(member, ())
        if not any(one.event in _ALIVE and begin + gap / 2 < one.ts <= until for one in events):
            continue  # it is gone: other findings say so
        if not any(span.end > begin + gap / 2 for span in group.spans if span.begin <= until):
            continue  # it does not read either
        yield Finding(
            severity=WARNING,
            begin=begin,
            end=until,
            cost=(until - begin) / 1000,
            client_id=commits[0]["client_id"],
            member_id=member,
            sentence=f"{group.name(member)} committed nothing to {quoted(group.group_id)} for "
            f"{seconds(until - begin)} although there were new records: after a crash these records are read again.",
            evidence=[reference("offset_commits", member_id=member, ts=one) for one in times if one in (begin, until)]
            or [reference("offset_commits", member_id=member)],
        )


DETECTOR = Detector(
    "commit-gap",
    GROUP,
    "A member that sends heartbeats in a group that fetches does not commit for long, although its partitions have "
    "records after the committed offset. A member that never commits is not a finding, because it may store its "
    "offsets outside of Kafka.",
    detect,
    (Threshold("gap_ms", 60_000, "time from the first new record to the next commit, in ms"),),
)

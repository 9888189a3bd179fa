from __future__ import annotations

from collections.abc import Iterator

from kwire.analysis.events import partition_name
from kwire.analysis.findings.evidence import Place, ended_ts
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    generation_name,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView
from kwire.counted import counted


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each rebalance in which an assigned partition was not fetched for at least ``unread_ms``.

    The time without a fetch may begin before the rebalance and end after it. ``unread_ms`` is a threshold in
    ``limits``.
    """
    least = limits["unread_ms"] * 1000
    pauses = {
        place: [(begin, end) for begin, end in reads.pauses if end - begin >= least]
        for place, reads in group.evidence.reads.items()
    }
    seen: set[tuple[int, Place]] = set()
    for row in group.rebalances:
        until = ended_ts(row)
        places = [place for own in group.shares(row["life"], row["to_generation"]).values() for place in own]
        gaps = [
            (begin, end, place)
            for place in places
            for begin, end in pauses.get(place, ())
            if begin <= until and end >= row["started_ts"] and (begin, place) not in seen
        ]
        seen |= {(begin, place) for begin, _, place in gaps}
        if not gaps:
            continue
        begin, end, worst = max(gaps, key=lambda gap: (gap[1] - gap[0], gap[2]))
        longest = end - begin
        several = f" and {counted(len(gaps) - 1, 'other partition')}" if len(gaps) > 1 else ""
        verb = "were" if len(gaps) > 1 else "was"
        yield Finding(
            severity=CRITICAL if longest >= limits["critical_ms"] * 1000 else WARNING,
            begin=min(gap[0] for gap in gaps),
            end=max(gap[1] for gap in gaps),
            cost=longest / 1000,
            topic=worst[0],
            partition=worst[1],
            sentence=f"`{partition_name(*worst)}`{several} {verb} not fetched for {'up to ' if several else ''}"
            f"{seconds(longest)} around {generation_name(row)} of {quoted(group.group_id)}.",
            evidence=[
                reference("assignments", generation=row["to_generation"], topic=topic, partition=partition)
                for _, _, (topic, partition) in sorted(gaps, key=lambda gap: gap[2])
            ],
        )


DETECTOR = Detector(
    "unavailable-partition",
    GROUP,
    "No member of the group fetched an assigned partition for long, and a rebalance took place in this time. Fetch "
    "requests contain no group id: a Fetch counts if a member of the group has the same client id and address.",
    detect,
    (
        Threshold("unread_ms", 5_000, "time without a Fetch, in ms"),
        Threshold("critical_ms", 30_000, "time without a Fetch from which on the finding is critical, in ms"),
    ),
)

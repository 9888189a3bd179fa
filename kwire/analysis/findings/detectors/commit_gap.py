from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kwire.analysis.findings.evidence import ALIVE
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


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that sent no commit for at least ``gap_ms`` although its partitions had new
    records.

    The time begins with the first new record after a commit. In the second half of ``gap_ms`` or later the member must
    have sent heartbeats, and partitions of the group must have been fetched. ``gap_ms`` is a threshold in ``limits``.
    """
    gap_us = limits["gap_ms"] * 1000
    for member, gap in sorted(group.evidence.gaps.items()):
        worst = gap
        if (begin := group.evidence.first_new(member)) is not None:
            left = next((row["left_ts"] for (_, one), row in group.memberships.items() if one == member), None)
            end = min(left or group.end, group.end)
            if end - begin > gap.end - gap.begin:
                alive = group.earlier.last_heartbeat(group, member, end, ALIVE)
                fetched = group.earlier.last_fetch(group, end)
                worst = replace(gap, begin=begin, end=end, after=gap.last, alive=alive, fetched=fetched)
        begin, until = worst.begin, worst.end
        if not until or until - begin < gap_us:
            continue
        if worst.alive <= begin + gap_us / 2:
            continue  # it is gone: other findings say so
        if worst.fetched <= begin + gap_us / 2:
            continue  # it does not read either
        times = [*([begin] if begin == worst.after else []), *([until] if worst is gap else [])]
        yield Finding(
            severity=WARNING,
            begin=begin,
            end=until,
            cost=(until - begin) / 1000,
            client_id=gap.client_id,
            member_id=member,
            sentence=f"{group.name(member)} committed nothing to {quoted(group.group_id)} for "
            f"{seconds(until - begin)} although there were new records: after a crash these records are read again.",
            evidence=[reference("offset_commits", member_id=member, ts=one) for one in times]
            or [reference("offset_commits", member_id=member)],
        )


DETECTOR = Detector(
    "commit-gap",
    GROUP,
    "A member that sends heartbeats in a group that fetches does not commit for long, although its partitions have "
    "records after the committed offset. A partition counts for the member that committed it last. A member that never "
    "commits is not a finding, because it may store its offsets outside of Kafka.",
    detect,
    (Threshold("gap_ms", 60_000, "time from the first new record to the next commit, in ms"),),
)

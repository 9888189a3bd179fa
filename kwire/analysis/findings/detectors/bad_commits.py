from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.columns import Row, column_of
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
)
from kwire.analysis.findings.views import GroupView
from kwire.counted import counted


def detect_stale(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that sent at least ``count`` invalid commits.

    A commit is invalid if the member is fenced or evicted, the generation is old, or the partition belongs to a
    different member. ``count`` is a threshold in ``limits``.
    """
    for member, stale in sorted(group.evidence.stale.items()):
        if stale.count < limits["count"]:
            continue
        rejected = f"rejected with {', '.join(sorted(stale.errors))}"
        yield Finding(
            severity=CRITICAL if stale.accepted else WARNING,
            begin=stale.begin,
            end=stale.end,
            cost=stale.count,
            client_id=stale.client_id,
            member_id=member or None,
            sentence=f"{group.name(member)} sent {counted(stale.count, 'stale commit')} to {quoted(group.group_id)} "
            "(fenced, an old generation, or not its partition): "
            f"{f'{stale.accepted} accepted' if stale.accepted else rejected}.",
            evidence=[
                reference("offset_commits", member_id=member, ts=ts, topic=topic, partition=partition)
                for ts, topic, partition in stale.first
            ],
            evidence_count=stale.count,
        )


def detect_aborted(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each transactional id with at least ``count`` aborted transactions that contain commits to
    this group.

    ``count`` is a threshold in ``limits``.
    """
    by_id: dict[str, list[Row]] = defaultdict(list)
    named = zip(column_of(group.commits, "transactional"), column_of(group.commits, "transactional_id"), strict=True)
    for number, (transactional, name) in enumerate(named):
        if transactional and name:
            by_id[name].append(group.commits[number])
    for name, rows in sorted(by_id.items()):
        aborted = [row for row in rows if row["outcome"] == "aborted"]
        transactions = {(row["producer_id"], row["producer_epoch"], row["outcome_ts"]) for row in aborted}
        if not aborted or len(transactions) < limits["count"]:
            continue
        yield Finding(
            severity=NOTICE,
            begin=aborted[0]["ts"],
            end=aborted[-1]["ts"],
            cost=len(transactions),
            client_id=aborted[0]["client_id"],
            sentence=f"{counted(len(aborted), 'commit')} of {quoted(name)} to {quoted(group.group_id)} in "
            f"{counted(len(transactions), 'aborted transaction')}: the records are read and processed again.",
            evidence=[
                reference("offset_commits", transactional_id=name, ts=row["ts"], partition=row["partition"])
                for row in aborted
            ],
        )


STALE = Detector(
    "stale-commit",
    GROUP,
    "A member commits an offset although it was fenced or evicted, its generation is old, or the partition is not "
    "assigned to it. The coordinator rejects most of these commits. If it accepts one, records can be lost or "
    "processed twice.",
    detect_stale,
    (Threshold("count", 1, "commits of one member, counted by partition"),),
)
ABORTED = Detector(
    "aborted-commit",
    GROUP,
    "Offsets were committed in transactions that were aborted. The records before these offsets are processed again.",
    detect_aborted,
    (Threshold("count", 1, "aborted transactions of one transactional id"),),
)

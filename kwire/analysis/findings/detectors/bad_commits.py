from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.columns import Row, column_of, values_of
from kwire.analysis.events import error_name
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    MOST_EVIDENCE,
    NOTICE,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    counted,
    quoted,
    reference,
)
from kwire.analysis.findings.views import GroupView
from kwire.errorcodes import ErrorCode

_PLACE = ("member_id", "ts", "topic", "partition")
_KINDS = ("commit_fenced", "commit_old_generation", "commit_not_owner")
_STALE = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


def detect_stale(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that sent at least ``count`` invalid commits.

    A commit is invalid if the member is fenced or evicted, the generation is old, or the partition belongs to a
    different member. ``count`` is a threshold in ``limits``.
    """
    by_member: dict[str, list[int]] = defaultdict(list)  # numbers of rows
    kinds = column_of(group.violations, "kind")
    seen = {place for kind, place in zip(kinds, values_of(group.violations, *_PLACE), strict=True) if kind in _KINDS}
    codes = column_of(group.commits, "error_code")
    for number, (code, place) in enumerate(zip(codes, values_of(group.commits, *_PLACE), strict=True)):
        if code in _STALE or place in seen:
            by_member[place[0] or ""].append(number)
    for member, numbers in sorted(by_member.items()):
        if len(numbers) < limits["count"]:
            continue
        errors = {error_name(codes[number]) or "" for number in numbers if codes[number]}
        accepted = sum(not codes[number] for number in numbers)
        result = f"{accepted} accepted" if accepted else f"rejected with {', '.join(sorted(errors))}"
        rows = [group.commits[number] for number in numbers[:MOST_EVIDENCE]]
        yield Finding(
            severity=CRITICAL if accepted else WARNING,
            begin=rows[0]["ts"],
            end=group.commits[numbers[-1]]["ts"],
            cost=len(numbers),
            client_id=rows[0]["client_id"],
            member_id=member or None,
            sentence=f"{group.name(member)} sent {counted(len(numbers), 'stale commit')} to {quoted(group.group_id)} "
            f"(fenced, an old generation, or not its partition): {result}.",
            evidence=[
                reference(
                    "offset_commits", member_id=member, ts=row["ts"], topic=row["topic"], partition=row["partition"]
                )
                for row in rows
            ],
            evidence_count=len(numbers),
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
        if len(transactions) < limits["count"]:
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

from __future__ import annotations

from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.events import CLASSIC, CONSUMER
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
from kwire.errorcodes import ErrorCode


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that delayed a rebalance, so that the remaining members waited for at least
    ``wait_ms``.

    ``wait_ms`` is a threshold in ``limits``.
    """
    for row in group.rebalances:
        if row["protocol"] == CLASSIC:
            yield from _classic(group, row, limits["wait_ms"] * 1000)
    yield from _consumer(group, limits["wait_ms"] * 1000)


def _classic(group: GroupView, row: Row, wait: float) -> Iterator[Finding]:
    """Yield findings for a rebalance of a classic group, in which members wait for each other to send JoinGroup.

    The join phase ends when all members of the previous generation have sent JoinGroup, or with the timeout. The
    findings are about the last member that joined, and about members that did not join at all.

    Args:
        group: the group.
        row: row of ``rebalances``.
        wait: shortest wait that is a finding, in microseconds.
    """
    joined: int | None = row["joined_ts"]
    started: int = row["started_ts"]
    before = set(row["members_before"] or ()) - {row["trigger_member"]}
    if joined is None or not before:
        return
    asked: dict[str, int] = {}
    arrived: dict[str, int] = {}
    left = {event.member_id for event in group.of_kind.get("leave", ()) if event.ts <= joined}
    for event in group.between(started, joined):
        member = event.member_id
        if member is None or member not in before:
            continue
        if event.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            asked.setdefault(member, event.ts)
        elif event.event == "join_sent":
            arrived.setdefault(member, event.ts)
    missing = sorted(before - arrived.keys() - left - set(row["members_after"] or ()))
    for member, ts in sorted(arrived.items()):
        late = ts - asked.get(member, started)
        if late >= wait and ts == max(arrived.values()) and not missing:
            yield _finding(group, row, member, late, ts, "was the last to join")
    for member in missing if row["trigger"] != "expired" else ():
        late = joined - asked.get(member, started)
        if late >= wait:
            yield _finding(group, row, member, late, joined, "did not join at all")


def _consumer(group: GroupView, wait: float) -> Iterator[Finding]:
    """Yield a finding for each member of a KIP-848 group that acknowledged a revocation late.

    The new owner of a partition waits until the previous owner has acknowledged the revocation of the partition.

    Args:
        group: the group.
        wait: shortest wait that is a finding, in microseconds.
    """
    for member, events in sorted(group.of_member.items()):
        owned: set[str] = set()
        revoked: tuple[int, int | None, set[str]] | None = None
        for event in [one for one in events if one.partitions is not None and one.protocol == CONSUMER]:
            share = set(event.partitions or ())
            if event.event == "assigned":
                if owned - share:
                    revoked = revoked or (event.ts, event.generation, share)
                else:
                    owned = share
            elif event.event == "owned" and revoked is not None and not share - revoked[2]:
                late, generation = event.ts - revoked[0], revoked[1]
                if late >= wait:
                    yield Finding(
                        severity=WARNING,
                        begin=revoked[0],
                        end=event.ts,
                        cost=late / 1000,
                        client_id=event.client_id,
                        member_id=member,
                        sentence=f"{group.name(member)} took {seconds(late)} to revoke partitions in epoch "
                        f"{generation} of {quoted(group.group_id)}.",
                        evidence=[reference("group_events", member_id=member, event="owned", ts=event.ts)],
                    )
                owned, revoked = share, None
            elif event.event == "owned":
                owned = share


def _finding(group: GroupView, row: Row, member: str, late: float, end: int, what: str) -> Finding:
    return Finding(
        severity=WARNING,
        begin=row["started_ts"],
        end=end,
        cost=late / 1000,
        member_id=member,
        client_id=next((one.client_id for one in group.of_member.get(member, ())), None),
        sentence=f"{group.name(member)} {what} generation {row['to_generation']} of {quoted(group.group_id)}: "
        f"the remaining members waited {seconds(late)}.",
        evidence=[reference("rebalances", to_generation=row["to_generation"], life=row["life"])],
    )


DETECTOR = Detector(
    "slow-joiner",
    GROUP,
    "All members waited for one member in a rebalance. Classic group: this member of the previous generation sent its "
    "JoinGroup long after REBALANCE_IN_PROGRESS (or after the trigger, if it did not receive this error) and after "
    "all other members, or it sent no JoinGroup before the rebalance timeout. KIP-848 group: the member acknowledged "
    "a revocation late.",
    detect,
    (Threshold("wait_ms", 3_000, "time that the remaining members waited, in ms"),),
)

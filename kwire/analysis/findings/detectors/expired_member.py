from __future__ import annotations

from collections.abc import Iterator

from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    WARNING,
    Detector,
    Finding,
    Limits,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView


def _expired(group: GroupView, *, static: bool) -> Iterator[Finding]:
    # A KIP-848 member may return with its member id, and expire again.
    ends = {
        (row["life"], row["member_id"], row["left_ts"]): row for row in group.members if row["left_how"] == "silent"
    }
    for (life, member, _), row in sorted(ends.items()):
        if (row["instance_id"] is not None) != static:
            continue
        signs = [event.ts for event in group.of_member.get(member, ()) if not event.inferred]
        last = max((ts for ts in signs if ts <= row["left_ts"]), default=row["left_ts"])
        timeout = row["session_timeout_ms"]
        limit = "" if timeout is None else f"; its session timeout is {seconds(timeout * 1000)}"
        who = f"The static member {group.name(member)}" if static else group.name(member)
        why = "did not return in time" if static else "sent no LeaveGroup"
        yield Finding(
            severity=CRITICAL if static else WARNING,
            begin=last,
            end=row["left_ts"],
            cost=(row["left_ts"] - last) / 1000,
            client_id=row["client_id"],
            member_id=member,
            sentence=f"{who} was lost from {quoted(group.group_id)} by session timeout: it {why}{limit}.",
            evidence=[reference("members", member_id=member, generation=row["generation"], life=life)],
        )


def detect_dynamic(group: GroupView, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001
    """Yield a finding for each dynamic member whose session expired. ``limits`` is not used."""
    return _expired(group, static=False)


def detect_static(group: GroupView, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001
    """Yield a finding for each static member whose session expired. ``limits`` is not used."""
    return _expired(group, static=True)


EXPIRED = Detector(
    "expired-member",
    GROUP,
    "A dynamic member left the group by session timeout: it crashed, was killed or suspended, or lost its network "
    "connection. Until the timeout no member reads its partitions. A member that sends LeaveGroup is not a finding.",
    detect_dynamic,
)
EXPIRED_STATIC = Detector(
    "expired-static-member",
    GROUP,
    "A static member (`group.instance.id`) was away for longer than its session timeout. The group then assigned its "
    "partitions to other members.",
    detect_static,
)

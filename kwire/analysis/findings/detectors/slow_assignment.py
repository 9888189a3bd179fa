from __future__ import annotations

from collections.abc import Iterator

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
from kwire.counted import counted

_MEASURED = frozenset({"join_done", "sync_sent"})  # kinds of events


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each generation whose leader took at least ``took_ms`` to assign partitions.

    The measured time begins with the JoinGroup response to the leader, and ends with the SyncGroup request of the
    leader. ``took_ms`` is a threshold in ``limits``.
    """
    received: dict[tuple[str | None, int | None], tuple[int, int]] = {}
    for event in [one for one in group.events if one.event in _MEASURED]:
        about = event.member_id, event.generation
        if event.event == "join_done" and event.members:
            received[about] = event.ts, len(event.members)
        elif event.event == "sync_sent" and about in received:
            begin, members = received.pop(about)
            took = event.ts - begin
            if took >= limits["took_ms"] * 1000:
                yield Finding(
                    severity=WARNING,
                    begin=begin,
                    end=event.ts,
                    cost=took / 1000,
                    client_id=event.client_id,
                    member_id=event.member_id,
                    sentence=f"The leader {group.name(event.member_id)} took {seconds(took)} to assign generation "
                    f"{event.generation} of {quoted(group.group_id)} to {counted(members, 'member')}.",
                    evidence=[
                        reference("group_events", member_id=event.member_id, event=name, ts=ts)
                        for name, ts in (("join_done", begin), ("sync_sent", event.ts))
                    ],
                )


DETECTOR = Detector(
    "slow-assignment",
    GROUP,
    "The leader of a classic group computed the assignment for long. The measured time begins with the leader's "
    "JoinGroup response and ends with its SyncGroup request. All members wait during this time.",
    detect,
    (Threshold("took_ms", 1_000, "time from the leader's JoinGroup response to its SyncGroup request, in ms"),),
)

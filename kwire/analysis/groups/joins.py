"""JoinGroups, and first heartbeats of KIP-848 members, paired with their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwire.analysis.events import GroupEvent


@dataclass(slots=True)
class Join:
    """A join and what it was answered. ``asked``: when its sender first asked, before it was given an id."""

    sent: GroupEvent
    asked: int
    done: GroupEvent | None = None

    @property
    def member_id(self) -> str:
        """The member's id, once it has one."""
        return (self.done.member_id if self.done else None) or self.sent.member_id or ""


def joins_of(events: Iterable[GroupEvent]) -> list[Join]:
    """Every join, in the order in which they were sent."""
    sent: dict[tuple[str | None, int], Join] = {}
    given: dict[str, int] = {}
    for event in events:
        key = event.conn_id, event.number
        if event.event == "join_sent":
            sent[key] = Join(event, given.pop(event.member_id or "", event.ts))
        elif event.event in ("join_done", "join_error", "member_id_given") and key in sent:
            sent[key].done = event
            if event.event == "member_id_given" and event.member_id:
                given[event.member_id] = sent[key].sent.ts
    return list(sent.values())

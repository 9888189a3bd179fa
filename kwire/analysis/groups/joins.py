"""Join requests and their responses: JoinGroup, and the first heartbeat of a member with server-side assignment."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.analysis.events import GroupEvent
from kwire.lazy_dataclass import dataclass

_OF_JOINS = frozenset({"join_sent", "join_done", "join_error", "member_id_given"})


@dataclass(slots=True)
class Join:
    """A join request with its response.

    Attributes:
        sent: event of the request.
        asked: time at which the member began to join, in microseconds since 1970. This is the time of ``sent``, or of
            an earlier JoinGroup whose response only contained the member id (MEMBER_ID_REQUIRED).
        done: event of the response; None if it was not captured.
    """

    sent: GroupEvent
    asked: int
    done: GroupEvent | None = None

    @property
    def member_id(self) -> str:
        """The member id in the response. If the response has none, the member id in the request; "" without both."""
        return (self.done.member_id if self.done else None) or self.sent.member_id or ""


def joins_of(events: Iterable[GroupEvent]) -> list[Join]:
    """Return all joins in these events, in the order of their requests."""
    sent: dict[tuple[str | None, int], Join] = {}
    first_requests: dict[str, int] = {}
    for event in [event for event in events if event.event in _OF_JOINS]:
        key = event.conn_id, event.number
        if event.event == "join_sent":
            sent[key] = Join(event, first_requests.pop(event.member_id or "", event.ts))
        elif key in sent:
            sent[key].done = event
            if event.event == "member_id_given" and event.member_id:
                first_requests[event.member_id] = sent[key].sent.ts
    return list(sent.values())

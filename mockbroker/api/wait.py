"""What a test waits for, and what it is told if that does not come."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mockbroker.api.snapshots import GroupSnapshot, snapshot
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.coordinated import DEAD
from mockbroker.groups.group_types import GROUP_TYPES

EVENTS_TOLD = 20  # the last ones, of all groups: about two rebalances of three members
STATES = [*GROUP_TYPES.states(), DEAD]


class WaitTimeoutError(AssertionError):
    """What was waited for did not come in time; says how things stood and what happened last."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A group in a state, with a number of members; None for any. Raises: ValueError for a state there is not."""

    group_id: str
    state: str | None
    members: int | None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise ValueError(f"state {self.state!r}: expected one of {', '.join(STATES)}")

    def met(self, broker: Broker) -> GroupSnapshot | None:
        """The group if it is there, else None."""
        group = snapshot(broker, self.group_id)
        right = self.state in (None, group.state) and self.members in (None, len(group.members))
        return group if right else None

    def missed(self, broker: Broker, events: Iterable[Event], timeout: float) -> WaitTimeoutError:
        """The error after ``timeout`` seconds."""
        group = snapshot(broker, self.group_id)
        return WaitTimeoutError(
            "\n".join(
                [
                    f"{self} was not seen within {timeout:g} s",
                    *_group_lines(group, broker),
                    *events_told(list(events)),
                ]
            )
        )

    def __str__(self) -> str:
        members = "" if self.members is None else f" with {_counted(self.members, 'member')}"
        return f"group {self.group_id!r} {self.state or 'in any state'}{members}"


def events_told(events: list[Event]) -> list[str]:
    """The last events as lines, under a title."""
    if not events:
        return ["nothing happened in any group"]
    title = "events:" if len(events) <= EVENTS_TOLD else f"last {EVENTS_TOLD} of {len(events)} events:"
    return [title, *(f"  {_event_line(event)}" for event in events[-EVENTS_TOLD:])]


def _group_lines(group: GroupSnapshot, broker: Broker) -> list[str]:
    if group.state == DEAD:
        others = ", ".join(sorted(broker.groups)) or "none"
        return [f"it is Dead: there is no such group; groups there are: {others}"]
    protocol = group.protocol or "none yet"
    members = _counted(len(group.members), "member")
    lines = [f"it is {group.state}: generation {group.generation}, protocol {protocol}, {members}"]
    for member in group.members:
        instance = f", instance {member.instance_id}" if member.instance_id else ""
        leads = ", leader" if member.member_id == group.leader else ""
        lines.append(f"  {member.member_id}{instance}{leads}: {_share(member.assignment)}")
    return lines


def _share(assignment: object) -> str:
    return "an assignment that cannot be read" if assignment is None else json.dumps(assignment)


def _event_line(event: Event) -> str:
    told = event.to_json()
    head = f"{told.pop('time_ms') / 1000:8.3f} s  {told.pop('event'):<10}  {told.pop('group')}"
    rest = [f"{name}={_word(value)}" for name, value in told.items() if value not in ("", -1)]
    return "  ".join([head, *rest])


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

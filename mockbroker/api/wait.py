"""The conditions of ``wait_group``, and the report after a timeout."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.counted import counted
from kwire.lazy_dataclass import dataclass
from mockbroker.api.groups import check_group_id
from mockbroker.api.snapshots import GroupSnapshot, snapshot
from mockbroker.base.texts import listed
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.coordinated import DEAD
from mockbroker.groups.group_types import GROUP_TYPES

EVENTS_SHOWN = 20  # maximum number of latest events in a report: about two rebalances of three members
STATES = [*GROUP_TYPES.states(), DEAD]


class WaitTimeoutError(AssertionError):
    """The error for a wait for a group or for a fault rule that has timed out.

    The message shows the state of the group or of the rule, and the last events.
    """


def check_timeout(timeout: float) -> None:
    """Check the maximum wait of a call, in seconds. Raises: TypeError; ValueError if it is negative or NaN."""
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {timeout!r}: use a number of seconds")
    if not timeout >= 0:
        raise ValueError(f"timeout is {timeout}: use at least 0 seconds")


def check_count(name: str, value: int) -> None:
    """Check a number that a call waits for. Raises: TypeError; ValueError if it is negative.

    Args:
        name: The name of the number, for the error.
        value: The number.
    """
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}: use an integer")
    if value < 0:
        raise ValueError(f"{name} is {value}: use at least 0")


@dataclass(frozen=True, slots=True)
class Goal:
    """The condition on a group for which ``wait_group`` waits.

    Attributes:
        group_id: Id of the group.
        state: State name of Kafka; None for any state.
        members: Number of members; None for any number.

    Raises: ValueError if ``state`` is not the name of a state, or ``members`` is negative; TypeError if ``group_id`` is
    not a str, or ``members`` not an integer.
    """

    group_id: str
    state: str | None
    members: int | None

    def __post_init__(self) -> None:
        check_group_id(self.group_id)
        if self.members is not None:
            check_count("members", self.members)
        if self.state is not None and self.state not in STATES:
            raise ValueError(f"state {self.state!r} is unknown: expected one of {', '.join(STATES)}")

    def snapshot_if_met(self, broker: Broker) -> GroupSnapshot | None:
        """Return a snapshot of the group if it meets the condition, else None."""
        group = snapshot(broker, self.group_id)
        is_met = self.state in (None, group.state) and self.members in (None, len(group.members))
        return group if is_met else None

    def timeout_error(self, broker: Broker, events: Iterable[Event], timeout: float) -> WaitTimeoutError:
        """Return the error to raise after a timeout. Its message shows the state of the group and the last events.

        Args:
            broker: The state of the cluster.
            events: All events so far, in order; the message shows the last EVENTS_SHOWN of them.
            timeout: The maximum wait in seconds.
        """
        group = snapshot(broker, self.group_id)
        return WaitTimeoutError(
            "\n".join(
                [
                    f"timed out after {timeout:g} s waiting for {self}",
                    *_group_lines(group, broker),
                    *event_report(list(events)),
                ]
            )
        )

    def __str__(self) -> str:
        state = f" to be {self.state}" if self.state else ""
        members = "" if self.members is None else f" {'with' if state else 'to have'} {counted(self.members, 'member')}"
        return f"group {self.group_id!r}{state}{members}"


def event_report(events: list[Event]) -> list[str]:
    """Return a title line and one line for each of the last EVENTS_SHOWN events; without events, only one line."""
    if not events:
        return ["no group has had an event"]
    title = "events:" if len(events) <= EVENTS_SHOWN else f"last {EVENTS_SHOWN} of {len(events)} events:"
    return [title, *(f"  {_event_line(event)}" for event in events[-EVENTS_SHOWN:])]


def _group_lines(group: GroupSnapshot, broker: Broker) -> list[str]:
    if group.state == DEAD:
        return [f"the group does not exist (Dead); existing groups: {listed(broker.groups)}"]
    protocol = group.protocol or "none yet"
    members = counted(len(group.members), "member")
    lines = [f"the group is {group.state}: generation {group.generation}, protocol {protocol}, {members}"]
    for member in group.members:
        instance = f", instance {member.instance_id}" if member.instance_id else ""
        leads = ", leader" if member.member_id == group.leader else ""
        lines.append(f"  {member.member_id}{instance}{leads}: {_assignment_text(member.assignment)}")
    return lines


def _assignment_text(assignment: object) -> str:
    return "assignment cannot be decoded" if assignment is None else _json(assignment)


def _event_line(event: Event) -> str:
    fields = event.to_json()
    name = fields.pop("group") or fields.pop("transactional_id", "")
    head = f"{fields.pop('time_ms') / 1000:8.3f} s  {fields.pop('event'):<10}  {name}"
    details = [f"{name}={_value_text(value)}" for name, value in fields.items() if value not in ("", -1)]
    return "  ".join([head, *details])


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    from json import dumps  # on demand: only a wait that timed out needs it

    return dumps(value)

"""The actions of a coordinator of the draft protocol, such as responses and writes.

The broker of the coordinator performs the actions in order, and may fail after any action.
"""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.lab.history.draft.messages import Offsets, Response
from mockbroker.lab.history.draft.rules import Cause, Coordinating
from mockbroker.lab.history.draft.store import GroupRecord


@dataclass(frozen=True, slots=True)
class Noticed:
    """The trace entry for a cause of a rebalance that the coordinator has detected."""

    group: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Became:
    """The trace entry for a state change of the coordinator of a group. ``before``, ``after``: the states."""

    group: str
    before: Coordinating
    cause: Cause
    after: Coordinating


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of sending the response to the pending request of a connection. ``connection``: connection number."""

    connection: int
    response: Response


@dataclass(frozen=True, slots=True)
class Write:
    """The action of writing generation, members and ownership of a group to the store atomically."""

    group: str
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Keep:
    """The action of writing committed offsets to the store."""

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Cut:
    """The action of closing the connection to a consumer, because its session has expired."""

    connection: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The action of watching a topic: the broker is notified when the topic is created or gets more partitions."""

    topic: str


Action = Noticed | Became | Answer | Write | Keep | Cut | Watch
Actions = list[Action]

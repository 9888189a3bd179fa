"""The actions of a coordinator. The broker performs them in order, and can fail between any two."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.lab.history.draft.messages import Offsets, Response
from mockbroker.lab.history.draft.rules import Cause, Coordinating
from mockbroker.lab.history.draft.store import GroupRecord


@dataclass(frozen=True, slots=True)
class Noticed:
    """A trace entry: the coordinator has noticed the cause of a rebalance."""

    group: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Became:
    """A trace entry: the coordinator of a group has changed from the state ``before`` to the state ``after``."""

    group: str
    before: Coordinating
    cause: Cause
    after: Coordinating


@dataclass(frozen=True, slots=True)
class Answer:
    """A response to the pending request of a connection. ``connection``: connection number."""

    connection: int
    response: Response


@dataclass(frozen=True, slots=True)
class Write:
    """An atomic write of generation, members and ownership to the store."""

    group: str
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Keep:
    """A write of offsets to the store."""

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Cut:
    """The closing of the connection to a consumer whose session has expired."""

    connection: int


@dataclass(frozen=True, slots=True)
class Watch:
    """A request to watch a topic: the broker is notified when the topic is created or gets more partitions."""

    topic: str


Action = Noticed | Became | Answer | Write | Keep | Cut | Watch
Actions = list[Action]

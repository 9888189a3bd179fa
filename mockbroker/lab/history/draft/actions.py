"""The actions of a coordinator, in order; its broker can fail between any two of them."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.lab.history.draft.messages import Offsets, Response
from mockbroker.lab.history.draft.rules import Cause, Coordinating
from mockbroker.lab.history.draft.store import GroupRecord


@dataclass(frozen=True, slots=True)
class Noticed:
    """The coordinator has noticed that a rebalance is needed."""

    group: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Became:
    """The coordinator of a group has changed its state."""

    group: str
    before: Coordinating
    cause: Cause
    after: Coordinating


@dataclass(frozen=True, slots=True)
class Answer:
    """A response to the request of a connection."""

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
    """The closing of a dead consumer's connection."""

    connection: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The setting of a watch on a topic, which fires when the topic is created or grows."""

    topic: str


Action = Noticed | Became | Answer | Write | Keep | Cut | Watch
Actions = list[Action]

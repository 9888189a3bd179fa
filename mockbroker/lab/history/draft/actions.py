"""What a coordinator does, one exact action after the other: between any two of them its broker can be gone."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.lab.history.draft.messages import Offsets, Response
from mockbroker.lab.history.draft.rules import Cause, Coordinating
from mockbroker.lab.history.draft.store import GroupRecord


@dataclass(frozen=True, slots=True)
class Noticed:
    """A rebalance is needed; nothing is done about it yet."""

    group: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Became:
    """The coordinator of the group is in another state."""

    group: str
    before: Coordinating
    cause: Cause
    after: Coordinating


@dataclass(frozen=True, slots=True)
class Answer:
    """``connection``: where the request came in."""

    connection: int
    response: Response


@dataclass(frozen=True, slots=True)
class Write:
    """To the store: generation, members and ownership at once."""

    group: str
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Keep:
    """Offsets, to the store."""

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection of a dead consumer is closed."""

    connection: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The broker wants to know when the topic appears or grows."""

    topic: str


Action = Noticed | Became | Answer | Write | Keep | Cut | Watch
Actions = list[Action]

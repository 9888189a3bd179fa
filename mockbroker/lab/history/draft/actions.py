"""The actions of a coordinator of the draft protocol, such as responses and writes.

The broker of the coordinator performs the actions in order, and may fail after any action.
"""

from __future__ import annotations

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.messages import Offsets, Response
from mockbroker.lab.history.draft.rules import Cause, Coordinating
from mockbroker.lab.history.draft.store import GroupRecord


@dataclass(frozen=True, slots=True)
class Noticed:
    """The trace entry for a detected cause of a rebalance.

    Attributes:
        group: group id.
        cause: the cause of the rebalance.
    """

    group: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Became:
    """The trace entry for a state change of the coordinator of a group.

    Attributes:
        group: group id.
        before: state before the change.
        cause: cause of the change.
        after: state after the change.
    """

    group: str
    before: Coordinating
    cause: Cause
    after: Coordinating


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of sending the response to the pending request of a connection.

    Attributes:
        connection: connection number.
        response: the response.
    """

    connection: int
    response: Response


@dataclass(frozen=True, slots=True)
class Write:
    """The action of writing generation, members and ownership of a group to the store atomically.

    Attributes:
        group: group id.
        record: the new state of the group.
    """

    group: str
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Keep:
    """The action of writing committed offsets to the store.

    Attributes:
        group: group id.
        offsets: committed offsets by partition.
    """

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Cut:
    """The action of closing the connection to a consumer, because the consumer's session has expired.

    ``connection``: connection number.
    """

    connection: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The action of watching a topic: the broker is notified when the topic is created or gets more partitions.

    ``topic``: topic name.
    """

    topic: str


Action = Noticed | Became | Answer | Write | Keep | Cut | Watch
Actions = list[Action]

"""The states of consumers and coordinators in the draft protocol, and their transition tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from mockbroker.lab.history.draft.messages import (
    Error,
    GroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)


class Consuming(Enum):
    """The states of a consumer of the draft protocol, with the names in the draft.

    A consumer reads records only in MEMBER and REDISCOVERING.

    Attributes:
        DOWN: the process is not running.
        STARTING: the consumer looks up the coordinator and joins the group for the first time, or as a new consumer.
        MEMBER: the consumer is a member of the current generation.
        REDISCOVERING: the consumer has lost the coordinator and looks it up again.
        STOPPED: the consumer has stopped reading because of a rebalance.
    """

    DOWN = "Down"
    STARTING = "Start up & discover co-ordinator"
    MEMBER = "Part of a group"
    REDISCOVERING = "Re-discover co-ordinator"
    STOPPED = "Stopped consumption"


class ConsumerEvent(Enum):
    """The events that change the state of a consumer. The value of an event is its description."""

    START = "it is started"
    JOINED = "the answer to its JoinGroup has an id, a generation and partitions"
    REFUSED = "its strategy is unknown, or not that of the group"
    GOOD = "a heartbeat is answered without an error"
    ILLEGAL_GENERATION = "a heartbeat or a commit is answered with IllegalGeneration"
    UNKNOWN = "its id is not in the group"
    LOST = "its coordinator is gone, silent, loading, or another one"
    END = "its process ends"


CONSUMER: Mapping[tuple[Consuming, ConsumerEvent], Consuming] = {
    (Consuming.DOWN, ConsumerEvent.START): Consuming.STARTING,
    (Consuming.STARTING, ConsumerEvent.JOINED): Consuming.MEMBER,
    (Consuming.STARTING, ConsumerEvent.REFUSED): Consuming.DOWN,
    (Consuming.STARTING, ConsumerEvent.LOST): Consuming.STARTING,
    (Consuming.STARTING, ConsumerEvent.END): Consuming.DOWN,
    (Consuming.MEMBER, ConsumerEvent.GOOD): Consuming.MEMBER,
    (Consuming.MEMBER, ConsumerEvent.ILLEGAL_GENERATION): Consuming.STOPPED,
    (Consuming.MEMBER, ConsumerEvent.UNKNOWN): Consuming.STARTING,
    (Consuming.MEMBER, ConsumerEvent.LOST): Consuming.REDISCOVERING,
    (Consuming.MEMBER, ConsumerEvent.END): Consuming.DOWN,
    (Consuming.REDISCOVERING, ConsumerEvent.GOOD): Consuming.MEMBER,
    (Consuming.REDISCOVERING, ConsumerEvent.ILLEGAL_GENERATION): Consuming.STOPPED,
    (Consuming.REDISCOVERING, ConsumerEvent.UNKNOWN): Consuming.STARTING,
    (Consuming.REDISCOVERING, ConsumerEvent.LOST): Consuming.REDISCOVERING,
    (Consuming.REDISCOVERING, ConsumerEvent.END): Consuming.DOWN,
    (Consuming.STOPPED, ConsumerEvent.JOINED): Consuming.MEMBER,
    (Consuming.STOPPED, ConsumerEvent.GOOD): Consuming.MEMBER,  # a new coordinator has no state of the rebalance
    (Consuming.STOPPED, ConsumerEvent.ILLEGAL_GENERATION): Consuming.STOPPED,
    (Consuming.STOPPED, ConsumerEvent.REFUSED): Consuming.DOWN,
    (Consuming.STOPPED, ConsumerEvent.UNKNOWN): Consuming.STARTING,
    (Consuming.STOPPED, ConsumerEvent.LOST): Consuming.STOPPED,
    (Consuming.STOPPED, ConsumerEvent.END): Consuming.DOWN,
}


class Coordinating(Enum):
    """The states of a group's coordinator, with the names in the draft.

    Attributes:
        DOWN: this coordinator does not coordinate the group.
        CATCH_UP: the group is being loaded.
        READY: the group is loaded, and not all members have sent a heartbeat yet.
        PREPARING: a rebalance has begun, and waits for members to join.
        REBALANCING: the coordinator sends the JoinGroup responses.
        STEADY: the group is stable.
    """

    DOWN = "Down"
    CATCH_UP = "Catch up"
    READY = "Ready"
    PREPARING = "Prepare for rebalance"
    REBALANCING = "Rebalancing"
    STEADY = "Steady"


class Cause(Enum):
    """The causes of a change of the coordinator's state. The value of a cause is its description."""

    ELECTED = "it is elected"
    LOADED = "all its groups are read"
    JOIN = "a consumer joins"
    CHANGE = "partitions are not those that were shared out"
    SILENCE = "a member is dead"
    STALE = "a consumer comes with another generation"
    ALL_HEARD = "every member has sent a heartbeat"
    ALL_JOINED = "all living members have joined"
    NO_MEMBER = "no member is alive, and none joins"
    RECOVERED = "the dead member is back before any member was notified"
    ANSWERED = "all answers are sent"
    LOST = "it fails, or another one is elected"


COORDINATOR: Mapping[tuple[Coordinating, Cause], Coordinating] = {
    (Coordinating.DOWN, Cause.ELECTED): Coordinating.CATCH_UP,
    (Coordinating.CATCH_UP, Cause.LOADED): Coordinating.READY,
    (Coordinating.READY, Cause.JOIN): Coordinating.PREPARING,
    (Coordinating.READY, Cause.CHANGE): Coordinating.PREPARING,
    (Coordinating.READY, Cause.SILENCE): Coordinating.PREPARING,
    (Coordinating.READY, Cause.STALE): Coordinating.PREPARING,
    (Coordinating.READY, Cause.ALL_HEARD): Coordinating.STEADY,
    (Coordinating.PREPARING, Cause.ALL_JOINED): Coordinating.REBALANCING,
    (Coordinating.PREPARING, Cause.RECOVERED): Coordinating.STEADY,
    (Coordinating.PREPARING, Cause.NO_MEMBER): Coordinating.READY,
    (Coordinating.REBALANCING, Cause.ANSWERED): Coordinating.STEADY,
    (Coordinating.STEADY, Cause.JOIN): Coordinating.PREPARING,
    (Coordinating.STEADY, Cause.CHANGE): Coordinating.PREPARING,
    (Coordinating.STEADY, Cause.SILENCE): Coordinating.PREPARING,
    **{(state, Cause.LOST): Coordinating.DOWN for state in Coordinating if state is not Coordinating.DOWN},
}

State = TypeVar("State", Consuming, Coordinating)
Why = TypeVar("Why", ConsumerEvent, Cause)


class IllegalTransition(RuntimeError):
    """The error for a change of state that the transition table does not contain."""


def move(table: Mapping[tuple[State, Why], State], state: State, why: Why) -> State:
    """Return the state after a transition.

    Args:
        table: new state by old state and cause.
        state: current state.
        why: cause of the transition.

    Raises: IllegalTransition if the table has no such transition.
    """
    if (state, why) not in table:
        raise IllegalTransition(f"state {state.value!r} of the draft protocol has no transition for {why.value!r}")
    return table[state, why]


# The errors while groups are loaded; the second column applies after taking over from a failed coordinator.
# The draft describes both for JoinGroup: retry later, or ILLEGAL_PROTOCOL_STATE.
LOADING: Mapping[type[GroupRequest], tuple[Error, Error]] = {
    HeartbeatRequest: (Error.COORDINATOR_STARTUP_NOT_COMPLETE, Error.COORDINATOR_STARTUP_NOT_COMPLETE),
    OffsetCommitRequest: (Error.COORDINATOR_STARTUP_NOT_COMPLETE, Error.COORDINATOR_STARTUP_NOT_COMPLETE),
    OffsetFetchRequest: (Error.COORDINATOR_STARTUP_NOT_COMPLETE, Error.COORDINATOR_STARTUP_NOT_COMPLETE),
    JoinGroupRequest: (Error.COORDINATOR_STARTUP_NOT_COMPLETE, Error.ILLEGAL_PROTOCOL_STATE),
}

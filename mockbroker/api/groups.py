"""The operations of an administrator on groups: evict members, start rebalances and commit offsets without a client."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.limits import MAX_TEXT
from mockbroker.api.records import partition as find_partition
from mockbroker.base.effects import Effects, Note
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.texts import listed
from mockbroker.base.timers import LossDue
from mockbroker.broker.broker import Broker
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Evict, Rebalance
from mockbroker.groups.offsets import Committed
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC

EVICTED = "evicted by an administrator"
REQUESTED = "requested by an administrator"
SET = "set by an administrator"
LAST_OFFSET = 2**63 - 1


class UnknownGroupError(NotFoundError):
    """The error for a group that does not exist."""


class UnknownMemberError(NotFoundError):
    """The error for a member id that no member of the group has."""


class EmptyGroupError(ConflictError):
    """The error for the rebalance of a group that has no members."""


class CoordinatorUnavailableError(ConflictError):
    """The error for a group whose coordinator is not running, or is loading its groups."""


def evict(broker: Broker, group_id: str, member_id: str, reason: str, now: float) -> Effects:
    """Remove a member of a group; return the effects, such as responses to its pending requests.

    Args:
        broker: The state of the cluster.
        group_id: Id of the group.
        member_id: Member id of a member, or a pending member id: the coordinator has generated it, but no JoinGroup has
            used it yet.
        reason: Reason for the journal; "" for none.
        now: The broker's time in seconds.

    Raises: UnknownGroupError; UnknownMemberError; CoordinatorUnavailableError.
    """
    group = _get_group(broker, group_id)
    member_ids = listed(group.members, repr)
    effects = broker.groups.receive(group_id, Evict(member_id, _with_reason(EVICTED, reason)), now)
    if not effects:
        raise UnknownMemberError(f"group {group_id!r} has no member {member_id!r}; its members: {member_ids}")
    return effects


def rebalance(broker: Broker, group_id: str, reason: str, now: float) -> Effects:
    """Start a rebalance of a group; return the effects, such as events for the journal.

    Args:
        broker: The state of the cluster.
        group_id: Id of the group.
        reason: Reason for the journal; "" for none.
        now: The broker's time in seconds.

    Raises: UnknownGroupError; EmptyGroupError; CoordinatorUnavailableError.
    """
    if _get_group(broker, group_id).empty:
        raise EmptyGroupError(f"group {group_id!r} has no members: there is nothing to rebalance")
    return broker.groups.receive(group_id, Rebalance(_with_reason(REQUESTED, reason)), now)


def set_committed(broker: Broker, group_id: str, offsets: Mapping[tuple[str, int], int], now: float) -> Effects:
    """Commit offsets for a group. If the group does not exist, it is created. Without offsets, nothing is done.

    Args:
        broker: The state of the cluster.
        group_id: Id of the group.
        offsets: Offsets by topic and partition.
        now: The broker's time in seconds.

    Returns: the effects: a journal event; empty without offsets.

    Raises: UnknownTopicError; ValueError or TypeError for an invalid group id or offset; CoordinatorUnavailableError.
        After an error, nothing is stored.
    """
    check_group_id(group_id)
    try:
        size = len(group_id.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"the group id {group_id!r} is not valid Unicode text: {error.reason}") from error
    if size > MAX_TEXT:
        raise ValueError(f"the group id has {size} bytes, the maximum is {MAX_TEXT}")
    for key, offset in offsets.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(f'the key of an offset must be a topic and a partition, such as ("orders", 0), got {key!r}')
        topic, index = key
        find_partition(broker, topic, index)
        if not isinstance(offset, int):
            raise TypeError(f"offset {offset!r} of {topic}-{index} is not an integer")
        if not 0 <= offset <= LAST_OFFSET:
            raise ValueError(f"offset {offset} of {topic}-{index} is out of range (0-{LAST_OFFSET})")
    _check_coordinator(broker, group_id)
    if not offsets:
        return []
    group = broker.groups.get(group_id) or broker.groups.create(group_id, now)
    for (topic, index), offset in offsets.items():
        group.offsets.store(topic, index, Committed(offset=offset, at=now))
    broker.groups.mark_dirty(group_id)
    return [
        Note(event=EventKind.COMMIT, group=group_id, generation=group.generation, reason=SET, offsets=dict(offsets))
    ]


def _get_group(broker: Broker, group_id: str) -> CoordinatedGroup:
    """Return the group with this id, if its coordinator is available.

    Raises: UnknownGroupError; CoordinatorUnavailableError.
    """
    _check_coordinator(broker, group_id)
    group = broker.groups.get(group_id)
    if group is None:
        raise unknown_group(broker, group_id)
    return group


def unknown_group(broker: Broker, group_id: str) -> UnknownGroupError:
    """Return the error for a group that does not exist; it names existing groups."""
    return UnknownGroupError(f"group {group_id!r} does not exist; existing groups: {listed(broker.groups, repr)}")


def check_group_id(group_id: str) -> None:
    """Check the type of a group id. Raises: TypeError."""
    if not isinstance(group_id, str):
        raise TypeError(f"the group id must be a str, got {group_id!r}")


def _check_coordinator(broker: Broker, group_id: str) -> None:
    """Check that the coordinator of a group is running and has loaded the group.

    Args:
        broker: The state of the cluster.
        group_id: Id of the group.

    Raises: CoordinatorUnavailableError.
    """
    check_group_id(group_id)
    partition = broker.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    leader = partition.leader
    if leader == NO_LEADER or LossDue(leader) in broker.deadlines:
        raise CoordinatorUnavailableError(
            f"the coordinator of group {group_id!r} is not running: start a replica of "
            f"{OFFSETS_TOPIC}-{partition.index} (brokers {', '.join(map(str, partition.replicas))})"
        )
    if partition.index in broker.loading:
        raise CoordinatorUnavailableError(
            f"broker {leader}, the coordinator of group {group_id!r}, is loading its groups: wait until the loading "
            "time (mockbroker.coordinator.load.ms) is over"
        )


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what

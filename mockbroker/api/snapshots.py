"""Snapshots of groups and transactions, as immutable values for tests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, cast

from kwire.lazy_dataclass import dataclass
from mockbroker.broker.broker import Broker
from mockbroker.groups.coordinated import CoordinatedGroup

if TYPE_CHECKING:
    from mockbroker.api.names import GroupState, GroupTypeName, TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """The state of a group member at one moment.

    Attributes:
        member_id: The id that the coordinator or the client generated.
        client_id: The ``client.id`` of the client.
        client_host: IP address of the client.
        instance_id: The ``group.instance.id`` of a static member; None for a dynamic member.
        assignment: Assigned partition indexes by topic name. None if the assignment cannot be decoded, or if the
            members of the group are not consumers.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: Mapping[str, list[int]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """The state of a group at one moment.

    Attributes:
        group_id: Id of the group.
        state: Classic groups: Empty, PreparingRebalance, CompletingRebalance, Stable. Consumer groups (KIP-848): Empty,
            Assigning, Reconciling, Stable. Streams groups: the states of consumer groups, and NotReady. Share groups:
            Empty, Stable. All types: Dead if the group does not exist.
        generation: Classic group: the generation. All other types of groups: the group epoch.
        protocol_type: ``consumer`` for groups of consumers; "" before the first member joins.
        protocol: The partition assignment strategy or server-side assignor; None before one is chosen.
        leader: Member id of the leader of a classic group; "" without a leader, and in groups of all other types.
        members: The members.
        group_type: ``classic``, ``consumer``, ``share`` or ``streams``.
    """

    group_id: str
    state: GroupState
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str = ""
    members: tuple[MemberSnapshot, ...] = ()
    group_type: GroupTypeName = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSnapshot:
    """The state of a transactional id at one moment.

    Attributes:
        transactional_id: the ``transactional.id``.
        producer_id: the current producer id.
        epoch: the current producer epoch; -1 before the first InitProducerId.
        state: Kafka's name of the state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort.
        timeout_ms: the ``transaction.timeout.ms`` of the producer, in milliseconds.
        started_ms: time at which the open or last transaction began, in milliseconds since 1970; None before the first
            transaction.
        partitions: topics and partition indexes in the open transaction, sorted.
        coordinator: id of the broker that coordinates the transactional id; -1 if the coordinator is unavailable.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[tuple[str, int], ...]
    coordinator: int


def snapshot(broker: Broker, group_id: str) -> GroupSnapshot:
    """Return a snapshot of a group; its state is Dead if the group does not exist."""
    group = broker.groups.get(group_id)
    return GroupSnapshot(group_id=group_id, state="Dead") if group is None else _of(group, broker)


def snapshots(broker: Broker) -> dict[str, GroupSnapshot]:
    """Return a snapshot of every group, by group id."""
    return {group_id: _of(group, broker) for group_id, group in broker.groups.items()}


def committed(broker: Broker, group_id: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group, by topic and partition; empty if the group does not exist."""
    group = broker.groups.get(group_id)
    if group is None:
        return {}
    return {topic_partition: entry.offset for topic_partition, entry in group.offsets.committed.items()}


def transactions(broker: Broker, most: int | None = None) -> dict[str, TransactionSnapshot]:
    """Return a snapshot of every transactional id, by transactional id.

    Args:
        broker: The state of the cluster.
        most: Maximum number of snapshots; None for all.
    """
    return {
        name: TransactionSnapshot(
            transactional_id=name,
            producer_id=txn.producer_id,
            epoch=txn.epoch,
            state=txn.state.value,
            timeout_ms=txn.timeout_ms,
            started_ms=None if txn.started is None else broker.wall_ms(txn.started),
            partitions=tuple(sorted(txn.partitions)),
            coordinator=broker.transaction_coordinator(name),
        )
        for name, txn in islice(broker.transactions.items(), most)
    }


def _of(group: CoordinatedGroup, broker: Broker) -> GroupSnapshot:
    view = broker.groups.types.of(group).view(group, broker.groups.context)
    return GroupSnapshot(
        group_id=group.group_id,
        state=cast("GroupState", group.state_name),
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=view.protocol,
        leader=view.leader,
        members=tuple(
            MemberSnapshot(
                member_id=member_id,
                client_id=member.client_id,
                client_host=member.client_host.removeprefix("/"),
                instance_id=member.instance_id,
                assignment=view.assignments[member_id],
            )
            for member_id, member in group.members.items()
        ),
        group_type=cast("GroupTypeName", group.type_name),
    )

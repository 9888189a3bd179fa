"""Groups as they are at one moment, for tests: plain values that do not change afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mockbroker.broker.broker import Broker
from mockbroker.groups.coordinated import DEAD, CoordinatedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """``assignment``: topic to partitions; None if the bytes cannot be read, or the group is not of consumers."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: Mapping[str, list[int]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """``state``: Empty, PreparingRebalance, CompletingRebalance, Stable, or Dead if there is no such group.

    A group of the consumer protocol (KIP-848) is Empty, Assigning, Reconciling or Stable; ``generation`` is its epoch,
    ``protocol`` its assignor, and there is no leader. ``group_type``: classic or consumer.
    ``protocol``: the strategy in force, None before there is one; ``leader``: a member id, or "".
    """

    group_id: str
    state: str
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str = ""
    members: tuple[MemberSnapshot, ...] = ()
    group_type: str = "classic"


def snapshot(broker: Broker, group_id: str) -> GroupSnapshot:
    """One group; Dead and empty if it is not there."""
    group = broker.groups.get(group_id)
    return GroupSnapshot(group_id=group_id, state=DEAD) if group is None else _of(group, broker)


def snapshots(broker: Broker) -> dict[str, GroupSnapshot]:
    """Every group by its id."""
    return {group_id: _of(group, broker) for group_id, group in broker.groups.items()}


def committed(broker: Broker, group_id: str) -> dict[tuple[str, int], int]:
    """Offsets that a group has committed, by topic and partition; none if it is not there."""
    group = broker.groups.get(group_id)
    return {where: found.offset for where, found in group.offsets.committed.items()} if group else {}


def _of(group: CoordinatedGroup, broker: Broker) -> GroupSnapshot:
    view = broker.groups.types.of(group).view(group, broker.groups.context)
    return GroupSnapshot(
        group_id=group.group_id,
        state=group.state_name,
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
        group_type=group.type_name,
    )

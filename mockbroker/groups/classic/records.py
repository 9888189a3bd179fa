"""A classic group as one record: written, and made of it again.

It is written when a group is Stable or Empty. A new coordinator knows nothing of a rebalance; the members come again.
Source: Kafka's GroupCoordinatorRecordHelpers.newGroupMetadataRecord.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import GroupMetadataKey, GroupMetadataValue
from mockbroker.groups.classic import membership
from mockbroker.groups.classic.state import EMPTY, STABLE, ClassicGroup, Member
from mockbroker.groups.group_type import Context
from mockbroker.groups.records.image import Change, encoded
from mockbroker.groups.records.wall_time import Wall

VERSION = 3


def is_settled(group: ClassicGroup) -> bool:
    """True in the states that are written."""
    return group.state in (STABLE, EMPTY)


def changed(group: ClassicGroup, wall: Wall) -> Iterator[Change]:
    """Return the record if anything in it may have changed; during a rebalance only the first of a new group."""
    if not group.changes:
        return
    written = record(group, wall)
    if written is None and group.begun and "begun" in group.changes:
        written = begun(group, wall)
    if written is not None:
        yield encoded(*written)


def encoded_key(group_id: str) -> bytes:
    return encode_stored(GroupMetadataKey(group=group_id), 0)


def record(group: ClassicGroup, wall: Wall) -> tuple[GroupMetadataKey, GroupMetadataValue, int] | None:
    """Key, value and version; None if nobody ever joined, or during a rebalance."""
    if not is_settled(group) or not (group.protocol_type or group.generation or group.begun):
        return None
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader or None,
        current_state_timestamp=wall.ms(group.since),
        members=[_written(group, member) for member in group.members.values()],
    )
    return GroupMetadataKey(group=group.group_id), value, VERSION


def begun(group: ClassicGroup, wall: Wall) -> tuple[GroupMetadataKey, GroupMetadataValue, int]:
    """The first record of a group that a JoinGroup made, whatever comes of that."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=wall.ms(group.since))
    return GroupMetadataKey(group=group.group_id), value, VERSION


def _written(group: ClassicGroup, member: Member) -> GroupMetadataValue.Member:
    assert group.protocol is not None
    return GroupMetadataValue.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=round(member.rebalance_timeout * 1000),
        session_timeout=round(member.session_timeout * 1000),
        subscription=member.metadata(group.protocol),
        assignment=member.assignment,
    )


def rebuilt(group_id: str, value: GroupMetadataValue, context: Context, wall: Wall, now: float) -> ClassicGroup:
    """Return the group of a record; every session begins again at ``now``."""
    group = ClassicGroup.configured(group_id, context.settings, now, context.quirks)
    group.begun = True
    group.state = STABLE if value.members else EMPTY
    if value.current_state_timestamp >= 0:
        group.since = wall.at(value.current_state_timestamp)
    group.generation, group.protocol_type = value.generation, value.protocol_type
    group.protocol, group.leader = (value.protocol or "") if value.members else value.protocol, value.leader or ""
    for told in value.members:
        member = Member(
            member_id=told.member_id,
            instance_id=told.group_instance_id,
            client_id=told.client_id,
            client_host=told.client_host,
            session_timeout=told.session_timeout / 1000,
            rebalance_timeout=(told.rebalance_timeout if told.rebalance_timeout >= 0 else told.session_timeout) / 1000,
            protocols=[(value.protocol or "", told.subscription)],
            assignment=told.assignment,
            new=False,
        )
        group.add(member)
        membership.renew(group, member, now)
    return group

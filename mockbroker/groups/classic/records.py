"""The record of a classic group: encoding and decoding.

The record is written in the states Stable and Empty. Therefore the record never contains a rebalance in progress: after
a failover, the members must rejoin.
Source: Kafka's GroupCoordinatorRecordHelpers.newGroupMetadataRecord.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import GroupMetadataKey, GroupMetadataValue
from mockbroker.groups.classic import membership
from mockbroker.groups.classic.state import EMPTY, STABLE, ClassicGroup, Member
from mockbroker.groups.group_type import Context
from mockbroker.groups.records.image import Change, encode
from mockbroker.groups.records.wall_time import WallClock

VERSION = 3


def changed_records(group: ClassicGroup, wall: WallClock) -> Iterator[Change]:
    """Yield the GroupMetadata record of the group if the group may have changed.

    During a rebalance, a record is yielded only if the group has no record yet: the group is new, or was just
    downgraded from a consumer group. The record after a downgrade contains the members and assignments of the
    downgrade.

    Args:
        group: The group.
        wall: The clock of the timestamps in records.
    """
    if not group.changes:
        return
    written = group_record(group, wall)
    if group.has_record and "has_record" in group.changes:  # the first record, also during a rebalance
        written = _stable_record(group, wall) if group.generation else creation_record(group, wall)
    if written is not None:
        yield encode(*written)


def encode_key(group_id: str) -> bytes:
    return encode_stored(GroupMetadataKey(group=group_id), 0)


def group_record(group: ClassicGroup, wall: WallClock) -> tuple[GroupMetadataKey, GroupMetadataValue, int] | None:
    """Return key, value and value version of the group's record.

    Return None during a rebalance, or if the group has no record.

    Args:
        group: the group.
        wall: the clock of the timestamps in records.
    """
    if not group.is_persisted_state or not (group.generation or group.has_record):
        return None
    return _stable_record(group, wall)


def _stable_record(group: ClassicGroup, wall: WallClock) -> tuple[GroupMetadataKey, GroupMetadataValue, int]:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader or None,
        current_state_timestamp=wall.to_ms(group.state_since),
        members=[_member_record(group, member) for member in group.members.values()],
    )
    return GroupMetadataKey(group=group.group_id), value, VERSION


def creation_record(group: ClassicGroup, wall: WallClock) -> tuple[GroupMetadataKey, GroupMetadataValue, int]:
    """Return the record that is written when a JoinGroup creates a group: key, value and value version.

    The record is written even if the JoinGroup is then rejected.

    Args:
        group: The group.
        wall: The clock of the timestamps in records.
    """
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=wall.to_ms(group.state_since))
    return GroupMetadataKey(group=group.group_id), value, VERSION


def _member_record(group: ClassicGroup, member: Member) -> GroupMetadataValue.Member:
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


def group_from_record(
    group_id: str, value: GroupMetadataValue, context: Context, wall: WallClock, now: float
) -> ClassicGroup:
    """Return a group that is created from its record. All sessions restart at ``now``.

    Args:
        group_id: The group id.
        value: The decoded value of the record.
        context: Data and functions shared by all groups.
        wall: The clock of the timestamps in records.
        now: The current time in seconds.
    """
    group = ClassicGroup.from_settings(group_id, context.settings, now, context.quirks)
    group.has_record = True
    group.state = STABLE if value.members else EMPTY
    if value.current_state_timestamp >= 0:
        group.state_since = wall.from_ms(value.current_state_timestamp)
    group.generation, group.protocol_type = value.generation, value.protocol_type
    group.protocol, group.leader = (value.protocol or "") if value.members else value.protocol, value.leader or ""
    for stored in value.members:
        member = Member(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout=stored.session_timeout / 1000,
            rebalance_timeout=(stored.rebalance_timeout if stored.rebalance_timeout >= 0 else stored.session_timeout)
            / 1000,
            protocols=[(value.protocol or "", stored.subscription)],
            assignment=stored.assignment,
            is_new=False,
        )
        group.add_member(member)
        membership.renew_session(group, member, now)
    return group

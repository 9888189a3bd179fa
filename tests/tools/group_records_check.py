"""A check that the records in __consumer_offsets match the groups in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import ConsumerGroupMetadataValue, ShareGroupMetadataValue
from mockbroker.base.timers import LossDue
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic import records as classic_records
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.image import image_of
from mockbroker.groups.records.replay import replay_log
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import OFFSETS_TOPIC

HASHED = ConsumerGroupMetadataValue | ShareGroupMetadataValue  # records with a hash of the metadata of topics


def check_group_records(broker: Broker, wall_at_zero: float) -> None:
    """Check that a replay of each partition of __consumer_offsets gives the persisted state of its groups."""
    wall = WallClock(wall_at_zero)
    for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
        led = partition.leader >= 0 and LossDue(partition.leader) not in broker.deadlines
        groups = broker.groups_of(partition.index)
        if not (groups or partition.log.end):
            continue
        replay = replay_log(partition.log.batches())
        if partition.index in broker.loading or not led:
            assert not groups, "groups of a partition without a leader"
            continue
        live = replay.values
        memory: dict[bytes, bytes] = {}
        pending: dict[int, dict[bytes, bytes]] = {}
        for group in groups:
            memory |= image_of(broker.groups.types.of(group).records(group, wall)) | offsets_of(group, wall)
            classic = broker.groups.get_as(group.group_id, ClassicGroup)
            if classic is not None and not classic.is_persisted_state:  # a rebalance writes no record before it ends
                key = classic_records.encode_key(group.group_id)
                memory |= {key: live[key]} if key in live else {}
            for producer_id, held in group.offsets.pending_transactional.items():
                pending.setdefault(producer_id, {}).update(
                    (offset_records.encode_key(group.group_id, *place), offset_records.encode_value(each, wall))
                    for place, (_, each) in held.items()
                )
        version = broker.release.offset_value_version
        if version == offset_records.TOPIC_ID_VERSION:
            here, there = decoded(live), decoded(memory)
            for name, value in there.items():  # a group that was just loaded has no metadata of topics yet
                if isinstance(value, HASHED) and not value.metadata_hash and name in here:
                    here[name] = replace(here[name], metadata_hash=0)
            assert here.keys() == there.keys(), (
                f"written {here.keys() - there.keys()}, not written {there.keys() - here.keys()}"
            )
            assert here == there, [(key, here[key], there[key]) for key in here if here[key] != there[key]]
            written = {
                who: {key: kept.value for key, kept in held.items()} for who, held in replay.pending.items() if held
            }
            assert written == pending


def offsets_of(group: CoordinatedGroup, wall: WallClock) -> dict[bytes, bytes]:
    """Return the records of the committed offsets, without those of open transactions."""
    return {
        offset_records.encode_key(group.group_id, *place): offset_records.encode_value(committed, wall)
        for place, committed in group.offsets.committed.items()
    }


def decoded(image: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the decoded values by the text of their decoded keys."""
    return {repr(key): value for key, value in (decode_record(OFFSETS_TOPIC, *item) for item in image.items())}

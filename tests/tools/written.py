"""What is written of groups, held beside the groups themselves."""

from __future__ import annotations

from kwire.blobs import decode_record
from mockbroker.broker import Broker
from mockbroker.cluster.model import OFFSETS_TOPIC
from mockbroker.durable import offset_records
from mockbroker.durable.clock import Wall
from mockbroker.durable.image import encoded, image_of
from mockbroker.durable.replay import replay


def check_written(broker: Broker, wall_at_zero: float) -> None:
    """The log of every partition comes to just what its groups are, as far as it outlives their coordinator."""
    wall = Wall(wall_at_zero)
    for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
        groups = [] if partition.index in broker.loading or partition.leader < 0 else broker.groups_of(partition.index)
        if not (groups or partition.log.end):
            continue
        found = replay(partition.log.batches())
        if partition.index in broker.loading or partition.leader < 0:
            assert not broker.groups_of(partition.index), "groups of a partition that nobody leads"
            continue
        live = {key: value for key, (_, value) in found.live.items()}
        memory: dict[bytes, bytes] = {}
        pending: dict[int, dict[bytes, bytes]] = {}
        for group in groups:
            memory |= image_of(group, live, wall)
            for producer_id, held in group.offsets.pending.items():
                records = (offset_records.record(group.group_id, *place, each, wall) for place, (_, each) in held.items())
                pending.setdefault(producer_id, {}).update(encoded(*record) for record in records)
        version = broker.release.offset_value_version
        if version == offset_records.IDS_SINCE:
            here, there = told(live), told(memory)
            assert here.keys() == there.keys(), f"written {here.keys() - there.keys()}, not written {there.keys() - here.keys()}"
            assert here == there, [(key, here[key], there[key]) for key in here if here[key] != there[key]]
            written = {who: {k: v for k, (_, v) in held.items()} for who, held in found.pending.items() if held}
            assert written == pending


def told(image: dict[bytes, bytes]) -> dict[str, object]:
    """Keys and values as they read."""
    return {repr(key): value for key, value in (decode_record(OFFSETS_TOPIC, *item) for item in image.items())}

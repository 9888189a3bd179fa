"""Imported groups into a data directory that ``mockbroker serve --data-dir`` starts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.settings import Settings
from mockbroker.importing.groups import Imported
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.real_disk import RealDisk
from mockbroker.topics.model import INTERNAL, OFFSETS_TOPIC, Cluster, Node

RECORDS = 1_000  # of a batch: far below the size that batches may have


def write(
    found: Imported, folder: Path, brokers: int, settings: Settings, new_uuid: Callable[[], UUID], now_ms: int
) -> list[str]:
    """Make a data directory of topics and groups; what is not taken along, for people.

    Topics have their ids and partitions, and no records. ``now_ms``: milliseconds since 1970, when it is written.
    Raises: DataDirError, also if the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataDirError(f"data directory {folder}: it is not an empty folder")
    ids: list[UUID] = []  # those that are to be given next
    disk = RealDisk(folder)
    try:
        data_dir = DataDir(disk, str(folder))
        nodes = [Node(number, "", 0) for number in range(brokers)]
        cluster = data_dir.open(nodes, lambda: ids.pop() if ids else new_uuid())
        for name, topic in sorted(found.topics.items()):
            if name not in INTERNAL:
                if topic.topic_id is not None:
                    ids.append(topic.topic_id)
                cluster.create_topic(name, cluster.place(topic.partitions, 1))
        offsets = settings.offsets_topic_num_partitions
        cluster.create_topic(
            OFFSETS_TOPIC, cluster.place(offsets, min(settings.offsets_topic_replication_factor, brokers))
        )
        for group_id in sorted(found.records):
            _write_group(found, group_id, cluster, now_ms)
        data_dir.close()
    finally:
        disk.close()
    return [
        f"group {group_id!r}: {waiting} offsets of transactions that were open are not taken along"
        for group_id, records in sorted(found.records.items())
        if (waiting := sum(map(len, records.pending.values())))
    ]


def _write_group(found: Imported, group_id: str, cluster: Cluster, now_ms: int) -> None:
    partition = cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    live = sorted(found.records[group_id].live.items(), key=lambda item: item[1].offset)
    records = [Record(timestamp=now_ms, key=key, value=kept.value) for key, kept in live]
    for begin in range(0, len(records), RECORDS):
        partition.append(read_batch(build_batch(records[begin : begin + RECORDS])))

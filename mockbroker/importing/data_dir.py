"""The writer of imported groups and topics to a new data directory for ``mockbroker serve --data-dir``."""

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
from mockbroker.topics.model import INTERNAL, OFFSETS_TOPIC, ClusterState, Node

RECORDS_PER_BATCH = 1_000  # keeps batches far below max.message.bytes


def write(
    imported: Imported, folder: Path, brokers: int, settings: Settings, new_uuid: Callable[[], UUID], now_ms: int
) -> list[str]:
    """Write a new data directory with the imported topics (without records) and groups.

    Internal topics are not imported; ``__consumer_offsets`` is created for the groups.

    Args:
        imported: topics and groups.
        folder: the data directory; it must be empty or not exist.
        brokers: number of brokers of the new cluster.
        settings: settings of the new cluster.
        new_uuid: function that returns a new id, for the cluster and for topics without an id.
        now_ms: timestamp of the records, milliseconds since 1970.

    Returns: a note for each group whose open transactions are not imported.
    Raises: DataDirError if the folder is not empty or cannot be used.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataDirError(f"data directory {folder}: the folder is not empty; use an empty or a new one")
    ids: list[UUID] = []  # the next topic id, if it is known
    disk = RealDisk(folder)
    try:
        data_dir = DataDir(disk, str(folder))
        nodes = [Node(number, "", 0) for number in range(brokers)]
        cluster = data_dir.open(nodes, lambda: ids.pop() if ids else new_uuid())
        for name, topic in sorted(imported.topics.items()):
            if name not in INTERNAL:
                if topic.topic_id is not None:
                    ids.append(topic.topic_id)
                cluster.create_topic(name, cluster.place(topic.partitions, 1))
        offsets = settings.offsets_topic_num_partitions
        cluster.create_topic(
            OFFSETS_TOPIC, cluster.place(offsets, min(settings.offsets_topic_replication_factor, brokers))
        )
        for group_id in sorted(imported.records):
            _write_group(imported, group_id, cluster, now_ms)
        data_dir.close()
    finally:
        disk.close()
    return [
        f"group {group_id!r}: {pending} pending offsets of open transactions are not imported"
        for group_id, records in sorted(imported.records.items())
        if (pending := sum(map(len, records.pending.values())))
    ]


def _write_group(imported: Imported, group_id: str, cluster: ClusterState, now_ms: int) -> None:
    partition = cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    live = sorted(imported.records[group_id].latest.items(), key=lambda item: item[1].offset)
    records = [Record(timestamp=now_ms, key=key, value=record.value) for key, record in live]
    for begin in range(0, len(records), RECORDS_PER_BATCH):
        partition.append(read_batch(build_batch(records[begin : begin + RECORDS_PER_BATCH], base_sequence=0)))

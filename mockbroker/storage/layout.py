"""The small files of a data directory that are Kafka's: what is in them, as bytes.

Source: Kafka's CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile and
MetaPropertiesEnsemble.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from uuid import NAMESPACE_OID, UUID, uuid5

from kwire.json.objects import uuid_text

META_PROPERTIES = "meta.properties"
START_OFFSETS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CHECKPOINT_VERSION = 0
PARTITION_METADATA_VERSION = 0

Place = tuple[str, int]  # topic name and index of a partition


def meta_properties(cluster_id: UUID, node_id: int) -> bytes:
    """Whose directory it is. The id of the directory is made of the cluster's, as there is one for each."""
    directory = uuid_text(uuid5(NAMESPACE_OID, cluster_id.hex))
    lines = [f"cluster.id={uuid_text(cluster_id)}", f"directory.id={directory}", f"node.id={node_id}", "version=1"]
    return _lines(lines)


def partition_metadata(topic_id: UUID) -> bytes:
    return _lines([f"version: {PARTITION_METADATA_VERSION}", f"topic_id: {uuid_text(topic_id)}"])


def topic_id_of(metadata: bytes) -> UUID | None:
    """What ``partition_metadata`` wrote; None if it cannot be read."""
    for line in metadata.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            try:
                return UUID(bytes=base64.urlsafe_b64decode(f"{value}=="))
            except ValueError:
                return None
    return None


def leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """``epochs``: leader epoch and the first offset that was written in it."""
    return _checkpoint([f"{epoch} {offset}" for epoch, offset in epochs])


def start_offsets(offsets: Mapping[Place, int]) -> bytes:
    """The first offset of each partition whose log does not begin with its first segment."""
    return _checkpoint([f"{topic} {index} {offset}" for (topic, index), offset in offsets.items()])


def read_start_offsets(data: bytes) -> dict[Place, int]:
    """What ``start_offsets`` wrote. Raises: ValueError."""
    version, count, *lines = data.decode("utf-8").splitlines()
    if int(version) != CHECKPOINT_VERSION or int(count) != len(lines):
        raise ValueError(f"{len(lines)} lines of {count}, version {version}")
    found: dict[Place, int] = {}
    for line in lines:
        topic, index, offset = line.split(" ")
        found[topic, int(index)] = int(offset)
    return found


def _checkpoint(lines: list[str]) -> bytes:
    return _lines([str(CHECKPOINT_VERSION), str(len(lines)), *lines])


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()

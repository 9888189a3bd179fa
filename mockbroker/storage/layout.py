"""Encoders and decoders of the small files in a Kafka log directory (metadata, checkpoints).

Source: Kafka's CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile and
MetaPropertiesEnsemble.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from uuid import NAMESPACE_OID, UUID, uuid5

from kwire.json.objects import uuid_text

META_PROPERTIES = "meta.properties"
START_OFFSETS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CHECKPOINT_VERSION = 0
PARTITION_METADATA_VERSION = 0

_ENTRY = re.compile("([^ ]*) ([0-9]+) ([0-9]+)")

Place = tuple[str, int]  # topic name and index of a partition


def meta_properties(cluster_id: UUID, node_id: int) -> bytes:
    """Return the content of meta.properties. The directory id is derived from the cluster id.

    ``node_id``: id of the broker.
    """
    directory = uuid_text(uuid5(NAMESPACE_OID, cluster_id.hex))
    lines = [f"cluster.id={uuid_text(cluster_id)}", f"directory.id={directory}", f"node.id={node_id}", "version=1"]
    return _lines(lines)


def partition_metadata(topic_id: UUID) -> bytes:
    """Return the content of partition.metadata."""
    return _lines([f"version: {PARTITION_METADATA_VERSION}", f"topic_id: {uuid_text(topic_id)}"])


def topic_id_of(metadata: bytes) -> UUID | None:
    """Return the topic id in the content of a partition.metadata file; None if the content is not valid."""
    for line in metadata.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            try:
                return UUID(bytes=base64.urlsafe_b64decode(f"{value}=="))
            except ValueError:
                return None
    return None


def leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of leader-epoch-checkpoint. ``epochs``: (leader epoch, its first offset), in order."""
    return _checkpoint([f"{epoch} {offset}" for epoch, offset in epochs])


def start_offsets(offsets: Mapping[Place, int]) -> bytes:
    """Return the content of log-start-offset-checkpoint.

    ``offsets``: log start offset by topic and partition. Partitions whose first segment begins at the log start offset
    need no entry.
    """
    return _checkpoint([f"{topic} {index} {offset}" for (topic, index), offset in offsets.items()])


def read_start_offsets(data: bytes) -> dict[Place, int]:
    """Return the log start offsets in the content of log-start-offset-checkpoint, by topic and partition.

    Raises: ValueError if the content is not valid.
    """
    version, count, *lines = [*data.decode("utf-8").splitlines(), "", ""]
    lines = lines[:-2]
    if (version, count) != (str(CHECKPOINT_VERSION), str(len(lines))):
        raise ValueError(
            f"expected {str(CHECKPOINT_VERSION)!r} and {str(len(lines))!r} (version and number of entries) "
            f"in the first two lines, got {version!r} and {count!r}"
        )
    offsets: dict[Place, int] = {}
    for line in lines:
        if (entry := _ENTRY.fullmatch(line)) is None:
            raise ValueError(f"expected an entry TOPIC PARTITION OFFSET, got {line!r}")
        offsets[entry[1], int(entry[2])] = int(entry[3])
    return offsets


def _checkpoint(lines: list[str]) -> bytes:
    return _lines([str(CHECKPOINT_VERSION), str(len(lines)), *lines])


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()

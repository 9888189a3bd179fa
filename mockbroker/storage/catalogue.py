"""The metadata of a cluster (brokers, topics, configurations) as one JSON file. Kafka stores it in the controllers'
log.

Each change rewrites the whole file, because metadata changes rarely.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mockbroker.topics.model import Cluster, Topic

CATALOGUE = "mockbroker.json"
FORMAT = 1  # to be raised when older versions of mockbroker can no longer read the file


class CatalogueError(ValueError):
    """Raised for a catalogue file that cannot be decoded; the message is the reason."""


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """A partition in the catalogue.

    Attributes:
        replicas: broker ids of the replicas, the preferred leader first.
        leader_epoch: leader epoch.
    """

    replicas: Sequence[int]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic in the catalogue.

    Attributes:
        name: topic name.
        topic_id: topic id.
        configs: configurations that are set on the topic itself: value by name.
        partitions: partitions in the order of their indexes.
    """

    name: str
    topic_id: UUID
    configs: dict[str, str | None]
    partitions: Sequence[PartitionEntry]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The decoded content of the catalogue file.

    Attributes:
        cluster_id: id of the cluster.
        brokers: broker ids that the cluster was created with.
        taken_producer_ids: number of producer ids that have been handed out.
        topics: all topics, with their partitions and configurations.
        deleted: ids of deleted topics whose directories may still exist.
    """

    cluster_id: UUID
    brokers: Sequence[int]
    taken_producer_ids: int
    topics: Sequence[TopicEntry] = ()
    deleted: frozenset[UUID] = field(default_factory=frozenset)


def encode_catalogue(cluster: Cluster, deleted: Sequence[UUID]) -> bytes:
    """Return the catalogue file of a cluster. ``deleted``: ids of topics whose directories may still exist."""
    content = {
        "format": FORMAT,
        "cluster_id": str(cluster.cluster_id),
        "brokers": sorted(cluster.nodes.keys() | cluster.down.keys()),
        "taken_producer_ids": cluster.taken_producer_ids,
        "deleted": [str(topic_id) for topic_id in deleted],
        "topics": [_topic_json(topic) for topic in cluster.topics.values()],
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def decode_catalogue(data: bytes) -> Catalogue:
    """Decode the content of a catalogue file. Raises: CatalogueError."""
    try:
        content: dict[str, Any] = json.loads(data)
        version = content["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(f"{CATALOGUE} is damaged: {_reason(error)}") from error
    if version != FORMAT:
        raise CatalogueError(f"{CATALOGUE} has format {version}, only format {FORMAT} is supported: upgrade mockbroker")
    try:
        return Catalogue(
            UUID(content["cluster_id"]),
            content["brokers"],
            content["taken_producer_ids"],
            [_topic_entry(topic) for topic in content["topics"]],
            frozenset(UUID(text) for text in content["deleted"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CatalogueError(f"{CATALOGUE} is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return f"invalid JSON: {error.msg} at character {error.pos}"
        case KeyError():
            return f"{error} is missing"
        case _:
            return f"wrong type or value: {error}"


def _topic_json(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [
            {"replicas": list(partition.replicas), "leader_epoch": partition.leader_epoch}
            for partition in topic.partitions
        ],
    }


def _topic_entry(topic: dict[str, Any]) -> TopicEntry:
    partitions = [PartitionEntry(each["replicas"], each["leader_epoch"]) for each in topic["partitions"]]
    return TopicEntry(topic["name"], UUID(topic["topic_id"]), topic["configs"], partitions)

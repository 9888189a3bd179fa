"""What a cluster is besides its logs, as one file of JSON. Kafka keeps the same in the log of its controllers.

Everything is written anew with each change, which is rare beside records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mockbroker.topics.model import Cluster, Topic

CATALOGUE = "mockbroker.json"
FORMAT = 1  # another number when older versions could not read it any more


class CatalogueError(ValueError):
    """Not what ``written`` writes; the text says why."""


@dataclass(frozen=True, slots=True)
class KeptPartition:
    replicas: Sequence[int]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class KeptTopic:
    name: str
    topic_id: UUID
    configs: dict[str, str | None]
    partitions: Sequence[KeptPartition]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """``taken``: as of ``Cluster``. ``deleted``: topics whose directories may still be there."""

    cluster_id: UUID
    brokers: Sequence[int]
    taken: int
    topics: Sequence[KeptTopic] = ()
    deleted: frozenset[UUID] = field(default_factory=frozenset)


def written(cluster: Cluster, deleted: Sequence[UUID]) -> bytes:
    """The file for a cluster as it is now."""
    content = {
        "format": FORMAT,
        "cluster_id": str(cluster.cluster_id),
        "brokers": sorted(cluster.nodes.keys() | cluster.down.keys()),
        "taken_producer_ids": cluster.taken,
        "deleted": [str(topic_id) for topic_id in deleted],
        "topics": [_topic(topic) for topic in cluster.topics.values()],
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def parsed(data: bytes) -> Catalogue:
    """What was written. Raises: CatalogueError."""
    try:
        content: dict[str, Any] = json.loads(data)
        version = content["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(f"{CATALOGUE} is damaged: {error}") from error
    if version != FORMAT:
        raise CatalogueError(f"{CATALOGUE} is from a newer version: format {version}, and this one knows {FORMAT}")
    try:
        return Catalogue(
            UUID(content["cluster_id"]),
            content["brokers"],
            content["taken_producer_ids"],
            [_kept(topic) for topic in content["topics"]],
            frozenset(UUID(text) for text in content["deleted"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CatalogueError(f"{CATALOGUE} is damaged: {error!r}") from error


def _topic(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [
            {"replicas": list(partition.replicas), "leader_epoch": partition.leader_epoch}
            for partition in topic.partitions
        ],
    }


def _kept(topic: dict[str, Any]) -> KeptTopic:
    partitions = [KeptPartition(each["replicas"], each["leader_epoch"]) for each in topic["partitions"]]
    return KeptTopic(topic["name"], UUID(topic["topic_id"]), topic["configs"], partitions)

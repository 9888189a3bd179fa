"""The catalogue: one JSON file with the metadata of a cluster, such as brokers, topics, configurations and ACLs.

Kafka stores this metadata in the metadata log of the controllers. Here each change rewrites the whole file, because
metadata changes rarely. The texts of unchanged topics are kept for this, because a cluster may have many topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from math import isfinite
from operator import attrgetter
from typing import Any
from uuid import UUID

from kwire.errors import invalid_json
from kwire.lazy_dataclass import dataclass
from mockbroker.quotas.entity import DEFAULT, Default, Entity, of_names
from mockbroker.security.acl import Acl
from mockbroker.security.delegation_tokens import DelegationToken, Principal
from mockbroker.security.users import ScramCredential
from mockbroker.topics.log_dirs import Replica
from mockbroker.topics.model import ClusterState, Partition, Topic
from mockbroker.topics.reassignment import Reassignment

CATALOGUE = "mockbroker.json"
FORMAT = 1  # to be raised when older versions of mockbroker can no longer read the file
TEXT = json.JSONEncoder(separators=(",", ":"), check_circular=False)
ACL_FIELDS = attrgetter(*(each.name for each in fields(Acl)))


class CatalogueError(ValueError):
    """The error for a catalogue file that cannot be decoded; its message is the reason."""


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """A partition in the catalogue.

    Attributes:
        replicas: broker ids of the replicas, the preferred leader first.
        leader_epoch: leader epoch.
        reassignment: the replicas that a reassignment adds and removes; None without a reassignment.
        catching_up: broker ids of replicas that are not in sync.
    """

    replicas: Sequence[int]
    leader_epoch: int
    reassignment: Reassignment | None = None
    catching_up: frozenset[int] = frozenset()


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
        brokers: broker ids with which the cluster was created.
        taken_producer_ids: number of producer ids allocated so far.
        topics: all topics, with their partitions and configurations.
        deleted: ids of deleted topics whose directories may still exist.
        client_quotas: by entity, the limits by quota key.
        group_configs: configurations that are set on groups, by group id.
        changed_features: finalized feature levels that UpdateFeatures has changed, by feature name.
        client_metrics: configurations of client metrics subscriptions, by subscription name.
        broker_configs: settings that AlterConfigs has set, by broker id as text, or "" for all brokers.
        acls: ACLs.
        scram: SCRAM credentials that clients have set, by user and mechanism; None for a deleted credential.
        tokens: delegation tokens.
        log_dirs: replica -> path of its log directory.
        future_log_dirs: replica -> path of the log directory to which it is being moved.
    """

    cluster_id: UUID
    brokers: Sequence[int]
    taken_producer_ids: int
    topics: Sequence[TopicEntry] = ()
    deleted: frozenset[UUID] = field(default_factory=frozenset)
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changed_features: Mapping[str, int] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)  # with passwords
    acls: Sequence[Acl] = ()
    scram: Mapping[tuple[str, str], ScramCredential | None] = field(default_factory=dict, repr=False)
    tokens: Sequence[DelegationToken] = field(default=(), repr=False)
    log_dirs: Mapping[Replica, str] = field(default_factory=dict)
    future_log_dirs: Mapping[Replica, str] = field(default_factory=dict)


class TopicTexts:
    """The JSON texts of the topics of a cluster, each with the state of the topic from which it was made."""

    def __init__(self) -> None:
        self._texts: dict[UUID, tuple[object, str]] = {}

    def of(self, topics: Iterable[Topic]) -> str:
        """Return the texts of the topics, separated by commas. Only topics that have changed are encoded again."""
        known, self._texts = self._texts, {}
        for topic in topics:
            state = (
                dict(topic.configs),
                [
                    (list(each.replicas), each.leader_epoch, each.reassignment, each.catching_up)
                    for each in topic.partitions
                ],
            )
            entry = known.get(topic.topic_id)
            if entry is None or entry[0] != state:
                entry = state, TEXT.encode(_topic_json(topic))
            self._texts[topic.topic_id] = entry
        return ",".join(text for _, text in self._texts.values())


def encode_catalogue(cluster: ClusterState, deleted: Sequence[UUID], texts: TopicTexts) -> bytes:
    """Return the content of the catalogue file for a cluster.

    Args:
        cluster: the cluster.
        deleted: ids of deleted topics whose directories may still exist.
        texts: the texts of the topics in the content before.
    """
    content = {
        "format": FORMAT,
        "cluster_id": str(cluster.cluster_id),
        "brokers": sorted(cluster.nodes.keys() | cluster.down.keys()),
        "taken_producer_ids": cluster.taken_producer_ids,
        "deleted": [str(topic_id) for topic_id in deleted],
        "client_quotas": [_quota_json(entity, limits) for entity, limits in cluster.client_quotas.items()],
        "group_configs": {group_id: dict(configs) for group_id, configs in cluster.group_configs.items()},
        "changed_features": dict(cluster.changed_features),
        "client_metrics": {name: dict(configs) for name, configs in cluster.client_metrics.items()},
        "broker_configs": {name: dict(configs) for name, configs in cluster.broker_configs.items()},
        "acls": [ACL_FIELDS(acl) for acl in cluster.acls],
        "scram": [[*key, *_credential_json(credential)] for key, credential in cluster.scram.items()],
        "tokens": [_token_json(token) for token in cluster.tokens],
        "log_dirs": _replicas_json(cluster.log_dirs),
        "future_log_dirs": _replicas_json(cluster.future_log_dirs),
    }
    others = TEXT.encode(content).removesuffix("}")
    return f'{others},"topics":[{texts.of(cluster.topics.values())}]}}\n'.encode()


def decode_catalogue(data: bytes) -> Catalogue:
    """Return the decoded content of a catalogue file.

    ``data``: the content.

    Raises: CatalogueError if the content is damaged or has an unsupported format.
    """
    try:
        content: dict[str, Any] = json.loads(data)
        version = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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
            dict(_quota_entry(entry) for entry in content.get("client_quotas", ())),
            {group_id: dict(configs) for group_id, configs in content.get("group_configs", {}).items()},
            {name: int(level) for name, level in content.get("changed_features", {}).items()},
            {name: dict(configs) for name, configs in content.get("client_metrics", {}).items()},
            {name: dict(configs) for name, configs in content.get("broker_configs", {}).items()},
            [Acl(*fields) for fields in content.get("acls", ())],  # older versions wrote no ACLs
            {
                (user, mechanism): _credential(*each) if each else None
                for user, mechanism, *each in content.get("scram", ())
            },
            [_token(*fields) for fields in content.get("tokens", ())],
            _replicas(content.get("log_dirs", ())),  # older versions wrote no log directories
            _replicas(content.get("future_log_dirs", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CatalogueError(f"{CATALOGUE} is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return invalid_json(error)
        case KeyError():
            return f"{error} is missing"
        case _:
            return f"wrong type or value: {error}"


def _topic_json(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [_partition_json(partition) for partition in topic.partitions],
    }


def _partition_json(partition: Partition) -> dict[str, object]:
    entry: dict[str, object] = {"replicas": list(partition.replicas), "leader_epoch": partition.leader_epoch}
    if (reassignment := partition.reassignment) is not None:
        entry |= {"adding": reassignment.adding, "removing": reassignment.removing}
    if partition.catching_up:
        entry["catching_up"] = sorted(partition.catching_up)
    return entry


def _partition_entry(entry: dict[str, Any]) -> PartitionEntry:
    reassignment = Reassignment(tuple(entry["adding"]), tuple(entry["removing"])) if "adding" in entry else None
    return PartitionEntry(
        entry["replicas"], entry["leader_epoch"], reassignment, frozenset(entry.get("catching_up", ()))
    )


def _credential_json(credential: ScramCredential | None) -> tuple[object, ...]:
    if credential is None:
        return ()
    salt, stored_key, server_key = (
        each.hex() for each in (credential.salt, credential.stored_key, credential.server_key)
    )
    return salt, credential.iterations, stored_key, server_key


def _credential(salt: str, iterations: int, stored_key: str, server_key: str) -> ScramCredential:
    return ScramCredential(bytes.fromhex(salt), iterations, bytes.fromhex(stored_key), bytes.fromhex(server_key))


def _token_json(token: DelegationToken) -> list[object]:
    times = token.issued_ms, token.expires_at_ms, token.max_ms
    return [token.token_id, token.hmac.hex(), token.owner, token.requester, token.renewers, *times]


def _token(
    token_id: str, hmac: str, owner: list[str], requester: list[str], renewers: list[list[str]], *times: int
) -> DelegationToken:
    principals = tuple(Principal(*each) for each in renewers)
    return DelegationToken(token_id, bytes.fromhex(hmac), Principal(*owner), Principal(*requester), principals, *times)


def _replicas_json(paths: Mapping[Replica, str]) -> list[list[object]]:
    return [[node, str(topic_id), partition, path] for (node, topic_id, partition), path in paths.items()]


def _replicas(entries: Iterable[tuple[int, str, int, str]]) -> dict[Replica, str]:
    return {Replica(node, UUID(topic_id), partition): path for node, topic_id, partition, path in entries}


def _topic_entry(topic: dict[str, Any]) -> TopicEntry:
    partitions = [_partition_entry(each) for each in topic["partitions"]]
    return TopicEntry(topic["name"], UUID(topic["topic_id"]), topic["configs"], partitions)


def _quota_json(entity: Entity, limits: Mapping[str, float]) -> dict[str, object]:
    """Return the quotas of an entity as a JSON object. The name of a default entity is null.

    A limit that JSON has no number for is text: nan or inf.

    Args:
        entity: The entity.
        limits: Quota key -> limit.
    """
    names = {kind: None if isinstance(name, Default) else name for kind, name in entity.names()}
    json_limits = {key: limit if isfinite(limit) else str(limit) for key, limit in limits.items()}
    return {"entity": names, "limits": json_limits}


def _quota_entry(entry: dict[str, Any]) -> tuple[Entity, dict[str, float]]:
    names = {kind: DEFAULT if name is None else name for kind, name in entry["entity"].items()}
    return of_names(names), {key: float(value) for key, value in entry["limits"].items()}

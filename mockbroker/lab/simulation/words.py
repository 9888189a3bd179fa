"""Short descriptions of requests and responses for the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kwire import APIS
from kwire.apikeys import ApiKey


def describe_request(api_key: int, request: Any) -> str:
    """Return a description such as ``Heartbeat g0 m3-12ab 4``."""
    words = REQUESTS.get(api_key)
    return f"{NAMES[api_key]} {words(request)}" if words else NAMES[api_key]


def describe_response(api_key: int, response: Any) -> str:
    words = ANSWERS.get(api_key)
    return f"{NAMES[api_key]} {words(response)}" if words else f"{NAMES[api_key]} {response.error_code}"


def _offsets(topics: Iterable[Any]) -> str:
    return ",".join(
        f"{topic.name}-{p.partition_index}={p.committed_offset}" for topic in topics for p in topic.partitions
    )


def _errors(response: Any) -> str:
    return ",".join(str(p.error_code) for topic in response.topics for p in topic.partitions)


def _shares(lines: Iterable[Any] | None) -> str:
    if lines is None:
        return "-"
    return "[" + " ".join(f"{str(line.topic_id)[-4:]}:{line.partitions}" for line in lines) + "]"


NAMES: Mapping[int, str] = {key: api.name for key, api in APIS.items()}
REQUESTS: Mapping[int, Callable[[Any], str]] = {
    ApiKey.OFFSET_COMMIT: lambda r: (
        f"{r.group_id} {r.member_id!r} {r.generation_id_or_member_epoch} {_offsets(r.topics)}"
    ),
    ApiKey.OFFSET_FETCH: lambda r: " ".join(f"{g.group_id} {g.member_epoch}" for g in r.groups),
    ApiKey.FIND_COORDINATOR: lambda r: f"{r.coordinator_keys}",
    ApiKey.JOIN_GROUP: lambda r: f"{r.group_id} {r.member_id!r} {r.group_instance_id or ''}",
    ApiKey.HEARTBEAT: lambda r: f"{r.group_id} {r.member_id!r} {r.generation_id}",
    ApiKey.LEAVE_GROUP: lambda r: f"{r.group_id} {[(m.member_id, m.group_instance_id) for m in r.members]}",
    ApiKey.SYNC_GROUP: lambda r: f"{r.group_id} {r.member_id!r} {r.generation_id} {len(r.assignments)} assignments",
    ApiKey.INIT_PRODUCER_ID: lambda r: f"{r.transactional_id}",
    ApiKey.ADD_OFFSETS_TO_TXN: lambda r: f"{r.transactional_id} {r.group_id} {r.producer_id}/{r.producer_epoch}",
    ApiKey.END_TXN: lambda r: (
        f"{r.transactional_id} {r.producer_id}/{r.producer_epoch} {'commit' if r.committed else 'abort'}"
    ),
    ApiKey.TXN_OFFSET_COMMIT: lambda r: f"{r.group_id} {r.producer_id}/{r.producer_epoch} {_offsets(r.topics)}",
    ApiKey.CREATE_PARTITIONS: lambda r: f"{[(topic.name, topic.count) for topic in r.topics]}",
    ApiKey.DELETE_GROUPS: lambda r: f"{r.groups_names}",
    ApiKey.OFFSET_DELETE: lambda r: (
        f"{r.group_id} {[(t.name, p.partition_index) for t in r.topics for p in t.partitions]}"
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda r: (
        f"{r.group_id} {r.member_id[-4:]} {r.member_epoch} {_shares(r.topic_partitions)}"
    ),
}
ANSWERS: Mapping[int, Callable[[Any], str]] = {
    ApiKey.OFFSET_COMMIT: _errors,
    ApiKey.OFFSET_FETCH: lambda r: ",".join(f"{g.error_code} {_offsets(g.topics)}" for g in r.groups),
    ApiKey.FIND_COORDINATOR: lambda r: f"{[c.node_id for c in r.coordinators]}",
    ApiKey.JOIN_GROUP: lambda r: (
        f"{r.error_code} {r.generation_id} {r.member_id!r} leader {r.leader!r} {len(r.members)} members"
    ),
    ApiKey.LEAVE_GROUP: lambda r: f"{r.error_code} {[m.error_code for m in r.members]}",
    ApiKey.SYNC_GROUP: lambda r: f"{r.error_code} {len(r.assignment)} bytes",
    ApiKey.DESCRIBE_GROUPS: lambda r: ",".join(f"{g.group_id} {g.group_state} {len(g.members)}" for g in r.groups),
    ApiKey.LIST_GROUPS: lambda r: ",".join(f"{g.group_id} {g.group_state}" for g in r.groups),
    ApiKey.INIT_PRODUCER_ID: lambda r: f"{r.error_code} {r.producer_id}/{r.producer_epoch}",
    ApiKey.TXN_OFFSET_COMMIT: _errors,
    ApiKey.CREATE_PARTITIONS: lambda r: f"{[result.error_code for result in r.results]}",
    ApiKey.DELETE_GROUPS: lambda r: f"{[result.error_code for result in r.results]}",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda r: (
        f"{r.error_code} {r.member_epoch} {_shares(r.assignment and r.assignment.topic_partitions)}"
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda r: ",".join(
        f"{g.group_id} {g.group_state} {len(g.members)}" for g in r.groups
    ),
}

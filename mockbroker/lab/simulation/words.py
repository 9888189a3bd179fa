"""Short descriptions of requests and responses, for the trace of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kwire import APIS, DecodeError
from kwire.apikeys import ApiKey
from kwire.records.batch import read_batch


def describe_request(api_key: int, request: Any) -> str:
    """Return a short description of a request, such as ``Heartbeat g0 m3-12ab 4``.

    Args:
        api_key: API key of the request.
        request: body of the request.
    """
    words = REQUESTS.get(api_key)
    return f"{NAMES[api_key]} {words(request)}" if words else NAMES[api_key]


def describe_response(api_key: int, response: Any) -> str:
    words = ANSWERS.get(api_key)
    return f"{NAMES[api_key]} {words(response)}" if words else f"{NAMES[api_key]} {getattr(response, 'error_code', '')}"


def _offsets(topics: Iterable[Any]) -> str:
    return ",".join(
        f"{topic.name}-{p.partition_index}={p.committed_offset}" for topic in topics for p in topic.partitions
    )


def _batch(records: bytes | None) -> str:
    """Return the producer, the sequence number and the record count of the first batch of a Produce request.

    The text is ``id/epoch:sequence+count``, "empty", or "invalid" for bytes that are not a batch.
    """
    if not records:
        return "empty"
    try:
        batch = read_batch(records)
    except DecodeError:
        return "invalid"
    return f"{batch.producer_id}/{batch.producer_epoch}:{batch.base_sequence}+{batch.count}"


def _read(response: Any) -> str:
    return ",".join(
        f"{topic.topic}-{p.partition_index}={p.error_code}:{p.high_watermark}/{p.last_stable_offset}"
        f" {len(p.records or b'')} bytes"
        for topic in response.responses
        for p in topic.partitions
    )


def _listed(topics: Any) -> str:
    return ",".join(
        f"{topic.name}-{p.partition_index}={p.error_code}:{p.offset}" for topic in topics for p in topic.partitions
    )


def _errors(response: Any) -> str:
    return ",".join(str(p.error_code) for topic in response.topics for p in topic.partitions)


def _tasks(lines: Any) -> str:
    return "-" if lines is None else " ".join(f"{line.subtopology_id}:{line.partitions}" for line in lines)


def _acknowledged(request: Any) -> str:
    return " ".join(
        f"{str(t.topic_id)[-4:]}-{p.partition_index}:{b.first_offset}-{b.last_offset}={b.acknowledge_types}"
        for t in request.topics
        for p in t.partitions
        for b in p.acknowledgement_batches
    )


def _acquired(response: Any) -> str:
    return " ".join(
        f"{str(t.topic_id)[-4:]}-{p.partition_index}:{a.first_offset}-{a.last_offset}x{a.delivery_count}"
        for t in response.responses
        for p in t.partitions
        for a in p.acquired_records
    )


def _shares(lines: Iterable[Any] | None) -> str:
    if lines is None:
        return "-"
    return "[" + " ".join(f"{str(line.topic_id)[-4:]}:{line.partitions}" for line in lines) + "]"


NAMES: Mapping[int, str] = {key: api.name for key, api in APIS.items()}


def _truncated(topics: Any, field: str) -> str:
    """Return the partitions of a DeleteRecords request or response as text, each with the value of a field:
    ``t0-1=42``.

    Args:
        topics: topics of the request or response.
        field: name of a field of the partition.
    """
    return ",".join(f"{t.name}-{p.partition_index}={getattr(p, field)}" for t in topics for p in t.partitions)


def _settings(request: Any) -> str:
    return ",".join(f"{r.resource_name} {c.name}={c.value}" for r in request.resources for c in r.configs)


REQUESTS: Mapping[int, Callable[[Any], str]] = {
    ApiKey.PRODUCE: lambda r: (
        f"{r.transactional_id or ''} acks={r.acks} "
        + ",".join(f"{t.name}-{p.index} {_batch(p.records)}" for t in r.topic_data for p in t.partition_data)
    ),
    ApiKey.FETCH: lambda r: (
        f"{r.session_id} {r.session_epoch} "
        + ",".join(f"{t.topic}-{p.partition}@{p.fetch_offset}" for t in r.topics for p in t.partitions)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda r: (
        f"{r.v3_and_below_transactional_id} {r.v3_and_below_producer_id}/{r.v3_and_below_producer_epoch}"
        f" {[(t.name, t.partitions) for t in r.v3_and_below_topics]}"
    ),
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
    ApiKey.SHARE_FETCH: lambda r: f"{r.group_id} {r.member_id[-4:]} {r.share_session_epoch} {_acknowledged(r)}",
    ApiKey.SHARE_ACKNOWLEDGE: lambda r: f"{r.group_id} {r.member_id[-4:]} {r.share_session_epoch} {_acknowledged(r)}",
    ApiKey.CREATE_TOPICS: lambda r: f"{[(topic.name, topic.num_partitions) for topic in r.topics]}",
    ApiKey.DELETE_TOPICS: lambda r: f"{[topic.name for topic in r.topics]}",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _settings,
    ApiKey.ALTER_CLIENT_QUOTAS: lambda r: (
        f"{[(e.entity[0].entity_name, op.key, op.value, op.remove) for e in r.entries for op in e.ops]}"
    ),
    ApiKey.DELETE_RECORDS: lambda r: _truncated(r.topics, "offset"),
    ApiKey.CREATE_PARTITIONS: lambda r: f"{[(topic.name, topic.count) for topic in r.topics]}",
    ApiKey.DELETE_GROUPS: lambda r: f"{r.groups_names}",
    ApiKey.OFFSET_DELETE: lambda r: (
        f"{r.group_id} {[(t.name, p.partition_index) for t in r.topics for p in t.partitions]}"
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda r: (
        f"{r.group_id} {r.member_id[-4:]} {r.member_epoch} {_shares(r.topic_partitions)}"
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda r: (
        f"{r.group_id} {r.member_id[-4:]} {r.member_epoch} {_tasks(r.active_tasks)} {_tasks(r.standby_tasks)}"
    ),
}
ANSWERS: Mapping[int, Callable[[Any], str]] = {
    ApiKey.FETCH: lambda r: f"{r.error_code} {r.session_id} {_read(r)}",
    ApiKey.LIST_OFFSETS: lambda r: _listed(r.topics),
    ApiKey.METADATA: lambda r: f"{[(t.name, len(t.partitions)) for t in r.topics]}",
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda r: ",".join(
        str(p.partition_error_code) for t in r.results_by_topic_v3_and_below for p in t.results_by_partition
    ),
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
    ApiKey.PRODUCE: lambda r: ",".join(str(p.error_code) for t in r.responses for p in t.partition_responses),
    ApiKey.SHARE_FETCH: lambda r: f"{r.error_code} {_acquired(r)}",
    ApiKey.CREATE_TOPICS: lambda r: f"{[topic.error_code for topic in r.topics]}",
    ApiKey.DELETE_TOPICS: lambda r: f"{[topic.error_code for topic in r.responses]}",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda r: f"{[result.error_code for result in r.responses]}",
    ApiKey.ALTER_CLIENT_QUOTAS: lambda r: f"{[entry.error_code for entry in r.entries]}",
    ApiKey.DESCRIBE_CONFIGS: lambda r: f"{[config.value for result in r.results for config in result.configs]}",
    ApiKey.CREATE_ACLS: lambda r: f"{[result.error_code for result in r.results]}",
    ApiKey.DELETE_ACLS: lambda r: f"{[len(result.matching_acls) for result in r.filter_results]}",
    ApiKey.DELETE_RECORDS: lambda r: _truncated(r.topics, "low_watermark"),
    ApiKey.CREATE_PARTITIONS: lambda r: f"{[result.error_code for result in r.results]}",
    ApiKey.DELETE_GROUPS: lambda r: f"{[result.error_code for result in r.results]}",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda r: (
        f"{r.error_code} {r.member_epoch} {_shares(r.assignment and r.assignment.topic_partitions)}"
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda r: (
        f"{r.error_code} {r.member_epoch} {_tasks(r.active_tasks)} {_tasks(r.standby_tasks)}"
        f" {[status.status_code for status in r.status or ()]}"
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda r: ",".join(
        f"{g.group_id} {g.group_state} {len(g.members)}" for g in r.groups
    ),
}

"""The comparison of live with recorded requests: which fields must be equal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from kwire.apikeys import ApiKey
from kwire.errors import WireError
from kwire.layout import Blob, List, Maybe, Node, Record, resolve
from kwire.records import read
from mockbroker.replay.variables import CLIENT_MADE, IRRELEVANT

SECRETS = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})  # missing in recordings
# Further fields that may differ, by API, if no request has the same values in them.
LOOSE: Mapping[int, frozenset[str]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: frozenset({"topic_partitions"}),
    ApiKey.JOIN_GROUP: frozenset({"metadata"}),
    ApiKey.LIST_OFFSETS: frozenset({"current_leader_epoch"}),
    ApiKey.METADATA: frozenset({"allow_auto_topic_creation"}),
    ApiKey.OFFSET_COMMIT: frozenset({"committed_offset", "committed_leader_epoch", "committed_metadata"}),
    ApiKey.SYNC_GROUP: frozenset({"assignment"}),
    ApiKey.TXN_OFFSET_COMMIT: frozenset({"committed_offset", "committed_leader_epoch", "committed_metadata"}),
}
# APIs whose last response is repeated if clients send more requests than in the recording.
REPEATED = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.HEARTBEAT,
        ApiKey.JOIN_GROUP,  # of a member that joins again, because its metadata arrived later than in the recording
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.SYNC_GROUP,
    }
)


def is_repeated(request: Any) -> bool:
    """Return whether a request may get the last recorded response again, after all recorded responses were used.

    The result is True for the APIs in REPEATED, except for a JoinGroup without member id, because each new member gets
    its own id.

    ``request``: the decoded request.
    """
    api_key = request.__kafka__.api.key
    return api_key in REPEATED and not (api_key == ApiKey.JOIN_GROUP and not request.member_id)


PLACE = "?"  # of an id that the client has made up


def key_of(request: Any, version: int, *, loose: bool = False) -> Hashable:
    """Return a key for the comparison of requests. If two requests have equal keys, they may get the same response.

    The key does not contain generated ids, such as member ids; the caller compares these separately.

    Args:
        request: the decoded request.
        version: API version of the request.
        loose: True to also ignore the fields in LOOSE.
    """
    record = resolve(type(request), version)
    api_key = request.__kafka__.api.key
    ignored = IRRELEVANT | SECRETS | (LOOSE.get(api_key, frozenset()) if loose else frozenset())
    return api_key, version, _struct(request, record, ignored)


def _struct(value: Any, record: Record, ignored: frozenset[str]) -> Hashable:
    return tuple(
        PLACE
        if slot.name in CLIENT_MADE and getattr(value, slot.name)
        else value_key(getattr(value, slot.name), slot.node, ignored)
        for slot in (*record.slots, *record.tagged)
        if slot.name not in ignored
    )


def value_key(value: Any, node: Node, ignored: frozenset[str]) -> Hashable:
    """Return a key for the comparison of two values of a field. The order of array elements does not matter.

    Args:
        value: value of a field, or of an array element.
        node: layout of the value.
        ignored: names of fields that may differ.
    """
    if value is None:
        return None
    match node:
        case Blob(records=True):
            return contents(value)
        case List(element):
            values = [value_key(each, element, ignored) for each in value]
            return tuple(sorted(values, key=repr))
        case (Record() as record) | Maybe(record):
            return _struct(value, record, ignored)
        case _:
            kept: Hashable = value
            return kept


def contents(data: bytes | None) -> Hashable:
    """Return keys, values and headers of records (``data``). If the records cannot be decoded, return ``data``."""
    try:
        return tuple(
            (record.key, record.value, tuple(record.headers)) for batch in read(data) for record in batch.records()
        )
    except WireError:
        return data

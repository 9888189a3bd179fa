"""The counts of API versions, latencies and errors. The calls can be counted in any order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache, lru_cache
from typing import Any

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import Row
from kwire.analysis.events import error_name, host_of
from kwire.analysis.topics import topic_key
from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call, Connection
from kwire.engines.chosen import DEFAULT
from kwire.engines.native import package
from kwire.lazy_dataclass import dataclass
from kwire.messages import NAMES
from kwire.schema import Field, schema_of

BUCKET = 60_000_000  # microseconds per row of ``latency``

# The first version that Kafka 4.2 serves, for APIs with older versions in 3.9 (KIP-896), from its ApiVersions response;
# except Produce, where it advertises 0 to 2 for old librdkafka, but rejects them.
FIRST_IN_4: Mapping[int, int] = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
# Requests from ZooKeeper's controllers to brokers.
NOT_IN_4 = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}


def removed_in_4(api_key: int, version: int) -> bool:
    """Return whether earlier releases of Kafka serve this version of an API, and Kafka 4.2 no longer does."""
    return api_key in NOT_IN_4 or version < FIRST_IN_4.get(api_key, 0)


@lru_cache(256)
def api_name(api_key: int | None) -> str | None:
    """Return Kafka's name of an API; the API key as text if the API is unknown; None for None."""
    if api_key is None:
        return None
    return NAMES.get(api_key, str(api_key))


# --- error codes anywhere in a response -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """A non-zero error code in a response.

    Attributes:
        code: error code.
        group: id of the group in the request or the response; None if neither contains a group id.
        topic: topic name, or the text ``id:`` followed by the topic id if the name is unknown; None if the error
            concerns no topic.
        partition: partition number; None if the error concerns no partition.
    """

    code: int
    group: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class _ErrorFields:
    """The names of the fields in which a response, or a struct in it, can contain error codes.

    Attributes:
        codes: names of the fields that are error codes.
        inside: names of the fields with structs that can contain error codes.
        names: names of the fields with the group, topic or partition of an error.
    """

    codes: tuple[str, ...]
    inside: tuple[str, ...]
    names: tuple[str, ...]


_TOPICS = ("name", "topic_name", "topic", "topic_id")
_INDEXES = ("partition_index", "partition", "index")
_GROUPS = ("group_id", "key")


@cache
def _error_fields(cls: type) -> _ErrorFields:
    fields = schema_of(cls).fields
    codes = tuple(name for name in fields if name.endswith("error_code"))
    inside = tuple(
        name for name, field in fields.items() if (inner := _struct(field)) and _has_codes(inner, frozenset([cls]))
    )
    return _ErrorFields(codes, inside, tuple(name for name in (*_TOPICS, *_INDEXES, *_GROUPS) if name in fields))


def _struct(field: Field) -> type | None:
    return field.struct or (field.of.struct if field.of is not None else None)


def _has_codes(cls: type, above: frozenset[type]) -> bool:
    fields = schema_of(cls).fields
    return any(
        name.endswith("error_code")
        or ((inner := _struct(field)) is not None and inner not in above and _has_codes(inner, above | {cls}))
        for name, field in fields.items()
    )


def refusals(call: Call) -> list[Refusal]:
    """Return all non-zero error codes in a call's response."""
    response = call.response
    if response is None or not is_refused(response):
        return []
    return list(_walk(call.response, Refusal(0, getattr(call.request, "group_id", None))))


def plain_is_refused(value: Any) -> bool:
    """Return whether a response, or a struct in it, contains a non-zero error code."""
    places = _error_fields(value.__class__)
    for name in places.codes:
        if getattr(value, name):
            return True
    for name in places.inside:
        inner = getattr(value, name)
        for one in inner if isinstance(inner, list) else () if inner is None else (inner,):
            if plain_is_refused(one):
                return True
    return False


def native_is_refused() -> Callable[[Any], bool]:
    """Return a function of the package kwire-native that does the same as ``plain_is_refused`` in less time."""

    def fields_of(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
        places = _error_fields(cls)
        return places.codes, places.inside

    made: Callable[[Any], bool] = package().ErrorCodes(fields_of, plain_is_refused)
    return made


is_refused = native_is_refused() if DEFAULT == "native" else plain_is_refused


def _walk(value: Any, about: Refusal) -> Iterator[Refusal]:
    cls: Any = type(value)
    places = _error_fields(cls)
    if not places.codes and not places.inside:
        return
    codes = [code for name in places.codes if (code := getattr(value, name))]
    if codes or places.inside:
        about = _about(value, places.names, about)
    for code in codes:
        yield Refusal(code, about.group, about.topic, about.partition)
    for name in places.inside:
        inner = getattr(value, name)
        for one in inner if isinstance(inner, list) else [] if inner is None else [inner]:
            yield from _walk(one, about)


def _about(value: Any, names: tuple[str, ...], about: Refusal) -> Refusal:
    group, topic, partition = about.group, about.topic, about.partition
    for name in names:
        content = getattr(value, name)
        if name in _INDEXES and isinstance(content, int):
            partition = content
        elif name in _GROUPS and isinstance(content, str):
            group = content
        elif name == "topic_id":
            topic = topic or (topic_key(None, content) if content.int else None)
        elif name in _TOPICS and isinstance(content, str) and content:
            topic = content
    return Refusal(0, group, topic, partition)


# --- counts --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Count:
    """The number of calls of one kind, with the times of the first and the last of these calls.

    Times are microseconds since 1970.
    """

    count: int = 0
    first_ts: int = 2**62
    last_ts: int = 0

    def add(self, ts: int) -> None:
        self.count += 1
        if ts < self.first_ts:
            self.first_ts = ts
        if ts > self.last_ts:
            self.last_ts = ts

    def merge(self, other: _Count) -> None:
        self.count += other.count
        self.first_ts = min(self.first_ts, other.first_ts)
        self.last_ts = max(self.last_ts, other.last_ts)

    def row(self) -> dict[str, int]:
        return {"count": self.count, "first_ts": self.first_ts, "last_ts": self.last_ts}


@dataclass(slots=True)
class _Client:
    """The counts of a client with one client id, host and software version.

    Attributes:
        connections: ids of its connections.
        calls: number and times of its calls.
        removed: number of its requests in versions that Kafka 4 does not serve.
    """

    connections: set[str] = field(default_factory=set)
    calls: _Count = field(default_factory=_Count)
    removed: int = 0


_OfClient = tuple[str | None, str, str | None, str | None]  # client id, host, software name and version
_OfApi = tuple[int, int, str | None, str | None, str | None]  # API key, version, client id, software name and version


class Usage:
    """The counts of calls by client, API version, latency and error.

    Args:
        connections: connections by id, from which ``rows`` takes the name and version of the client software. The
            software of a client on any other connection is unknown. The caller may add connections until it calls
            ``rows``.
    """

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections
        self._errors: dict[tuple[Any, ...], _Count] = defaultdict(_Count)
        # By API key, version, client id, address of the client, and connection id:
        self._calls: dict[tuple[int, int, str | None, str, str], _Count] = defaultdict(_Count)
        self._latency: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)

    def add(self, call: Call, refusals: Iterable[Refusal]) -> None:
        """Count a call. A call whose request was not captured is ignored. ``refusals``: errors in the response."""
        key, sent, answered = call.api_key, call.request_us, call.response_us
        if key is None or sent is None:
            return
        version = call.api_version or 0
        self._calls[key, version, call.client_id, call.client, call.connection].add(sent)
        if answered is None:
            return
        self._latency[sent - sent % BUCKET, key, version, call.broker].append(answered - sent)
        for one in refusals:
            about = key, one.code, call.client_id, one.group, one.topic, one.partition
            self._errors[call.connection, call.broker, *about].add(answered)

    def merge(self, other: Usage) -> None:
        """Add the counts of ``other`` to this object."""
        for about, count in other._errors.items():
            self._errors[about].merge(count)
        for of, count in other._calls.items():
            self._calls[of].merge(count)
        for about, waits in other._latency.items():
            self._latency[about] += waits

    def rows(self, capture_id: str, names: Mapping[str, str], clusters: Clusters | None = None) -> dict[str, list[Row]]:
        """Return the rows of ``clients``, ``api_usage``, ``latency`` and ``errors``, by table name.

        Args:
            capture_id: id of the capture, for the column ``capture_id``.
            names: topic names, which replace topic ids in ``errors``; a key is the text ``id:`` followed by the topic
                id.
            clusters: clusters of the brokers; None if unknown.
        """
        clients, apis = self._by_software()
        return {
            "clients": tables.CLIENTS.sorted(_client_rows(capture_id, clients)),
            "api_usage": tables.API_USAGE.sorted(_api_rows(capture_id, apis)),
            "latency": tables.LATENCY.sorted(self._latency_rows(capture_id)),
            "errors": tables.ERRORS.sorted(errors(self.refused(capture_id), names, clusters or Clusters())),
        }

    def _by_software(self) -> tuple[dict[_OfClient, _Client], dict[_OfApi, _Count]]:
        """Return the counts of each client, and of each API version that a client with one software uses."""
        clients: dict[_OfClient, _Client] = defaultdict(_Client)
        apis: dict[_OfApi, _Count] = defaultdict(_Count)
        for (key, version, client_id, address, conn_id), count in self._calls.items():
            connection = self._connections.get(conn_id)
            software = (connection.software_name, connection.software_version) if connection else (None, None)
            client = clients[client_id, host_of(address), *software]
            client.connections.add(conn_id)
            client.calls.merge(count)
            client.removed += count.count if removed_in_4(key, version) else 0
            apis[key, version, client_id, *software].merge(count)
        return clients, apis

    def drain_waits(self) -> Iterator[tuple[int, int, int, str, list[int]]]:
        """Return and remove the latencies of all calls since the previous ``drain_waits``.

        Each element is (start of the minute, API key, API version, broker, latencies). The start is in microseconds
        since 1970; the latencies are in microseconds.
        """
        latencies, self._latency = self._latency, defaultdict(list)
        return ((*about, waits) for about, waits in latencies.items())

    def refused(self, capture_id: str) -> Iterator[Row]:
        """Yield the rows of ``errors``, counted for each connection separately.

        The rows have the additional columns ``conn_id`` and ``broker``, and no cluster.
        """
        for (connection, broker, key, code, client, group, topic, partition), count in self._errors.items():
            row = tables.ERRORS.row(
                capture_id=capture_id,
                api_name=api_name(key),
                error_code=code,
                error_name=error_name(code),
                client_id=client,
                group_id=group,
                topic=topic,
                partition=partition,
                **count.row(),
            )
            yield row | {"conn_id": connection, "broker": broker}

    def _latency_rows(self, capture_id: str) -> Iterator[Row]:
        for (bucket, key, version, broker), waits in self._latency.items():
            yield latency_row(capture_id, bucket, key, version, broker, waits)


def _client_rows(capture_id: str, clients: Mapping[_OfClient, _Client]) -> Iterator[Row]:
    for (client_id, host, name, version), client in clients.items():
        yield tables.CLIENTS.row(
            capture_id=capture_id,
            client_id=client_id,
            host=host,
            software_name=name,
            software_version=version,
            connections=len(client.connections),
            calls=client.calls.count,
            calls_removed_in_4=client.removed,
            first_ts=client.calls.first_ts,
            last_ts=client.calls.last_ts,
        )


def _api_rows(capture_id: str, apis: Mapping[_OfApi, _Count]) -> Iterator[Row]:
    for (key, version, client_id, name, software_version), count in apis.items():
        yield tables.API_USAGE.row(
            capture_id=capture_id,
            api_key=key,
            api_name=api_name(key),
            api_version=version,
            client_id=client_id,
            software_name=name,
            software_version=software_version,
            removed_in_4=removed_in_4(key, version),
            **count.row(),
        )


def errors(refused: Iterable[Row], names: Mapping[str, str], clusters: Clusters) -> Iterable[Row]:
    """Return the rows of the table ``errors`` for the whole capture.

    Rows that differ only in connection, broker, count and times are merged into one row with the sum of their counts,
    unless the brokers belong to different clusters. Topic ids are replaced by topic names, if they are known. The
    column ``cluster`` is set.

    Args:
        refused: rows from ``Usage.refused``; the function modifies them.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: clusters of the brokers.
    """
    totals: dict[tuple[Any, ...], Row] = {}
    for row in refused:
        row["cluster"] = clusters.of(row.pop("conn_id"), row.pop("broker"), row["first_ts"])
        row["topic"] = names.get(row["topic"], row["topic"])
        about = tuple(value for name, value in row.items() if name not in ("count", "first_ts", "last_ts"))
        other = totals.setdefault(about, row)
        if other is not row:
            other["count"] += row["count"]
            other["first_ts"] = min(other["first_ts"], row["first_ts"])
            other["last_ts"] = max(other["last_ts"], row["last_ts"])
    return totals.values()


def latency_row(capture_id: str, bucket: int, key: int, version: int, broker: str, waits: Iterable[int]) -> Row:
    """Return a row of ``latency``.

    Args:
        capture_id: id of the capture.
        bucket: start of the minute, in microseconds since 1970.
        key: API key.
        version: API version.
        broker: ``host:port`` of the broker.
        waits: latencies in microseconds, at least one. Negative latencies count as 0.
    """
    ordered = sorted(waits)
    if ordered[0] < 0:
        ordered = [max(wait, 0) for wait in ordered]
    histogram: Counter[int] = Counter()
    for length, count in Counter(map(int.bit_length, ordered)).items():
        histogram[max(length - 1, 0)] += count
    return tables.LATENCY.row(
        capture_id=capture_id,
        bucket_ts=bucket,
        api_key=key,
        api_name=api_name(key),
        api_version=version,
        broker=broker,
        n=len(ordered),
        p50_ms=percentile(ordered, 50) / 1000,
        p90_ms=percentile(ordered, 90) / 1000,
        p99_ms=percentile(ordered, 99) / 1000,
        max_ms=ordered[-1] / 1000,
        histogram=dict(sorted(histogram.items())),
    )


def percentile(ordered: list[int], percent: int) -> int:
    """Return the nearest-rank percentile of values.

    This is the smallest value for which at least ``percent`` % of all values are less than or equal to it.

    Args:
        ordered: values in ascending order, at least one.
        percent: percentage from 1 to 100.
    """
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]

"""The history of the clients of the scheme ``upkeep``, with virtual times.

The history contains the clients' writes, reads, and uses of quotas and ids, but no internal state of the broker. The
checkers of retention, compaction, expiry and quotas in ``checkers`` use this history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import inf

from kwire.lazy_dataclass import dataclass

Place = tuple[str, int]  # topic name and partition
NO_LIMIT = -1
FOREVER = 2**63 - 1
NO_QUOTA = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """The cleanup policy of a topic: its configurations, with Kafka's defaults. Durations are in milliseconds.

    Attributes:
        compact: True if the log is compacted, False if retention deletes segments.
        retention_ms: maximum age of a segment; NO_LIMIT for none.
        retention_bytes: size in bytes below which retention does not shrink a log; NO_LIMIT for none.
        segment_ms: maximum age of the active segment when a batch is appended.
        min_lag_ms: minimum age of compacted records.
        max_lag_ms: age at which records in closed segments must be compacted.
        delete_retention_ms: time for which tombstones remain.
    """

    compact: bool
    retention_ms: int
    retention_bytes: int
    segment_ms: int
    min_lag_ms: int
    max_lag_ms: int
    delete_retention_ms: int

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Policy:
        """Return the policy for the configurations of a topic.

        ``configs``: name of the configuration -> value; a missing one has Kafka's default.
        """
        max_lag_ms = int(configs.get("max.compaction.lag.ms", FOREVER))
        return cls(
            compact=configs.get("cleanup.policy") == "compact",
            retention_ms=int(configs.get("retention.ms", 604_800_000)),
            retention_bytes=int(configs.get("retention.bytes", NO_LIMIT)),
            segment_ms=min(int(configs.get("segment.ms", 604_800_000)), max_lag_ms),
            min_lag_ms=int(configs.get("min.compaction.lag.ms", 0)),
            max_lag_ms=max_lag_ms,
            delete_retention_ms=int(configs.get("delete.retention.ms", 86_400_000)),
        )


@dataclass(slots=True, eq=False)
class KeyedBatch:
    """A record batch that a client has sent once.

    Attributes:
        place: partition.
        records: key and value of each record; the value is None for a tombstone.
        timestamp: timestamp of all records, milliseconds since 1970.
        size: size in bytes.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the successful response, seconds; inf without a successful response.
        offset: base offset in the response; -1 without a successful response.
    """

    place: Place
    records: Sequence[tuple[bytes, bytes | None]]
    timestamp: int
    size: int
    sent_at: float
    done_at: float = inf
    offset: int = -1

    @property
    def last_offset(self) -> int:
        """The offset of the last record. The batch must have been acknowledged."""
        return self.offset + len(self.records) - 1


@dataclass(slots=True, eq=False)
class LogStart:
    """The start of a log, as ListOffsets returned it.

    Attributes:
        place: partition.
        offset: the log start offset.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds.
        final: whether the log start was requested at the end of the run, after the last fault.
    """

    place: Place
    offset: int
    sent_at: float
    done_at: float
    final: bool = False


@dataclass(slots=True, eq=False)
class Scan:
    """All records of a partition, as one client has read them from start to end.

    Attributes:
        place: partition.
        start: the log start offset when the scan began.
        end: the log end offset when the scan began.
        sent_at: virtual time of the first request, seconds.
        done_at: virtual time of the last response, seconds.
        records: offset, key and value of each record.
        final: whether the client read the partition at the end of the run, after the last fault.
    """

    place: Place
    start: int
    end: int
    sent_at: float
    done_at: float
    records: Sequence[tuple[int, bytes, bytes | None]]
    final: bool = False


@dataclass(slots=True, eq=False)
class Renewal:
    """A successful request that restarts an expiration time, or shows whether an offset or id has expired.

    Attributes:
        kind: kind of offset or id, a key of ``Upkeep.expirations``.
        name: name of the offset or id, such as a group with a partition.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds.
        expired: whether the response shows that the offset or id had expired.
    """

    kind: str
    name: str
    sent_at: float
    done_at: float
    expired: bool = False


@dataclass(slots=True, eq=False)
class QuotaChange:
    """An AlterClientQuotas request.

    Attributes:
        client: client id whose quota is changed.
        quota: name of the quota, such as ``producer_byte_rate``.
        value: the new limit; NO_QUOTA to remove the quota.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the successful response, seconds; inf without a successful response.
    """

    client: str
    quota: str
    value: float
    sent_at: float
    done_at: float = inf


@dataclass(slots=True, eq=False)
class QuotaUse:
    """A request that counts for a quota, with data from its response.

    Attributes:
        client: client id.
        connection: number of the connection.
        quota: name of the quota.
        amount: used bytes or partition mutations; at most the amount that the broker counts. 0 for a request that the
            broker does not count, because it failed.
        throttle_ms: throttle time in the response, milliseconds.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds.
    """

    client: str
    connection: int
    quota: str
    amount: int
    throttle_ms: int
    sent_at: float
    done_at: float


@dataclass(slots=True)
class Upkeep:
    """The history of retention, compaction, expiry and quotas.

    Attributes:
        policies: topic -> cleanup policy; only topics that the clients of ``upkeep`` write to.
        expirations: kind of offset or id (``committed offset``, ``transactional id``, ``producer id``) -> time in
            seconds for which it must not expire.
        window: length in seconds of a window of the client quotas, and number of windows.
        burst: partition mutations that a client may use at once, in seconds of its quota.
        compaction_interval: seconds between two checks of a compacted log.
        retention_interval: seconds between two checks of a log for old segments.
        batches: sent batches, in order.
        starts: results of ListOffsets.
        scans: completed scans.
        renewals: requests that use offsets or ids that may expire, in order.
        quota_changes: changes of quotas, in order.
        quota_uses: requests that use quotas, in the order of the responses.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict)
    expirations: Mapping[str, float] = field(default_factory=dict)
    window: tuple[float, int] = (1.0, 11)
    burst: float = 11.0
    compaction_interval: float = 15.0
    retention_interval: float = 300.0
    batches: list[KeyedBatch] = field(default_factory=list)
    starts: list[LogStart] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    quota_changes: list[QuotaChange] = field(default_factory=list)
    quota_uses: list[QuotaUse] = field(default_factory=list)

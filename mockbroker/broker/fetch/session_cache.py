"""Fetch sessions (KIP-227): requests and responses contain only the partitions that have changed.

The cache of a broker has eight shards, each with a part of the slots. Source: Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from math import inf
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call
from mockbroker.topics.model import ClusterState, Partition

if TYPE_CHECKING:
    from kwire.messages.fetch import FetchRequest

INITIAL, FINAL = 0, -1  # session epochs of full requests: may create a session; closes the session
BY_ID_SINCE = 13  # first version with topic ids instead of names
SHARDS = 8
SHARD_IDS = (2**31 - 1) // SHARDS  # number of session ids of a shard
EVICTION_AFTER = 120.0  # seconds without use until a session may be evicted
LAST_EPOCH = 2**31 - 1
NO_ID = UUID(int=0)
UNKNOWN = -1  # an offset that was not sent to the client
NONE = ErrorCode.NONE

Key: TypeAlias = tuple[str, UUID, int]  # topic name ("" with topic ids), topic id (NO_ID with names), partition index


@dataclass(slots=True)
class FetchPartition:
    """A partition of a Fetch request or of a fetch session.

    Attributes:
        topic: Topic name; "" while a topic id is not resolved.
        topic_id: Topic id; NO_ID if the request has topic names.
        request: The latest entry for the partition in a request.
        high_watermark: High watermark in the last response; UNKNOWN before the first response.
        log_start: Log start offset in the last response; UNKNOWN before the first response.
        partition: The partition of the cluster, as of ``cluster_epoch``; None if it does not exist.
        error: The error if the partition does not exist, else NONE.
        cluster_epoch: Epoch of the cluster metadata in which the partition was resolved.
    """

    topic: str
    topic_id: UUID
    request: FetchRequest.Topic.Partition
    high_watermark: int = UNKNOWN
    log_start: int = UNKNOWN
    partition: Partition | None = None
    error: ErrorCode = NONE
    cluster_epoch: int = -1

    @property
    def by_id(self) -> bool:
        return self.topic_id is not NO_ID and self.topic_id != NO_ID

    def resolve(self, cluster: ClusterState) -> None:
        """Find the partition in the cluster metadata, and set ``partition``, ``error`` and ``cluster_epoch``.

        If the topic exists, set ``topic`` to its name.
        """
        by_id = self.by_id
        topic = cluster.by_id.get(self.topic_id) if by_id else cluster.topics.get(self.topic)
        self.partition = topic.partition(self.request.partition) if topic else None
        self.error = NONE if self.partition else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and by_id:
            if not self.topic:
                self.error = ErrorCode.UNKNOWN_TOPIC_ID
            elif self.topic in cluster.topics:  # a new topic with the same name
                self.error = ErrorCode.INCONSISTENT_TOPIC_ID
        elif topic is not None:
            self.topic = topic.name
        self.cluster_epoch = cluster.epoch

    def update_response_data(self, high_watermark: int, log_start: int, *, failed: bool) -> bool:
        """Record the offsets of the response to the client, and return whether they differ from the last response.

        Args:
            high_watermark: High watermark in the response.
            log_start: Log start offset in the response.
            failed: True if the response is an error. The result is then True for this response and for the next
                response.
        """
        changed = failed or (high_watermark, log_start) != (self.high_watermark, self.log_start)
        self.high_watermark = UNKNOWN if failed else high_watermark
        self.log_start = log_start
        return changed


@dataclass(slots=True)
class FetchSession:
    """A fetch session of a client.

    Attributes:
        session_id: Id of the session.
        by_id: Whether the session was created by a request with topic ids.
        partitions: Partitions of the session; the partitions that returned records last are at the end.
        created: Broker time of the creation, in seconds.
        epoch: Session epoch that the next request must contain.
        last_used: Broker time of the last use, in seconds.
        size: Number of partitions at the last use.
        evictable: Whether the session is old enough that a new session with more partitions may replace it.
    """

    session_id: int
    by_id: bool
    partitions: dict[Key, FetchPartition]
    created: float
    epoch: int = INITIAL + 1
    last_used: float = 0.0
    size: int = 0
    evictable: bool = False

    def move_to_end(self, keys: Iterable[Key]) -> None:
        """Move partitions to the end of the session, so that the next request reads them last and no partition starves.

        ``keys``: keys of the partitions.
        """
        for key in keys:
            if (partition := self.partitions.pop(key, None)) is not None:
                self.partitions[key] = partition


@dataclass(slots=True)
class FetchContext:
    """The partitions and the session of one Fetch request.

    Attributes:
        partitions: The partitions to read.
        received_at: Broker time at which the request arrived, in seconds.
        by_id: Whether the request has topic ids.
        session: Session of the request; None for a full request (a request that lists all partitions), or if the
            request has removed all partitions of its session.
        creates_session: Whether the response creates a session.
        epoch: Session epoch after this request.
        not_read: Partitions that did not exist, or were denied to the client, at the first read. The fetch does not
            wait for these partitions. None before the first read.
        expires_at: End of the maximum wait in client time, in seconds.
    """

    partitions: dict[Key, FetchPartition]
    received_at: float
    by_id: bool
    session: FetchSession | None = None
    creates_session: bool = False
    epoch: int = FINAL
    not_read: set[Key] | None = None
    expires_at: float = -inf

    @property
    def is_stale(self) -> bool:
        """Whether a later request has used the session since this context was created."""
        return self.session is not None and self.session.epoch != self.epoch


DelayedFetch: TypeAlias = "tuple[Call[FetchRequest], FetchContext]"


class FetchSessionCache:
    """The fetch sessions of a broker.

    Args:
        slots: Maximum number of sessions (``max.incremental.fetch.session.cache.slots``).
        new_uuid: Function that returns a new UUID, for session ids.
    """

    def __init__(self, slots: int, new_uuid: Callable[[], UUID]) -> None:
        self._shards = [_CacheShard(slots // SHARDS, number * SHARD_IDS, new_uuid) for number in range(SHARDS)]
        self._next = count()

    def new_context(self, request: FetchRequest, version: int, now: float) -> FetchContext | ErrorCode:
        """Return the context of a request.

        Return an error code if the session id or session epoch of the request is not valid, or if request and session
        differ in the use of topic ids.

        The session of the request is updated: its partitions, its epoch and the time of its last use. A full request
        closes the session whose id it contains. A session without partitions is closed too.

        Args:
            request: the Fetch request.
            version: API version of the request.
            now: the broker's time in seconds.
        """
        by_id = version >= BY_ID_SINCE
        shard = self._shard(request.session_id)
        if request.session_epoch in (INITIAL, FINAL):
            shard.close(request.session_id)
            creates_session = request.session_epoch == INITIAL
            return FetchContext(_requested(request, by_id=by_id), now, by_id, creates_session=creates_session)
        session = shard.sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        requested = _update(session.partitions, request, by_id=by_id)
        if not session.partitions:
            shard.close(session.session_id)
            return FetchContext(requested, now, by_id)
        session.epoch = session.epoch % LAST_EPOCH + 1
        shard.touch(session, now)
        return FetchContext(session.partitions, now, by_id, session, epoch=session.epoch)

    def partitions_of(self, request: FetchRequest, version: int) -> list[Key] | None:
        """Return the partitions that a request in a fetch session reads; None for a full request or an unknown session.

        The cache is not changed.

        Args:
            request: the Fetch request.
            version: API version of the request.
        """
        if request.session_epoch in (INITIAL, FINAL):
            return None
        session = self._shard(request.session_id).sessions.get(request.session_id)
        if session is None:
            return None
        partitions = dict(session.partitions)
        _update(partitions, request, by_id=version >= BY_ID_SINCE, only_keys=True)
        return list(partitions)

    def _shard(self, session_id: int) -> _CacheShard:
        return self._shards[min(session_id // SHARD_IDS, SHARDS - 1) if session_id > 0 else 0]

    def create(self, context: FetchContext) -> int:
        """Create a session with the partitions of a context. Return its id, or 0 if the cache is full."""
        return self._shards[next(self._next) % SHARDS].create(context)


class _CacheShard:
    """One shard of the session cache. Each shard has an equal part of the slots.

    Args:
        slots: maximum number of sessions.
        first_id: lowest session id of the shard.
        new_uuid: function that returns a random UUID, for session ids.

    Attributes:
        sessions: sessions by id, least recently used first.
    """

    def __init__(self, slots: int, first_id: int, new_uuid: Callable[[], UUID]) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self._slots = slots
        self._first_id = first_id
        self._new_uuid = new_uuid

    def close(self, session_id: int) -> None:
        self.sessions.pop(session_id, None)

    def touch(self, session: FetchSession, now: float) -> None:
        """Record the use of a session: update its fields, and make it the most recently used session.

        ``now``: broker time in seconds.
        """
        session.last_used = now
        session.size = len(session.partitions)
        session.evictable = now - session.created > EVICTION_AFTER
        self.sessions[session.session_id] = self.sessions.pop(session.session_id, session)

    def create(self, context: FetchContext) -> int:
        if len(self.sessions) >= self._slots and not self._try_evict(len(context.partitions), context.received_at):
            return 0
        session_id = 0
        while not session_id or session_id in self.sessions:
            session_id = self._first_id + self._new_uuid().int % SHARD_IDS
        self.touch(
            FetchSession(session_id, context.by_id, context.partitions, context.received_at), context.received_at
        )
        return session_id

    def _try_evict(self, size: int, now: float) -> bool:
        """Evict one session to free a slot, and return whether a session was evicted.

        A session is evicted only if it was not used for EVICTION_AFTER seconds, or if it is old and has fewer
        partitions than the new session.

        Args:
            size: number of partitions of the new session.
            now: broker time in seconds.
        """
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.last_used > EVICTION_AFTER:
            self.close(oldest.session_id)
            return True
        old = [session for session in self.sessions.values() if session.evictable]
        smallest = min(old, key=lambda session: (session.size, session.session_id), default=None)
        if smallest is None or size <= smallest.size:
            return False
        self.close(smallest.session_id)
        return True


def _requested(request: FetchRequest, *, by_id: bool) -> dict[Key, FetchPartition]:
    """Return the partitions of a request. The key contains topic name, topic id and partition index.

    If a partition occurs twice, the last entry is used.

    Args:
        request: The Fetch request.
        by_id: True if the request has topic ids: topic names are then "". False if it has names: topic ids are then
            NO_ID.
    """
    partitions: dict[Key, FetchPartition] = {}
    for topic in request.topics:
        name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, NO_ID)
        for requested in topic.partitions:
            partitions[name, topic_id, requested.partition] = FetchPartition(name, topic_id, requested)
    return partitions


def _update(
    cached: dict[Key, FetchPartition], request: FetchRequest, *, by_id: bool, only_keys: bool = False
) -> dict[Key, FetchPartition]:
    """Add, update and remove partitions of a session, as a request requires. Return the partitions of the request.

    Args:
        cached: The partitions of the session.
        request: The request.
        by_id: Whether the session has topic ids.
        only_keys: True to leave the entries of known partitions unchanged; partitions are still added to and removed
            from ``cached``.
    """
    requested = _requested(request, by_id=by_id) if request.topics else {}
    for key, partition in requested.items():
        if (known := cached.get(key)) is None:
            cached[key] = partition
        elif not only_keys:
            known.request = partition.request
    for topic in request.forgotten_topics_data:
        name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, NO_ID)
        for index in topic.partitions:
            cached.pop((name, topic_id, index), None)
    return requested

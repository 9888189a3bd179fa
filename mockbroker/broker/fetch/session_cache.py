"""Fetch sessions (KIP-227): what a client asks for is kept, so that both sides tell each other only what is new.

A session lives in one of eight shards of a broker, each with its part of the slots. Source: Kafka's FetchSession.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest
from mockbroker.topics.model import Cluster, Partition

INITIAL, FINAL = 0, -1  # epochs: one begins a session, or has none; the other ends it
BY_ID_SINCE = 13  # the version from which on topics have ids instead of names
SHARDS = 8
IDS = (2**31 - 1) // SHARDS  # session ids of each shard
STALE_AFTER = 120.0  # seconds
LAST_EPOCH = 2**31 - 1
NO_ID = UUID(int=0)
UNKNOWN = -1  # of offsets that the client was not told
NONE = ErrorCode.NONE

Key: TypeAlias = tuple[str, UUID, int]  # topic name or else topic id, and partition


@dataclass(slots=True)
class FetchPartition:
    """One partition that is asked for. ``high_watermark``, ``log_start``: as the client was told them last.

    ``topic``: also that of a topic asked for by id, once it was found. ``place``: what it is in the cluster, as of
    ``cluster_epoch``.
    """

    topic: str
    topic_id: UUID
    asked: FetchRequest.Topic.Partition
    high_watermark: int = UNKNOWN
    log_start: int = UNKNOWN
    place: Partition | None = None
    error: ErrorCode = NONE
    cluster_epoch: int = -1

    @property
    def by_id(self) -> bool:
        return self.topic_id != NO_ID

    def find(self, cluster: Cluster) -> None:
        """Look up where it is: ``place``, or else ``error``."""
        topic = cluster.by_id.get(self.topic_id) if self.by_id else cluster.topics.get(self.topic)
        self.place = topic.partition(self.asked.partition) if topic else None
        self.error = NONE if self.place else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and self.by_id:
            if not self.topic:
                self.error = ErrorCode.UNKNOWN_TOPIC_ID
            elif self.topic in cluster.topics:  # another one by the same name
                self.error = ErrorCode.INCONSISTENT_TOPIC_ID
        elif topic is not None:
            self.topic = topic.name
        self.cluster_epoch = cluster.epoch

    def update_response_data(self, high_watermark: int, log_start: int, *, failed: bool) -> bool:
        """Keep what the client is told now; True if it is news. An error always is, and so is what follows it."""
        news = failed or (high_watermark, log_start) != (self.high_watermark, self.log_start)
        self.high_watermark = UNKNOWN if failed else high_watermark
        self.log_start = log_start
        return news


@dataclass(slots=True)
class FetchSession:
    """``epoch``: the one that the next request has to have. ``size``: partitions, when it was used last."""

    session_id: int
    by_id: bool
    wanted: dict[Key, FetchPartition]
    created: float
    epoch: int = INITIAL + 1
    last_used: float = 0.0
    size: int = 0
    evictable: bool = False

    def move_to_end(self, keys: Iterable[Key]) -> None:
        """These come last next time, so that every partition has its turn."""
        for key in keys:
            if (found := self.wanted.pop(key, None)) is not None:
                self.wanted[key] = found


@dataclass(slots=True)
class FetchContext:
    """What one Fetch reads. ``session``: that it goes on with; ``begins``: whether to begin one with its answer.

    ``epoch``: of the session, as long as no other request has used it. ``at``: when it was asked, in seconds.
    ``unknown``: partitions that were not there from the start, once it was read; nobody waits for them.
    ``expires_at``: when it is answered with what there is, in the time of clients.
    """

    wanted: dict[Key, FetchPartition]
    at: float
    by_id: bool
    session: FetchSession | None = None
    begins: bool = False
    epoch: int = FINAL
    unknown: set[Key] | None = None
    expires_at: float = -inf

    @property
    def is_stale(self) -> bool:
        """True if another request has used the session since."""
        return self.session is not None and self.session.epoch != self.epoch


class FetchSessionCache:
    """The sessions of one broker. ``slots``: how many there may be; ``new_uuid``: where ids come from."""

    def __init__(self, slots: int, new_uuid: Callable[[], UUID]) -> None:
        self._shards = [_CacheShard(slots // SHARDS, number * IDS, new_uuid) for number in range(SHARDS)]
        self._next = count()

    def open(self, request: FetchRequest, version: int, now: float) -> FetchContext | ErrorCode:
        """What a request asks for, alone or with its session, or why it cannot go on with that."""
        by_id = version >= BY_ID_SINCE
        shard = self._shards[min(max(request.session_id, 0) // IDS, SHARDS - 1)]
        if request.session_epoch in (INITIAL, FINAL):
            shard.close(request.session_id)
            begins = request.session_epoch == INITIAL
            return FetchContext(_asked(request, by_id=by_id), now, by_id, begins=begins)
        session = shard.sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        asked = _update(session.wanted, request, by_id=by_id)
        if not session.wanted:
            shard.close(session.session_id)
            return FetchContext(asked, now, by_id)
        session.epoch = session.epoch % LAST_EPOCH + 1
        shard.touch(session, now)
        return FetchContext(session.wanted, now, by_id, session, epoch=session.epoch)

    def begin(self, context: FetchContext) -> int:
        """Keep what was asked for; the id of the new session, 0 if there is no room."""
        return self._shards[next(self._next) % SHARDS].begin(context)


class _CacheShard:
    """``sessions``: the one that was not used for longest first."""

    def __init__(self, slots: int, first_id: int, new_uuid: Callable[[], UUID]) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self._slots = slots
        self._first_id = first_id
        self._new_uuid = new_uuid

    def close(self, session_id: int) -> None:
        self.sessions.pop(session_id, None)

    def touch(self, session: FetchSession, now: float) -> None:
        """It was used: now it is the last one to become stale."""
        session.last_used = now
        session.size = len(session.wanted)
        session.evictable = now - session.created > STALE_AFTER
        self.sessions[session.session_id] = self.sessions.pop(session.session_id, session)

    def begin(self, context: FetchContext) -> int:
        if len(self.sessions) >= self._slots and not self._make_room(len(context.wanted), context.at):
            return 0
        session_id = 0
        while not session_id or session_id in self.sessions:
            session_id = self._first_id + self._new_uuid().int % IDS
        self.touch(FetchSession(session_id, context.by_id, context.wanted, context.at), context.at)
        return session_id

    def _make_room(self, size: int, now: float) -> bool:
        """Close a session that nobody uses any more, or an old one with less than ``size`` partitions."""
        stalest = next(iter(self.sessions.values()), None)
        if stalest is None:
            return False
        if now - stalest.last_used > STALE_AFTER:
            self.close(stalest.session_id)
            return True
        old = [session for session in self.sessions.values() if session.evictable]
        smallest = min(old, key=lambda session: (session.size, session.session_id), default=None)
        if smallest is None or size <= smallest.size:
            return False
        self.close(smallest.session_id)
        return True


def _asked(request: FetchRequest, *, by_id: bool) -> dict[Key, FetchPartition]:
    """What a request names; of a partition that it names twice, the last."""
    found: dict[Key, FetchPartition] = {}
    for topic in request.topics:
        name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, NO_ID)
        for asked in topic.partitions:
            found[name, topic_id, asked.partition] = FetchPartition(name, topic_id, asked)
    return found


def _update(kept: dict[Key, FetchPartition], request: FetchRequest, *, by_id: bool) -> dict[Key, FetchPartition]:
    """Add to what is kept, change it and leave out what is forgotten; all that the request names."""
    named = _asked(request, by_id=by_id) if request.topics else {}
    for key, wanted in named.items():
        if (known := kept.get(key)) is None:
            kept[key] = wanted
        else:
            known.asked = wanted.asked
    for topic in request.forgotten_topics_data:
        name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, NO_ID)
        for index in topic.partitions:
            kept.pop((name, topic_id, index), None)
    return named

"""A fake Kafka cluster that serves records: logs, fetch sessions, and offsets by time and by leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from tools.fake_cluster import WALL_MS, FakeCluster, ReceivedRequest, TopicPartition

from kwire.errorcodes import ErrorCode as E
from kwire.messages.fetch import FetchResponse
from kwire.messages.list_offsets import ListOffsetsResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kwire.records import Record, build_batch, read

FetchedPartition = FetchResponse.Topic.Partition
NO_TOPIC_IDS = UUID(int=0)


class Log:
    """The log of one partition. ``epoch``: leader epoch of the batches that are added next."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []  # first and last offset, leader epoch, bytes
        self.start = 0
        self.epoch = 0
        self.aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker
        self.stable: int | None = None  # the last stable offset, if it is not the end

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start

    def add(self, count: int = 1, **how: Any) -> int:
        """Append a batch of ``count`` records whose values are their offsets; return the first offset."""
        base = self.end
        records = [Record(value=b"%d" % (base + n), timestamp=WALL_MS + base + n) for n in range(count)]
        self.append(build_batch(records, base_offset=base, leader_epoch=self.epoch, **how))
        return base

    def append(self, data: bytes) -> None:
        """Append encoded batches, or messages of the old formats."""
        for one in read(data):
            self.batches.append((one.base_offset, one.last_offset, getattr(one, "leader_epoch", -1), one.data))

    def read(self, offset: int, limit: int) -> bytes:
        """Return whole batches, beginning with that of ``offset``: as many as ``limit`` bytes hold, at least one."""
        records = b""
        for _, last, _, data in self.batches:
            if last >= offset:
                if records and len(records) + len(data) > limit:
                    break
                records += data
        return records

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the newest leader epoch up to ``epoch`` with records, and its end offset; -1, -1 if there is none."""
        if epoch > self.epoch:
            return -1, -1
        before = [each for each in self.batches if each[2] <= epoch]
        if epoch == self.epoch:
            return epoch, self.end
        return (before[-1][2], before[-1][1] + 1) if before else (epoch, self.start)

    def offset_at(self, timestamp: int, *, committed: bool) -> tuple[int, int]:
        """Return offset and timestamp for a timestamp of ListOffsets, also for -1 (latest) and -2 (earliest)."""
        if timestamp == -1:
            return (self.stable if committed and self.stable is not None else self.end), -1
        if timestamp == -2:
            return self.start, -1
        records = (record for *_, data in self.batches for batch in read(data) for record in batch.records())
        return next(((r.offset, r.timestamp) for r in records if r.timestamp >= timestamp), (-1, -1))


class FakeLogCluster(FakeCluster):
    """A fake cluster with a log for each partition, and a consumer that is assigned all of them; Fetch is pending.

    ``leaders``: node ids by partition; ``ids``: whether topics have ids; ``sessions``: whether brokers keep fetch sessions.
    ``settings``: settings of the consumer, which begins at the ``earliest`` offset by default.
    """

    user_polls = False

    def __init__(
        self,
        leaders: Mapping[TopicPartition, int],
        *,
        group: str | None = None,
        ids: bool = True,
        sessions: bool = True,
        assign: bool = True,
        **how: Any,
    ) -> None:
        topics = {
            topic: 1 + max(n for name, n in leaders if name == topic) for topic in sorted({t for t, _ in leaders})
        }
        how.setdefault("auto_offset_reset", "earliest")
        super().__init__(group=group, topics=topics, nodes=sorted(set(leaders.values())), **how)
        self.leaders |= leaders
        self.leader_epochs |= dict.fromkeys(leaders, 0)
        self.topic_ids = {} if ids else dict.fromkeys(topics, NO_TOPIC_IDS)
        self.default_committed = -1
        self.logs = {partition: Log() for partition in leaders}
        self.answers |= {
            "ListOffsets": self.list_offsets,
            "OffsetForLeaderEpoch": self.offset_for_leader_epoch,
            "OffsetCommit": self.offset_commit,
        }
        self.sessions: dict[int, tuple[int, dict[TopicPartition, Any]]] = {}  # next epoch, requested partitions
        self.keeps_sessions = sessions
        self._next_session = 100
        self.fetcher, self.positions = self.engine.fetcher, self.engine.positions
        if assign:
            self.engine.assign(list(leaders))

    # --- the consumer ---

    def poll_records(self, most: int = 500) -> list[Any]:
        """Return buffered records and send the next fetches, as Consumer.poll does with a timeout of 0."""
        self.settle()
        self.engine.advance(polling=True)
        records = self.engine.collect_records(most)
        self.fetcher.send_fetches()
        self.settle()
        return records

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions.seek(partition, offset)

    def position(self, partition: TopicPartition) -> int | None:
        return self.positions.of(partition).offset

    # --- requests, and responses of the test ---

    @property
    def fetches(self) -> list[ReceivedRequest]:
        """Return the pending Fetch requests."""
        return self.pending("Fetch")

    def fetch_offsets(self, request: ReceivedRequest) -> dict[TopicPartition, int]:
        """Return the fetch offsets in a Fetch request."""
        return {
            (self.name_of(topic, request.version), line.partition): line.fetch_offset
            for topic in request.body.topics
            for line in topic.partitions
        }

    def name_of(self, topic: Any, version: int) -> str:
        """Return the name of a topic in a Fetch request, which has topic ids since v13."""
        return topic.topic if version < 13 else self.topic_name(topic.topic_id)

    def answer_rightly(self, *requests: ReceivedRequest) -> None:
        """Answer requests as a broker does."""
        right: dict[str, Callable[[ReceivedRequest], Any]] = {
            "Fetch": self.fetch,
            "OffsetFetch": self.offset_fetch,
            "ListOffsets": self.list_offsets,
            "OffsetForLeaderEpoch": self.offset_for_leader_epoch,
            "OffsetCommit": self.offset_commit,
            "Metadata": self.metadata,
            "FindCoordinator": self.find_coordinator,
        }
        for request in requests:
            if request.answer is None:  # else it was answered when the request before it on its connection was
                self.answer(request, right[request.api](request))

    def answer_all(self) -> None:
        """Answer every pending request as a broker does."""
        self.answer_rightly(*self.pending())

    # --- responses of brokers ---

    def offset_commit(self, request: ReceivedRequest, error: int = 0) -> OffsetCommitResponse:
        for topic in request.body.topics:
            name = self.topic_name(topic.topic_id) if request.version >= 10 else topic.name
            self.committed |= {(name, each.partition_index): each.committed_offset for each in topic.partitions}
        return super().offset_commit(request, error)

    def fetch(self, request: ReceivedRequest) -> FetchResponse:
        """Return the response of a broker to a Fetch; it begins or continues a fetch session if ``sessions`` is set."""
        answer, body = FetchResponse(), request.body
        wanted = {
            (self.name_of(topic, request.version), line.partition): (topic, line)
            for topic in body.topics
            for line in topic.partitions
        }
        incremental = request.version >= 7 and body.session_epoch > 0
        if incremental:
            answer.error_code, wanted = self._continue_session(request, wanted)
            if answer.error_code:
                return answer
            answer.session_id = body.session_id
        elif request.version >= 7:
            answer.session_id = self._begin_session(body, wanted)
        topics: dict[str, FetchResponse.Topic] = {}
        limit = body.max_bytes
        for (name, number), (topic, line) in wanted.items():
            fetched = self.fetch_partition((name, number), line, request, limit)
            limit -= len(fetched.records or b"")
            if incremental and not fetched.records and not fetched.error_code:
                continue
            if name not in topics:
                topics[name] = FetchResponse.Topic(topic=topic.topic, topic_id=topic.topic_id)
            topics[name].partitions.append(fetched)
        answer.responses = list(topics.values())
        return answer

    def _continue_session(
        self, request: ReceivedRequest, news: dict[TopicPartition, Any]
    ) -> tuple[int, dict[Any, Any]]:
        """Update a fetch session; return its error, or the partitions that it fetches now."""
        body = request.body
        if body.session_id not in self.sessions:
            return E.FETCH_SESSION_ID_NOT_FOUND, {}
        due, wanted = self.sessions[body.session_id]
        if due != body.session_epoch:
            return E.INVALID_FETCH_SESSION_EPOCH, {}
        for topic in body.forgotten_topics_data:
            for number in topic.partitions:
                wanted.pop((self.name_of(topic, request.version), number), None)
        wanted |= news
        self.sessions[body.session_id] = (due + 1, wanted)
        return E.NONE, wanted

    def _begin_session(self, body: Any, wanted: dict[TopicPartition, Any]) -> int:
        """Return the id of a new fetch session; 0 if the cluster keeps no sessions."""
        self.sessions.pop(body.session_id, None)
        if body.session_epoch != 0 or not self.keeps_sessions:
            return 0
        session_id, self._next_session = self._next_session, self._next_session + 1
        self.sessions[session_id] = (1, dict(wanted))
        return session_id

    def fetch_one(self, request: ReceivedRequest, partition: TopicPartition, **fields: Any) -> FetchResponse:
        """Return a response that is valid in its fetch session, but has only this one partition."""
        name, index = partition
        answer = self.fetch(request)
        by_id = request.version >= 13
        topic = FetchResponse.Topic(**({"topic_id": self.topic_id(name)} if by_id else {"topic": name}))
        topic.partitions = [FetchedPartition(partition_index=index, **fields)]
        answer.responses = [topic]
        return answer

    def fetch_partition(
        self, partition: TopicPartition, wanted: Any, request: ReceivedRequest, limit: int = 2**31 - 1
    ) -> FetchedPartition:
        """Return a partition of the response of a broker. ``limit``: maximum size of the records, in bytes."""
        if partition not in self.logs:
            return FetchedPartition(partition_index=wanted.partition, error_code=E.UNKNOWN_TOPIC_ID, high_watermark=-1)
        log = self.logs[partition]
        stable = log.end if log.stable is None else log.stable
        fetched = FetchedPartition(
            partition_index=partition[1],
            high_watermark=log.end,
            last_stable_offset=stable,
            log_start_offset=log.start,
        )
        if not log.start <= wanted.fetch_offset <= log.end:
            fetched.error_code = E.OFFSET_OUT_OF_RANGE
            return fetched
        fetched.records = log.read(wanted.fetch_offset, min(limit, wanted.partition_max_bytes)) if limit > 0 else b""
        if request.body.isolation_level:
            kind = FetchedPartition.AbortedTransaction
            fetched.aborted_transactions = [
                kind(producer_id=producer, first_offset=first)
                for producer, first, marker in log.aborted
                if marker >= wanted.fetch_offset
            ]
        return fetched

    def list_offsets(self, request: ReceivedRequest) -> ListOffsetsResponse:
        kind = ListOffsetsResponse.Topic
        return ListOffsetsResponse(
            topics=[
                kind(
                    name=topic.name,
                    partitions=[self._listed_offset(topic.name, line, request) for line in topic.partitions],
                )
                for topic in request.body.topics
            ]
        )

    def _listed_offset(self, topic: str, wanted: Any, request: ReceivedRequest) -> ListOffsetsResponse.Topic.Partition:
        kind, index = ListOffsetsResponse.Topic.Partition, wanted.partition_index
        log = self.logs[topic, index]
        at, timestamp = log.offset_at(wanted.timestamp, committed=bool(request.body.isolation_level))
        if request.version == 0:
            return kind(partition_index=index, old_style_offsets=[at])
        epoch = log.epoch if request.version >= 4 and at >= 0 else -1
        return kind(partition_index=index, timestamp=timestamp, offset=at, leader_epoch=epoch)

    def offset_for_leader_epoch(self, request: ReceivedRequest) -> OffsetForLeaderEpochResponse:
        kind = OffsetForLeaderEpochResponse.Topic
        topics = []
        for topic in request.body.topics:
            lines = []
            for line in topic.partitions:
                epoch, end = self.logs[topic.topic, line.partition].end_of_epoch(line.leader_epoch)
                lines.append(kind.Partition(partition=line.partition, leader_epoch=epoch, end_offset=end))
            topics.append(kind(topic=topic.topic, partitions=lines))
        return OffsetForLeaderEpochResponse(topics=topics)


def offsets(records: Iterable[Any]) -> list[int]:
    return [record.offset for record in records]

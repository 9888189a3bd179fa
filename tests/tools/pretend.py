"""Brokers that a test plays: a consumer's engine without sockets and clock, its requests and their answers real frames.

What takes no decision is answered at once; what is ``held`` waits in ``asked`` until the test answers it. Answers of one
connection leave in the order in which they were asked for, as those of a broker do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kwire import envelope
from kwire.errorcodes import ErrorCode as E
from kwire.frames import FrameBuffer, pack
from kwire.messages import APIS
from kwire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from kwire.messages.fetch import FETCH, FetchResponse
from kwire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorResponse
from kwire.messages.list_offsets import LIST_OFFSETS, ListOffsetsResponse
from kwire.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OFFSET_COMMIT, OffsetCommitResponse
from kwire.messages.offset_fetch import OFFSET_FETCH, OffsetFetchResponse
from kwire.messages.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochResponse
from kwire.records import Record, build_batch, read
from mockbroker.client.engine import Engine
from mockbroker.client.link import Link, LinkState
from mockbroker.client.settings import Settings

PORT = 9_000  # of node 0
WALL_MS = 1_700_000_000_000
Line = FetchResponse.Topic.Partition
TopicPartition = tuple[str, int]


class Log:
    """Batches one behind the other. ``epochs``: that of the leader that writes next, last."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []  # first and last offset, leader epoch, bytes
        self.start = 0
        self.epoch = 0
        self.aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker
        self.stable: int | None = None  # the last stable offset where it is not the end

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start

    def add(self, count: int = 1, **how: Any) -> int:
        """A batch of so many records whose values are their offsets; gives the first offset."""
        base = self.end
        records = [Record(value=b"%d" % (base + n), timestamp=WALL_MS + base + n) for n in range(count)]
        self.append(build_batch(records, base_offset=base, leader_epoch=self.epoch, **how))
        return base

    def append(self, data: bytes) -> None:
        """Batches or messages as they are."""
        for one in read(data):
            self.batches.append((one.base_offset, one.last_offset, getattr(one, "leader_epoch", -1), one.data))

    def read(self, offset: int, limit: int) -> bytes:
        """From the batch with ``offset`` on: whole batches, as many as fit, one at least."""
        found = b""
        for _, last, _, data in self.batches:
            if last >= offset:
                if found and len(found) + len(data) > limit:
                    break
                found += data
        return found

    def ended(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to this one that has records, and where it ended; -1 and -1 if there is none."""
        if epoch > self.epoch:
            return -1, -1
        before = [each for each in self.batches if each[2] <= epoch]
        if epoch == self.epoch:
            return epoch, self.end
        return (before[-1][2], before[-1][1] + 1) if before else (epoch, self.start)


class Asked:
    """A request under way: ``body`` as it was read; ``answer`` once there is one."""

    def __init__(self, node: int, link: Link, request: envelope.Request) -> None:
        self.node, self.link = node, link
        self.body: Any = request.body
        self.key, self.version, self.correlation = request.api.key, request.version, request.header.correlation_id
        self.answer: object | None = None


class Pretend:
    """``leaders``: node ids by partition. ``versions``: ranges by API key, everything if it does not say.

    ``ids``: whether topics have ids. ``settings``: of the consumer, which begins ``earliest`` here.
    """

    def __init__(
        self,
        leaders: Mapping[TopicPartition, int],
        *,
        group: str | None = None,
        versions: Mapping[int, tuple[int, int]] | None = None,
        ids: bool = True,
        sessions: bool = True,
        assign: bool = True,
        **settings: Any,
    ) -> None:
        self.leaders = dict(leaders)
        self.epochs = dict.fromkeys(leaders, 0)
        self.logs = {partition: Log() for partition in leaders}
        names = sorted({topic for topic, _ in leaders})
        self.ids = {name: UUID(int=n + 1 if ids else 0) for n, name in enumerate(names)}
        self.nodes = set(leaders.values())
        self.unlisted: set[int] = set()  # nodes that Metadata does not have
        self.down: set[int] = set()
        self.versions: dict[int, tuple[int, Any]] = {
            key: (api.versions.first, api.versions.last) for key, api in APIS.items()
        } | dict(versions or {})
        self.committed: dict[tuple[str, int], int] = {}
        self.held = {FETCH.key}
        self.asked: list[Asked] = []
        self.seen: list[Asked] = []
        self.connections: dict[Link, tuple[int, FrameBuffer, deque[Asked]]] = {}
        self.sessions: dict[int, tuple[int, dict[TopicPartition, Any]]] = {}  # epoch that is due, and what is wanted
        self.keeps_sessions = sessions
        self._next_session = 100
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        self.engine = Engine(
            [("n", PORT + min(self.nodes))],
            group,
            Settings(**(defaults | settings)),
            chance=lambda: 0.5,
            wall_ms=lambda: WALL_MS,
            member_id="me",
        )
        self.engine.time.now = 1.0
        self.fetcher, self.positions = self.engine.fetcher, self.engine.positions
        if assign:
            self.engine.assign(list(leaders))

    # The consumer's side

    def poll(self, most: int = 500) -> list[Any]:
        """What Consumer.poll does when nothing is there to wait for: records, and the next fetches are on their way."""
        self.run()
        self.engine.advance(polling=True)
        records = self.engine.take_records(most)
        self.fetcher.send()
        self.run()
        return records

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions.of(partition).move(offset)
        self.positions.unsettled = True

    def at(self, partition: TopicPartition) -> int | None:
        return self.positions.of(partition).offset

    def wait(self, seconds: float) -> None:
        """Time goes by, with what is due in it."""
        until = self.engine.time.now + seconds
        for _ in range(1000):
            self.run()
            if (due := self.engine.due()) > until:
                self.engine.time.now = until
                self.run()
                return
            self.engine.time.now = max(self.engine.time.now, due)
        raise AssertionError("it is always due")

    def run(self) -> None:
        """Everything that takes no decision."""
        for _ in range(1000):
            moved = self._connect()
            self.engine.advance(polling=False)
            if not (self._receive() | moved) and not self.engine.network.to_open:
                return
        raise AssertionError("it never rests")

    # The brokers' side

    def _connect(self) -> bool:
        opened, self.engine.network.to_open = self.engine.network.to_open, []
        for link in opened:
            node = link.port - PORT
            if node in self.down:
                link.close("down")
            else:
                link.opened()
                self.connections[link] = (node, FrameBuffer(), deque())
        return bool(opened)

    def _receive(self) -> bool:
        moved = False
        for link, (node, frames, waiting) in list(self.connections.items()):
            if link.state is LinkState.CLOSED:
                del self.connections[link]
                self.asked = [asked for asked in self.asked if asked.link is not link]
                continue
            sent, link.outgoing = b"".join(link.outgoing), []
            frames.feed(sent)
            while (frame := frames.next_frame()) is not None:
                moved = True
                asked = Asked(node, link, envelope.decode_request(frame, strict=True))
                self.seen.append(asked)
                waiting.append(asked)
                if asked.key in self.held:
                    self.asked.append(asked)
                else:
                    asked.answer = self.serve(asked)
            self._deliver(link)
        return moved

    def answer(self, asked: Asked, body: object | None = None) -> None:
        """``body``: what is right, if None."""
        asked.answer = self.serve(asked) if body is None else body
        self.asked.remove(asked)
        self._deliver(asked.link)
        self.run()

    def answer_all(self) -> None:
        for asked in list(self.asked):
            self.answer(asked)

    def hang_up(self, node: int) -> None:
        for link, (number, _, _) in list(self.connections.items()):
            if number == node:
                link.closed()
        self.run()

    def _deliver(self, link: Link) -> None:
        _, _, waiting = self.connections[link]
        while waiting and waiting[0].answer is not None and link.state is not LinkState.CLOSED:
            asked = waiting.popleft()
            frame = envelope.encode_response(asked.answer, asked.version, correlation_id=asked.correlation)
            link.received(pack(frame), self.engine.time.now)

    def of(self, key: int) -> list[Asked]:
        """All requests of an API so far."""
        return [asked for asked in self.seen if asked.key == key]

    @property
    def fetches(self) -> list[Asked]:
        """Those that are under way."""
        return [asked for asked in self.asked if asked.key == FETCH.key]

    def wanted(self, asked: Asked) -> dict[tuple[str, int], int]:
        """The offsets that a Fetch names."""
        return {
            (self.name(topic, asked.version), line.partition): line.fetch_offset
            for topic in asked.body.topics
            for line in topic.partitions
        }

    def name(self, topic: Any, version: int, since: int = 13) -> str:
        if version < since:
            return topic.topic
        return next((name for name, known in self.ids.items() if known == topic.topic_id), "")

    # What is right

    def serve(self, asked: Asked) -> object:
        match asked.key:
            case API_VERSIONS.key:
                kind = ApiVersionsResponse.ApiVersion
                ranges = self.versions.items()
                return ApiVersionsResponse(
                    api_keys=[kind(api_key=k, min_version=a, max_version=b) for k, (a, b) in ranges]
                )
            case METADATA.key:
                return self.metadata(asked.body)
            case FETCH.key:
                return self.fetched(asked)
            case LIST_OFFSETS.key:
                return self.offsets(asked)
            case OFFSET_FOR_LEADER_EPOCH.key:
                return self.epoch_ends(asked)
            case FIND_COORDINATOR.key:
                where: dict[str, Any] = {"node_id": min(self.nodes), "host": "n", "port": PORT + min(self.nodes)}
                if asked.version < 4:
                    return FindCoordinatorResponse(**where)
                found = FindCoordinatorResponse.Coordinator
                return FindCoordinatorResponse(
                    coordinators=[found(key=key, **where) for key in asked.body.coordinator_keys]
                )
            case OFFSET_FETCH.key:
                return self.offset_fetch(asked)
            case OFFSET_COMMIT.key:
                return self.offset_commit(asked)
        raise AssertionError(f"nobody asks {asked.body}")

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = sorted(self.ids) if request.topics is None else [topic.name for topic in request.topics]
        topics = []
        for name in names:
            if name not in self.ids:
                topics.append(MetadataResponse.Topic(name=name, error_code=E.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            kind = MetadataResponse.Topic.Partition
            lines = [
                kind(partition_index=n, leader_id=node, leader_epoch=self.epochs[topic, n], replica_nodes=[node])
                for (topic, n), node in sorted(self.leaders.items())
                if topic == name
            ]
            topics.append(MetadataResponse.Topic(name=name, topic_id=self.ids[name], partitions=lines))
        broker = MetadataResponse.Broker
        nodes = sorted(self.nodes - self.unlisted)
        return MetadataResponse(brokers=[broker(node_id=n, host="n", port=PORT + n) for n in nodes], topics=topics)

    def fetched(self, asked: Asked) -> FetchResponse:
        """The answer of an honest broker, which keeps sessions unless it was told not to."""
        request = asked.body
        told = {}
        for topic in request.topics:
            for line in topic.partitions:
                told[self.name(topic, asked.version), line.partition] = (topic, line)
        answer = FetchResponse()
        incremental = asked.version >= 7 and request.session_epoch > 0
        if incremental:
            if request.session_id not in self.sessions:
                return FetchResponse(error_code=E.FETCH_SESSION_ID_NOT_FOUND)
            due, wanted = self.sessions[request.session_id]
            if due != request.session_epoch:
                return FetchResponse(error_code=E.INVALID_FETCH_SESSION_EPOCH)
            for topic in request.forgotten_topics_data:
                for number in topic.partitions:
                    wanted.pop((self.name(topic, asked.version), number), None)
            wanted |= told
            self.sessions[request.session_id] = (due + 1, wanted)
            answer.session_id = request.session_id
        else:
            wanted = told
            if asked.version >= 7:
                self.sessions.pop(request.session_id, None)
            if asked.version >= 7 and request.session_epoch == 0 and self.keeps_sessions:
                answer.session_id = self._next_session
                self._next_session += 1
                self.sessions[answer.session_id] = (1, dict(wanted))
        topics: dict[str, FetchResponse.Topic] = {}
        limit = request.max_bytes
        for (name, number), (topic, line) in wanted.items():
            found = self.line((name, number), line, asked, limit)
            limit -= len(found.records or b"")
            if incremental and not found.records and not found.error_code:
                continue
            entry = topics.get(name)
            if entry is None:
                entry = topics[name] = FetchResponse.Topic()
                if asked.version < 13:
                    entry.topic = topic.topic
                else:
                    entry.topic_id = topic.topic_id
            entry.partitions.append(found)
        answer.responses = list(topics.values())
        return answer

    def line_alone(self, asked: Asked, partition: TopicPartition, **fields: Any) -> FetchResponse:
        """An honest answer as to its session, but with this one partition in it."""
        answer = self.fetched(asked)
        topic = FetchResponse.Topic(partitions=[Line(partition_index=partition[1], **fields)])
        if asked.version < 13:
            topic.topic = partition[0]
        else:
            topic.topic_id = self.ids[partition[0]]
        answer.responses = [topic]
        return answer

    def line(self, partition: TopicPartition, wanted: Any, asked: Asked, limit: int = 2**31 - 1) -> Line:
        """One partition of the answer."""
        if partition not in self.logs:
            return Line(partition_index=wanted.partition, error_code=E.UNKNOWN_TOPIC_ID, high_watermark=-1)
        log, number = self.logs[partition], partition[1]
        stable = log.end if log.stable is None else log.stable
        marks: dict[str, Any] = {"high_watermark": log.end, "last_stable_offset": stable, "log_start_offset": log.start}
        if not log.start <= wanted.fetch_offset <= log.end:
            return Line(partition_index=number, error_code=E.OFFSET_OUT_OF_RANGE, **marks)
        found = Line(partition_index=number, **marks)
        found.records = log.read(wanted.fetch_offset, min(limit, wanted.partition_max_bytes)) if limit > 0 else b""
        if asked.body.isolation_level:
            kind = Line.AbortedTransaction
            found.aborted_transactions = [
                kind(producer_id=producer, first_offset=first)
                for producer, first, marker in log.aborted
                if marker >= wanted.fetch_offset
            ]
        return found

    def offsets(self, asked: Asked) -> ListOffsetsResponse:
        topics = []
        for topic in asked.body.topics:
            lines = []
            for line in topic.partitions:
                log = self.logs[topic.name, line.partition_index]
                at, timestamp = self._offset(log, line.timestamp, asked.body.isolation_level)
                if asked.version == 0:
                    kind = ListOffsetsResponse.Topic.Partition
                    lines.append(kind(partition_index=line.partition_index, old_style_offsets=[at]))
                    continue
                epoch = log.epoch if asked.version >= 4 and at >= 0 else -1
                kind = ListOffsetsResponse.Topic.Partition
                found = kind(partition_index=line.partition_index, timestamp=timestamp, offset=at, leader_epoch=epoch)
                lines.append(found)
            topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=lines))
        return ListOffsetsResponse(topics=topics)

    @staticmethod
    def _offset(log: Log, timestamp: int, isolation: int) -> tuple[int, int]:
        if timestamp == -1:
            return (log.stable if isolation and log.stable is not None else log.end), -1
        if timestamp == -2:
            return log.start, -1
        records = (record for *_, data in log.batches for batch in read(data) for record in batch.records())
        return next(((r.offset, r.timestamp) for r in records if r.timestamp >= timestamp), (-1, -1))

    def epoch_ends(self, asked: Asked) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in asked.body.topics:
            kind = OffsetForLeaderEpochResponse.Topic.Partition
            lines = []
            for line in topic.partitions:
                epoch, end = self.logs[topic.topic, line.partition].ended(line.leader_epoch)
                lines.append(kind(partition=line.partition, leader_epoch=epoch, end_offset=end))
            topics.append(OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=lines))
        return OffsetForLeaderEpochResponse(topics=topics)

    def offset_fetch(self, asked: Asked, *, error: int = 0, of: Any = None) -> OffsetFetchResponse:
        """``error``: of the group, or of the partition ``of``."""
        request = asked.body
        single = asked.version < 8
        topics = []
        for topic in request.topics if single else request.groups[0].topics:
            kind: Any = OffsetFetchResponse.Topic if single else OffsetFetchResponse.Group.Topic
            name = self.name(topic, asked.version, 10) if asked.version >= 10 else topic.name
            lines = [
                kind.Partition(
                    partition_index=n,
                    committed_offset=self.committed.get((name, n), -1),
                    metadata="",
                    error_code=error if of == (name, n) else 0,
                )
                for n in topic.partition_indexes
            ]
            entry = kind(partitions=lines)
            if asked.version >= 10:
                entry.topic_id = topic.topic_id
            else:
                entry.name = topic.name
            topics.append(entry)
        code = error if of is None else 0
        if single:
            return OffsetFetchResponse(topics=topics, error_code=code)
        group = OffsetFetchResponse.Group(group_id=request.groups[0].group_id, topics=topics, error_code=code)
        return OffsetFetchResponse(groups=[group])

    def offset_commit(self, asked: Asked) -> OffsetCommitResponse:
        topics = []
        for topic in asked.body.topics:
            name = self.name(topic, asked.version, 10) if asked.version >= 10 else topic.name
            lines = []
            for line in topic.partitions:
                self.committed[name, line.partition_index] = line.committed_offset
                lines.append(OffsetCommitResponse.Topic.Partition(partition_index=line.partition_index))
            topics.append(OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=lines))
        return OffsetCommitResponse(topics=topics)


def offsets(records: Iterable[Any]) -> list[int]:
    return [record.offset for record in records]

"""Stories for the detectors of findings: brokers without sockets, fault rules, scripted clients and a capture.

The virtual clock of a story moves from one event to the next, so a story of minutes takes a second. Each frame becomes
a packet with its virtual time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest
from tools.group_members import ClassicMember, ConsumerMember, GroupMember, Then, Timing
from tools.pcap import START, Segment, Talk, packets, pcap, prefixed

import kwire
from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.capture import Call, Connection, read
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from kwire.schema import schema_of
from mockbroker.base.effects import Call as BrokerCall
from mockbroker.base.effects import Client, Ticket
from mockbroker.broker import failover
from mockbroker.faults.parsing import parse_rule
from mockbroker.faults.stage import FaultStage

GROUP, TOPIC, PARTITIONS = "billing", "orders", 6
THINK = 0.001_037  # seconds between a response and what a client does next
FETCH_WAIT = 5.0  # seconds that a Fetch waits for records
Script = Generator[Any, Any, None]  # yields seconds to sleep, or a connection with a request and its version


class Line:
    """A connection of a client to one broker."""

    def __init__(self, story: Story, number: int, client: str, host: str, node: int) -> None:
        self.number, self.client, self.host, self.node = number, client, host, node
        self.closed = False
        self.events: list[tuple[int, int, str, bytes]] = [(story.micros(), next(story.turns), "open", b"")]
        self.ids = count()
        self._story = story

    def note(self, what: str, frame: bytes = b"") -> None:
        self.events.append((self._story.micros(), next(self._story.turns), what, frame))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.note("close")


class Story(BrokerHarness):
    """A cluster and its clients in virtual time. ``rng``: random numbers of the story, from its seed."""

    def __init__(self, seed: int, *, brokers: int = 1, topics: Mapping[str, int] | None = None, **config: Any) -> None:
        super().__init__(brokers=brokers, topics={}, config=config)
        for name, partitions in (topics or {TOPIC: PARTITIONS}).items():
            nodes = sorted(self.broker.cluster.nodes)
            self.broker.cluster.create_topic(name, [nodes] * partitions)  # the first broker leads all partitions
        self.watched = 0
        self.rng = random.Random(seed)
        self.turns = count()
        self.lines: list[Line] = []
        self._faults: FaultStage | None = None
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._open: list[tuple[Line, SentRequest, int, Then]] = []
        self.progress: dict[tuple[str, str, int], int] = {}  # committed offsets
        self.restarted: dict[str, list[Any]] = {}  # successive members of a client
        self._hosts: dict[str, str] = {}

    # --- time ---

    def micros(self) -> int:
        return START + round(self.now * 1e6)

    def at(self, when: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._due, (when, next(self.turns), lambda: (what(), None)[1]))

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run(self, until: float) -> None:
        """Process all events before a time."""
        while (due := min(self.router.deadline(), self._due[0][0] if self._due else until)) < until:
            if self._due and self._due[0][0] <= due:
                when, _, what = heapq.heappop(self._due)
                self.wait(max(when - self.now, 0.0))
                what()
            else:
                self.wait(max(due - self.now, 0.0))
            self._hear()
        self.wait(max(until - self.now, 0.0))

    def rule(self, api: str | list[str], *, match: Any = None, occurrence: Any = None, **action: Any) -> str:
        """Add a fault rule, with the fields of docs/faults.md; return its name."""
        if self._faults is None:
            self._faults = FaultStage(self.router, lambda _: "User:ANONYMOUS")
        form = {
            "match": {"api": api, **(match or {})},
            "occurrence": {"times": "always", **(occurrence or {})},
            "action": action,
        }
        return self._faults.add(parse_rule(form, name=f"rule-{next(self.turns)}")).rule.name

    def drop(self, name: str) -> None:
        """Remove a fault rule."""
        assert self._faults is not None
        _, effects = self._faults.remove(name, self.now)
        self.finish(effects)

    def move_coordinator(self, group: str) -> None:
        """Elect another leader for the group's partition of the offsets topic."""
        topic, index = self.broker.offsets_partition(group)
        partition = self.broker.cluster.topics[topic].partitions[index]
        other = next(node for node in self.broker.cluster.nodes if node != partition.leader)
        self.finish(failover.move_leader(self.broker, partition, other, self.now))

    # --- requests ---

    def connect(self, client: str, node: int | None = None, host: str | None = None) -> Line:
        host = host or self._hosts.setdefault(client, f"10.0.1.{len(self._hosts) + 1}")
        line = Line(self, next(self._numbers), client, host, min(self.broker.cluster.nodes) if node is None else node)
        self.lines.append(line)
        return line

    def ask_on(self, line: Line, request: Any, version: int, then: Then) -> None:
        """Send a request. ``then`` gets the response, or None if the connection is closed."""
        if line.closed:
            self.at(self.now + THINK, lambda: then(None))
            return
        api = schema_of(type(request)).api
        assert api is not None
        number = next(line.ids)
        frame = kwire.encode_request(request, version, correlation_id=number, client_id=line.client)
        line.note("request", frame)
        ticket = Ticket(line.number, number, api.key, version)
        sent = self.sent[ticket] = SentRequest(ticket, api.response, line.node)
        received = kwire.decode(type(request), kwire.encode(request, version), version)
        broker_call: Any = BrokerCall(ticket, Client(line.node, line.client, f"/{line.host}"), received, frame)
        self._open.append((line, sent, number, then))
        self._take(self.router.step(broker_call, self.now))
        self.wait(0.0)
        self._hear()

    def _hear(self) -> None:
        answered = [one for one in self._open if one[1].done]
        self._open = [one for one in self._open if not one[1].done]
        for line, sent, number, then in answered:
            if sent.answer is None:
                if sent.closed:
                    line.close()
                    then(None)
                continue
            if not line.closed:
                frame = kwire.encode_response(sent.answer, sent.ticket.version, correlation_id=number)
                line.note("response", frame)
            then(sent.answer)

    def play(self, at: float, script: Script) -> None:
        """Run a script that begins at a time. ``Script`` describes the values that it yields."""

        def go(answer: Any = None) -> None:
            try:
                wish = script.send(answer)
            except StopIteration:
                return
            if isinstance(wish, tuple):
                line, request, version = wish
                self.ask_on(line, request, version, lambda answer: self.call_later(THINK, lambda: go(answer)))
            else:
                self.call_later(max(wish, 0.0), go)

        self.at(at, go)

    # --- members of groups ---

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        assert isinstance(member, (Classic, Modern))
        member.send(request, version, then)

    def partition_count(self, topic: str) -> int:
        return len(self.broker.cluster.topics[topic].partitions)

    def member(self, name: str, at: float, *, modern: bool = False, **how: Any) -> Any:
        """Return a consumer that starts at a time.

        ``how``: attributes of the consumer, or of its Timing: ``session``, ``rebalance``, ``heartbeat``, ``slow``.
        """
        timing: dict[str, float] = {"session": 10.0, "rebalance": 60.0, "heartbeat": 3.0}
        timing |= {key: how.pop(key) for key in ("session", "rebalance", "heartbeat", "slow") if key in how}
        options = {key: how.pop(key) for key in ("instance", "group", "topic") if key in how}
        jitter = 0.000_211 * (1 + len(self.lines))
        kind = Modern if modern else Classic
        made = kind(
            self,
            name,
            timing=Timing(**timing, think=THINK, jitter=jitter),
            **{"group": GROUP, "topic": TOPIC, **options},
        )
        for key, value in how.items():
            assert hasattr(made, key), key
            setattr(made, key, value)
        self.at(at, made.begin)
        return made

    def producer(
        self,
        rate: float | Callable[[int], float] = 2.0,
        *,
        topic: str = TOPIC,
        until: float = 1e9,
        name: str = "shop",
        every: float = 1.0,
    ) -> None:
        """Start a producer that writes to each partition. ``rate``: records per second, or a function for it."""
        self.play(0.6, self._produce(rate, topic, until, name, every))

    def _produce(
        self, rate: float | Callable[[int], float], topic: str, until: float, name: str, every: float
    ) -> Script:
        line = self.connect(name)
        owed = [0.0] * self.partition_count(topic)
        while self.now < until:
            kind = ProduceRequest.Topic
            data = []
            for index in range(len(owed)):
                owed[index] += every * (rate(index) if callable(rate) else rate)
                number, owed[index] = int(owed[index]), owed[index] % 1
                if number:
                    batch = build_batch([Record(value=b"x")] * number)
                    data.append(kind.Partition(index=index, records=bytes(batch)))
            if data:
                yield (
                    line,
                    ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[kind(name=topic, partition_data=data)]),
                    9,
                )
            yield every

    # --- the capture ---

    def segments(self, mss: int = 60_000) -> list[Segment]:
        """Return the TCP segments of all connections, in order of time. ``mss``: maximum payload in bytes."""
        made: list[Segment] = []
        ports = count(40_000)
        for line in self.lines:
            talk = Talk(client=(line.host, next(ports)), broker=(f"10.0.9.{line.node + 1}", 9092), mss=mss, gap_us=1)
            for time_us, _, what, frame in line.events:
                talk.time_us = time_us
                if what in ("open", "close"):
                    made += talk.open() if what == "open" else talk.close()
                else:
                    made += talk.say(what == "request", prefixed(frame))
        return sorted(made, key=lambda segment: segment.time_us)

    def capture(self, folder: Path) -> Path:
        file = folder / "story.pcap"
        file.write_bytes(pcap(packets(self.segments())))
        return file

    def tables(self, folder: Path) -> dict[str, Sequence[Row]]:
        """Return the tables of a capture of the story."""
        reading = read(self.capture(folder))
        items = list(reading)
        assert reading.problems == []
        calls = [item for item in items if isinstance(item, Call)]
        return analyse(calls, [item for item in items if isinstance(item, Connection)], "story", frames=False)


class Consumer(GroupMember):
    """The base class of consumers of both protocols: they fetch, process and commit.

    ``commits_every``: seconds between commits, 0 for no commits; ``pace``: processed records per second and partition;
    ``frozen_until``: end of a pause of the whole process; ``stalled_until``: end of a pause without polls; ``held``:
    partitions that are read, but not committed any more; ``beat_noise``: seconds added to the heartbeat interval.
    """

    transport: Story
    commits_every = 5.0
    pace: float | Callable[[], float] = 1e9
    frozen_until = stalled_until = 0.0
    commits_from = 0.0
    leave_reason: str | None = None
    commit_version = 8

    def begin(self) -> None:
        self.owned: list[int] = []
        self.position: dict[int, float] = {}
        self.committed: dict[int, int] = {}
        self.held: set[int] = getattr(self, "held", set())
        self.line = self.connected()
        self.start()
        self.transport.play(self.transport.now + 0.01, self._read())
        if self.commits_every:
            self.transport.play(self.transport.now + self.commits_every, self._commit())

    beat_noise: Callable[[], float] = staticmethod(lambda: 0.0)

    @cached_property
    def reading(self) -> Line:
        return self.transport.connect(self.name)

    def connected(self) -> Line:
        return self.transport.connect(self.name, self.transport.broker.coordinator(self.group))

    def send(self, request: Any, version: int, then: Then) -> None:
        story = self.transport

        def answered(response: Any) -> None:
            if story.now < self.frozen_until:
                story.at(self.frozen_until, lambda: answered(response))
            else:
                then(response)

        story.ask_on(self.line, request, version, answered)

    def later(self, delay: float, action: Callable[[], None]) -> None:
        if action == getattr(self, "beat", None):
            delay = max(delay + self.beat_noise(), 0.001)
        super().later(delay, lambda: self._thawed(action))

    def _thawed(self, action: Callable[[], None]) -> None:
        if self.transport.now < self.frozen_until:
            super().later(self.frozen_until - self.transport.now, lambda: self._thawed(action))
        else:
            action()

    def lost(self, response: Any, retry: Callable[[], None]) -> bool:
        """Look up the coordinator if the connection is closed or the broker is not the coordinator."""
        code = None if response is None else response.error_code
        if code is not None and code not in (kwire.ErrorCode.NOT_COORDINATOR, *LOADING):
            return False
        if code in LOADING:
            self.later(0.3, retry)
            return True

        def found() -> Script:
            line = self.transport.connect(self.name)
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
            answer = yield line, request, 4
            if self.line.node != answer.coordinators[0].node_id or self.line.closed:
                self.line = self.transport.connect(self.name, answer.coordinators[0].node_id)
            line.close()
            self.later(0.1, retry)

        self.transport.play(self.transport.now, found())
        return True

    def assigned(self, partitions: list[int]) -> None:
        super().assigned(partitions)
        self.owned = partitions
        for index in partitions:
            self.position.setdefault(index, float(self.transport.progress.get((self.group, self.topic, index), 0)))

    def _sleep(self) -> float:
        return max(self.frozen_until, self.stalled_until) - self.transport.now

    def _read(self) -> Script:
        story = self.transport
        yield self.reading, MetadataRequest(topics=[MetadataRequest.Topic(name=self.topic)]), 12
        while not self.gone:
            if self._sleep() > 0:
                yield self._sleep()
                continue
            owned = list(self.owned)
            if not owned:
                yield 0.2
                continue
            kind = FetchRequest.Topic
            lines = [
                kind.Partition(partition=n, fetch_offset=int(self.position[n]), partition_max_bytes=1 << 20)
                for n in owned
            ]
            request = FetchRequest(
                max_wait_ms=round(FETCH_WAIT * 1000), min_bytes=1, topics=[kind(topic=self.topic, partitions=lines)]
            )
            began = story.now
            answer = yield self.reading, request, 11
            if answer is None:
                del self.__dict__["reading"]
                yield 0.1
                continue
            pace = self.pace() if callable(self.pace) else self.pace
            for topic in answer.responses:
                for partition in topic.partitions:
                    if partition.error_code or partition.partition_index not in self.owned:
                        continue
                    index = partition.partition_index
                    behind = partition.high_watermark - self.position[index]
                    if index not in self.held:
                        self.position[index] += min(behind, pace * max(story.now - began, 0.5))
            if pace < 1e9:
                yield 0.5
            elif self.held & set(self.owned):
                yield 1.0

    def _commit(self) -> Script:
        story = self.transport
        while not self.gone:
            if self._sleep() > 0:
                yield self._sleep()
                continue
            if self.owned and self.generation >= 0 and story.now >= self.commits_from:
                yield self.line, self.commit_request(self.owned), self.commit_version
                for index in self.owned:
                    offset = int(self.position.get(index, 0))
                    story.progress[self.group, self.topic, index] = offset
            yield self.commits_every

    def commit_request(self, partitions: list[int], generation: int | None = None) -> OffsetCommitRequest:
        kind = OffsetCommitRequest.Topic
        places = [
            kind.Partition(partition_index=index, committed_offset=int(self.position.get(index, 0)))
            for index in partitions
        ]
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[kind(name=self.topic, partitions=places)],
        )

    def freeze(self, seconds: float) -> None:
        """Pause the process for a time, as a long garbage collection does."""
        self.frozen_until = self.transport.now + seconds

    def stall(self, seconds: float) -> None:
        """Stop polling for a time."""
        self.stalled_until = self.transport.now + seconds


LOADING = (kwire.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, kwire.ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Classic(Consumer, ClassicMember):
    """A consumer of a classic group.

    ``assigns_for``: seconds of an assignment in the leader; ``rejoins_after``: seconds until it rejoins in a rebalance;
    ``subscribes``: topics of its subscription, instead of ``topic``.
    """

    join_version = 9
    assigns_for = 0.0
    rejoins_after = 0.0
    subscribes: list[str] | None = None
    offers = "range"

    def join(self) -> None:
        self.owned = []
        super().join()

    def protocols(self) -> list[JoinGroupRequest.Protocol]:
        made = super().protocols()
        if self.subscribes is not None:
            made[0].metadata = encode_stored(ConsumerProtocolSubscription(topics=self.subscribes), 1)
        return [JoinGroupRequest.Protocol(name=name, metadata=made[0].metadata) for name in self.offers.split(",")]

    def sync(self, plan: Mapping[str, bytes]) -> None:
        if plan and self.assigns_for:
            self.later(self.assigns_for, lambda: Classic.send_sync(self, plan))
        else:
            super().sync(plan)

    def send_sync(self, plan: Mapping[str, bytes]) -> None:
        super().sync(plan)

    def _refused(self, response: Any, delay: float) -> None:
        if response.error_code == kwire.ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self.later(2.0, self.join)
            return
        rebalance = response.error_code == kwire.ErrorCode.REBALANCE_IN_PROGRESS
        super()._refused(response, self.rejoins_after if rebalance and self.rejoins_after else delay)

    def leave(self) -> None:
        leaving = LeaveGroupRequest.Member(
            member_id=self.member_id, group_instance_id=self.instance, reason=self.leave_reason
        )
        self.owned = []
        self.ask(LeaveGroupRequest(group_id=self.group, members=[leaving]), 5, lambda _: None)
        self.stop()


class Modern(Consumer, ConsumerMember):
    """A consumer of a KIP-848 group."""

    commit_version = 9

    def __init__(self, transport: Story, name: str, **how: Any) -> None:
        super().__init__(transport, name, **how)
        self.member_id = f"id-{next(transport.turns)}-of-{name}"

    def leave(self) -> None:
        self.owned = []
        super().leave()

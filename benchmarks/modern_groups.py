"""Consumer, share and streams groups on the mock broker and on a real Kafka, in one run. `make bench-groups`.

    python benchmarks/modern_groups.py [--rounds 5] [--kafka 4.2.0] [--only joins streams share]

The members are raw: kwire encodes their requests, and each connection has one request in flight. tests/oracle/kafka.py
starts the real Kafka (Java 17, Maven). A run takes some minutes and stops all processes that it started. Prints
benchmarks/results/modern_groups.md.

On a machine that does other work, the times mean little: Kafka has more threads, and so gets a larger share of the
cores. With `chrt -r 10 python benchmarks/modern_groups.py`, the other work waits (root; some minutes).
"""

from __future__ import annotations

import select
import socket
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import beside_kafka
from processes import cpu_times

from kwire import ClientSide
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

INTRODUCTION = """\
# Consumer, share and streams groups beside Kafka

{day}, `make bench-groups` (`python benchmarks/modern_groups.py`): {rounds} rounds, mockbroker and Apache Kafka {kafka}
started once and asked in turn, after one round that is not counted. {cores} cores for the servers and the load;
{others} (load {load:.1f} at the start); Linux, CPython {python}.

Times and rates by the clock are the best of the rounds, the median in brackets; CPU is user and system time of the
server from /proc, the median of the rounds. The verdict is that of the medians, "ok at best" that of the best rounds.

| work | figure | goal | mockbroker | Kafka | of Kafka's | |
|---|---|---|---|---|---|---|"""

OUR_PORT, KAFKA_PORT = 29_792, 29_892
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "60000",
    "group.streams.session.timeout.ms": "60000",
    "group.share.session.timeout.ms": "60000",
}
JOINS = (1_000, 10_000)
JOINS_GOAL = 15.0  # times the CPU for ten times the members
CONNECTIONS = 10
STREAMS_MEMBERS, TASKS = 1_000, 1_000
STREAMS_GOAL = 1.5  # times Kafka's time
RECORDS, SIZE, SHARERS = 200_000, 100, 10
FETCHES = {"500": (500, 0), "50, no more": (50, 1)}  # records of a ShareFetch, and the acquire mode (KIP-1206)
WAIT = 120.0  # seconds for a response, and for the assignment of a group
NARROW, WIDE, SHARED = "narrow", "wide", "shared"
Script = Generator[tuple[Any, int], Any, None]  # yields a request and its version, gets the response
_names = count()


@dataclass
class Server:
    """A broker: its address, its process, and the figures of each round by name of the work."""

    address: str
    pid: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, work: str, scripts: Sequence[Script]) -> None:
        """Run scripts, each on a connection of its own."""
        began, cpu = time.perf_counter(), sum(cpu_times(self.pid))
        play(self.address, scripts)
        self.seconds.setdefault(work, []).append(time.perf_counter() - began)
        self.cpu.setdefault(work, []).append(sum(cpu_times(self.pid)) - cpu)

    def drop_first_round(self) -> None:
        for figures in (*self.seconds.values(), *self.cpu.values()):
            del figures[0]


def play(address: str, scripts: Sequence[Script]) -> None:
    """Run scripts side by side, each with one request in flight, until all have ended.

    Raises: RuntimeError if no response arrives, or a script waits too long for an assignment.
    """
    host, port = address.rsplit(":", 1)
    poll = select.poll()
    playing: dict[int, tuple[Script, socket.socket, ClientSide]] = {}
    for script in scripts:
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        side = ClientSide("bench")
        playing[sock.fileno()] = script, sock, side
        sock.sendall(side.send(*next(script)))
        poll.register(sock, select.POLLIN)
    while playing:
        ready = poll.poll(WAIT * 1_000)
        if not ready:
            raise RuntimeError(f"{address}: {len(playing)} connections had no response for {WAIT:.0f} s: see its log")
        for number, _ in ready:
            script, sock, side = playing[number]
            data = sock.recv(1 << 20)
            assert data, "the broker closed a connection"
            side.receive(data)
            response = side.next_response()
            if response is None:
                continue
            try:
                request, version = script.send(response.body)
            except StopIteration:
                poll.unregister(sock)
                del playing[number]
                sock.close()
            else:
                sock.sendall(side.send(request, version))


# --- the members ---


class Patience:
    """The time limit of a wait for an assignment."""

    def __init__(self) -> None:
        self._until = time.monotonic() + WAIT

    def check(self, what: str) -> None:
        """Raises: RuntimeError if the limit is exceeded. ``what``: the group and its state, for the message."""
        if time.monotonic() > self._until:
            raise RuntimeError(f"{what} after {WAIT:.0f} s: see the log of the broker")


def joins(group: str, members: int) -> Script:
    """Members that join a consumer group one by one."""
    for number in range(members):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=f"member-{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[NARROW],
            topic_partitions=[],
        )
        answer = yield request, 1
        assert not answer.error_code, answer


@dataclass
class StreamsGroup:
    """The members of a streams group that forms: their epochs, and the tasks that they have."""

    group: str
    members: int
    epochs: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, list[Any]] = field(default_factory=dict)

    def formed(self) -> bool:
        return len(self.epochs) == self.members and len(set(self.epochs.values())) == 1 and self.owned() == TASKS

    def owned(self) -> int:
        return sum(len(each.partitions) for tasks in self.tasks.values() for each in tasks)

    def state(self) -> str:
        epochs = sorted(set(self.epochs.values()))
        return f"{len(self.epochs)} of {self.members} members, epochs {epochs}, {self.owned()} of {TASKS} tasks"

    def script(self, first: int, step: int) -> Script:
        """Let some of the members join one by one, and then send heartbeats until the group is formed."""
        kind = StreamsGroupHeartbeatRequest
        topology = kind.Topology(
            epoch=0, subtopologies=[kind.Topology.Subtopology(subtopology_id="0", source_topics=[WIDE])]
        )
        names = [f"member-{number}" for number in range(first, self.members, step)]
        for name in names:
            answer = yield (
                kind(
                    group_id=self.group,
                    member_id=name,
                    rebalance_timeout_ms=60_000,
                    topology=topology,
                    process_id=name,
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                ),
                0,
            )
            self._take(name, answer)
        patience = Patience()
        while not self.formed():
            patience.check(f"streams group {self.group} is not formed: {self.state()}")
            for name in names:
                owned = [kind.TaskIds(subtopology_id="0", partitions=each.partitions) for each in self.tasks[name]]
                request = kind(group_id=self.group, member_id=name, member_epoch=self.epochs[name], active_tasks=owned)
                request.standby_tasks = request.warmup_tasks = []
                self._take(name, (yield request, 0))

    def _take(self, name: str, answer: Any) -> None:
        assert not answer.error_code, answer
        self.epochs[name] = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks[name] = answer.active_tasks
        self.tasks.setdefault(name, [])


@dataclass
class ShareGroup:
    """The members of a share group that read a topic: their partitions, and the acknowledged records."""

    group: str
    partitions: dict[str, dict[UUID, list[int]]] = field(default_factory=dict)
    acknowledged: int = 0

    def join(self) -> Script:
        """Let all members join, and send heartbeats until each has partitions."""
        kind = IncrementalAlterConfigsRequest.Resource
        config = kind.Config(name="share.auto.offset.reset", value="earliest")
        yield (
            IncrementalAlterConfigsRequest(
                resources=[kind(resource_type=32, resource_name=self.group, configs=[config])]
            ),
            1,
        )
        epochs = {uuid_text(uuid4()): 0 for _ in range(SHARERS)}
        patience = Patience()
        while len(set(epochs.values())) > 1 or sorted(map(_size, self.partitions.values())) != [1] * SHARERS:
            patience.check(f"share group {self.group} has no assignment: epochs {sorted(set(epochs.values()))}")
            for name, epoch in epochs.items():
                topics = [SHARED] if epoch == 0 else None
                request = ShareGroupHeartbeatRequest(
                    group_id=self.group, member_id=name, member_epoch=epoch, subscribed_topic_names=topics
                )
                answer = yield request, 1
                assert not answer.error_code, answer
                epochs[name] = answer.member_epoch
                if answer.assignment is not None:
                    self.partitions[name] = {
                        each.topic_id: each.partitions for each in answer.assignment.topic_partitions
                    }

    def read(self, name: str, records: int, mode: int) -> Script:
        """Fetch and acknowledge records until all are acknowledged.

        ``records``: maximum records of a ShareFetch; ``mode``: 0 for whole batches, 1 for not more records than that.
        """
        topic = ShareFetchRequest.Topic
        named = [
            topic(topic_id=topic_id, partitions=[topic.Partition(partition_index=index) for index in indexes])
            for topic_id, indexes in self.partitions[name].items()
        ]
        epoch = 0
        while self.acknowledged < RECORDS:
            fetch = ShareFetchRequest(
                group_id=self.group,
                member_id=name,
                share_session_epoch=epoch,
                max_wait_ms=50,
                min_bytes=1,
                max_bytes=50 << 20,
                max_records=records,
                batch_size=records,
                share_acquire_mode=mode,
                topics=[] if epoch else named,
            )
            answer = yield fetch, 2
            epoch += 1
            assert not answer.error_code, answer
            acquired = _acknowledgements(answer)
            if acquired:
                request = ShareAcknowledgeRequest(
                    group_id=self.group, member_id=name, share_session_epoch=epoch, topics=acquired
                )
                answer = yield request, 2
                epoch += 1
                errors = {each.error_code for topic in answer.responses for each in topic.partitions}
                assert (answer.error_code, errors) == (0, {0}), answer
                self.acknowledged += sum(
                    batch.last_offset - batch.first_offset + 1
                    for topic in acquired
                    for partition in topic.partitions
                    for batch in partition.acknowledgement_batches
                )


def _size(partitions: dict[UUID, list[int]]) -> int:
    return sum(map(len, partitions.values()))


def _acknowledgements(answer: Any) -> list[Any]:
    """Return the topics of a ShareAcknowledge that accepts all acquired records of a ShareFetch."""
    kind = ShareAcknowledgeRequest.Topic
    topics = []
    for topic in answer.responses:
        partitions = []
        for each in topic.partitions:
            batches = [
                kind.Partition.AcknowledgementBatch(
                    first_offset=records.first_offset, last_offset=records.last_offset, acknowledge_types=[1]
                )
                for records in each.acquired_records
            ]
            if batches:
                partitions.append(kind.Partition(partition_index=each.partition_index, acknowledgement_batches=batches))
        if partitions:
            topics.append(kind(topic_id=topic.topic_id, partitions=partitions))
    return topics


# --- the tables ---


class Bench:
    """The rows of the table. ``missed``: how many rows missed the goal."""

    def __init__(self, rounds: int, ours: Server, kafkas: Server) -> None:
        self.rounds, self.ours, self.kafkas = rounds, ours, kafkas
        self.missed = 0

    def in_turn(self, run: Callable[[Server], None]) -> None:
        for _ in range(self.rounds + 1):
            for server in (self.ours, self.kafkas):
                run(server)
        for server in (self.ours, self.kafkas):
            server.drop_first_round()

    def joins(self) -> None:
        works = [f"{members:,} members join a consumer group one by one" for members in JOINS]

        def run(server: Server) -> None:
            for work, members in zip(works, JOINS, strict=True):
                server.measure(work, [joins(f"joins-{next(_names)}", members)])

        self.in_turn(run)
        for work in works:
            self._times(work)
        ours, kafkas = (
            statistics.median(server.cpu[works[1]]) / statistics.median(server.cpu[works[0]])
            for server in (self.ours, self.kafkas)
        )
        verdict = self._verdict(ours <= JOINS_GOAL)
        print(f"| the same | CPU, ratio | <= {JOINS_GOAL:.0f} | {ours:.1f} | {kafkas:.1f} |  | {verdict} |", flush=True)

    def streams(self) -> None:
        work = f"{STREAMS_MEMBERS:,} members of a streams group form, {TASKS:,} tasks"

        def run(server: Server) -> None:
            group = StreamsGroup(f"streams-{next(_names)}", STREAMS_MEMBERS)
            server.measure(work, [group.script(first, CONNECTIONS) for first in range(CONNECTIONS)])

        self.in_turn(run)
        self._times(work, STREAMS_GOAL)

    def share(self) -> None:
        for text, (records, mode) in FETCHES.items():
            work = f"{RECORDS:,} records, {SHARERS} members, ShareAcknowledge and ShareFetch of {text}"

            def run(server: Server, work: str = work, records: int = records, mode: int = mode) -> None:
                group = ShareGroup(f"share-{next(_names)}")
                play(server.address, [group.join()])
                server.measure(work, [group.read(name, records, mode) for name in group.partitions])

            self.in_turn(run)
            self._times(work, 1.0, RECORDS)

    def _times(self, work: str, goal: float | None = None, elements: int = 0) -> None:
        """Print time or rate, and CPU. ``goal``: largest ratio of the times; ``elements``: print a rate of them."""
        ours, kafkas = self.ours.seconds[work], self.kafkas.seconds[work]
        middle, best = statistics.median(ours) / statistics.median(kafkas), min(ours) / min(kafkas)
        verdict = "" if goal is None else self._verdict(middle <= goal, best <= goal)
        wanted = "" if goal is None else (f">= {goal:.1f}" if elements else f"<= {goal:.1f}")
        ratio = 1 / middle if elements else middle
        cells = [work, "a second" if elements else "s", wanted, _figure(ours, elements), _figure(kafkas, elements)]
        print(f"| {' | '.join(cells)} | {ratio:.2f} | {verdict} |", flush=True)
        own, other = (statistics.median(server.cpu[work]) for server in (self.ours, self.kafkas))
        print(f"| the same | CPU s |  | {own:.2f} | {other:.2f} | {own / max(other, 0.01):.2f} |  |", flush=True)

    def _verdict(self, holds: bool, at_best: bool = False) -> str:
        self.missed += not (holds or at_best)
        return "ok" if holds else "ok at best" if at_best else "**missed**"


def _figure(seconds: Sequence[float], elements: int) -> str:
    best, middle = min(seconds), statistics.median(seconds)
    return f"{elements / best:,.0f} ({elements / middle:,.0f})" if elements else f"{best:.2f} ({middle:.2f})"


def begin(options: beside_kafka.Options, stack: ExitStack) -> Bench:
    """Start and fill both brokers, and print the introduction."""
    kafkas = stack.enter_context(beside_kafka.real(options.kafka, KAFKA_PORT, SETTINGS))
    ours = stack.enter_context(beside_kafka.mock(OUR_PORT, SETTINGS))
    for broker in (ours, kafkas):
        beside_kafka.create_topics(broker.address, {NARROW: 100, WIDE: TASKS, SHARED: SHARERS})
        beside_kafka.fill(broker.address, SHARED, SHARERS, RECORDS, SIZE)
    print(INTRODUCTION.format(**options.facts), flush=True)
    return Bench(options.rounds, Server(ours.address, ours.pid), Server(kafkas.address, kafkas.pid))


if __name__ == "__main__":
    beside_kafka.main(__doc__, ["joins", "streams", "share"], 5, begin)

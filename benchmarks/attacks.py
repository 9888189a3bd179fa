"""Cost of small hostile requests: a row with the CPU time, the size of the response and the memory of one step.

``attacks.py`` runs all attacks, each in its own process; ``attacks.py NAME`` runs one and prints a JSON object. Without
sockets, a request is read, handled and answered as by a connection. CPU time is that of the step alone, or of the
longest slice of a request that is handled in slices; memory is the growth of the process at its peak.

benchmarks/bystander.py measures another client's latency during an attack.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from kwire import WireError, encode_request
from kwire.frames import pack
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records import Record, build_batch
from kwire.records.compression import ZSTD
from mockbroker.base.effects import Close, Dismiss, Reply
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router, Unfinished
from mockbroker.cli.garbage_collection import COLLECT_AFTER
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.net.connection import ClientRequests, Undecoded
from mockbroker.topics.model import Node

LONGEST = 90  # seconds of CPU time after which the process of an attack is ended
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
Request = tuple[Any, int]  # a request and its version


class Target:
    """A broker without sockets; it counts the bytes sent and answered and the longest step since ``begin``."""

    def __init__(self) -> None:
        random = Random(1)
        self.broker = Broker(
            [Node(0, "127.0.0.1", 9092)], Settings.parse(QUICK), lambda: UUID(int=random.getrandbits(128))
        )
        self.router = Router(self.broker, Journal(0.0))
        self.router.journal.max_events = 2_000  # as with mockbroker serve
        self._numbers = count(1)
        self.now = 0.0
        self.begin()

    def begin(self) -> None:
        self.sent = self.answered = 0
        self.worst = 0.0
        self.refused = ""

    def topic(self, name: str, partitions: int = 1) -> None:
        cluster = self.broker.cluster
        cluster.create_topic(name, [[0]] * partitions)

    def ask(self, request: Any, version: int) -> list[Any]:
        """Send one request on a new connection; return all responses that it caused, on any connection."""
        frame = pack(encode_request(request, version, correlation_id=1, client_id="attack"))
        session = ClientRequests(next(self._numbers), 0, "/127.0.0.1", self.router)
        self.sent += len(frame)
        before = time.process_time()
        session.receive(frame)
        answers = []
        try:
            call = session.next_call()
            while isinstance(call, Undecoded):
                try:
                    next(call.steps)
                except StopIteration as end:
                    call = end.value
                else:  # mockbroker serve handles other connections here
                    self.worst, before = max(self.worst, time.process_time() - before), time.process_time()
            assert call is not None
            outcomes = deque(self.router.step(call, self.now))
            while outcomes:
                outcome = outcomes.popleft()
                if isinstance(outcome, Unfinished):  # mockbroker serve handles other connections here
                    self.worst, before = max(self.worst, time.process_time() - before), time.process_time()
                    outcomes += outcome.resume(self.now)
                elif isinstance(outcome, Close | Dismiss):
                    self.refused = outcome.reason
                elif isinstance(outcome, Reply) and outcome.ticket == session.ticket:
                    self.answered += len(session.answer(outcome))
                    answers.append(outcome.response)
        except WireError as error:
            self.refused = str(error)
        self.worst = max(self.worst, time.process_time() - before)
        return answers

    def wait(self, seconds: float) -> None:
        """Advance the time; each due deadline is a step."""
        until = self.now + seconds
        while (due := self.router.deadline()) <= until:
            self.now = max(self.now, due)
            before = time.process_time()
            self.router.tick(self.now)
            self.worst = max(self.worst, time.process_time() - before)
        self.now = until


Attack = Callable[[Target], Iterable[Request] | None]
ATTACKS: dict[str, tuple[str, Attack]] = {}


def attack(description: str) -> Callable[[Attack], Attack]:
    def keep(play: Attack) -> Attack:
        ATTACKS[play.__name__] = description, play
        return play

    return keep


@attack("Metadata, 20,000 unknown topics, auto-creation")
def unknown_topics(_: Target) -> Iterable[Request]:
    topics = [MetadataRequest.Topic(name=f"t{number}") for number in range(20_000)]
    yield MetadataRequest(topics=topics, allow_auto_topic_creation=True), 4


@attack("CreateTopics, 20,000 topics")
def new_topics(_: Target) -> Iterable[Request]:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(20_000)]
    yield CreateTopicsRequest(topics=topics), 2


@attack("CreateTopics, 12,500 names, twice each")
def duplicate_topics(_: Target) -> Iterable[Request]:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"t{number % 12_500}", num_partitions=1, replication_factor=1) for number in range(25_000)]
    yield CreateTopicsRequest(topics=topics), 2


@attack("CreateTopics, 500 topics of 99,000 partitions, to be validated")
def validated_topics(_: Target) -> Iterable[Request]:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"t{number}", num_partitions=99_000, replication_factor=1) for number in range(500)]
    yield CreateTopicsRequest(topics=topics, validate_only=True), 2


@attack("DeleteTopics, 10,000 topics, 40,000 offsets are committed")
def deleted_topics(target: Target) -> Iterable[Request]:
    names = [f"t{number}" for number in range(10_000)]
    for name in names:
        target.topic(name)
    target.topic("kept", 40_000)
    commit(target, "g", "kept", 40_000)
    yield DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1


@attack("ListOffsets by timestamp, one partition 400 times, a batch of 573 bytes")
def one_partition(target: Target) -> Iterable[Request]:
    target.topic("t")
    records = [Record(timestamp=1_700_000_000_000, value=b"") for _ in range(99_000)]
    data = build_batch(records, codec=ZSTD)
    placed = ProduceRequest.Topic.Partition(index=0, records=data)
    target.ask(ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[placed])]), 9)
    target.begin()
    kind = ListOffsetsRequest.Topic
    asked = kind.Partition(partition_index=0, timestamp=1_700_000_000_000)
    yield ListOffsetsRequest(replica_id=-1, topics=[kind(name="t", partitions=[asked] * 400)]), 5


@attack("Metadata, a topic of 50,000 partitions 60 times")
def one_topic(target: Target) -> Iterable[Request]:
    target.topic("t", 50_000)
    yield MetadataRequest(topics=[MetadataRequest.Topic(name="t")] * 60), 4


@attack("DescribeGroups, a group of 2 MB 300 times")
def one_group(target: Target) -> Iterable[Request]:
    target.ask(join("g", metadata=bytes(1_000_000)), 3)
    target.wait(0.1)
    group = target.broker.groups["g"]
    assert isinstance(group, ClassicGroup)
    (member_id,) = group.members
    share = SyncGroupRequest.Assignment(member_id=member_id, assignment=bytes(1_000_000))
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=[share])
    target.ask(sync, 2)
    target.begin()
    yield DescribeGroupsRequest(groups=["g"] * 300), 4


@attack("OffsetFetch, all of a group with 45,000 offsets 300 times")
def all_offsets(target: Target) -> Iterable[Request]:
    target.topic("t", 45_000)
    commit(target, "g", "t", 45_000)
    target.begin()
    yield OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)] * 300), 8


@attack("ConsumerGroupHeartbeat, 176 members with an expression each, 10,000 topics")
def expressions(target: Target) -> None:
    for number in range(10_000):
        target.topic(f"topic-{number}")
    for number in range(176):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=f"topic-.*|{number}",
            topic_partitions=[],
        )
        target.ask(request, 1)
    for _ in range(4):
        target.wait(5)
        for number in range(176):
            target.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id=f"m{number}", member_epoch=0), 1)


@attack("OffsetCommit, 45,000 partitions")
def commits(target: Target) -> Iterable[Request]:
    target.topic("t", 45_000)
    yield commit_of("g", "t", 45_000), 5


@attack("DescribeUserScramCredentials, 40,000 users")
def users(_: Target) -> Iterable[Request]:
    kind = DescribeUserScramCredentialsRequest.User
    yield DescribeUserScramCredentialsRequest(users=[kind(name=f"u{number}") for number in range(40_000)]), 0


@attack("Produce, 1,000 partitions, 1 Fetch waits for them")
def parked_fetch(target: Target) -> Iterable[Request]:
    target.topic("t", 1_000)
    kind = FetchRequest.Topic
    wanted = [kind.Partition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(1_000)]
    fetch = FetchRequest(
        max_wait_ms=60_000, min_bytes=1 << 30, max_bytes=1 << 30, topics=[kind(topic="t", partitions=wanted)]
    )
    target.ask(fetch, 11)
    target.begin()
    data = build_batch([Record(timestamp=1, value=b"v")])
    placed = [ProduceRequest.Topic.Partition(index=n, records=data) for n in range(1_000)]
    yield ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="t", partition_data=placed)]), 9


def join(group: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )


def commit_of(group: str, topic: str, partitions: int) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    places = [kind.Partition(partition_index=n, committed_offset=n, committed_metadata="") for n in range(partitions)]
    return OffsetCommitRequest(group_id=group, topics=[kind(name=topic, partitions=places)])


def commit(target: Target, group: str, topic: str, partitions: int) -> None:
    target.ask(commit_of(group, topic, partitions), 5)
    target.begin()


def run(name: str) -> dict[str, Any]:
    """Run one attack in this process."""
    target = Target()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)  # as with mockbroker serve
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    requests = ATTACKS[name][1](target)
    listed = None if requests is None else list(requests)
    if listed is not None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for request, version in listed or ():
        target.ask(request, version)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "seconds": target.worst,
        "request": target.sent,
        "response": target.answered,
        "memory": grown * 1024,
        "refused": target.refused,
    }


def main() -> None:
    if len(sys.argv) == 2:
        if sys.argv[1] not in ATTACKS:
            sys.exit(f"unknown attack {sys.argv[1]!r} (possible: {', '.join(ATTACKS)})")
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 5))  # SIGXCPU, then SIGKILL
        print(json.dumps(run(sys.argv[1])))
        return
    print("| attack | request | CPU of the longest step | response | memory |\n|---|---|---|---|---|")
    for name, (description, _) in ATTACKS.items():
        ended = subprocess.run([sys.executable, __file__, name], stdout=subprocess.PIPE, check=False)
        if ended.returncode not in (0, -signal.SIGXCPU):
            sys.exit(f"{name} ended with code {ended.returncode}")
        if ended.returncode:
            print(f"| {description} | | more than {LONGEST} s | | |", flush=True)
            continue
        figures = json.loads(ended.stdout)
        response = f"refused: {figures['refused']}" if figures["refused"] else f"{figures['response']:,} B"
        print(
            f"| {description} | {figures['request']:,} B | {figures['seconds'] * 1000:,.0f} ms | {response} |"
            f" {figures['memory'] / 1e6:,.0f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()

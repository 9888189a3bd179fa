"""The cost of 1,000 ACLs and 1,000 client quotas for a Heartbeat, a Produce and a Fetch. `make bench-authorizer`.

    python benchmarks/authorizer.py [--pairs 20] [--requests 2000] [--instructions]

The brokers are in one process, without sockets, and serve the same frames in turn, so that a busy machine slows each
broker by the same factor. The figure is the CPU time from the bytes of the request to those of the response, or with
``--instructions`` the number of instructions, which valgrind counts and which is repeatable on a busy machine. Prints
benchmarks/results/authorizer.md.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records import Record, build_batch
from mockbroker.authorizer.checks import CHECKS
from mockbroker.authorizer.stage import AuthorizerStage
from mockbroker.base.effects import Reply
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.faults.errors import finished
from mockbroker.net.connection import ClientRequests, Undecoded
from mockbroker.quotas.client_quotas import CONSUMER, PRODUCER, REQUEST
from mockbroker.quotas.entity import CLIENT_ID, of_names
from mockbroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from mockbroker.throttling.stage import QuotaStage
from mockbroker.topics.model import Node

INTRODUCTION = """\
# ACLs and quotas on the path of a request

{day}, `make bench-authorizer` (`python benchmarks/authorizer.py --instructions`): instructions of a request, without
sockets, from its bytes to those of its response, counted by valgrind; Linux, CPython {python}. The client needs three
of the 1,000 ACLs. 1,000 client ids have quotas for Produce, Fetch and request time, and the client never exceeds its
own. Goal: at most 10 % more.
"""
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
ACLS = QUOTAS = 1_000
NEEDED = [
    (ResourceType.GROUP, "group-7", Operation.READ),
    (ResourceType.TOPIC, "topic-7", Operation.WRITE),
    (ResourceType.TOPIC, "topic-7", Operation.READ),
]
PLAIN, WITH_ACLS, WITH_QUOTAS = "plain", "1,000 ACLs", "1,000 quotas"
COUNTED = 100  # requests whose instructions are counted


class Served:
    """A broker and one client of it, which is the member of a group. ``what``: PLAIN, WITH_ACLS or WITH_QUOTAS."""

    def __init__(self, what: str) -> None:
        ids = count(1)
        settings = Settings.parse({**QUICK, **(AUTHORIZER if what == WITH_ACLS else {})})
        broker = Broker([Node(0, "127.0.0.1", 9092)], settings, lambda: UUID(int=next(ids)))
        broker.cluster.create_topic("topic-7", [[0]])
        self.router = Router(broker, Journal(0.0))
        if broker.authorizer is not None:
            broker.cluster.acls.add(many_acls())
            stage = AuthorizerStage(self.router, broker.authorizer)
            self.router.authorizing_stages = dict.fromkeys(CHECKS, (stage,))
        if what == WITH_QUOTAS:
            broker.quotas.changed.append(QuotaStage(self.router).apply_quotas)
            limits: dict[str, float | None] = {PRODUCER: 1e12, CONSUMER: 1e8, REQUEST: 1e6}
            for client in ("client", *(f"other-{number}" for number in range(QUOTAS - 1))):
                broker.quotas.alter(of_names({CLIENT_ID: client}), limits, validate_only=False)
        self.requests = ClientRequests(1, 0, "/127.0.0.1", self.router)
        self.member_id = self.join()

    def join(self) -> str:
        protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
        fields: dict[str, Any] = {
            "group_id": "group-7",
            "session_timeout_ms": 1_800_000,
            "rebalance_timeout_ms": 1_000,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
        member_id: str = self.ask(JoinGroupRequest(**fields), 3).member_id
        self.ask(SyncGroupRequest(group_id="group-7", generation_id=1, member_id=member_id), 3)
        return member_id

    def ask(self, request: object, version: int) -> Any:
        return self.serve(frame(request, version))

    def serve(self, data: bytes) -> Any:
        """Handle one request; return the response."""
        self.requests.receive(data)
        call = self.requests.next_call()
        if isinstance(call, Undecoded):
            call = finished(call.steps)
        assert call is not None
        outcomes = self.router.step(call, 1.0)
        while not any(isinstance(each, Reply) for each in outcomes):
            outcomes = [*self.router.run(outcomes, 1.0), *self.router.tick(1.0)]
        (reply,) = (each for each in outcomes if isinstance(each, Reply))
        self.requests.answer(reply)
        return reply.response


def many_acls() -> list[Acl]:
    """Return ACLs of many principals and resources, a third of them prefixed, and those that the client needs."""
    others = [
        Acl(
            ResourceType.TOPIC if number % 2 else ResourceType.GROUP,
            PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL,
            f"{'x' * (number % 20)}{number}",
            f"User:{number % 50}",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        for number in range(ACLS - len(NEEDED))
    ]
    needed = [
        Acl(kind, PatternType.LITERAL, name, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
        for kind, name, operation in NEEDED
    ]
    return others + needed


def frame(request: object, version: int) -> bytes:
    return pack(encode_request(request, version, correlation_id=1, client_id="client"))


def heartbeat(served: Served) -> bytes:
    return frame(HeartbeatRequest(group_id="group-7", generation_id=1, member_id=served.member_id), 4)


def produce(_: Served) -> bytes:
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"x" * 100)]))
    topics = [ProduceRequest.Topic(name="topic-7", partition_data=[data])]
    return frame(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)


def fetch(_: Served) -> bytes:
    partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic="topic-7", partitions=[partition])]
    return frame(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 11)


REQUESTS: Mapping[str, Callable[[Served], bytes]] = {"Heartbeat": heartbeat, "Fetch": fetch, "Produce": produce}


class Brokers:
    """The brokers to compare, each with a record, and the frames that they serve."""

    def __init__(self) -> None:
        self.served = {what: Served(what) for what in (PLAIN, WITH_ACLS, WITH_QUOTAS)}
        self.frames = {
            (name, what): request(served) for name, request in REQUESTS.items() for what, served in self.served.items()
        }
        for what, served in self.served.items():
            for name in ("Produce", "Heartbeat", "Fetch", "Heartbeat"):
                assert not getattr(served.serve(self.frames[name, what]), "error_code", 0)

    def run(self, name: str, what: str, requests: int) -> None:
        served, data = self.served[what], self.frames[name, what]
        for _ in range(requests):
            served.serve(data)


def print_times(pairs: int, requests: int) -> None:
    """Print CPU times, and the ratios of neighbouring measurements."""
    brokers = Brokers()
    print("| request | | µs | ratio, median | quartiles |")
    print("|---|---|---|---|---|")
    for name in REQUESTS:
        seconds: dict[str, list[float]] = {what: [] for what in brokers.served}
        for number in range(pairs):
            for what in list(seconds)[:: 1 if number % 2 else -1]:
                begin = time.process_time()
                brokers.run(name, what, requests)
                seconds[what].append(time.process_time() - begin)
        for what, times in seconds.items():
            ratios = [own / plain for own, plain in zip(times, seconds[PLAIN], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            microseconds = statistics.median(times) / requests * 1e6
            print(f"| {name} | {what} | {microseconds:.1f} | {middle:.3f} | {low:.3f}-{high:.3f} |")


def print_instructions() -> None:
    """Print the instructions of a request; a child process that valgrind runs serves the requests."""
    from compare import Instructions

    print(INTRODUCTION.format(day=datetime.date.today(), python=platform.python_version()))
    print("| request | plain | 1,000 ACLs | | 1,000 quotas | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        meter = Instructions(folder)
        command = [*meter.prefix, sys.executable, __file__, "--serve"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"

            def ask(words: Sequence[str]) -> None:
                print("\t".join(words), file=child.stdin, flush=True)
                assert child.stdout is not None
                assert child.stdout.readline() == "done\n"

            meter.measure(child.pid, partial(ask, ["Heartbeat", PLAIN]))  # which also counts the end of the start
            for name in REQUESTS:
                counts = [
                    meter.measure(child.pid, partial(ask, [name, what])) / COUNTED
                    for what in (PLAIN, WITH_ACLS, WITH_QUOTAS)
                ]
                plain, *others = counts
                cells = [cell for each in others for cell in (f"{each:,.0f}", f"{each / plain - 1:+.1%}")]
                print(f"| {name} | {plain:,.0f} | {' | '.join(cells)} |", flush=True)
            child.stdin.close()


def serve() -> None:
    """Serve the requests that standard input names, COUNTED of each."""
    brokers = Brokers()
    for name in REQUESTS:
        for what in brokers.served:
            brokers.run(name, what, 20)
    gc.disable()  # a collection in one of two measurements changes their ratio by some percent
    print("ready", flush=True)
    for line in sys.stdin:
        name, what = line.rstrip("\n").split("\t")
        brokers.run(name, what, COUNTED)
        print("done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--instructions", action="store_true", help="count them, with valgrind")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    elif given.instructions:
        print_instructions()
    else:
        print_times(given.pairs, given.requests)


if __name__ == "__main__":
    main()

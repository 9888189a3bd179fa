"""How long a request is delayed by Python's garbage collector, in a broker with 1,000 groups. `make bench-pauses`.

    python benchmarks/pauses.py [--groups 1000] [--members 10] [--requests 200000]

The members send heartbeats in turn; every tenth request is an OffsetCommit, which adds journal events and records. The
broker is in this process, without sockets. A figure is CPU time of the thread, from the bytes of the request to those
of the response, so that a busy machine hardly changes it. Prints benchmarks/results/pauses.md.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.base.effects import Reply
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.cli.garbage_collection import limit_garbage_collection
from mockbroker.cli.server_options import EVENTS_IN_MEMORY
from mockbroker.faults.errors import finished
from mockbroker.net.connection import ClientRequests, Undecoded
from mockbroker.topics.model import Node

INTRODUCTION = """\
# Pauses of the garbage collector

{day}, `make bench-pauses` (`python benchmarks/pauses.py`): CPU time of a request without sockets, from its bytes to
those of its response, {requests:,} requests of {groups:,} groups with {members} members each: heartbeats, and every
tenth request an OffsetCommit; Linux, CPython {python}. `mockbroker serve` freezes the objects of the start, and
collects garbage with the thresholds of `mockbroker/cli/garbage_collection.py`. Goal: 99.9 % of the requests take less
than 5 ms.

| collector | median, us | 99 % | 99.9 % | longest, ms | collections of generation 0, 1, 2 | their longest, ms |
|---|---|---|---|---|---|---|"""
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
COMMIT_EVERY = 10
NS_PER_US, NS_PER_MS = 1e3, 1e6


class Group:
    """A group whose members have a connection each.

    Args:
        router: router of the broker.
        number: number of the group, part of its group id.
        members: number of members.
        connections: function that returns the number of a new connection.
    """

    def __init__(self, router: Router, number: int, members: int, connections: Callable[[], int]) -> None:
        self.router, self.group_id = router, f"group-{number}"
        self.connections = [ClientRequests(connections(), 0, "/127.0.0.1", router) for _ in range(members)]
        self.ids = [""] * members
        self.generation = 0
        self.form()

    def form(self) -> None:
        """Let the members join one after the other, each time with a rebalance of the members so far."""
        for number in range(len(self.ids)):
            pending = []
            for each in reversed(range(number + 1)):  # the new member first, for which the others then rejoin
                protocols = [JoinGroupRequest.Protocol(name="range", metadata=bytes(number + 1))]
                join = JoinGroupRequest(
                    group_id=self.group_id,
                    session_timeout_ms=1_800_000,
                    rebalance_timeout_ms=60_000,
                    member_id=self.ids[each],
                    protocol_type="consumer",
                    protocols=protocols,
                )
                pending += self.serve(each, frame(join, 3))
            for reply in pending:
                connection = reply.ticket.connection - self.connections[0].connection
                self.ids[connection] = reply.response.member_id
                self.generation = reply.response.generation_id
            for each in range(number + 1):
                sync = SyncGroupRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.ids[each])
                self.serve(each, frame(sync, 3))

    def serve(self, member: int, data: bytes) -> list[Any]:
        """Handle a request of a member; return the replies to all members."""
        requests = self.connections[member]
        requests.receive(data)
        call = requests.next_call()
        if isinstance(call, Undecoded):
            call = finished(call.steps)
        assert call is not None
        outcomes = self.router.run(self.router.step(call, 1.0), 1.0)
        while self.router.deadline() <= 1.0:
            outcomes += self.router.run(self.router.tick(1.0), 1.0)
        replies = [each for each in outcomes if isinstance(each, Reply)]
        for reply in replies:
            self.connections[reply.ticket.connection - self.connections[0].connection].answer(reply)
        return replies

    def heartbeat(self, member: int) -> bytes:
        return frame(
            HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.ids[member]), 4
        )

    def commit(self, member: int) -> bytes:
        kind = OffsetCommitRequest.Topic
        topics = [kind(name="topic", partitions=[kind.Partition(partition_index=member, committed_offset=1)])]
        return frame(
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation,
                member_id=self.ids[member],
                topics=topics,
            ),
            8,
        )


def frame(request: object, version: int) -> bytes:
    return pack(encode_request(request, version, correlation_id=1, client_id="client"))


def groups(number: int, members: int) -> list[Group]:
    """Return groups of one broker. ``number``: number of groups."""
    ids, connections = count(1), count(1)
    broker = Broker([Node(0, "127.0.0.1", 9092)], Settings.parse(SETTINGS), lambda: UUID(int=next(ids)))
    broker.cluster.create_topic("topic", [[0]] * members)
    journal = Journal(0.0)
    journal.max_events = EVENTS_IN_MEMORY
    router = Router(broker, journal)
    return [Group(router, each, members, lambda: next(connections)) for each in range(number)]


class Pauses:
    """The collections of Python's garbage collector, while it is attached: their number and longest duration."""

    def __init__(self) -> None:
        self.numbers = [0, 0, 0]
        self.longest = 0
        self._began = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time_ns()
        else:
            self.numbers[info["generation"]] += 1
            self.longest = max(self.longest, time.thread_time_ns() - self._began)


def measure(name: str, served: list[Group], requests: int) -> None:
    """Print a row of the table."""
    members = len(served[0].ids)
    frames = [(g, m, g.heartbeat(m), g.commit(m)) for m in range(members) for g in served]
    for group, member, beat, _ in frames:
        assert not group.serve(member, beat)[0].response.error_code
    pauses, times = Pauses(), []
    gc.callbacks.append(pauses)
    for number in range(requests):
        group, member, beat, commit = frames[number % len(frames)]
        data = commit if number % COMMIT_EVERY == 0 else beat
        began = time.thread_time_ns()
        group.serve(member, data)
        times.append(time.thread_time_ns() - began)
    gc.callbacks.remove(pauses)
    times.sort()
    median, most, nearly_all = (times[int(requests * part)] / NS_PER_US for part in (0.5, 0.99, 0.999))
    print(
        f"| {name} | {median:,.0f} | {most:,.0f} | {nearly_all:,.0f} | {times[-1] / NS_PER_MS:,.1f} | "
        f"{', '.join(map(str, pauses.numbers))} | {pauses.longest / NS_PER_MS:,.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--requests", type=int, default=200_000)
    given = parser.parse_args()
    day, python = datetime.date.today(), platform.python_version()
    print(INTRODUCTION.format(day=day, python=python, **vars(given)))
    served = groups(given.groups, given.members)
    gc.collect()
    measure("Python's default", served, given.requests)
    limit_garbage_collection()
    measure("`mockbroker serve`, groups of before the start", served, given.requests)
    del served
    gc.unfreeze()
    gc.collect()
    limit_garbage_collection()
    measure("`mockbroker serve`", groups(given.groups, given.members), given.requests)


if __name__ == "__main__":
    main()

"""Cost of a data directory: restarts with many groups, commits with and without a disk, memory of an idle member.

    python benchmarks/durable.py [ROUNDS]

Prints a table for benchmarks/results/durable.md. The groups are created in process with the requests that clients send;
then ``mockbroker serve --data-dir`` is started, until it answers requests for one of them.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter, process_time, time
from typing import Any
from uuid import UUID

from processes import resident_memory

from kwire import ClientSide
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker import run_cluster
from mockbroker.base.effects import Call, Client, Reply, Ticket
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.real_disk import RealDisk
from mockbroker.topics.model import ClusterState, Node

GROUPS, MEMBERS, OFFSETS = 1_000, 10, 10
PORT = 9_392
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
COMMITTERS = (1, 10)
IDLE = 1_000


class Clients:
    """Sends requests to a router and returns its immediate responses."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.router = Router(broker, Journal(0.0))
        self.router.journal.max_events = 1_000
        self._numbers = count(1)

    def ask(self, request: object, api_key: int, version: int) -> list[object]:
        ticket = Ticket(next(self._numbers), 1, api_key, version)
        outcomes = self.router.step(Call(ticket, Client(0, "client", "/127.0.0.1"), request, b""), 0.0)
        while self.router.deadline() <= 0.0:
            outcomes += self.router.tick(0.0)
        return [outcome.response for outcome in outcomes if isinstance(outcome, Reply)]

    def make(self, group: str, members: int, offsets: int) -> tuple[str, int]:
        """Create a Stable group whose members have committed; return the leader's id and the generation."""
        for _ in range(members):
            self.join(group, "")
        made = self.broker.groups[group]
        assert isinstance(made, ClassicGroup)
        for member_id in list(made.members):
            if made.state_name == "PreparingRebalance":
                self.join(group, member_id)
        plan = [SyncGroupRequest.Assignment(member_id=each, assignment=bytes(60)) for each in made.members]
        leader = made.leader
        sync = SyncGroupRequest(group_id=group, generation_id=made.generation, member_id=leader, assignments=plan)
        self.ask(sync, 14, 3)
        assert made.state_name == "Stable"
        for number, member_id in enumerate(made.members):
            indexes = range(number * offsets, (number + 1) * offsets)
            self.ask(commit(group, member_id, made.generation, indexes, 5), 8, 8)
        return leader, made.generation

    def join(self, group: str, member_id: str) -> None:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=bytes(60))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.ask(request, 11, 3)


def commit(group: str, member_id: str, generation: int, indexes: range, offset: int) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    places = [kind.Partition(partition_index=index, committed_offset=offset) for index in indexes]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[kind(name="t", partitions=places)],
    )


def new_broker(cluster: ClusterState | None = None) -> Broker:
    ids = count(1)
    nodes = [Node(0, "127.0.0.1", PORT)]
    settings = Settings.parse(QUICK)
    broker = Broker(nodes, settings, lambda: UUID(int=next(ids)), wall_at_zero=time(), cluster=cluster)
    if "t" not in broker.cluster.topics:
        broker.cluster.create_topic("t", [[0]] * (MEMBERS * OFFSETS))
    return broker


def kept(folder: Path) -> tuple[tuple[str, int], int]:
    """Write a data directory with many groups; return a member of the last, its generation, and the size in bytes."""
    disk = RealDisk(folder)
    data_dir = DataDir(disk, str(folder))
    ids = count(1)
    clients = Clients(new_broker(data_dir.open([Node(0, "127.0.0.1", PORT)], lambda: UUID(int=next(ids)))))
    member = "", 0
    for number in range(GROUPS):
        member = clients.make(f"group-{number}", MEMBERS, OFFSETS)
    data_dir.close()
    disk.close()
    return member, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def serving(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(sys.executable).parent / "mockbroker"), "serve", "--port", str(PORT), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Connection:
    """A client with one connection."""

    def __init__(self) -> None:
        self.side = ClientSide("client")
        self.sock = socket.create_connection(("127.0.0.1", PORT))

    def ask(self, request: object, version: int) -> Any:
        self.sock.sendall(self.side.send(request, version))
        while (answer := self.side.next_response()) is None:
            received = self.sock.recv(65_536)
            if not received:
                raise ConnectionError("the broker closed the connection")
            self.side.receive(received)
        return answer.body


def restarted(folder: Path, member_id: str, generation: int) -> float:
    """Return the seconds from exec until a heartbeat and an OffsetFetch of the last group are answered."""
    began = perf_counter()
    group = f"group-{GROUPS - 1}"
    with serving("--data-dir", folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready ")
        connection = Connection()
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        answer = connection.ask(beat, 3)
        assert answer.error_code == 0, answer
        offsets = connection.ask(OffsetFetchRequest(group_id=group, topics=None), 5)
        assert sum(len(topic.partitions) for topic in offsets.topics) == MEMBERS * OFFSETS
        return perf_counter() - began


def commits(folder: Path | None, committers: int, seconds: float = 2.0) -> float:
    """Return the commits per second, of one offset each, by clients that wait for each response."""
    with run_cluster(port=PORT, topics={"t": 1}, data_dir=folder):
        done = [0] * committers
        until = perf_counter() + seconds

        def work(number: int) -> None:
            connection = Connection()
            while perf_counter() < until:
                connection.ask(commit(f"g{number}", "", -1, range(1), done[number]), 8)
                done[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(committers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / seconds


def synced(folder: Path, seconds: float = 1.0) -> float:
    """Return how many appends of 100 bytes with an fsync each this disk does in a second."""
    done, until = 0, perf_counter() + seconds
    with (folder / "probe").open("wb", buffering=0) as file:
        while perf_counter() < until:
            file.write(bytes(100))
            os.fsync(file.fileno())
            done += 1
    return done / seconds


def idle_member() -> float:
    """Return the broker's memory in bytes for each of many idle members with a connection each."""
    with serving("--set", "group.initial.rebalance.delay.ms=200") as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = resident_memory(process.pid)
        connections = []
        for number in range(IDLE):
            connection = Connection()
            protocol = JoinGroupRequest.Protocol(name="range", metadata=bytes(60))
            request = JoinGroupRequest(
                group_id=f"g{number // 10}",
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            connection.sock.sendall(connection.side.send(request, 3))
            connections.append(connection)
        for connection in connections:
            assert connection.sock.recv(65_536)
        memory = (resident_memory(process.pid) - before) / IDLE
        for connection in connections:
            connection.sock.close()
        return memory


def main(rounds: int) -> None:
    print(f"load {os.getloadavg()[0]:.1f} at the start\n\n| work | goal | found |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "kept"
        member, size = kept(folder)
        times = [restarted(folder, *member) for _ in range(rounds)]
        content = f"{GROUPS:,} groups x {MEMBERS} members x {OFFSETS} offsets"
        print(
            f"| exec until {content} are served ({size / 1e6:.0f} MB), s | <= 2 | "
            f"{min(times):.2f} ({statistics.median(times):.2f}) |",
            flush=True,
        )
        print(f"| appends with an fsync each that this disk can do, a second | | {synced(Path(name)):,.0f} |")
        for committers in COMMITTERS:
            memory = commits(None, committers)
            disk = commits(Path(name) / f"c{committers}", committers)
            print(f"| commits a second, {committers} clients, in memory | | {memory:,.0f} |")
            print(f"| commits a second, {committers} clients, on disk before the answer | | {disk:,.0f} |", flush=True)
    print(f"| memory of an idle member with its connection, kB | <= 20 | {idle_member() / 1024:.1f} |")
    began = process_time()
    clients = Clients(new_broker())
    clients.make("g", 1, 1)
    print(f"\nOne group made in process: {(process_time() - began) * 1e3:.0f} ms.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

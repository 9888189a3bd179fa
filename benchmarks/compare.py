"""Compares two source trees: CPU time of requests, the codec and imports in one, as a ratio to the other.

    python benchmarks/compare.py BEFORE AFTER [--starts 5] [--pairs 4] [--parts broker codec commands] [--only REGEX]
        [--instructions]

BEFORE and AFTER are checkouts with a ``.venv`` each. Both do the same work in turn; the side that begins alternates.
Both are restarted for each of the starts, because the memory layout of a process changes its speed by a few percent. A
figure is the CPU time of the process (user and system, from /proc: Linux), so that a busy machine widens the range of
the ratios more than it changes their median. The client and the requests are those of this checkout.

``--instructions`` counts instructions with valgrind instead, without those of the kernel: about 40 times slower, and
repeatable within a fraction of a percent. Use it to measure a single change.

Columns: medians of both sides, the median of the ratios of pairs, their quartiles and range, and the ratio of the
minima.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]  # before installed packages

import codec  # noqa: E402
from processes import exact_cpu_time  # noqa: E402

from kwire import decode_response, encode, encode_request  # noqa: E402
from kwire.frames import pack  # noqa: E402
from kwire.messages.fetch import FetchRequest  # noqa: E402
from kwire.messages.heartbeat import HeartbeatRequest  # noqa: E402
from kwire.messages.join_group import JoinGroupRequest  # noqa: E402
from kwire.messages.metadata import MetadataRequest  # noqa: E402
from kwire.messages.offset_commit import OffsetCommitRequest  # noqa: E402
from kwire.messages.produce import ProduceRequest  # noqa: E402
from kwire.messages.sync_group import SyncGroupRequest  # noqa: E402
from kwire.records import Record, build_batch  # noqa: E402

READ = 1 << 20
DEPTH, CONNECTIONS = 32, 4  # of requests in flight
MEMBERS = 100
SESSION_MS = 1_800_000  # members must outlive the run
SETTLE = 0.01  # seconds after the last answer until the broker waits again
STEADY = 0.2  # share of the calls that are made first and not counted
SLOWER = 20  # times as many calls without valgrind
SERVE = ("serve", "--port", "0", "--topic", "bench:6", "--topic", "filled:1")
SETTINGS = ("group.initial.rebalance.delay.ms=300", f"group.max.session.timeout.ms={SESSION_MS}")
BROKER = """
import runpy, sys
if "valgrind" in sys.argv:  # slower, so a slice would have fewer requests
    sys.argv.remove("valgrind")
    try:
        from mockbroker.net import pump
        pump.SLICE = float("inf")
    except ImportError:
        pass  # a tree without slices
runpy.run_module("mockbroker", run_name="__main__", alter_sys=True)
"""
Ask = Callable[[int], object]  # takes the number of repetitions


# --- meters -----------------------------------------------------------------------------------------------------------


class Meter(ABC):
    """Measures the cost of work in a process.

    Attributes:
        unit: unit of the results, after division by ``scale``.
        prefix: command that starts a program so that it can be measured.
    """

    unit: str
    scale: float
    calls: float  # how many calls are made, as a multiple of those listed
    pause: float  # seconds after which a broker that has answered waits again
    prefix: Sequence[str] = ()

    @abstractmethod
    def measure(self, pid: int, ask: Callable[[], object]) -> float:
        """Return the cost of the calls in the process."""

    @abstractmethod
    def run(self, command: Sequence[str], **options: Any) -> float:
        """Return the cost of a command from start to exit."""


class Cpu(Meter):
    """CPU time in nanoseconds."""

    unit, scale, calls, pause = "us", 1e3, SLOWER, 0.0005

    def measure(self, pid: int, ask: Callable[[], object]) -> float:
        before = exact_cpu_time(pid)
        ask()
        time.sleep(SETTLE)
        return exact_cpu_time(pid) - before

    def run(self, command: Sequence[str], **options: Any) -> float:
        process = subprocess.Popen(command, **options)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        return (usage.ru_utime + usage.ru_stime) * 1e9


class Instructions(Meter):
    """Instructions as counted by valgrind. ``folder``: for valgrind's files."""

    unit, scale, calls, pause = "k", 1e3, 1, 0.0005 * SLOWER

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._callgrind = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/%p")
        self.prefix = (*self._callgrind, "--instr-atstart=no")  # starts a server 10 times as fast

    def measure(self, pid: int, ask: Callable[[], object]) -> float:
        self._control("--instr=on", pid)
        self._control("--zero", pid)
        ask()
        time.sleep(SETTLE * SLOWER)
        self._control("--dump", pid)
        self._control("--instr=off", pid)
        dumps = self._folder.glob(f"{pid}.*")
        return self._total(max(dumps, key=lambda file: int(file.suffix[1:])))

    def run(self, command: Sequence[str], **options: Any) -> float:
        process = subprocess.Popen([*self._callgrind, *command], **options)
        assert process.wait() == 0, command
        return self._total(self._folder / str(process.pid))

    def _control(self, option: str, pid: int) -> None:
        subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)

    def _total(self, file: Path) -> float:
        total = re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)
        assert total is not None
        return float(total[1])


# --- the broker -------------------------------------------------------------------------------------------------------


class Client:
    """A connection that sends encoded frames and counts the responses."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def receive(self, count: int = 1) -> bytes:
        """Receive several frames; return the last one."""
        data, at, frame = self._data, 0, b""
        while count:
            while len(data) < at + 4 or len(data) < at + 4 + struct.unpack_from(">i", data, at)[0]:
                more = self._sock.recv(READ)
                assert more, "the broker closed a connection"
                data, at = data[at:] + more, 0
            end = at + 4 + struct.unpack_from(">i", data, at)[0]
            frame, at = data[at + 4 : end], end
            count -= 1
        self._data = data[at:]
        return frame

    def ask(self, request: Any, version: int) -> Any:
        """Send a request; return the body of the response."""
        frame = framed(request, version)
        self.send(frame)
        return self.answer(frame)

    def answer(self, frame: bytes) -> Any:
        """Return the body of the response to a request that has been sent."""
        body: Any = decode_response(self.receive(), *struct.unpack_from(">hh", frame, 4)).body
        return body

    def close(self) -> None:
        self._sock.close()


def framed(request: Any, version: int) -> bytes:
    return pack(encode_request(request, version, correlation_id=1, client_id="compare"))


class Members:
    """A group whose members have a connection each."""

    def __init__(self, port: int, group_id: str, size: int) -> None:
        self._group_id = group_id
        self.clients = [Client(port) for _ in range(size)]
        self.ids = [""] * size
        self.generation = -1
        self._round = 0
        self.rebalance()

    def rebalance(self) -> None:
        """Let all members rejoin with changed metadata, and sync."""
        self._round += 1
        joins = [self._join(member_id) for member_id in self.ids]
        joined = self._all(joins, 3)
        self.ids = [each.member_id for each in joined]
        self.generation = joined[0].generation_id
        assert {each.generation_id for each in joined} == {self.generation}
        shares = [SyncGroupRequest.Assignment(member_id=member_id, assignment=bytes(60)) for member_id in self.ids]
        syncs = [
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self.generation,
                member_id=each.member_id,
                assignments=shares if each.members else [],
            )
            for each in joined
        ]
        self._all(syncs, 2)

    def _join(self, member_id: str) -> JoinGroupRequest:
        metadata = bytes(60) + self._round.to_bytes(4, "big")
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=member_id,
            protocol_type="compare",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
        )

    def _all(self, requests: Sequence[Any], version: int) -> list[Any]:
        frames = [framed(request, version) for request in requests]
        for client, frame in zip(self.clients, frames, strict=True):
            client.send(frame)
        answers = [client.answer(frame) for client, frame in zip(self.clients, frames, strict=True)]
        assert not any(answer.error_code for answer in answers), answers
        return answers

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self._group_id, generation_id=self.generation, member_id=self.ids[0])

    def commit(self, offset: int) -> OffsetCommitRequest:
        kind = OffsetCommitRequest.Topic
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.ids[0],
            topics=[kind(name="bench", partitions=[kind.Partition(partition_index=0, committed_offset=offset)])],
        )


def one_by_one(client: Client, pause: float, frames: Sequence[bytes]) -> Ask:
    """Send the frames in turn, each when the previous one is answered and the broker waits for input again.

    Without the pause the broker may or may not wait in between, which is up to half of the cost of a request.
    """

    def ask(count: int) -> None:
        for number in range(count):
            client.send(frames[number % len(frames)])
            client.receive()
            time.sleep(pause)

    return ask


def in_flight(port: int, frame: bytes) -> Ask:
    """Send the frame over several connections, several times before the first response."""
    clients = [Client(port) for _ in range(CONNECTIONS)]

    def ask(count: int) -> None:
        for _ in range(max(count // DEPTH // CONNECTIONS, 1)):
            for client in clients:
                client.send(frame * DEPTH)
            for client in clients:
                client.receive(DEPTH)

    return ask


def record(size: int = 100) -> bytes:
    return build_batch([Record(value=bytes(size))])


def produced(topic: str) -> ProduceRequest:
    kind = ProduceRequest.Topic
    placed = kind.Partition(index=0, records=record())
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[kind(name=topic, partition_data=[placed])])


def fetched(offset: int) -> FetchRequest:
    kind = FetchRequest.Topic
    wanted = kind.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    return FetchRequest(min_bytes=1, max_bytes=1_000, topics=[kind(topic="filled", partitions=[wanted])])


def works(port: int, pause: float) -> Iterator[tuple[str, int, Ask]]:
    """Yield the work for a broker: name, number of calls under valgrind, and function."""
    client, group = Client(port), Members(port, "one", 1)
    heartbeat = framed(group.heartbeat(), 4)
    assert not client.ask(group.heartbeat(), 4).error_code
    yield "Heartbeat", 300, one_by_one(client, pause, [heartbeat])
    yield f"Heartbeat, {DEPTH} in flight, {CONNECTIONS} connections", 1_280, in_flight(port, heartbeat)
    assert not client.ask(produced("bench"), 9).responses[0].partition_responses[0].error_code
    yield "Produce of one record", 200, one_by_one(client, pause, [framed(produced("bench"), 9)])
    for _ in range(2):
        client.ask(produced("filled"), 9)
    assert client.ask(fetched(0), 11).responses[0].partitions[0].records
    yield "Fetch of one record", 200, one_by_one(client, pause, [framed(fetched(offset), 11) for offset in (0, 1)])
    metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="bench")])
    assert len(client.ask(metadata, 9).topics[0].partitions) == 6
    yield "Metadata of 1 topic x 6", 300, one_by_one(client, pause, [framed(metadata, 9)])
    assert not client.ask(group.commit(1), 8).topics[0].partitions[0].error_code
    yield "OffsetCommit of one partition", 200, one_by_one(client, pause, [framed(group.commit(n), 8) for n in (1, 2)])
    many = Members(port, "many", MEMBERS)

    def rebalances(count: int) -> None:
        for _ in range(count):
            many.rebalance()

    yield f"rebalance of {MEMBERS} members", 2, rebalances


@contextmanager
def broker(tree: Path, meter: Meter, seed: int) -> Iterator[tuple[int, int]]:
    """Serve a broker of the tree; yield its process id and port."""
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [*meter.prefix, str(tree / ".venv/bin/python"), "-c", BROKER, *meter.prefix[:1], *SERVE, *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tree, env=environment(seed))
    try:
        assert process.stdout is not None
        ready = re.search(r":(\d+)$", process.stdout.readline().strip())
        assert ready is not None, f"{tree}: the broker did not start"
        yield process.pid, int(ready[1])
    finally:
        process.terminate()
        process.wait()


# --- the codec --------------------------------------------------------------------------------------------------------

CODEC = """
import sys
from functools import partial
sys.path.insert(0, "benchmarks")
import codec as bench
from kwire import codec
jobs = []
for case in bench.cases():
    data = codec.encode(case.value, case.version)
    jobs.append(partial(codec.decode, type(case.value), data, case.version))
    jobs.append(partial(codec.encode, case.value, case.version))
print("ready", flush=True)
for line in sys.stdin:
    which, count = map(int, line.split())
    job = jobs[which]
    for _ in range(count):
        job()
    print("done", flush=True)
"""
CODEC_BYTES = 60_000  # decoded or encoded in one call under valgrind, about


@contextmanager
def codec_process(tree: Path, meter: Meter, seed: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process of the tree that decodes and encodes on demand."""
    command = [*meter.prefix, str(tree / ".venv/bin/python"), "-c", CODEC]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=tree, env=environment(seed))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"{tree}: the codec did not start"
        yield process
    finally:
        process.terminate()
        process.wait()


def codec_works(process: subprocess.Popen[str]) -> Iterator[tuple[str, int, Ask]]:
    """Yield the work with the messages of benchmarks/codec.py, which must be the same in both trees."""

    def asking(which: int) -> Ask:
        def ask(count: int) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{which} {count}\n")
            process.stdin.flush()
            process.stdout.readline()

        return ask

    for number, case in enumerate(codec.cases()):
        count = max(CODEC_BYTES // len(encode(case.value, case.version)), 10)
        yield f"decode {case.name}", min(count, 300), asking(2 * number)
        yield f"encode {case.name}", min(count, 300), asking(2 * number + 1)


# --- imports and commands ---------------------------------------------------------------------------------------------

COMMANDS: Mapping[str, Sequence[str]] = {
    "import kwire, its codec": ("-c", "import kwire; kwire.decode, kwire.encode"),
    "import kwire, all messages": ("-c", "import kwire; list(kwire.APIS.values())"),
    "import mockbroker, open_cluster": ("-c", "import mockbroker; mockbroker.open_cluster"),
    "run_cluster, start and end": ("-c", "import mockbroker\nwith mockbroker.run_cluster(): pass"),
    "mockbroker --help": ("-m", "mockbroker", "--help"),
    "mockbroker --version": ("-m", "mockbroker", "--version"),
    "kwire --help": ("-m", "kwire", "--help"),
}
PARTS = ("broker", "codec", "commands")


# --- the comparison ---------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """Pairs of the costs of one call of the work in both trees."""

    name: str
    pairs: list[tuple[float, float]]

    def text(self, scale: float) -> str:
        ratios = sorted(after / before for before, after in self.pairs)
        best = [min(side) for side in zip(*self.pairs, strict=True)]
        before, after = (statistics.median(side) / scale for side in zip(*self.pairs, strict=True))
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        return (
            f"| {self.name} | {before:,.2f} | {after:,.2f} | {statistics.median(ratios):.3f} | {low:.3f}-{high:.3f} |"
            f" {ratios[0]:.3f}-{ratios[-1]:.3f} | {best[1] / best[0]:.3f} |"
        )


class Comparison:
    """All rows, by name."""

    def __init__(self, trees: Sequence[Path], meter: Meter, pairs: int, only: re.Pattern[str]) -> None:
        self._trees = trees
        self._meter = meter
        self._pairs = pairs
        self._only = only
        self._turns = 0
        self.rows: dict[str, Row] = {}

    def broker(self, seed: int) -> None:
        """Measure brokers that are started once. ``seed``: hash seed of both sides."""
        with ExitStack() as stack:
            brokers = [stack.enter_context(broker(tree, self._meter, seed)) for tree in self._trees]
            self._asked([pid for pid, _ in brokers], [works(port, self._meter.pause) for _, port in brokers])

    def codec(self, seed: int) -> None:
        """Measure codec processes that are started once."""
        with ExitStack() as stack:
            codecs = [stack.enter_context(codec_process(tree, self._meter, seed)) for tree in self._trees]
            self._asked([each.pid for each in codecs], [codec_works(each) for each in codecs])

    def commands(self, seed: int) -> None:
        """Measure imports and commands."""
        for name, arguments in COMMANDS.items():
            if self._only.search(name):
                self._pair(name, 1, [self._command(tree, arguments, seed) for tree in self._trees])

    def _asked(self, pids: Sequence[int], sides: Sequence[Iterator[tuple[str, int, Ask]]]) -> None:
        for (name, count, before), (_, _, after) in zip(*sides, strict=True):
            if not self._only.search(name):
                continue
            calls = max(round(count * self._meter.calls), 1)
            for ask in (before, after):
                ask(max(round(calls * STEADY), 40 if calls > 40 else 1))
            asks = zip(pids, (before, after), strict=True)
            self._pair(name, calls, [partial(self._meter.measure, pid, partial(ask, calls)) for pid, ask in asks])

    def _command(self, tree: Path, arguments: Sequence[str], seed: int) -> Callable[[], float]:
        command = [str(tree / ".venv/bin/python"), *arguments]
        return partial(self._meter.run, command, cwd=tree, env=environment(seed), stdout=subprocess.DEVNULL)

    def _pair(self, name: str, calls: int, measures: Sequence[Callable[[], float]]) -> None:
        row = self.rows.setdefault(name, Row(name, []))
        for _ in range(self._pairs):
            self._turns += 1
            if self._turns % 2:
                before, after = (measure() for measure in measures)
            else:
                after, before = (measure() for measure in reversed(measures))
            row.pairs.append((before / calls, after / calls))
            print(name, f"{after / before:.3f}", file=sys.stderr)


def environment(seed: int) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=4, help="in each start")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows by their names")
    parser.add_argument("--instructions", action="store_true", help="count them, with valgrind")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        meter = Instructions(folder) if given.instructions else Cpu()
        comparison = Comparison((given.before.resolve(), given.after.resolve()), meter, given.pairs, given.only)
        for seed in range(given.starts):
            for part in given.parts:
                getattr(comparison, part)(seed)
    print(f"| work | before, {meter.unit} | after, {meter.unit} | ratio | quartiles | range | of the best |")
    print("|---|---|---|---|---|---|---|")
    for row in comparison.rows.values():
        print(row.text(meter.scale))


if __name__ == "__main__":
    main()

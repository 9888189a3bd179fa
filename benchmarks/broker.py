"""The mock broker, a real Kafka and kfake in one run: requests, groups, clients, records, start. `make bench-broker`.

    python benchmarks/broker.py [--rounds 5] [--kafka 4.2.0] [--only requests ...]

The load comes from load/ (Go, built here), rdkafka_group.py (confluent-kafka) and kcat_throughput.py (kcat).
tests/oracle/kafka.py starts the real Kafka (Java 17, Maven). kfake/ is built from franz-go's module. Raise
``ulimit -n`` above 12000. A run takes about ten minutes and stops all processes that it started.
Prints benchmarks/results/broker.md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import beside_kafka
from beside_kafka import Broker as Server

ROOT = Path(__file__).parent.parent

INTRODUCTION = """\
# The broker beside Kafka and kfake

{day}, `make bench-broker` (`python benchmarks/broker.py`): {rounds} rounds, mockbroker, Apache Kafka {kafka} and
kfake {kfake} started once and asked in turn. {cores} cores for servers,
load tools and whatever else ran (load {load:.1f} at the start); Linux, CPython {python}.

CPU is user and system time of the server from /proc, the median of the rounds. Times and rates by the clock are the
best of the rounds, the median in brackets: what else runs on the machine can only make them worse. "ok at best": the
best round met the goal, the median did not. "of Kafka's" is one figure divided by the other. Kafka was warmed up. A
row without a goal has no verdict; a dash: this server did not finish, or was not measured.

| work | figure | goal | mockbroker | Kafka | kfake | of Kafka's | of kfake's | |
|---|---|---|---|---|---|---|---|---|"""

OUR_PORT, KAFKA_PORT, KFAKE_PORT, STARTUP_PORT = 29_192, 29_292, 29_592, 29_392
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "6000"}
REQUESTS = {  # API, in flight; goals in microseconds of CPU and requests a second, over 10 connections
    "Heartbeat": ("heartbeat", 1, 20, 30_000),
    "Heartbeat of a member": ("member", 1, 20, 30_000),
    "Heartbeat, 32 in flight": ("heartbeat", 32, None, 200_000),
    "Heartbeat of a member, 32 in flight": ("member", 32, None, None),
    "ApiVersions": ("apiversions", 1, None, None),
    "Metadata of 1 topic x 6": ("metadata", 1, 30, None),
    "Produce of one record": ("produce", 1, 30, None),
}
GROUPS = {10: (15, "100ms"), 50: (40, "100ms"), 200: (100, "100ms"), 1_000: (500, "500ms")}  # goal in ms, heartbeats
GENERATIONS = 3
AS_KAFKA = 1.05  # goal, as a multiple of Kafka's time
Rounds = list[dict[str, Any]]  # the figures of one server, by round
Holds = Callable[[float], bool]


class Bench:
    """The rows of the table.

    Args:
        load: The load tool.
        rounds: Number of rounds.
        servers: The mock broker, Kafka and kfake.
        starts: Start-up time of Kafka and kfake.

    Attributes:
        missed: Number of rows that missed the goal.
    """

    def __init__(self, load: Path, rounds: int, servers: Sequence[Server], starts: Sequence[Figure]) -> None:
        self.load_tool = load
        self.rounds = rounds
        self.servers = servers
        self.starts = starts
        self.missed = 0

    def load(self, *args: object) -> dict[str, Any]:
        return run(self.load_tool, *args)

    def measure(self, ask: Callable[[Server], dict[str, Any]]) -> list[Rounds]:
        """Measure the servers in turn; return the rounds of each. A server that fails, other than the mock broker, has
        no rounds.
        """
        rounds: list[Rounds] = [[] for _ in self.servers]
        failed: set[int] = set()
        for _ in range(self.rounds):
            for number, server in enumerate(self.servers):
                if number in failed:
                    continue
                try:
                    rounds[number].append(ask(server))
                except RuntimeError as error:
                    if number == 0:
                        raise
                    print(error, file=sys.stderr)
                    failed.add(number)
                    rounds[number].clear()
        return rounds

    def row(
        self, work: str, figure: str, figures: Sequence[Figure | None], goal: str = "", holds: Holds | None = None
    ) -> None:
        """Print one row.

        Args:
            work: What was measured.
            figure: Its unit.
            figures: Of the mock broker, Kafka and kfake; None if there is none.
            goal: Description of the goal.
            holds: Whether a value meets the goal; by the best round; the median is shown too.
        """
        seen, *others = figures
        assert seen is not None
        others += [None] * (len(self.servers) - 1 - len(others))
        ratios = [f"{seen.value / other.value:.2f}" if other and other.value else "" for other in others]
        verdict = ""
        if holds is not None:
            verdict = "**missed**" if not holds(seen.value) else "ok" if holds(seen.median) else "ok at best"
            self.missed += not holds(seen.value)
        cells = (work, figure, goal, seen.text, *(other.text if other else "-" for other in others), *ratios, verdict)
        print(f"| {' | '.join(cells)} |", flush=True)

    # --- the rows -------------------------------------------------------------------------------------------------

    def requests(self) -> None:
        for work, (api, depth, cpu, rate) in REQUESTS.items():
            rounds = self.measure(self.request(api, depth))
            costs = each(rounds, usual, "server_cpu_us_per_req", "{:.1f}")
            limits: dict[str, float] = {} if cpu is None else {f"<= {cpu}": cpu}
            if others := [cost.value for cost in costs[1:] if cost]:
                limits["<= the others'"] = min(others)
            self.row(work, "CPU us", costs, ", ".join(limits), at_most(min(limits.values())) if limits else None)
            rates = each(rounds, most, "rps")
            if rate is None:
                self.row(work, "a second", rates)
            else:
                self.row(work, "a second", rates, f">= {rate:,}", at_least(rate))

    def request(self, api: str, depth: int) -> Callable[[Server], dict[str, Any]]:
        """Return a function that sends a request of the load tool to a server, ``depth`` in flight, and measures it."""
        how = ("-api", api, "-connections", 10, "-depth", depth, "-duration", "1s", "-warm", "300ms")

        def ask(server: Server) -> dict[str, Any]:
            figures = self.load("requests", "-addr", server.address, *how, "-pid", server.pid)
            if figures["error"]:
                raise RuntimeError(f"{server.address}, {how}: {figures['error']}")
            return figures

        return ask

    def group(self, *how: object) -> Callable[[Server], dict[str, Any]]:
        """Return a function that forms a group at a server with these arguments of the load tool."""
        return lambda server: self.load("group", "-addr", server.address, *how)

    def groups(self) -> None:
        for size, (goal, heartbeat) in GROUPS.items():
            how = ("-members", size, "-heartbeat", heartbeat, "-hold", "400ms", "-limit", "40s")
            rounds = self.measure(self.group(*how))
            work = f"{size:,} raw members, heartbeats every {heartbeat}"
            self.row(work, "form, ms", each(rounds, least, "form_ms"), f"<= {goal}", at_most(goal))
            generations = each(rounds, latest, "form_generation")
            self.row(work, "generation then", generations, f"<= {GENERATIONS}", at_most(GENERATIONS))
            for phase in ("join", "leave"):
                self.row(work, f"one {phase}s, ms", each(rounds, least, f"{phase}_ms"))

    def clients(self) -> None:
        def ask(server: Server) -> dict[str, Any]:
            script = ROOT / "benchmarks" / "rdkafka_group.py"
            return run(sys.executable, script, server.address, "--members", 50, "--heartbeat-ms", 500)

        rounds = self.measure(ask)
        for phase, what in {"form": "form", "join": "one joins", "leave": "one leaves"}.items():
            times = each(rounds, least, f"{phase}_ms")
            goal, holds = "", None
            if (kafka := times[1]) is not None:
                goal, holds = f"<= {AS_KAFKA} of Kafka's", at_most(AS_KAFKA * kafka.value)
            self.row("50 librdkafka consumers", f"{what}, ms", times, goal, holds)

    def sizes(self) -> None:
        costs = {size: heartbeat_cost(size) for size in (10, 100, 1_000)}
        ratio = max(costs.values()) / min(costs.values())
        text = f"{ratio:.2f} ({', '.join(f'{cost:.2f}' for cost in costs.values())} us)"
        work = "Heartbeat in a group of 10, 100, 1,000, without sockets"
        self.row(work, "largest by smallest", [Figure(ratio, text)], "<= 1.5", at_most(1.5))

    def many(self) -> None:
        def ask(server: Server) -> dict[str, Any]:
            return run(sys.executable, ROOT / "benchmarks" / "members.py", server.address, "--pid", server.pid)

        figures = [ask(server) for server in self.servers[:2]]
        work = "1,000 groups x 10 members, heartbeats every 3 s"
        wrong = [sum(count for name, count in each["answers"].items() if name != "NONE") for each in figures]
        errors = [
            Figure(count, f"{count} of {sum(each['answers'].values()):,}")
            for count, each in zip(wrong, figures, strict=True)
        ]
        self.row(work, "responses with an error", errors, "0", at_most(0))
        slowest = [Figure(each["slowest_ms"], f"{each['slowest_ms']:.0f}") for each in figures]
        self.row(work, "slowest response, ms", slowest)
        cores = [Figure(each["server_cores"], f"{each['server_cores']:.2f}") for each in figures]
        self.row(work, "cores", cores, "<= 1", at_most(1))

    def records(self) -> None:
        def ask(server: Server) -> dict[str, Any]:
            rates = run(sys.executable, ROOT / "benchmarks" / "kcat_throughput.py", server.address, "--pid", server.pid)
            return {**rates, "cpu_s": rates["server_cpu_produce_s"] + rates["server_cpu_consume_s"]}

        work = "kcat, 200,000 x 100 B"
        rounds = self.measure(ask)
        for way in ("produce", "consume"):
            rates = each(rounds, most, f"{way}_msgs_s")
            self.row(work, f"{way}d a second", rates, ">= 800,000", at_least(800_000))
        self.row(work, "CPU s", each(rounds, usual, "cpu_s", "{:.2f}"), "<= 0.2", at_most(0.2))
        self.row(work, "read back", each(rounds, fewest, "got"), "200,000", at_least(200_000))

    def startup(self) -> None:
        serve = (Path(sys.executable).with_name("mockbroker"), "serve", "--port", STARTUP_PORT)
        times = self.load("startup", "-addr", f"127.0.0.1:{STARTUP_PORT}", "-rounds", 15, "--", *serve)
        seen = least([{"ms": each} for each in times["rounds_ms"]], "ms")
        self.row("exec to the first Metadata answer", "ms", [seen, *self.starts], "<= 250", at_most(250))
        inside = [run(sys.executable, "-c", IN_PROCESS) for _ in range(self.rounds)]
        for which in ("first", "next"):
            seen = least(inside, which, "{:.1f}")
            self.row(f"in process, the {which} open_cluster", "ms", [seen], "<= 10", at_most(10))


# --- figures ---------------------------------------------------------------------------------------------------------


@dataclass
class Figure:
    """A figure of one server.

    Attributes:
        value: the figure that counts.
        text: the figure as the table has it.
        median: median of the rounds; ``value`` if it is not given.
    """

    value: float
    text: str
    median: float = nan

    def __post_init__(self) -> None:
        if isnan(self.median):
            self.median = self.value


def at_most(limit: float) -> Holds:
    return lambda value: value <= limit


def at_least(limit: float) -> Holds:
    return lambda value: value >= limit


def usual(rounds: Rounds, key: str, form: str) -> Figure:
    """Return the median."""
    value = statistics.median(each[key] for each in rounds)
    return Figure(value, form.format(value))


def least(rounds: Rounds, key: str, form: str = "{:.0f}") -> Figure:
    """Return the shortest time with the median in brackets; a missing time is infinite."""
    times = [float("inf") if each[key] is None else each[key] for each in rounds]
    return _with_median(min(times), times, form)


def most(rounds: Rounds, key: str) -> Figure:
    """Return the highest rate with the median in brackets."""
    rates = [each[key] for each in rounds]
    return _with_median(max(rates), rates, "{:,.0f}")


def latest(rounds: Rounds, key: str) -> Figure:
    """Return the maximum, which no round may exceed."""
    value = max(each[key] for each in rounds)
    return Figure(value, str(value))


def fewest(rounds: Rounds, key: str) -> Figure:
    """Return the minimum, which no round may fall below."""
    value = min(each[key] for each in rounds)
    return Figure(value, f"{value:,}")


def each(rounds: Sequence[Rounds], figure: Callable[..., Figure], *args: str) -> list[Figure | None]:
    """Return a figure of each server's rounds; None for a server without rounds."""
    return [figure(one, *args) if one else None for one in rounds]


def _with_median(value: float, values: Sequence[float], form: str) -> Figure:
    median = statistics.median(values)
    return Figure(value, f"{form.format(value)} ({form.format(median)})", median)


def heartbeat_cost(size: int) -> float:
    """Return the CPU time of one heartbeat in microseconds, from request bytes to response bytes."""
    from tools.broker_harness import BrokerHarness, stable_member

    from kwire import ClientSide
    from kwire.messages.heartbeat import HeartbeatRequest
    from mockbroker.base.effects import Call
    from mockbroker.groups.classic import membership
    from mockbroker.groups.classic.state import ClassicGroup
    from mockbroker.net.connection import ClientRequests

    harness = BrokerHarness()
    ids = [stable_member(harness, "g", instance_id="0")]
    group = harness.broker.groups["g"]
    assert isinstance(group, ClassicGroup)
    for number in range(1, size):
        ids.append(f"member-{number}")
        group.add_member(type(group.members[ids[0]])(**_like(group.members[ids[0]], ids[-1])))
        membership.renew_session(group, group.members[ids[-1]], harness.now)
    session, client = ClientRequests(1, 0, "/", harness.router), ClientSide("bench")
    request = HeartbeatRequest(group_id="g", generation_id=group.generation, member_id=ids[-1])
    data = b"".join(client.send(request, 3) for _ in range(200))
    best = float("inf")
    for _ in range(300):
        began = time.thread_time()
        session.receive(data)
        while isinstance(call := session.next_call(), Call):
            for reply in harness.router.step(call, 1.0):
                session.answer(reply)  # type: ignore[arg-type]
        best = min(best, (time.thread_time() - began) / 200)
    return best * 1e6


def _like(member: Any, member_id: str) -> dict[str, Any]:
    fields = {name: getattr(member, name) for name in member.__dataclass_fields__}
    return fields | {"member_id": member_id, "instance_id": None}


IN_PROCESS = """
import json, time, trio
from kwire import encode_request
from kwire.frames import pack
from kwire.messages.metadata import MetadataRequest
from mockbroker import open_cluster

ASK = pack(encode_request(MetadataRequest(topics=[]), 4, correlation_id=1))

async def main():
    times = []
    for _ in range(2):
        began = time.perf_counter()
        async with open_cluster() as cluster:
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            stream = await trio.open_tcp_stream(host, int(port))
            await stream.send_all(ASK)
            await stream.receive_some(1000)
            times.append((time.perf_counter() - began) * 1e3)
            await stream.aclose()
    print(json.dumps({"first": times[0], "next": times[1]}))

trio.run(main)
"""


# --- processes -------------------------------------------------------------------------------------------------------


def run(command: object, *args: object) -> dict[str, Any]:
    """Return the JSON object that a command prints. Raises: RuntimeError with its output if that is something else."""
    done = subprocess.run([str(command), *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} {args}: {done.stderr[-2000:]}")
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


@contextmanager
def our_broker() -> Iterator[Server]:
    with beside_kafka.mock(OUR_PORT, SETTINGS, "--topic", "bench:6", "--topic", "bench60:60") as server:
        yield server


@contextmanager
def real_kafka(release: str, load: Path) -> Iterator[tuple[Server, Figure]]:
    from oracle import kafka

    kafka.fetch(release)
    began = time.monotonic()
    with beside_kafka.real(release, KAFKA_PORT, SETTINGS) as server:
        took = (time.monotonic() - began) * 1e3
        beside_kafka.create_topics(server.address, {"bench": 6, "bench60": 60})
        for api in ("heartbeat", "member", "metadata", "apiversions", "produce"):  # a JVM is slow at first
            run(load, "requests", "-addr", server.address, "-api", api, "-connections", 10, "-duration", "3s")
        waits = ("-members", 200, "-heartbeat", "100ms", "-hold", "300ms", "-limit", "40s")
        run(load, "group", "-addr", server.address, *waits)
        yield server, Figure(took, f"{took:,.0f} (until it serves groups)")


@contextmanager
def kfake(binary: Path, load: Path) -> Iterator[tuple[Server, Figure]]:
    """Run kfake, after its start-up time was measured. Raises: RuntimeError if it does not start."""
    address = f"127.0.0.1:{KFAKE_PORT}"
    times = run(load, "startup", "-addr", address, "-rounds", 15, "--", binary, KFAKE_PORT)["rounds_ms"]
    process = subprocess.Popen([binary, str(KFAKE_PORT)])
    try:
        beside_kafka.wait_for_port("127.0.0.1", KFAKE_PORT, process)
        yield Server(address, process.pid), least([{"ms": time} for time in times], "ms")
    finally:
        process.terminate()
        process.wait()


def begin(options: beside_kafka.Options, stack: ExitStack) -> Bench:
    """Print the introduction and start the servers."""
    print(INTRODUCTION.format(**options.facts, kfake=kfake_version()), flush=True)
    return bench(options.rounds, options.kafka, stack)


def bench(rounds: int, kafka: str, stack: ExitStack) -> Bench:
    """Start the three servers. ``kafka``: release of the real Kafka."""
    tools = stack.enter_context(built())
    ours = stack.enter_context(our_broker())
    kafkas, kafka_start = stack.enter_context(real_kafka(kafka, tools / "load"))
    kfakes, kfake_start = stack.enter_context(kfake(tools / "kfake", tools / "load"))
    return Bench(tools / "load", rounds, [ours, kafkas, kfakes], [kafka_start, kfake_start])


def kfake_version() -> str:
    """Return the version of franz-go's module that kfake/ is built from."""
    required = (ROOT / "benchmarks" / "kfake" / "go.mod").read_text("utf-8")
    return next(line.split()[-1] for line in required.splitlines() if "pkg/kfake v" in line)


@contextmanager
def built() -> Iterator[Path]:
    """Build the load tool and kfake in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("load", "kfake"):
            source = ROOT / "benchmarks" / name
            subprocess.run(["go", "build", "-C", source, "-o", Path(folder) / name, "."], check=True)
        yield Path(folder)


if __name__ == "__main__":
    tables = ["requests", "groups", "clients", "records", "many", "sizes", "startup"]
    beside_kafka.main(__doc__, tables, 5, begin)

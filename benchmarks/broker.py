"""The broker beside a real Kafka in one run: requests, groups, real clients, records, start-up.

    python benchmarks/broker.py --tools DIR [--rounds 5] [--kafka 4.2.0] [--only requests ...]

``DIR`` holds the load tools: ``kbench/`` (Go, built here if there is no binary), ``clients_group.py`` and
``throughput.py`` (they need confluent-kafka and kcat). The real Kafka is that of tests/oracle/kafka.py (Java 17,
Maven); ``--kafka none`` leaves it out.

Both brokers run at the same time and take turns round by round. Of requests the least CPU time and the best rate of
all rounds are told: what a server can do, not one run. Of everything else the median, with the best in brackets. CPU is
user and system time of the server from /proc. Raise ``ulimit -n`` above 20000.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

OURS, KAFKA = "mockbroker", "Kafka"
OUR_PORT, KAFKA_PORT, STARTUP_PORT = 29_192, 29_292, 29_392
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "6000"}
REQUESTS = {  # what, API, connections, in flight: goals in microseconds of CPU and requests a second
    "Heartbeat, 10 connections": ("heartbeat", 10, 1, 20, 30_000),
    "Heartbeat of a member, 10 connections": ("hbmember", 10, 1, 20, 30_000),
    "Heartbeat, 10 connections, 32 in flight": ("heartbeat", 10, 32, None, 200_000),
    "Heartbeat of a member, 10 connections, 32 in flight": ("hbmember", 10, 32, None, None),
    "Heartbeat, 1 connection": ("heartbeat", 1, 1, None, None),
    "Heartbeat, 100 connections": ("heartbeat", 100, 1, None, None),
    "ApiVersions, 10 connections": ("apiversions", 10, 1, None, None),
    "Metadata of 1 topic x 6, 10 connections": ("metadata12", 10, 1, 30, None),
    "Produce of one record, 10 connections": ("produce", 10, 1, 30, None),
}
GROUPS = {10: (15, "100ms"), 50: (40, "100ms"), 200: (100, "100ms"), 1_000: (500, "500ms")}  # goal in ms, heartbeats


@dataclass
class Server:
    name: str
    address: str
    pid: int


class Bench:
    def __init__(self, tools: Path, rounds: int, servers: Sequence[Server]) -> None:
        self.tools = tools
        self.rounds = rounds
        self.servers = servers

    def kbench(self, *args: object) -> dict[str, Any]:
        return run(self.tools / "kbench" / "kbench", *args)

    def rounds_of(self, ask: Callable[[Server], dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """What each server said, round by round."""
        found: dict[str, list[dict[str, Any]]] = {server.name: [] for server in self.servers}
        for _ in range(self.rounds):
            for server in self.servers:
                found[server.name].append(ask(server))
        return found

    # --- the tables -----------------------------------------------------------------------------------------------

    def requests(self) -> None:
        print("\n## Requests: least CPU us a request, best requests a second\n")
        header("", *(f"{s.name}: us, /s, p50 us" for s in self.servers), "goal")
        for what, (api, connections, depth, cpu, rate) in REQUESTS.items():
            how = ("-api", api, "-conns", connections, "-depth", depth, "-dur", "1s", "-warm", "300ms")
            found = self.rounds_of(partial(self._requests, how))
            assert not [each["error"] for every in found.values() for each in every if each["error"]]
            goals = [f"<= {cpu} us" if cpu else "", f">= {rate:,}/s" if rate else ""]
            row(what, *map(_request_cell, found.values()), ", ".join(filter(None, goals)))

    def _requests(self, how: Sequence[object], server: Server) -> dict[str, Any]:
        return self.kbench("reqs", "-addr", server.address, *how, "-pid", server.pid)

    def groups(self) -> None:
        print("\n## Raw members: ms to form, join, leave; generation after forming\n")
        header("members", *(f"{s.name}: form; join; leave; generation" for s in self.servers), "goal, form")
        for size, (goal, heartbeat) in GROUPS.items():
            how = ("-n", size, "-hb", heartbeat, "-hold", "600ms", "-limit", "40s")
            found = self.rounds_of(partial(self._group, how))
            row(f"{size:,}", *map(_group_cell, found.values()), f"<= {goal}, 3 generations")

    def _group(self, how: Sequence[object], server: Server) -> dict[str, Any]:
        return self.kbench("group", "-addr", server.address, *how)

    def clients(self) -> None:
        print("\n## 50 librdkafka consumers, heartbeats every 500 ms: ms to form; one joins; one leaves\n")
        header("", *(s.name for s in self.servers), "goal")

        def ask(server: Server) -> dict[str, Any]:
            return run(sys.executable, self.tools / "clients_group.py", server.address, "-n", 50, "--hb", 500)

        found = self.rounds_of(ask)
        for phase in ("form", "join", "leave"):
            row(phase, *(told([each[f"{phase}_ms"] for each in every]) for every in found.values()), "within 5 %")

    def records(self) -> None:
        print("\n## kcat, 200,000 records of 100 bytes: messages a second; server CPU; read back\n")
        header("", "produce", "consume", "CPU s", "read back")

        def ask(server: Server) -> dict[str, Any]:
            return run(sys.executable, self.tools / "throughput.py", server.address, "--pid", server.pid)

        for name, every in self.rounds_of(ask).items():
            cpu = [each["server_cpu_produce_s"] + each["server_cpu_consume_s"] for each in every]
            rates = [_best_rate([each[f"{way}_msgs_s"] for each in every]) for way in ("produce", "consume")]
            row(name, *rates, told(cpu, "{:.2f}"), f"{min(each['got'] for each in every):,}")
        row("goal", ">= 0.80 M", ">= 0.80 M", "<= 0.2", "200,000")

    def many(self) -> None:
        print("\n## 1,000 groups of 10 members, a heartbeat each every 3 s, for 15 s\n")
        header("", "answers", "slowest, ms", "cores")
        for server in self.servers:
            found = run(sys.executable, ROOT / "benchmarks" / "members.py", server.address, "--pid", server.pid)
            answers = ", ".join(f"{count:,} {name}" for name, count in found["answers"].items())
            row(server.name, answers, f"{found['slowest_ms']:.0f}", f"{found['server_cores']:.2f}")
        row("goal", "no other than NONE", "", "<= 1")

    def sizes(self) -> None:
        print("\n## One heartbeat in a group of 10, 100, 1,000 members, without sockets: CPU us\n")
        costs = {size: heartbeat_cost(size) for size in (10, 100, 1_000)}
        header(*map(str, costs), "largest / smallest", "goal")
        row(*(f"{cost:.2f}" for cost in costs.values()), f"{max(costs.values()) / min(costs.values()):.2f}", "<= 1.5")

    def startup(self) -> None:
        print("\n## Start-up: ms to the first Metadata answer\n")
        header("", "ms", "goal")
        serve = (ROOT / ".venv" / "bin" / "mockbroker", "serve", "--port", STARTUP_PORT)
        found = self.kbench("startup", "-addr", f"127.0.0.1:{STARTUP_PORT}", "-rounds", 9, "--", *serve)
        row("process, from exec", told(found["rounds_ms"]), "<= 250")
        inside = run(sys.executable, "-c", IN_PROCESS)
        row("in process, open_cluster; the first one", f"{inside['ms'][0]:.1f}", "")
        row("in process, open_cluster; those after it", told(inside["ms"][1:]), "<= 10")


# --- figures ---------------------------------------------------------------------------------------------------------


def _request_cell(found: list[dict[str, Any]]) -> str:
    cpu = min(each["server_cpu_us_per_req"] for each in found)
    return f"{cpu:.1f}, {max(each['rps'] for each in found):,.0f}, {min(each['p50_us'] for each in found):.0f}"


def _group_cell(found: list[dict[str, Any]]) -> str:
    phases = [told([each[f"{phase}_ms"] for each in found]) for phase in ("form", "join", "leave")]
    return "; ".join([*phases, f"{max(each['form_generation'] for each in found)}"])


def _best_rate(found: list[float]) -> str:
    return f"{statistics.median(found) / 1e6:.2f} M ({max(found) / 1e6:.2f})"


def told(found: Sequence[float | None], form: str = "{:.0f}") -> str:
    """Median, and the best in brackets."""
    known = [each for each in found if each is not None]
    missed = f", {len(found) - len(known)} never" if len(known) < len(found) else ""
    return f"{form.format(statistics.median(known))} ({form.format(min(known))}){missed}" if known else "never"


def heartbeat_cost(size: int) -> float:
    """Microseconds of one heartbeat: bytes in, bytes out."""
    from tools.desk import Desk, member

    from kwire import ClientSide
    from kwire.messages.heartbeat import HeartbeatRequest
    from mockbroker.session import Session

    desk = Desk()
    ids = [member(desk, "g", instance_id="0")]
    group = desk.broker.groups["g"]
    for number in range(1, size):
        ids.append(f"member-{number}")
        group.add(type(group.members[ids[0]])(**_like(group.members[ids[0]], ids[-1])))
    session, client = Session(1, 0, "/", desk.router), ClientSide("bench")
    request = HeartbeatRequest(group_id="g", generation_id=group.generation, member_id=ids[-1])
    data = b"".join(client.send(request, 3) for _ in range(200))
    best = float("inf")
    for _ in range(300):
        began = time.thread_time()
        session.receive(data)
        while (call := session.next_call()) is not None:
            for reply in desk.router.step(call, 1.0):
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
    found = []
    for _ in range(10):
        began = time.perf_counter()
        async with open_cluster() as cluster:
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            stream = await trio.open_tcp_stream(host, int(port))
            await stream.send_all(ASK)
            await stream.receive_some(1000)
            found.append((time.perf_counter() - began) * 1e3)
            await stream.aclose()
    print(json.dumps({"ms": found}))

trio.run(main)
"""


# --- processes and tables --------------------------------------------------------------------------------------------


def run(command: object, *args: object) -> dict[str, Any]:
    """The JSON object that a command prints. Raises: RuntimeError with what it said instead."""
    done = subprocess.run([str(command), *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} {args}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def header(*cells: str) -> None:
    row(*cells)
    print("|" + "---|" * len(cells))


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


@contextmanager
def our_broker() -> Iterator[Server]:
    topics = ["--topic", "bench:6", "--topic", "bench60:60"]
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [str(ROOT / ".venv" / "bin" / "mockbroker"), "serve", "--port", str(OUR_PORT)]
        broker = subprocess.Popen([*command, *topics, *settings, "--ready-file", str(ready)], stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                assert broker.poll() is None, "the broker did not start"
                time.sleep(0.02)
            yield Server(OURS, f"127.0.0.1:{OUR_PORT}", broker.pid)
        finally:
            broker.terminate()
            broker.wait()


@contextmanager
def real_kafka(release: str, kbench: Path) -> Iterator[Server]:
    from oracle import kafka

    with kafka.running(release, KAFKA_PORT, SETTINGS) as address:
        pid = int((kafka.FOLDER / f"run-{KAFKA_PORT}" / "pid").read_text())
        create_topics(address, {"bench": 6, "bench60": 60})
        for api in ("heartbeat", "hbmember", "metadata12", "apiversions", "produce"):  # a JVM is slow at first
            run(kbench, "reqs", "-addr", address, "-api", api, "-conns", 10, "-dur", "3s")
        run(kbench, "group", "-addr", address, "-n", 200, "-hb", "100ms", "-hold", "300ms", "-limit", "40s")
        yield Server(KAFKA, address, pid)


def create_topics(address: str, topics: Mapping[str, int]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        done.result(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", default="4.2.0")
    tables = ["requests", "groups", "clients", "records", "many", "sizes", "startup"]
    parser.add_argument("--only", nargs="+", choices=tables, default=tables)
    asked = parser.parse_args()
    with ExitStack() as stack:
        tools = stack.enter_context(built(asked.tools))
        servers = [stack.enter_context(our_broker())]
        if asked.kafka != "none":
            servers.append(stack.enter_context(real_kafka(asked.kafka, tools / "kbench" / "kbench")))
        bench = Bench(tools, asked.rounds, servers)
        print(f"{asked.rounds} rounds; load average at the start {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
        for table in asked.only:
            getattr(bench, table)()
        print(f"\nLoad average at the end {', '.join(f'{x:.1f}' for x in os.getloadavg())}")


@contextmanager
def built(tools: Path) -> Iterator[Path]:
    """A folder like ``tools`` in which kbench is a binary; theirs may be read-only."""
    if (tools / "kbench" / "kbench").exists():
        yield tools
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kbench").mkdir()
        command = ["go", "build", "-C", str(tools / "kbench"), "-o", str(folder / "kbench" / "kbench"), "."]
        subprocess.run(command, check=True)
        for script in tools.glob("*.py"):
            (folder / script.name).symlink_to(script.resolve())
        yield folder


if __name__ == "__main__":
    main()

"""mockbroker.consumer and other clients on the mock broker and on a real Kafka, in one run. `make bench-consumer`.

    python benchmarks/consumer.py [--rounds 7] [--kafka 4.2.0]

Every measurement is a process (reading.py, Reading.java, crowd.py); the clients take turns. tests/oracle/kafka.py
starts the real Kafka (Java 17, Maven). A run takes about ten minutes and stops all processes that it started. Prints
benchmarks/results/consumer.md.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import beside_kafka

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent

INTRODUCTION = """\
# Our consumer beside others

{day}, `make bench-consumer` (`python benchmarks/consumer.py`): {rounds} rounds in which every client has its turn, each
time in a new process; the mock and Apache Kafka {kafka} in the same run. {cores} cores for the broker, the client and
whatever else ran (load {load:.1f} at the start); Linux, CPython {python}, kafka-python {kafka-python}, aiokafka
{aiokafka}, confluent-kafka {confluent-kafka}, Java's client 4.2.0.

Medians, the best in brackets; "ok at best": the best of the rounds met the goal, the median did not. CPU is that of the
client's process. "Batches" is what a poll gives at once (`poll`, `getmany`, `consume`), "one by one" is iteration.
confluent-kafka (C) and Java (a new JVM each time) have no goal."""

READING = """
## Reading {records:,} records of {size} bytes

From before the consumer is made to the last record, six partitions assigned, no group. Goal: at least as fast as
aiokafka and kafka-python in the same form.

| broker | client | form | records a second | CPU s | of the faster of the two | |
|---|---|---|---|---|---|---|"""

STARTING = """
## From the start to the first record

A new group each time, `group.initial.rebalance.delay.ms=0`; imports are done before. Goal: not slower than
kafka-python.

| broker | client | ms | CPU ms | of kafka-python's | |
|---|---|---|---|---|---|"""

CROWD = """
## {members} of our members in one process, in one group

One thread, {partitions} partitions; a core is 1. They join one by one until all have partitions; the group rests
for 15 s; then one member leaves and another joins. Goals: stable (no partition moves at rest), at most one core.

| broker | protocol | forms, s | cores then | cores at rest | moved at rest | changes, s | cores then | KiB a member | |
|---|---|---|---|---|---|---|---|---|---|"""

OUR_PORT, KAFKA_PORT = 29_592, 29_692
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # Kafka's defaults; tests/oracle/kafka.py sets other values.
    "group.consumer.heartbeat.interval.ms": "3000",
    "group.consumer.session.timeout.ms": "45000",
}
TOPIC, CROWDED = "bench", "crowd"
RECORDS, SIZE = 200_000, 100
MEMBERS, CROWD_PARTITIONS = 200, 400
RIVALS = ("aiokafka", "kafka-python")
FORMS = ("batches", "one by one")
Rounds = list[dict[str, Any]]


class Bench:
    """The tables. ``java``: the command of Reading.java; ``missed``: number of rows that missed the goal."""

    def __init__(self, rounds: int, brokers: Mapping[str, str], java: Sequence[str]) -> None:
        self.rounds, self.brokers, self.java = rounds, brokers, java
        self.missed = 0

    def reading(self) -> None:
        print(READING.format(records=RECORDS, size=SIZE), flush=True)
        clients = [f"{client}, {form}" for client in ("ours", *RIVALS, "confluent-kafka") for form in FORMS]
        for broker, address in self.brokers.items():
            by_client = self._in_turn([*clients, "Java, batches"], "assigned", address, RECORDS)
            for client, seen in by_client.items():
                assert {each["size"] for each in seen} == {RECORDS * SIZE}, client
            rates = {client: [RECORDS / each["last"] for each in seen] for client, seen in by_client.items()}
            for client, seen in by_client.items():
                name, form = client.split(", ")
                rival = max(statistics.median(rates[f"{one}, {form}"]) for one in RIVALS)
                rate = statistics.median(rates[client])
                figure = f"{rate:,.0f} ({max(rates[client]):,.0f})"
                best = max(max(rates[f"{one}, {form}"]) for one in RIVALS)
                verdict = self._verdict(rate >= rival, max(rates[client]) >= best) if name == "ours" else ""
                print(
                    f"| {broker} | {name} | {form} | {figure} | {cpu(seen, 1, 2)} | {rate / rival:.2f} | {verdict} |",
                    flush=True,
                )

    def starting(self) -> None:
        print(STARTING, flush=True)
        clients = [f"{client}, batches" for client in ("ours", *RIVALS, "confluent-kafka", "Java")]
        for broker, address in self.brokers.items():
            by_client = self._in_turn(clients, "group", address, 1)
            times = {client: [each["first"] * 1e3 for each in seen] for client, seen in by_client.items()}
            goal = statistics.median(times["kafka-python, batches"])
            for client, seen in by_client.items():
                name, took = client.split(", ")[0], statistics.median(times[client])
                figure = f"{took:.0f} ({min(times[client]):.0f})"
                best = min(times["kafka-python, batches"])
                verdict = self._verdict(took <= goal, min(times[client]) <= best) if name == "ours" else ""
                print(
                    f"| {broker} | {name} | {figure} | {cpu(seen, 1e3, 0)} | {took / goal:.2f} | {verdict} |",
                    flush=True,
                )

    def crowd(self) -> None:
        print(CROWD.format(members=MEMBERS, partitions=CROWD_PARTITIONS), flush=True)
        for broker, address in self.brokers.items():
            for protocol in ("classic", "consumer"):
                asked = (address, CROWDED, protocol, str(MEMBERS), str(CROWD_PARTITIONS))
                figures = run([sys.executable, str(HERE / "crowd.py"), *asked])
                shares = [figures[f"{phase}_cores"] for phase in ("forms", "rest", "change")]
                verdict = self._verdict(max(shares) <= 1 and not figures["moved_at_rest"])
                cells = [broker, protocol, f"{figures['forms_s']:.1f}", f"{shares[0]:.2f}", f"{shares[1]:.2f}"]
                cells += [str(figures["moved_at_rest"]), f"{figures['change_s']:.1f}", f"{shares[2]:.2f}"]
                cells += [f"{figures['bytes'] / 1024:.0f}", verdict]
                print(f"| {' | '.join(cells)} |", flush=True)

    def _in_turn(self, clients: Sequence[str], how: str, address: str, wanted: int) -> dict[str, Rounds]:
        by_client: dict[str, Rounds] = {client: [] for client in clients}
        asked = (how, address, TOPIC, str(wanted))
        for _ in range(self.rounds):
            for client, seen in by_client.items():
                start = self.java if client.startswith("Java") else [sys.executable, str(HERE / "reading.py"), client]
                seen.append(run([*start, *asked]))
        return by_client

    def _verdict(self, holds: bool, at_best: bool = False) -> str:
        self.missed += not (holds or at_best)
        return "ok" if holds else "ok at best" if at_best else "**missed**"


def cpu(seen: Rounds, unit: float, digits: int) -> str:
    """Format the CPU time of a measurement; "" if it was not measured."""
    used = statistics.median(each["cpu"] for each in seen) * unit
    return f"{used:.{digits}f}" if used else ""


def run(command: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object that a command prints. Raises: RuntimeError with its output if that is something else."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


@contextmanager
def compiled() -> Iterator[list[str]]:
    """Compile Reading.java; yield its command."""
    from interop.programs import command

    java, *rest = command("java")
    jars = rest[rest.index("-cp") + 1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", jars, "-d", folder, str(HERE / "Reading.java")], check=True)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        yield [java, quiet, "-cp", f"{jars}{os.pathsep}{folder}", "Reading"]


def begin(options: beside_kafka.Options, stack: ExitStack) -> Bench:
    """Start and fill both brokers, and print the introduction."""
    kafkas = stack.enter_context(beside_kafka.real(options.kafka, KAFKA_PORT, SETTINGS))
    ours = stack.enter_context(beside_kafka.mock(OUR_PORT, SETTINGS))
    brokers = {"mock": ours.address, f"Kafka {options.kafka}": kafkas.address}
    for address in brokers.values():
        beside_kafka.create_topics(address, {TOPIC: 6, CROWDED: CROWD_PARTITIONS})
        beside_kafka.fill(address, TOPIC, 6, RECORDS, SIZE)
    clients = {name: version(name) for name in ("kafka-python", "aiokafka", "confluent-kafka")}
    print(INTRODUCTION.format(**options.facts, **clients), flush=True)
    return Bench(options.rounds, brokers, stack.enter_context(compiled()))


if __name__ == "__main__":
    beside_kafka.main(__doc__, ["reading", "starting", "crowd"], 7, begin)

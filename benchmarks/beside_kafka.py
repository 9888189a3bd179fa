"""The common part of the benchmarks beside a real Kafka: both brokers, their topics and records, and the tables."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

NEWEST = "4.2.0"
START = 60.0  # seconds until a server accepts connections
CREATION = 60.0  # seconds for the creation of a topic
UNFLUSHED = 5_000  # records that the producer may buffer


@dataclass
class Broker:
    """A running broker: ``host:port``, and the id of its process."""

    address: str
    pid: int


@contextmanager
def mock(port: int, settings: Mapping[str, str], *arguments: str) -> Iterator[Broker]:
    """Run ``mockbroker serve`` with further arguments. Raises: RuntimeError if it does not start."""
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [sys.executable, "-m", "mockbroker", "serve", "--port", str(port), "--ready-file", str(ready)]
        broker = subprocess.Popen([*command, *arguments, *given], stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + START
            while not ready.exists():
                if (code := broker.poll()) is not None:
                    raise RuntimeError(f"mockbroker ended with code {code}, before it served port {port}: see its log")
                if time.monotonic() > until:
                    raise RuntimeError(f"mockbroker does not serve port {port} after {START:.0f} s: see its log")
                time.sleep(0.02)
            yield Broker(f"127.0.0.1:{port}", broker.pid)
        finally:
            broker.terminate()
            broker.wait()


def wait_for_port(host: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections. Raises: RuntimeError if its process ends, or after START seconds."""
    until = time.monotonic() + START
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            raise RuntimeError(f"the server of {host}:{port} ended with code {code}")
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"no server at {host}:{port} after {START:.0f} s")


@contextmanager
def real(release: str, port: int, settings: Mapping[str, str]) -> Iterator[Broker]:
    """Run a real Kafka (tests/oracle/kafka.py)."""
    from oracle import kafka

    with kafka.running(release, port, dict(settings)) as address:
        yield Broker(address, int((kafka.FOLDER / f"run-{port}" / "pid").read_text()))


def create_topics(address: str, topics: Mapping[str, int]) -> None:
    """Create topics with one replica. ``topics``: number of partitions by name."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        done.result(CREATION)


def fill(address: str, topic: str, partitions: int, records: int, size: int) -> None:
    """Produce records of ``size`` bytes to the partitions of a topic in turn."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    for number in range(records):
        producer.produce(topic, b"x" * size, partition=number % partitions)
        if number % UNFLUSHED == 0:
            producer.flush()
    producer.flush()


@dataclass
class Options:
    """The options of the command line, and the facts that every introduction states.

    Attributes:
        rounds: Number of rounds.
        kafka: Release of the real Kafka.
        only: Names of the tables to print.
        facts: Day, versions, cores and load, for ``str.format``.
    """

    rounds: int
    kafka: str
    only: Sequence[str]
    facts: dict[str, Any]


def main(doc: str | None, tables: Sequence[str], rounds: int, begin: Callable[[Options, ExitStack], Any]) -> None:
    """Read the options, print the tables, and print how many goals were missed.

    Args:
        doc: Description of the command.
        tables: Names of all tables; each is a method of the bench.
        rounds: Number of rounds by default.
        begin: Function that starts the brokers, prints the introduction, and returns the bench, whose ``missed`` counts
            missed goals.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--kafka", default=NEWEST)
    parser.add_argument("--only", nargs="+", choices=tables, default=tables)
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # let Python cache compiled modules
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # exit handlers stop all child processes
    began, load = time.monotonic(), os.getloadavg()[0]
    real_time = os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO)
    others = "whatever else ran waited for them (chrt)" if real_time else "whatever else ran"
    facts = {
        "others": others,
        "day": datetime.date.today(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    options = Options(
        given.rounds, given.kafka, given.only, {**facts, "rounds": given.rounds, "kafka": given.kafka, "load": load}
    )
    with ExitStack() as stack:
        bench = begin(options, stack)
        for table in options.only:
            getattr(bench, table)()
    minutes, load = (time.monotonic() - began) / 60, os.getloadavg()[0]
    print(f"\nGoals missed: {bench.missed}. It took {minutes:.1f} minutes; load {load:.1f} at the end.")

"""Every file in examples/ works as its text says, because users copy the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from interop import example_projects, programs
from interop.adapters import ADAPTERS
from interop.stage import LIMIT, MARKS, need_client
from tools.captures import capture

from kwire.analysis import parquet
from kwire.capture import Call, read
from mockbroker import run_cluster

pytestmark = MARKS

EXAMPLES = Path(__file__).parent.parent / "examples"
CLIENTS = {
    "connect_kafka_python.py": "kafka-python",
    "connect_confluent_kafka.py": "confluent-kafka",
    "connect_aiokafka.py": "aiokafka",
    "connect_kcat.sh": "kcat",
    "ConnectJava.java": "java",
    "connect_franz_go.go": "franz-go",
    "connect_kafkajs.js": "kafkajs",
}
RECORDED = ["recorded_topic.py"]
REPORTS = {"duckdb_report.py": "revocation"}  # a word that each prints about a capture
PROJECTS = ["go", "java", "node"]  # folders: tests that start a broker and use its control API
TORTURE = "torture"  # folder of clients for mockbroker torture
PROJECT_LIMIT = 60.0  # seconds; below 15 on a quiet machine
SHARED = ["orders.py"]
IN_SPARK = ["spark_stream.py"]  # tests/spark/test_example.py: it needs a session
ELSEWHERE = ("test_", "consumer_")  # tests themselves; tests/test_consumer_examples.py
PROGRAMS = {
    "in_a_test.py": "the order arrived",
    "trio_cluster.py": "events so far: 0",
    "exactly_once.py": "each order was billed once",
    "draft_failover.py": "generation 2 -> 4, each partition has one owner",
    "own_assignors.py": "near-leader {'in a': [0, 3, 5], 'in b': [1, 2, 4]}",
}


def command(example: str) -> list[str]:
    file = EXAMPLES / example
    if CLIENTS.get(example) in programs.PROGRAMS:
        return programs.run_file(file)
    return ["sh" if file.suffix == ".sh" else sys.executable, str(file)]


def test_nothing_is_left_out() -> None:
    assert sorted(
        path.name for path in EXAMPLES.iterdir() if path.is_file() and not path.name.startswith(ELSEWHERE)
    ) == sorted([*CLIENTS, *PROGRAMS, *RECORDED, *REPORTS, *IN_SPARK, *SHARED])
    folders = [path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(folders) == [*PROJECTS, TORTURE]


@pytest.mark.parametrize("example", CLIENTS)
def test_client(example: str) -> None:
    """The client joins group ``demo``, reads all records, and the broker lists it in its group."""
    need_client(CLIENTS[example])
    with run_cluster(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        ADAPTERS["confluent-kafka"](cluster.bootstrap_servers).produce("orders", {0: ["soup"], 1: ["salad", "cake"]})
        process = subprocess.Popen(
            [*command(example), cluster.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        too_late = threading.Timer(LIMIT, process.kill)
        too_late.start()
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().strip() for _ in range(3)]
        finally:
            too_late.cancel()
            process.kill()
            _, errors = process.communicate()
        assert sorted(lines) == ["0 0 soup", "1 0 salad", "1 1 cake"], errors
        assert {event.group for event in cluster.events()} == {"demo"}


@pytest.mark.parametrize("example", PROGRAMS)
def test_program(example: str) -> None:
    need_client("confluent-kafka")
    done = subprocess.run(command(example), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[example] in done.stdout


@pytest.mark.parametrize("example", REPORTS)
def test_report(example: str, tmp_path: Path) -> None:
    parquet.write(tmp_path, "one", capture("java-4.2.0__kafka-4.2.0__cooperative"))
    done = subprocess.run([*command(example), str(tmp_path)], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert REPORTS[example] in done.stdout


@pytest.mark.parametrize("example", RECORDED)
def test_a_recorded_topic_becomes_a_frame_log(example: str, tmp_path: Path) -> None:
    """The frames of all partitions are in order of time, with requests and responses of a connection together."""
    need_client("confluent-kafka")
    log = tmp_path / "frames.jsonl"
    with run_cluster(topics={"orders": 2, "frames": 3}) as cluster:
        servers = cluster.bootstrap_servers
        options = ["--to", servers, "--port", "0", "--record", f"kafka://{servers}/frames"]
        proxy = subprocess.Popen([sys.executable, "-m", "mockbroker", "proxy", *options], stdout=subprocess.PIPE)
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().decode().strip().partition("=")[2]
            ADAPTERS["confluent-kafka"](address).produce("orders", {0: ["soup"], 1: ["cake"]})
        finally:
            proxy.terminate()
            proxy.communicate()
        with log.open("wb") as out:
            subprocess.run([*command(example), servers, "frames"], stdout=out, check=True, timeout=LIMIT)
    times = [json.loads(line)["time_us"] for line in log.read_text().splitlines()]
    assert times == sorted(times)
    calls = [item for item in read(log) if isinstance(item, Call)]
    assert sum(call.api_key == 0 for call in calls) >= 1
    assert all(call.reason is None for call in calls)


WRAPPER = """#!/bin/sh
echo $$ >> {pids}
exec {python} -m mockbroker "$@"
"""


@pytest.mark.parametrize("language", PROJECTS)
def test_project(language: str, tmp_path: Path) -> None:
    """The test passes with its own broker, which has ended afterwards."""
    project = example_projects.project(language)
    pids, wrapper = tmp_path / "pids", tmp_path / "mockbroker"
    wrapper.write_text(WRAPPER.format(pids=pids, python=sys.executable), "utf-8")
    wrapper.chmod(0o755)
    environment = programs.ENVIRONMENT | project.environment | {"MOCKBROKER": str(wrapper)}
    done = subprocess.run(
        project.command, cwd=project.folder, env=environment, capture_output=True, text=True, timeout=PROJECT_LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (pid,) = pids.read_text("utf-8").split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.parametrize(
    ("program", "family"),
    [
        ("aiokafka_client", "aiokafka"),
        ("confluent", "confluent-kafka"),
        ("kafka_python", "kafka-python"),
        ("own_consumer", ""),
    ],
)
def test_a_client_for_torture_survives_a_case(program: str, family: str) -> None:
    if family:
        need_client(family)
    survives([sys.executable, str(EXAMPLES / TORTURE / f"{program}.py")])


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "family"),
    [("TortureJava.java", "java"), ("franz_go.go", "franz-go"), ("kafkajs.js", "kafkajs")],
)
def test_a_program_for_torture_survives_a_case(program: str, family: str) -> None:
    need_client(family)
    survives(programs.run_file(EXAMPLES / TORTURE / program))


def survives(client: Sequence[str], case: str = "Metadata-disconnect", *options: str) -> None:
    """Check that a client survives a case of the torture test. ``options``: of ``mockbroker torture``."""
    words = [sys.executable, "-m", "mockbroker", "torture", *options, "--case", case, "--bad", "1", "--json", "--"]
    done = subprocess.run([*words, *client], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr) == (0, "1 survived\n"), done.stdout


def test_a_client_with_tls_and_sasl_survives_torture() -> None:
    need_client("confluent-kafka")
    client = [sys.executable, str(EXAMPLES / TORTURE / "confluent.py")]
    survives(client, "scram-wrong-signature", "--security-protocol", "SASL_SSL")

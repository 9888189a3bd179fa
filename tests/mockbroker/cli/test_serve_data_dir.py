"""``mockbroker serve --data-dir``, as a process: kill -9 under load, directories that cannot be opened, and its end."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from effort import amount
from plain_client import AT_ONCE, PlainClient

from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, batches, build_batch

COMMAND = [sys.executable, "-m", "mockbroker", "serve"]
LIMIT = 30.0  # seconds


@contextmanager
def served(
    folder: Path, *arguments: str, port: str = "0", **options: object
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a broker in a separate process. Yield the process and its address."""
    command = [*COMMAND, "--port", port, "--data-dir", str(folder), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], LIMIT)[0], "not ready in time"
        line = process.stdout.readline()
        assert line.startswith("ready bootstrap.servers="), process.communicate()
        yield process, line.strip().partition("=")[2]
    finally:
        process.kill()
        process.communicate()


def refused(*arguments: str) -> str:
    """Return the error of a broker that does not start."""
    done = subprocess.run(
        [*COMMAND, "--port", "0", *arguments], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    return line.removeprefix("Error: ")


def produce(value: bytes, partition: int = 0) -> tuple[ProduceRequest, int]:
    data = ProduceRequest.Topic.Partition(index=partition, records=build_batch([Record(value=value)]))
    topic = ProduceRequest.Topic(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 7


def values(client: PlainClient, partition: int = 0) -> list[bytes]:
    """Return the values of all records of a partition."""
    results: list[bytes] = []
    while True:
        wanted = FetchRequest.Topic.Partition(partition=partition, fetch_offset=len(results), partition_max_bytes=10**6)
        topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
        answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10**6, topics=topics), 11)
        [part] = answer.responses[0].partitions
        assert part.error_code == 0
        records = [record for batch in batches(part.records or b"") for record in batch.records()]
        if not records:
            return results
        assert [record.offset for record in records] == list(range(len(results), len(results) + len(records)))
        results += [record.value or b"" for record in records]


class Producer(threading.Thread):
    """Sends numbers until the broker is killed. ``sure``: the acknowledged ones."""

    def __init__(self, address: str, partition: int, life: int) -> None:
        super().__init__()
        self.sure: list[bytes] = []
        self._address, self._partition, self._life = address, partition, life

    def run(self) -> None:
        try:
            with PlainClient(self._address) as client:
                for number in range(100_000):
                    value = b"%d in life %d" % (number, self._life)
                    answer = client.ask(*produce(value, self._partition))
                    assert answer.responses[0].partition_responses[0].error_code == 0
                    self.sure.append(value)
        except OSError:
            pass  # the broker was killed


def test_acknowledged_records_survive_kill_9(tmp_path: Path) -> None:
    port = "0"
    sure: list[list[bytes]] = [[], [], []]
    for life in range(4):
        with served(tmp_path, "--topic", "t:3", port=port) as (process, address):
            port = address.rpartition(":")[2]  # the clients know only this port
            with PlainClient(address) as client:
                for partition, acknowledged in enumerate(sure):
                    result = values(client, partition)
                    assert result[: len(acknowledged)] == acknowledged
                    assert len(result) - len(acknowledged) <= 1  # the record that was in flight
                    sure[partition] = result
            producers = [Producer(address, partition, life) for partition in range(3)]
            for producer in producers:
                producer.start()
            while sum(len(producer.sure) for producer in producers) < 60:
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            for producer in producers:
                producer.join(LIMIT)
            sure = [before + producer.sure for before, producer in zip(sure, producers, strict=True)]
    assert min(len(each) for each in sure) > 10


class Committer(threading.Thread):
    """Commits increasing offsets of one group until the broker is killed.

    Attributes:
        sure: last offset whose commit was acknowledged.
        sent: last offset that was sent.
    """

    def __init__(self, address: str, group: str, sure: int) -> None:
        super().__init__()
        self.group, self.sure, self.sent = group, sure, sure
        self._address = address

    def run(self) -> None:
        try:
            with PlainClient(self._address) as client:
                while True:
                    self.sent += 1
                    answer = client.ask(*commit(self.group, self.sent))
                    assert answer.topics[0].partitions[0].error_code == 0
                    self.sure = self.sent
        except OSError:
            pass  # the broker was killed


def commit(group: str, offset: int) -> tuple[OffsetCommitRequest, int]:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequest.Topic(name="t", partitions=[partition])]), 7


def committed(client: PlainClient, group: str) -> int:
    wanted = [OffsetFetchRequest.Topic(name="t", partition_indexes=[0])]
    answer = client.ask(OffsetFetchRequest(group_id=group, topics=wanted), 5)
    return int(answer.topics[0].partitions[0].committed_offset)


KILLS = int(os.environ.get("MOCKBROKER_KILLS", amount(6, 50)))
GROUPS = 4


def test_no_commit_that_was_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    chance = random.Random(9)
    port = "0"
    groups = [Committer("", f"g{number}", 0) for number in range(GROUPS)]
    for _ in range(KILLS):
        with served(tmp_path, "--topic", "t", port=port) as (process, address):
            port = address.rpartition(":")[2]
            with PlainClient(address) as client:
                for each in groups:
                    result = max(committed(client, each.group), 0)
                    assert each.sure <= result <= each.sent
                    each.sure = result
            groups = [Committer(address, each.group, each.sure) for each in groups]
            before = sum(each.sure for each in groups)
            for each in groups:
                each.start()
            wanted = before + chance.randrange(5, 60)
            while sum(each.sure for each in groups) < wanted:
                assert process.poll() is None
                time.sleep(chance.random() / 1_000)
            process.send_signal(signal.SIGKILL)
            for each in groups:
                each.join(LIMIT)
    assert sum(each.sure for each in groups) > 5 * KILLS


ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDS)
def test_a_clean_end(number: signal.Signals, tmp_path: Path) -> None:
    with served(tmp_path, "--topic", "t") as (process, address), PlainClient(address) as client:
        client.ask(*produce(b"kept"))
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(LIMIT) == 0
        assert time.monotonic() - began < AT_ONCE
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert (tmp_path / "t-0" / "00000000000000000000.timeindex").stat().st_size == 12
    with served(tmp_path) as (_, address), PlainClient(address) as client:
        assert values(client) == [b"kept"]


def test_nohup_ignores_sighup(tmp_path: Path) -> None:
    with served(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as (process, address):
        process.send_signal(signal.SIGHUP)
        with PlainClient(address) as client:
            assert client.ask(HeartbeatRequest(group_id="g", member_id="m"), 3).error_code
        assert process.poll() is None


STUCK = """
import signal, sys, threading, mockbroker.cli
from mockbroker.storage.data_dir import DataDir
def close(self):
    print("stuck", flush=True)
    threading.Event().wait()
DataDir.close = close
mockbroker.cli.main()
"""


@pytest.mark.parametrize("number", ENDS)
def test_the_second_signal_ends_it_at_once(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUCK, "serve", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("ready ")
        process.send_signal(number)
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(number)
        assert process.wait(LIMIT) == -number
        assert process.stderr.read() == ""


def test_whoever_reads_only_the_first_line(tmp_path: Path) -> None:
    """With ``mockbroker serve | head -1``, the broker keeps running, and ends without a message."""
    with served(tmp_path) as (process, address):
        assert process.stdout is not None
        process.stdout.close()
        with PlainClient(address) as client:
            assert client.ask(HeartbeatRequest(group_id="g", member_id="m"), 3).error_code
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stdout = None


def test_stdout_that_is_never_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "--port", "0", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT)
    os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_locked_by_another_and_free_when_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path) as (process, _):
        assert (
            refused("--data-dir", str(tmp_path))
            == f"data directory {tmp_path}: in use by another cluster; stop that cluster first"
        )
        process.kill()
        process.wait(LIMIT)
        with served(tmp_path):
            pass


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "dir"
    assert (
        refused("--data-dir", str(folder))
        == f"data directory {folder}: cannot create or open the folder: Not a directory"
    )


def test_empty_path(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--data-dir", ""]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 2
    assert "Error: data_dir is empty: expected the path of a directory" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_newer_version(tmp_path: Path) -> None:
    (tmp_path / "mockbroker.json").write_text(json.dumps({"format": 99}))
    assert "has format 99, only format 1 is supported" in refused("--data-dir", str(tmp_path))


def test_other_brokers(tmp_path: Path) -> None:
    with served(tmp_path, "--brokers", "2"):
        pass
    assert "created by a cluster of 2 brokers (ids 0, 1), and cannot be opened with 1 broker (id 0)" in refused(
        "--data-dir", str(tmp_path)
    )


def test_a_topic_with_more_partitions_than_there_are(tmp_path: Path) -> None:
    with served(tmp_path, "--topic", "t:2"):
        pass
    with served(tmp_path, "--topic", "t:2"):
        pass
    command = [*COMMAND, "--port", "0", "--data-dir", str(tmp_path), "--topic", "t:3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 2
    assert "topic t: the number of partitions is 3, but 2 in the data directory" in done.stderr


def test_a_disk_that_is_full_while_it_serves(tmp_path: Path) -> None:
    """The kernel limits files to 20 kB; requests whose data does not fit get no response."""

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with served(tmp_path, "--topic", "t", preexec_fn=small) as (process, address), PlainClient(address) as client:
        sure = 0
        with suppress(ConnectionError):
            while sure < 100:
                client.ask(*produce(bytes(1_000)))
                sure += 1
        assert process.wait(LIMIT) == 1
        assert process.stderr is not None
        [line] = process.stderr.read().splitlines()
        assert line == f"Error: data directory {tmp_path}: cannot write file t-0/{0:020}.log: File too large"
    assert 10 < sure < 20
    with served(tmp_path) as (_, address), PlainClient(address) as client:
        assert len(values(client)) >= sure

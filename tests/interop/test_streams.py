"""Kafka Streams with ``group.protocol=streams`` (KIP-1071) and in classic groups, and Kafka's tool for streams groups."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from effort import usual_and_long
from interop.ground import Ground
from interop.kafka_tools import streams_groups
from interop.matrix import STREAMS
from interop.programs import ENVIRONMENT, word_count
from interop.stage import MARKS
from oracle import kafka

pytestmark = MARKS

LIMIT = 90.0  # seconds for all words to be counted
LINES = [f"word{number % 7} word{number % 5} all" for number in range(300)]
PARTITIONS = 4


class Application:
    """Instances of the word count, each in a separate process. ``release``: release of Kafka Streams."""

    def __init__(self, ground: Ground, guarantee: str, folder: Path) -> None:
        self.release = kafka.NEWEST
        self.ground, self.guarantee, self.folder = ground, guarantee, folder
        self.name = ground.name("count")
        self.lines, self.counts = ground.name("lines"), ground.name("counts")
        ground.create_topic(self.lines, PARTITIONS)
        ground.create_topic(self.counts, 2)
        self.instances: list[subprocess.Popen[bytes]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": ground.bootstrap_servers,
                "group.id": self.name,  # only to fetch the offsets that the application has committed
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(self.counts, index, 0) for index in range(2)])
        self.seen: dict[str, list[int]] = {}  # all counts of each word, in the order in which they were written

    def start(self, *settings: str) -> subprocess.Popen[bytes]:
        """Start one more instance, with a separate state directory."""
        state = self.folder / f"state-{len(self.instances)}"
        arguments = [self.ground.bootstrap_servers, self.name, self.guarantee, str(state), self.lines, self.counts]
        process = subprocess.Popen(
            [*word_count(self.release), *arguments, *settings],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.instances.append(process)
        return process

    def write(self, lines: Sequence[str]) -> None:
        for index in range(PARTITIONS):
            self.ground.produce(self.lines, lines[index::PARTITIONS], partition=index)

    def wait_counts(self, lines: Sequence[str]) -> None:
        """Wait until the last count of each word equals its count in these lines."""
        wanted = Counter(word for line in lines for word in line.split())
        self._wait(
            lambda: {word: counts[-1] for word, counts in self.seen.items()} == wanted, f"{wanted} to be counted"
        )

    def wait_committed(self, lines: Sequence[str]) -> None:
        """Wait until the offsets after these lines, and after their words, are committed."""
        words = sum(len(line.split()) for line in lines)

        def committed(topic: str) -> int:
            places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
            return sum(max(place.offset, 0) for place in self._consumer.committed(places, timeout=LIMIT))

        again = f"{self.name}-words-repartition"
        self._wait(
            lambda: committed(self.lines) >= len(lines) and committed(again) >= words, "the offsets to be committed"
        )

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + LIMIT
        while not holds():
            assert time.monotonic() < until, f"waited for {what}, saw {self.seen}"
            record = self._consumer.poll(0.1)
            while record is not None:
                assert record.error() is None
                self.seen.setdefault(record.key().decode(), []).append(int.from_bytes(record.value(), "big"))
                record = self._consumer.poll(0)

    def stop(self) -> None:
        """Close all instances that are still running."""
        for process in self.instances:
            process.communicate(timeout=LIMIT)  # an instance ends at the end of its input

    def close(self) -> None:
        self._consumer.close()
        for process in self.instances:
            process.kill()
            process.communicate()


@pytest.fixture
def application(ground: Ground, guarantee: str, tmp_path: Path) -> Iterator[Application]:
    started = Application(ground, guarantee, tmp_path)
    yield started
    started.close()


def count_with_a_killed_instance(application: Application, *settings: str) -> None:
    """Count half of the lines with two instances, kill one, and count the other half."""
    application.start(*settings)
    killed = application.start(*settings)
    application.write(LINES[:150])
    application.wait_counts(LINES[:150])
    application.wait_committed(LINES[:150])
    killed.kill()
    application.write(LINES[150:])
    application.wait_counts(LINES)
    application.stop()


@pytest.mark.scenario("counts words")
@pytest.mark.parametrize("guarantee", usual_and_long(["at_least_once"], ["exactly_once_v2"]))
def test_word_count_survives_a_killed_instance(application: Application) -> None:
    count_with_a_killed_instance(application)


@pytest.mark.long
@pytest.mark.scenario("counts words in a classic group")
@pytest.mark.parametrize(("release", "guarantee"), STREAMS)
def test_word_count_in_a_classic_group(application: Application, release: str, guarantee: str) -> None:
    application.release = release
    count_with_a_killed_instance(application, "group.protocol=classic", "session.timeout.ms=6000")
    if guarantee != "at_least_once":
        assert all(counts == list(range(1, len(counts) + 1)) for counts in application.seen.values())


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_word_count_is_that_of_a_real_kafka(application: Application, guarantee: str, threads: int) -> None:
    count_with_a_killed_instance(application, f"num.stream.threads={threads}", "application.server=localhost:1234")
    if guarantee == "exactly_once_v2":
        assert all(counts == list(range(1, len(counts) + 1)) for counts in application.seen.values())


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("guarantee", ["at_least_once"])
def test_streams_groups_tool(application: Application) -> None:
    servers, name = application.ground.bootstrap_servers, application.name
    application.start()
    application.write(LINES)
    application.wait_counts(LINES)
    application.wait_committed(LINES)
    assert name in streams_groups(servers, "--list")
    assert f"{name} Stable" in streams_groups(servers, "--list", "--state")
    (_, state) = streams_groups(servers, "--describe", "--group", name, "--state", "--verbose")
    assert state.split()[3:] == ["Stable", "3", "3", "1"]
    (_, member) = streams_groups(servers, "--describe", "--group", name, "--members", "--verbose")
    assert "ACTIVE: 0:[0,1,2,3]; 1:[0,1,2,3]; TARGET-ACTIVE: 0:[0,1,2,3]; 1:[0,1,2,3];" in member
    lags = streams_groups(servers, "--describe", "--group", name)[1:]
    again = f"{name}-words-repartition"
    assert sorted({line.split()[1] for line in lags}) == sorted([application.lines, again])
    assert [line for line in lags if application.lines in line.split() and not line.endswith(" 0")] == []
    refused = " ".join(streams_groups(servers, "--delete", "--group", name))
    assert "is not EMPTY" in refused or refused == ""  # the reason is on the error output
    application.stop()
    printed = streams_groups(
        servers, "--reset-offsets", "--group", name, "--to-earliest", "--all-input-topics", "--execute"
    )
    assert sorted(printed[1:]) == [f"{name} {application.lines} {index} 0" for index in range(PARTITIONS)]
    printed = streams_groups(servers, "--delete-offsets", "--group", name, "--input-topic", f"{application.lines}:0")
    assert printed[-1] == f"{application.lines} 0 Successful"
    printed = streams_groups(servers, "--delete", "--group", name, "--delete-all-internal-topics")
    assert printed[0] == f"Deletion of requested streams groups ('{name}') was successful."
    assert name not in streams_groups(servers, "--list")

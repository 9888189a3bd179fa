"""Compaction of a coordinator's log: when it starts, and the part that is compacted after each append."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, committed

from mockbroker.groups.records import compaction
from mockbroker.groups.records.compaction import Compactor

MIB = 1 << 20


class Log:
    """The log of a partition: its size in bytes, and a compaction that yields a cost of one byte for each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int = 10 * MIB) -> None:
        self.compactor, self.steps, self.left, self.begun = Compactor(), steps, 0, 0
        self.partition: Any = SimpleNamespace(index=3, log=SimpleNamespace(size=0))
        monkeypatch.setattr(compaction, "compaction_of", self._compact)

    def _compact(self, _partition: Any, _now_ms: int) -> Iterator[int]:
        self.begun += 1
        self.left = self.steps
        while self.left:
            self.left -= 1
            yield 1

    def append(self, size: int) -> int:
        """Append, and return the number of bytes that are compacted after it. ``size``: size of the log in bytes."""
        self.partition.log.size = size
        before = self.left or self.steps
        self.compactor.compact_if_grown(self.partition, 0)
        return before - self.left if self.begun else 0


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_first_compaction_begins_above_one_mebibyte(log: Log) -> None:
    assert (log.append(MIB), log.begun) == (0, 0)
    log.append(MIB + 1)
    assert log.begun == 1


def test_each_append_compacts_16_kib_and_twice_its_own_size(log: Log) -> None:
    assert log.append(2 * MIB) == 16_384
    assert log.append(2 * MIB) == 16_384
    assert log.append(2 * MIB + 1_000) == 16_384 + 2_000
    assert log.append(2 * MIB + 1_000) == 16_384
    assert log.append(MIB) == 16_384, "a smaller log, after records were deleted"
    assert log.begun == 1


@pytest.mark.parametrize(("size", "following"), [(3 * MIB, 6 * MIB), (100, MIB)])
def test_next_compaction_begins_when_the_size_has_doubled(
    monkeypatch: pytest.MonkeyPatch, size: int, following: int
) -> None:
    log = Log(monkeypatch, steps=20_000)
    log.append(2 * MIB)
    log.append(size)
    assert (log.begun, log.left) == (1, 0)
    log.append(following)
    assert log.begun == 1
    log.append(following + 1)
    assert log.begun == 2


def test_compaction_of_a_former_partition_is_given_up(log: Log) -> None:
    log.append(2 * MIB)
    log.partition = SimpleNamespace(index=3, log=SimpleNamespace(size=0))
    log.append(MIB)
    assert log.begun == 1
    log.append(2 * MIB)
    assert log.begun == 2


def test_log_of_a_group_does_not_grow_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 2_000)
    harness = BrokerHarness()
    for offset in range(100):
        commit_without_member(harness, "g", offset=offset)
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g")
    assert partition.log.size < 5_000
    assert committed(harness, "g") == {("t", 0): 99}

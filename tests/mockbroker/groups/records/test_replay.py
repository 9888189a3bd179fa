"""Replay of the offsets topic: the latest value of each key, and the offsets of transactions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.errors import DecodeError
from kwire.records import Record, build_batch
from kwire.records.batch import batches, read_batch
from kwire.records.control import ControlType, build_marker
from mockbroker.groups.records.replay import Replay, StoredValue

A, B = b"\0\1a", b"\0\1b"
PRODUCER = 9
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


class Log:
    """Consecutive batches and their replay."""

    def __init__(self) -> None:
        self.end = 0
        self.replay = Replay()

    def write(self, *records: tuple[bytes, bytes | None], producer: int = -1, codec: int = 0) -> None:
        made = [Record(key=key, value=value) for key, value in records]
        self._add(
            build_batch(
                made,
                base_offset=self.end,
                producer_id=producer,
                producer_epoch=0,
                transactional=producer >= 0,
                codec=codec,
            )
        )

    def finish(self, how: ControlType, producer: int = PRODUCER) -> None:
        self._add(build_marker(how, producer_id=producer, producer_epoch=0, timestamp=1, base_offset=self.end))

    def _add(self, data: bytes) -> None:
        batch = read_batch(data)
        self.replay.add(batch)
        self.end = batch.last_offset + 1


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.mark.parametrize("codec", range(5))
def test_the_last_value_applies_and_a_tombstone_deletes_it(log, codec):
    log.write((A, b"1"), (B, b"2"), codec=codec)
    log.write((A, b"3"), (B, None), codec=codec)
    assert log.replay.latest == {A: StoredValue(b"3", 2)}
    assert log.replay.values == {A: b"3"}


def test_offsets_of_a_transaction_wait_for_its_marker(log):
    log.write((A, b"1"))
    log.write((A, b"2"), (B, b"2"), producer=PRODUCER)
    assert log.replay.values == {A: b"1"}
    assert log.replay.pending == {PRODUCER: {A: StoredValue(b"2", 1), B: StoredValue(b"2", 2)}}
    log.finish(COMMIT)
    assert log.replay.values == {A: b"2", B: b"2"}
    assert log.replay.pending == {}


def test_aborted_offsets_are_discarded(log):
    log.write((A, b"1"))
    log.write((A, b"2"), producer=PRODUCER)
    log.finish(ABORT)
    log.finish(COMMIT)  # the marker of the next transaction, which has no offsets
    assert log.replay.values == {A: b"1"}
    assert log.replay.pending == {}


def test_a_marker_ends_the_transaction_of_its_producer_only(log):
    log.write((A, b"1"), producer=1)
    log.write((A, b"2"), producer=2)
    log.finish(COMMIT, 2)
    assert log.replay.values == {A: b"2"}
    log.finish(COMMIT, 1)
    assert log.replay.values == {A: b"2"}  # the later one in the log


def test_a_later_commit_without_transaction_is_newer(log):
    log.write((A, b"1"), producer=PRODUCER)
    log.write((A, b"2"))
    log.finish(COMMIT)
    assert log.replay.values == {A: b"2"}


def test_a_tombstone_deletes_pending_offsets_too(log):
    log.write((A, b"1"), (B, b"1"), producer=PRODUCER)
    log.write((A, None))
    log.finish(COMMIT)
    assert log.replay.values == {B: b"1"}


def test_only_tombstones(log):
    log.write((A, None), (B, None))
    assert log.replay == Replay()


def test_old_and_new_key_types_are_the_same_key(log):
    log.write((b"\0\0a", b"1"))
    log.write((A, b"2"))
    assert log.replay.values == {A: b"2"}
    log.write((b"\0\0a", None))
    assert log.replay.values == {}


def test_an_invalid_batch_changes_nothing(log):
    log.write((A, b"1"))
    keyless = build_batch([Record(key=A, value=b"2"), Record(value=b"3")], base_offset=1)
    with pytest.raises(DecodeError, match="the record has no key"):
        log.replay.add(read_batch(keyless))
    unpacked = read_batch(build_batch([Record(key=A, value=b"2")], base_offset=1))
    unpacked.attributes |= 2  # snappy
    with pytest.raises(DecodeError):
        log.replay.add(unpacked)
    assert log.replay.values == {A: b"1"}


def test_a_log_of_a_kafka_broker():
    """The log in fixtures/logs has two groups and a committed transaction with offsets."""
    folder = Path(__file__).parents[4] / "fixtures" / "logs"
    replay = Replay()
    for batch in batches((folder / "__consumer_offsets.log").read_bytes()):
        replay.add(batch)
    assert replay.pending == {}
    last: dict[str, tuple[int, object]] = {}
    for line in (folder / "__consumer_offsets.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        last[json.dumps(entry["key"])] = entry["offset"], entry["value"]
    kept = {offset for offset, value in last.values() if value is not None}
    assert {each.offset for each in replay.latest.values()} == kept
    assert len(kept) == 5


def test_transaction_without_offsets_is_forgotten(log):
    log.write((A, b"1"), producer=PRODUCER)
    log.write((A, None))
    assert log.replay.pending == {}

"""Produce requests with the recorded records in other batches."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records import Record, build_batch
from mockbroker.replay.player import Answer, Departure, Player
from mockbroker.replay.script import Answered, Script

VERSION = 9
Batches = dict[int, bytes]  # values of one byte each, by partition


def produce(values: Batches, *, acks: int = -1, transaction: str | None = None) -> Any:
    parts = [
        ProduceRequest.Topic.Partition(
            index=number, records=build_batch([Record(value=bytes([value]), timestamp=value) for value in batch])
        )
        for number, batch in values.items()
    ]
    topics = [ProduceRequest.Topic(name="t", partition_data=parts)]
    return ProduceRequest(transactional_id=transaction, acks=acks, topic_data=topics)


def recorded(values: Batches, offsets: dict[int, int], *, error: int = 0, acks: int = -1) -> Answered:
    parts = [
        ProduceResponse.Topic.Partition(index=number, base_offset=offset, error_code=error, log_start_offset=3)
        for number, offset in offsets.items()
    ]
    topics = [ProduceResponse.Topic(name="t", partition_responses=parts)] if acks else []
    return Answered(0, VERSION, "app", produce(values, acks=acks), ProduceResponse(responses=topics), VERSION, 0.5)


def sent(player: Player, values: Batches, **options: Any) -> dict[int, int] | str:
    """Return the base offsets in the response by partition, or the reason if the request is not in the recording."""
    found = player.answer(VERSION, "app", produce(values, **options))
    if isinstance(found, Departure):
        return found.reason
    assert isinstance(found, Answer)
    assert found.latency == 0.5
    parts = [part for topic in found.response.responses for part in topic.partition_responses]
    assert all((part.error_code, part.log_start_offset) == (0, 3) for part in parts)
    return {part.index: part.base_offset for part in parts}


@pytest.fixture
def player() -> Player:
    """Return a player of a recording with the records a to f in partition 0, and x and y in partition 1."""
    calls = [
        recorded({0: b"ab"}, {0: 10}), recorded({0: b"c", 1: b"x"}, {0: 12, 1: 50}),
        recorded({0: b"def", 1: b"y"}, {0: 13, 1: 51}),
    ]  # fmt: skip
    return Player(Script(calls))


@pytest.mark.parametrize(
    "batches",
    [
        [({0: b"a"}, {0: 10}), ({0: b"bcd"}, {0: 11}), ({0: b"ef", 1: b"xy"}, {0: 14, 1: 50})],
        [({0: b"abcdef"}, {0: 10}), ({1: b"x"}, {1: 50}), ({1: b"y"}, {1: 51})],
        [({0: b"ab"}, {0: 10}), ({0: b"cd"}, {0: 12}), ({0: b"ef"}, {0: 14})],
        [({1: b"xy"}, {1: 50}), ({0: b"a"}, {0: 10}), ({0: b"b"}, {0: 11})],
        [({0: b"cde"}, {0: 12}), ({0: b"ab"}, {0: 10})],
    ],
    ids=["shifted", "larger", "partly equal", "partitions apart", "other order"],
)
def test_recorded_records_in_other_batches_get_their_offsets(
    player: Player, batches: list[tuple[Batches, dict[int, int]]]
) -> None:
    assert [sent(player, values) for values, _ in batches] == [offsets for _, offsets in batches]


NOT_RECORDED = "Produce v9 is not in the recording: topic_data[0].partition_data[0].records"
TWICE = "Produce v9 was sent more often than in the recording"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({0: b"abX"}, f"{NOT_RECORDED}[2].value is b'X', recorded b'c'"),
        ({0: b"X"}, f"{NOT_RECORDED}[0].value is b'X', recorded b'a'"),
        ({0: b"efX"}, f"{NOT_RECORDED}[2] is {{'key': None, 'value': b'X', 'headers': ()}}, recorded none"),
        ({0: b"abd"}, f"{NOT_RECORDED}[2].value is b'd', recorded b'c'"),
        ({2: b"a"}, "Produce v9 is not in the recording: topic_data[0].partition_data[0].index is 2, recorded 0"),
    ],
    ids=["other value", "first value", "further record", "left out", "other partition"],
)
def test_the_first_record_that_is_not_recorded_is_named(player: Player, values: Batches, reason: str) -> None:
    assert sent(player, values) == reason
    assert sent(player, {0: b"abcdef"}) == {0: 10}


def test_a_departure_uses_no_record(player: Player) -> None:
    assert sent(player, {0: b"a", 1: b"z"}) == (
        "Produce v9 is not in the recording: topic_data[0].partition_data[1].records[0].value is b'z', recorded b'x'"
    )
    assert sent(player, {0: b"a", 1: b"x"}) == {0: 10, 1: 50}


def test_records_are_used_once(player: Player) -> None:
    assert sent(player, {0: b"abc"}) == {0: 10}
    assert sent(player, {0: b"ab"}) == f"{TWICE}"
    assert sent(player, {0: b"bc"}) == TWICE
    assert sent(player, {0: b"c", 1: b"x"}) == TWICE
    assert sent(player, {1: b"x"}) == {1: 50}
    assert sent(player, {0: b"def", 1: b"y"}) == {0: 13, 1: 51}
    assert sent(player, {0: b"de"}) == TWICE


def test_equal_records_get_increasing_offsets() -> None:
    player = Player(Script([recorded({0: b"aa"}, {0: 0}), recorded({0: b"aaa"}, {0: 2})]))
    assert [sent(player, {0: b"a"}) for _ in range(5)] == [{0: offset} for offset in range(5)]
    assert sent(player, {0: b"a"}) == TWICE


def test_records_of_another_producer_are_no_part_of_a_batch() -> None:
    player = Player(Script([recorded({0: b"a"}, {0: 0}), recorded({0: b"b"}, {0: 2})]))
    assert sent(player, {0: b"ab"}) == (
        f"{NOT_RECORDED}[1] was stored at offset 2, after the offset 0 of the record before it"
    )
    assert sent(player, {0: b"a"}) == {0: 0}


def test_records_that_were_not_stored_are_no_part_of_a_batch() -> None:
    player = Player(Script([recorded({0: b"ab"}, {0: -1}, error=6), recorded({0: b"ab"}, {0: 7})]))
    assert sent(player, {0: b"a"}) == {0: 7}
    assert sent(player, {0: b"b"}) == {0: 8}


def test_acks_and_transactional_ids_are_compared_first(player: Player) -> None:
    assert sent(player, {0: b"a"}, acks=1) == "Produce v9 is not in the recording: acks is 1, recorded -1"
    assert sent(player, {0: b"ab"}, transaction="t") == (
        "Produce v9 is not in the recording: transactional_id is 't', recorded none"
    )


def test_without_acks_the_records_are_compared_too() -> None:
    calls = [recorded({0: b"ab"}, {}, acks=0), recorded({0: b"c"}, {}, acks=0)]
    player = Player(Script(calls))
    for batch in (b"a", b"bc"):
        found = player.answer(VERSION, "app", produce({0: batch}, acks=0))
        assert isinstance(found, Answer), found
    assert sent(player, {0: b"X"}, acks=0) == (
        f"{NOT_RECORDED}[0] is {{'key': None, 'value': b'X', 'headers': ()}}, recorded none"
    )

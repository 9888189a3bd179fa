from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.records import Record, build_batch, read
from mockbroker.replay.fetches import Fetches, has_content
from mockbroker.replay.script import Answered

VERSION = 12


def request(offsets: dict[int, int], session: int = 0, epoch: int = -1) -> Any:
    partitions = [FetchRequest.Topic.Partition(partition=at, fetch_offset=offset) for at, offset in offsets.items()]
    topics = [FetchRequest.Topic(topic="t", partitions=partitions)] if offsets else []
    return FetchRequest(session_id=session, session_epoch=epoch, topics=topics)


def part(index: int, first: int | None = None, count: int = 0, error: int = 0) -> Any:
    """Return the response for a partition, with ``count`` records from the offset ``first`` on."""
    records = b""
    if first is not None:
        records = build_batch([Record(value=b"%d" % (first + at)) for at in range(count)], base_offset=first)
    return FetchResponse.Topic.Partition(partition_index=index, error_code=error, high_watermark=9, records=records)


def call(asked: Any, *parts: Any, session: int = 0) -> Answered:
    topics = [FetchResponse.Topic(topic="t", partitions=list(parts))] if parts else []
    return Answered(1, VERSION, "app", asked, FetchResponse(session_id=session, responses=topics), VERSION, 0.1)


def fetched(fetches: Fetches, offsets: dict[int, int]) -> dict[int, list[int] | int]:
    """Return for each partition the offsets of the records, or the error."""
    response = fetches.response(request(offsets), VERSION)
    assert response is not None
    assert response.session_id == 0
    found: dict[int, list[int] | int] = {}
    for topic in response.responses:
        for each in topic.partitions:
            offsets_of = [record.offset for batch in read(each.records) for record in batch.records()]
            found[each.partition_index] = each.error_code or offsets_of
    return found


def test_records_are_found_by_offset_in_any_combination() -> None:
    fetches = Fetches([call(request({0: 0}), part(0, 0, 3)), call(request({0: 3, 1: 0}), part(0, 3, 2), part(1))])
    assert fetched(fetches, {0: 0, 1: 0}) == {0: [0, 1, 2], 1: []}
    assert fetched(fetches, {0: 1}) == {0: [0, 1, 2]}  # clients skip records before the offset
    assert fetched(fetches, {0: 4}) == {0: [3, 4]}
    assert fetched(fetches, {0: 5}) == {0: []}


def test_recorded_sessions_are_followed() -> None:
    fetches = Fetches(
        [
            call(request({0: 0, 1: 5}, epoch=0), part(0), part(1), session=7),
            call(request({}, 7, 1), part(1, 5, 2), session=7),
            call(request({1: 7}, 7, 2), part(0, 0, 1), session=7),
        ]
    )
    assert fetched(fetches, {0: 0, 1: 5}) == {0: [0], 1: [5, 6]}


def test_an_error_is_returned_once() -> None:
    fetches = Fetches([call(request({0: 0}), part(0, error=6)), call(request({0: 0}), part(0, 0, 1))])
    assert [fetched(fetches, {0: 0}) for _ in range(2)] == [{0: 6}, {0: [0]}]


def test_a_partition_that_was_never_read_is_unknown() -> None:
    assert Fetches([call(request({0: 0}), part(0))]).response(request({1: 0}), VERSION) is None


@pytest.mark.parametrize(("answered", "expected"), [(part(0), False), (part(0, 0, 1), True), (part(0, error=6), True)])
def test_a_response_without_records_has_no_content(answered: Any, expected: bool) -> None:
    assert has_content(call(request({0: 0}), answered).response) == expected

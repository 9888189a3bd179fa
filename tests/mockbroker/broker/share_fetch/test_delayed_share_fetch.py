"""Pending share fetches: their completion, and the ends of sessions and locks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tools.share_harness import ACCEPT, GAP, RELEASE, ShareHarness, Sharer, acquired

from kwire import ErrorCode
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.broker.fetch.completion import complete_delayed_fetches


@pytest.fixture
def h() -> ShareHarness:
    return ShareHarness()


def test_produced_records_complete_a_fetch(h):
    waiting = Sharer(h=h).send(0, max_wait_ms=5_000)
    assert waiting.parked
    h.produce(2)
    assert acquired(waiting.answer) == [(0, 1, 1)]


def test_two_fetches_share_the_records(h):
    waiting = [Sharer(h=h, name=name).send(0, max_wait_ms=5_000, max_records=1) for name in "ab"]
    h.produce(1, 1)
    assert [acquired(each.answer) for each in waiting] == [[(0, 0, 1)], [(1, 1, 1)]]


def test_a_fetch_ends_after_its_maximum_wait(h):
    waiting = Sharer(h=h).send(0, max_wait_ms=500)
    h.wait(0.4)
    assert waiting.parked
    h.wait(0.1)
    assert acquired(waiting.answer) == []
    assert waiting.at == 0.5


def test_min_bytes_are_waited_for(h):
    waiting = Sharer(h=h).send(0, max_wait_ms=5_000, min_bytes=150)
    h.produce(1)
    assert waiting.parked
    h.produce(1, 1)
    assert acquired(waiting.answer) == [(0, 2, 1)]


def test_expired_lock_completes_a_fetch(h):
    h.produce(3)
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    waiting = b.send(0, max_wait_ms=60_000)
    h.wait(29)
    assert waiting.parked
    h.wait(1)
    assert acquired(waiting.answer) == [(0, 2, 2)]
    assert a.acknowledge((0, 2, [ACCEPT])).error_code == ErrorCode.INVALID_RECORD_STATE


def test_closed_connection_releases_its_records(h):
    h.produce(3)
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    waiting = b.send(0, max_wait_ms=60_000)
    h.disconnect(a.session[0])
    assert acquired(waiting.answer) == [(0, 2, 2)]


def test_closed_connection_of_the_last_member_unloads_the_group(h):
    h.produce(3)
    a = Sharer(h=h)
    a.fetch(0)
    h.disconnect(a.session[0])
    assert h.broker.share_partitions.loaded == {}
    assert Sharer(h=h, name="b").acquire(0) == [(0, 2, 2)]


def test_closed_connection_forgets_its_waiting_fetch(h):
    a = Sharer(h=h)
    waiting = a.send(0, max_wait_ms=60_000)
    h.disconnect(waiting)
    assert not h.broker.share_fetch_purgatory.pending
    assert not h.broker.share_fetch_purgatory.watchers
    h.produce(1)
    h.wait(61)
    assert waiting.parked


def test_later_request_of_a_session_ends_the_earlier_one(h):
    a = Sharer(h=h)
    a.fetch(0)
    waiting = a.send(max_wait_ms=500)
    a.send(max_wait_ms=500)
    h.wait(0.5)
    assert waiting.answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_one_session_too_many_is_refused_after_the_wait():
    h = ShareHarness(config={"group.share.max.share.sessions": 1})
    Sharer(h=h).fetch(0)
    waiting = Sharer(h=h, name="b").send(0, max_wait_ms=600)
    assert waiting.parked
    h.wait(0.6)
    assert waiting.answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def append(h: ShareHarness, producer_id: int) -> None:
    records = [Record(value=b"v", timestamp=1_000)]
    data = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    h.partition().append(read_batch(data))
    h.apply(complete_delayed_fetches(h.broker, [h.partition()]))


def end(h: ShareHarness, producer_id: int, *, committed: bool) -> None:
    assert not h.partition().end_transaction(producer_id, 0, committed=committed, coordinator_epoch=0, timestamp=1_000)
    h.apply(complete_delayed_fetches(h.broker, [h.partition()]))


def test_read_committed_waits_for_the_end_of_a_transaction(h, monkeypatch):
    read_committed(h, monkeypatch)
    append(h, 1)
    waiting = Sharer(h=h).send(0, max_wait_ms=5_000)
    assert waiting.parked
    end(h, 1, committed=True)
    assert acquired(waiting.answer) == [(0, 1, 1)]


def test_read_committed_delivers_no_aborted_records(h, monkeypatch):
    read_committed(h, monkeypatch)
    append(h, 1)
    append(h, 2)
    end(h, 1, committed=False)
    end(h, 2, committed=True)
    h.produce(1)
    a = Sharer(h=h)
    assert a.acquire(0) == [(1, 4, 1)]
    assert a.acknowledge((1, 1, [ACCEPT]), (2, 3, [GAP]), (4, 4, [ACCEPT])).error_code == ErrorCode.NONE
    assert a.acquire() == []


def test_read_uncommitted_delivers_all_records(h):
    append(h, 1)
    a = Sharer(h=h)
    assert a.acquire(0) == [(0, 0, 1)]
    end(h, 1, committed=False)
    assert a.acquire() == [(1, 1, 1)]


def test_only_aborted_records_do_not_fill_the_window(monkeypatch):
    h = ShareHarness(config={"group.share.partition.max.record.locks": 100})
    read_committed(h, monkeypatch)
    for producer_id in range(120):
        append(h, producer_id)
    for producer_id in range(120):
        end(h, producer_id, committed=False)
    a = Sharer(h=h)
    result = a.acquire(0)
    for _ in range(9):
        if result:
            a.acknowledge(*((first, last, [RELEASE]) for first, last, _ in result))
        result = a.acquire()
    assert h.broker.share_partitions.loaded[h.key()].start >= 120


def read_committed(h: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(h.broker.share_group_settings("g"), read_committed=True)
    monkeypatch.setattr(h.broker, "share_group_settings", lambda _: settings)


@pytest.fixture
def many() -> ShareHarness:
    """Return a broker with 25 partitions and slices of 10."""
    result = ShareHarness({"t": 25})
    result.broker.slice_size = 10
    return result


def test_many_partitions_are_read_in_slices(many):
    for index in range(25):
        many.produce(1, index=index)
    a = Sharer(h=many)
    assert len(a.acquire(*range(25))) == 25
    many.produce(2, index=20)
    assert a.acquire() == [(1, 2, 1)]


def test_a_wait_for_many_partitions_ends_with_records(many):
    waiting = Sharer(h=many).send(*range(25), max_wait_ms=5_000)
    assert waiting.parked
    many.produce(1, index=24)
    assert acquired(waiting.answer) == [(0, 0, 1)]


def test_a_wait_for_many_partitions_ends_without_records(many):
    waiting = Sharer(h=many).send(*range(25), max_wait_ms=500)
    many.wait(0.5)
    assert acquired(waiting.answer) == []


def test_released_records_of_many_partitions_complete_a_wait(many):
    many.produce(1, index=3)
    a, b = Sharer(h=many), Sharer(h=many, name="b")
    a.fetch(3)
    waiting = b.send(*range(25), max_wait_ms=5_000)
    a.acknowledge((0, 0, [RELEASE]), index=3)
    assert acquired(waiting.answer) == [(0, 0, 2)]

"""The fetcher among leaders that a test plays: who is asked for what and when, and which answers count."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.pretend import Line, Log, Pretend, offsets

from kwire.errorcodes import ErrorCode as E
from kwire.messages.fetch import FETCH, FetchResponse
from kwire.messages.list_offsets import LIST_OFFSETS
from kwire.messages.metadata import METADATA
from kwire.messages.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from kwire.records import Record, build_batch
from kwire.records.control import ControlType, build_marker
from mockbroker.client.errors import AuthorizationFailed, BrokerError, CorruptRecord, LogTruncated, NoOffset

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
VERSIONS = range(4, 19)


def ready(leaders: Any = None, *, records: int = 10, batch: int = 5, **how: Any) -> Pretend:
    """Logs with some records, and the first fetches under way."""
    pretend = Pretend({T0: 0} if leaders is None else leaders, **how)
    for log in pretend.logs.values():
        for _ in range(records // batch):
            log.add(batch)
    assert pretend.poll() == []
    return pretend


def only(pretend: Pretend) -> Any:
    (asked,) = pretend.fetches
    return asked


def lines(answer: FetchResponse) -> list[Line]:
    return [line for topic in answer.responses for line in topic.partitions]


def changed(pretend: Pretend, asked: Any, **fields: Any) -> FetchResponse:
    """The right answer, but for these fields of its partitions."""
    answer = pretend.fetched(asked)
    for line in lines(answer):
        for name, value in fields.items():
            setattr(line, name, value)
    return answer


def failing(pretend: Pretend, asked: Any, code: int, **fields: Any) -> FetchResponse:
    return changed(pretend, asked, error_code=code, records=b"", high_watermark=-1, **fields)


# Asking


def test_one_request_for_each_leader():
    """Ten partitions on three nodes: three requests, each with all of its leader's partitions."""
    pretend = ready({("t", n): n % 3 for n in range(10)})
    found = {asked.node: sorted(n for _, n in pretend.wanted(asked)) for asked in pretend.fetches}
    assert found == {0: [0, 3, 6, 9], 1: [1, 4, 7], 2: [2, 5, 8]}


def test_one_request_under_way_with_each_node():
    pretend = ready({T0: 0, T1: 0, T2: 1})
    assert len(pretend.fetches) == 2
    pretend.engine.assign([T0, T1, T2])
    for _ in range(3):
        pretend.seek(T0, 3)
        pretend.poll()
        assert sorted(asked.node for asked in pretend.fetches) == [0, 1]
    pretend.answer(next(asked for asked in pretend.fetches if asked.node == 1))
    pretend.poll()
    assert sorted(asked.node for asked in pretend.fetches) == [0, 1], "and a new one with the node that answered"


def test_the_next_request_is_sent_before_the_poll_returns():
    pretend = ready()
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == list(range(10))
    assert pretend.wanted(only(pretend)) == {T0: 10}


def test_what_is_asked():
    pretend = ready(
        fetch_min_bytes=7,
        fetch_max_wait=0.25,
        fetch_max_bytes=999,
        max_partition_fetch_bytes=99,
        client_rack="r",
        isolation_level="read_committed",
    )
    body = only(pretend).body
    assert (body.min_bytes, body.max_wait_ms, body.max_bytes, body.rack_id, body.isolation_level) == (
        7,
        250,
        999,
        "r",
        1,
    )
    (line,) = body.topics[0].partitions
    assert (line.partition_max_bytes, line.log_start_offset, line.current_leader_epoch) == (99, -1, 0)
    assert "500" not in repr(body), "max_poll_records is the client's own business"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(version):
    """Names up to 12, ids from 13 on, and sessions from 7 on; the same records come of all."""
    pretend = ready({T0: 0, ("u", 1): 0, ("u", 0): 0}, versions={FETCH.key: (4, version)})
    found = []
    for _ in range(3):
        asked = only(pretend)
        assert asked.version == version
        assert all(bool(topic.topic) is (version < 13) for topic in asked.body.topics)
        pretend.answer(asked)
        found += [(r.topic, r.partition, r.offset) for r in pretend.poll()]
    assert sorted(found) == [(t, p, o) for t, p in ((("t"), 0), ("u", 0), ("u", 1)) for o in range(10)]
    assert (only(pretend).body.session_epoch > 0) is (version >= 7)


def test_topics_without_ids_are_asked_for_by_name():
    pretend = ready(ids=False)
    assert only(pretend).version == 12


def test_no_position_or_no_leader_means_no_fetch():
    pretend = Pretend({T0: 0, T1: 0, T2: 1})
    pretend.leaders[T1] = -1
    pretend.held.add(LIST_OFFSETS.key)
    pretend.poll()
    assert pretend.fetches == []
    (at,) = (asked for asked in pretend.asked if asked.node == 0)
    pretend.answer(at)
    pretend.poll()
    assert pretend.wanted(only(pretend)) == {T0: 0}, "T1 has no leader, T2 no position"
    pretend.seek(T1, 5)
    pretend.poll()
    assert pretend.wanted(only(pretend)) == {T0: 0}
    pretend.held.clear()
    pretend.answer_all()
    before = len(pretend.of(METADATA.key))
    pretend.wait(0.5)
    assert len(pretend.of(METADATA.key)) > before, "the leader is looked for"
    pretend.leaders[T1] = 1
    pretend.wait(3.0)
    pretend.held.add(FETCH.key)
    pretend.poll()
    assert {asked.node: pretend.wanted(asked) for asked in pretend.fetches}[1] == {T1: 5, T2: 0}


def test_what_can_be_asked_for():
    """Assigned, less what is paused, queued or being handed out."""
    pretend = ready({("t", n): n % 2 for n in range(6)})
    pretend.positions.of(("t", 4)).paused = True
    assert set(pretend.fetcher.fetchable()) == {("t", n) for n in (0, 1, 2, 3, 5)}
    pretend.answer(next(asked for asked in pretend.fetches if asked.node == 0))
    assert pretend.fetcher.buffered == {("t", n) for n in (0, 2, 4)}
    assert set(pretend.fetcher.fetchable()) == {("t", n) for n in (1, 3, 5)}
    assert offsets(pretend.poll(13)) == [*range(10), *range(3)]
    assert pretend.fetcher.buffered == {("t", n) for n in (2, 4)}, "0 is done, 2 is being handed out, 4 is paused"
    assert set(pretend.fetcher.fetchable()) == {("t", n) for n in (0, 1, 3, 5)}


# Handing out


def test_max_poll_records_cuts():
    pretend = ready(records=1200, batch=100)
    pretend.answer(only(pretend))
    polls = [pretend.poll() for _ in range(3)]
    assert [len(some) for some in polls] == [500, 500, 200]
    assert [record.offset for some in polls for record in some] == list(range(1200))


def test_records_come_by_partition_in_the_order_of_responses():
    pretend = ready({T0: 0, T1: 1, T2: 2})
    by_node = {asked.node: asked for asked in pretend.fetches}
    for node in (2, 0, 1):
        pretend.answer(by_node[node])
    assert [record.partition for record in pretend.poll()] == [2] * 10 + [0] * 10 + [1] * 10


def test_what_was_taken_away_is_dropped():
    pretend = ready({T0: 0, T1: 1})
    pretend.answer_all()
    assert offsets(pretend.poll(3)) == [0, 1, 2]
    pretend.positions.assign([T1])
    assert [(record.partition, record.offset) for record in pretend.poll()] == [(1, n) for n in range(10)]


def test_response_for_a_reassigned_partition_is_dropped():
    """It is the same partition, but not the same assignment: somebody else may have read on."""
    pretend = ready()
    pretend.positions.assign([])
    pretend.positions.assign([T0])
    pretend.seek(T0, 0)
    pretend.answer(only(pretend))
    assert pretend.poll() == []
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == list(range(10))


def test_what_is_paused_is_kept():
    pretend = ready({T0: 0, T1: 1})
    pretend.answer_all()
    assert offsets(pretend.poll(3)) == [0, 1, 2]
    pretend.positions.of(T0).paused = True
    assert [record.partition for record in pretend.poll()] == [1] * 10
    assert pretend.poll() == []
    pretend.positions.of(T0).paused = False
    asked = len(pretend.of(FETCH.key))
    assert [(record.partition, record.offset) for record in pretend.poll()] == [(0, n) for n in range(3, 10)]
    assert all(T0 not in pretend.wanted(each) for each in pretend.of(FETCH.key)[:asked][2:]), "it was not fetched again"


@pytest.mark.parametrize("to", [0, 2, 7, 4])
def test_a_seek_drops_what_was_fetched_for_elsewhere(to):
    """Before the answer comes, while it waits, and while it is handed out."""
    right = list(range(to, 10))
    before = ready()
    before.seek(T0, to)
    before.answer(only(before))
    waits = ready()
    waits.answer(only(waits))
    waits.seek(T0, to)
    begun = ready()
    begun.answer(only(begun))
    assert offsets(begun.poll(4)) == [0, 1, 2, 3]
    begun.seek(T0, to)
    for pretend, fits in ((before, 0), (waits, 0), (begun, 4)):
        assert offsets(pretend.poll()) == (right if to == fits else []), "where it stood, it goes on"
        if to != fits:
            assert read_all(pretend) == right


def test_a_batch_that_begins_before_the_position():
    pretend = ready()
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.seek(T0, 3)
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [3, 4, 5, 6, 7, 8, 9]


def test_a_first_batch_larger_than_every_limit():
    pretend = Pretend({T0: 0}, max_partition_fetch_bytes=10, fetch_max_bytes=10)
    pretend.logs[T0].add(100)
    pretend.logs[T0].add(1)
    pretend.poll()
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == list(range(100))
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [100]


def test_an_answer_without_news_moves_nothing():
    pretend = ready(records=0)
    for _ in range(3):
        pretend.answer(only(pretend))
        assert (pretend.poll(), pretend.at(T0)) == ([], 0)
    pretend.logs[T0].add(2)
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [0, 1]


def test_positions_know_marks_and_lag():
    pretend = ready(isolation_level="read_committed")
    log = pretend.logs[T0]
    log.stable, log.start = 5, 0
    pretend.answer(only(pretend))
    pretend.poll(2)
    position = pretend.positions.of(T0)
    assert (position.high_watermark, position.last_stable_offset, position.log_start_offset) == (10, 5, 0)


def test_latency_and_throttle_are_kept():
    pretend = ready()
    asked = only(pretend)
    answer = pretend.fetched(asked)
    answer.throttle_time_ms = 70
    pretend.engine.time.now += 0.25
    pretend.answer(asked, answer)
    fetcher = pretend.fetcher
    assert (fetcher.answered, fetcher.dropped, fetcher.throttled_ms) == (1, 0, 70)
    assert fetcher.latency == pytest.approx(0.25)


# Transactions, gaps and what cannot be read


def test_committed_records_only():
    """Aborted ones are never seen, also when an answer ends or begins in the middle of a transaction."""
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "producer_id": 7}
    for limit in (1, 1 << 20):
        pretend = Pretend({T0: 0}, isolation_level="read_committed", max_partition_fetch_bytes=limit)
        log = pretend.logs[T0]
        for kind in (ControlType.ABORT, ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT):
            first = log.add(3, **tx)
            if kind is ControlType.ABORT:
                log.aborted.append((7, first, log.end))
            log.append(build_marker(kind, producer_id=7, producer_epoch=0, timestamp=1, base_offset=log.end))
        found = []
        pretend.poll()
        for _ in range(10):
            pretend.answer(only(pretend))
            found += offsets(pretend.poll())
        assert found == [4, 5, 6, 12, 13, 14]
        assert pretend.at(T0) == log.end == 16, "behind the markers"


def test_compacted_gaps():
    pretend = Pretend({T0: 0})
    log = pretend.logs[T0]
    some = [Record(offset=n, value=b"") for n in (3, 7)]
    log.append(build_batch(some, keep_offsets=True, base_offset=0, last_offset=9))
    log.append(build_batch([], base_offset=10, last_offset=19))
    log.append(build_batch([Record(offset=25, value=b"")], keep_offsets=True))
    pretend.poll()
    pretend.answer(only(pretend))
    assert (offsets(pretend.poll()), pretend.at(T0)) == ([3, 7, 25], 26)


def spoil(log: Log, number: int) -> None:
    first, last, epoch, data = log.batches[number]
    log.batches[number] = (first, last, epoch, data[:-1] + bytes([data[-1] ^ 1]))


def test_a_batch_that_cannot_be_read():
    """What is before it comes, then the error, again and again; a seek goes past it."""
    pretend = ready(records=15)
    spoil(pretend.logs[T0], 1)
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [0, 1, 2, 3, 4]
    for _ in range(3):
        with pytest.raises(CorruptRecord, match="t-0 at offset 5"):
            pretend.poll()
        assert pretend.at(T0) == 5
        pretend.poll()
        pretend.answer(only(pretend))
    pretend.seek(T0, 10)
    pretend.poll()
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [10, 11, 12, 13, 14]


def test_partition_error_is_raised_after_records_of_another():
    pretend = ready({T0: 0, T1: 0})
    spoil(pretend.logs[T1], 0)
    pretend.answer(only(pretend))
    assert [record.partition for record in pretend.poll()] == [0] * 10
    with pytest.raises(CorruptRecord):
        pretend.poll()


@pytest.mark.parametrize("how", ["seek", "revoke"])
def test_an_error_that_nobody_has_to_hear_of_any_more(how):
    """It was about a place that is read no longer."""
    pretend = ready({T0: 0, T1: 0})
    spoil(pretend.logs[T1], 0)
    pretend.answer(only(pretend))
    assert len(pretend.poll()) == 10
    if how == "seek":
        pretend.seek(T1, 5)
    else:
        pretend.engine.assign([T0])
    assert pretend.poll() == []


def test_records_after_the_high_watermark_come_later():
    pretend = ready()
    asked = only(pretend)
    pretend.answer(asked, changed(pretend, asked, high_watermark=5))
    assert (offsets(pretend.poll()), pretend.at(T0)) == ([0, 1, 2, 3, 4], 5)
    pretend.poll()
    asked = only(pretend)
    pretend.answer(asked, changed(pretend, asked, high_watermark=5))
    before = len(pretend.of(FETCH.key))
    assert (pretend.poll(), pretend.poll()) == ([], [])
    assert len(pretend.of(FETCH.key)) == before, "not at once again"
    pretend.wait(0.2)
    pretend.poll()
    pretend.answer(only(pretend))
    assert offsets(pretend.poll()) == [5, 6, 7, 8, 9]


# Errors


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize(
    "code",
    [
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.KAFKA_STORAGE_ERROR,
        E.FENCED_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
        E.UNKNOWN_LEADER_EPOCH,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_is_tried_again(code, version):
    """The position stays; the partition is asked for after a rest, where metadata has it by then."""
    pretend = ready({T0: 0, T1: 0}, versions={FETCH.key: (4, version)})
    asked, before = only(pretend), len(pretend.of(METADATA.key))
    answer = pretend.fetched(asked)
    bad = next(line for line in lines(answer) if line.partition_index == 0)
    bad.error_code, bad.records = code, b""
    pretend.answer(asked, answer)
    assert [(record.partition) for record in pretend.poll()] == [1] * 10
    assert pretend.at(T0) == 0
    assert pretend.wanted(only(pretend)) == {T1: 10}, "the other one goes on at once"
    pretend.wait(0.3)
    again = code not in (E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_SERVER_ERROR)
    assert (len(pretend.of(METADATA.key)) > before) is again
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.answer(only(pretend))
    assert [(record.partition, record.offset) for record in pretend.poll()] == [(0, n) for n in range(10)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (E.CORRUPT_MESSAGE, BrokerError),
        (E.INVALID_REQUEST, BrokerError),
    ],
)
def test_what_is_raised(code, error):
    pretend = ready()
    for _ in range(2):
        asked = only(pretend)
        pretend.answer(asked, failing(pretend, asked, code))
        with pytest.raises(error, match=code.name):
            pretend.poll()
        assert pretend.at(T0) == 0
        pretend.poll()


@pytest.mark.parametrize(("policy", "at"), [("earliest", 3), ("latest", 10)])
def test_out_of_range_falls_back_on_the_policy(policy, at):
    pretend = ready(auto_offset_reset=policy)
    pretend.logs[T0].start = 3
    pretend.seek(T0, 99)
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.poll()
    assert pretend.at(T0) == at
    assert pretend.wanted(only(pretend)) == {T0: at}


def test_out_of_range_without_a_policy():
    pretend = Pretend({T0: 0}, auto_offset_reset="none")
    pretend.seek(T0, 7)
    pretend.poll()
    for _ in range(2):
        pretend.answer(only(pretend))
        with pytest.raises(NoOffset, match=r"out of range.*t-0 at 7") as raised:
            pretend.poll()
        assert (raised.value.partitions, pretend.at(T0)) == ({T0: 7}, 7)
        pretend.poll()


def test_out_of_range_of_where_it_no_longer_is():
    pretend = Pretend({T0: 0}, auto_offset_reset="none")
    pretend.logs[T0].add(5)
    pretend.seek(T0, 70)
    pretend.poll()
    pretend.seek(T0, 2)
    pretend.answer(only(pretend))
    assert (pretend.poll(), pretend.at(T0)) == ([], 2)


def test_a_node_that_hangs_up_is_asked_again():
    """What failed is tried again after a rest; nobody is told."""
    pretend = ready({T0: 0, T1: 1})
    pretend.hang_up(0)
    assert pretend.poll() == []
    assert [asked.node for asked in pretend.fetches] == [1]
    pretend.wait(0.5)
    pretend.poll()
    assert sorted(asked.node for asked in pretend.fetches) == [0, 1]
    pretend.answer_all()
    assert len(pretend.poll()) == 20


def test_a_request_that_takes_too_long():
    pretend = ready(request_timeout=2.0, fetch_max_wait=0.5)
    pretend.wait(2.4)
    assert len(pretend.fetches) == 1
    pretend.wait(1.0)
    pretend.poll()
    (asked,) = pretend.fetches
    assert len(pretend.of(FETCH.key)) == 2
    pretend.answer(asked)
    assert len(pretend.poll()) == 10


def test_a_leader_that_moved():
    pretend = ready({T0: 0, T1: 1})
    pretend.leaders[T0] = 1
    asked = next(each for each in pretend.fetches if each.node == 0)
    pretend.answer(asked, failing(pretend, asked, E.NOT_LEADER_OR_FOLLOWER))
    pretend.poll()
    pretend.answer_all()
    assert [record.partition for record in pretend.poll()] == [1] * 10
    pretend.wait(0.3)
    pretend.poll()
    pretend.answer_all()
    pretend.poll()
    pretend.answer_all()
    assert [(record.partition, record.offset) for record in pretend.poll()] == [(0, n) for n in range(10)]
    assert {asked.node for asked in pretend.of(FETCH.key)[2:]} == {1}


@pytest.mark.parametrize("version", [12, 15, 18])
def test_an_answer_that_names_the_new_leader(version):
    """KIP-951: it is asked at once, without metadata."""
    pretend = ready({T0: 0, T1: 1}, versions={FETCH.key: (4, version)})
    asked = next(each for each in pretend.fetches if each.node == 0)
    other = next(each for each in pretend.fetches if each.node == 1)
    before = len(pretend.of(METADATA.key))
    pretend.leaders[T0], pretend.epochs[T0] = 1, 1
    pretend.answer(other)
    leader = Line.Leader(leader_id=1, leader_epoch=1)
    pretend.answer(asked, failing(pretend, asked, E.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    assert [record.partition for record in pretend.poll()] == [1] * 10
    assert [(each.node, pretend.wanted(each)) for each in pretend.fetches] == [(1, {T0: 0, T1: 10})]
    assert only(pretend).body.topics[0].partitions[0].current_leader_epoch == 1
    assert len(pretend.of(METADATA.key)) == before


@pytest.mark.parametrize(("leader_id", "epoch"), [(1, 0), (1, -1), (9, 5), (-1, 7)])
def test_an_answer_that_names_no_newer_leader(leader_id, epoch):
    """An old epoch, or a node that nobody knows: metadata is asked."""
    pretend = ready({T0: 0, T1: 1})
    asked = next(each for each in pretend.fetches if each.node == 0)
    before = len(pretend.of(METADATA.key))
    leader = Line.Leader(leader_id=leader_id, leader_epoch=epoch)
    pretend.answer(asked, failing(pretend, asked, E.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    pretend.poll()
    assert pretend.engine.metadata.leader(T0).node_id == 0
    pretend.wait(0.3)
    assert len(pretend.of(METADATA.key)) == before + 1


# A nearer replica (KIP-392)


def near(pretend: Pretend) -> None:
    """The leader says that node 1 is nearer."""
    asked = only(pretend)
    pretend.answer(asked, changed(pretend, asked, preferred_read_replica=1, records=b""))
    assert pretend.poll() == []


def test_reading_from_a_follower():
    pretend = ready({T0: 0, T1: 1}, metadata_max_age=60.0, client_rack="r1")
    pretend.engine.assign([T0])
    pretend.answer_all()
    pretend.poll()
    pretend.seek(T0, 0)
    pretend.answer_all()
    pretend.poll()
    near(pretend)
    asked = only(pretend)
    assert (asked.node, asked.body.rack_id) == (1, "r1")
    pretend.answer(asked)
    assert offsets(pretend.poll()) == list(range(10))
    assert only(pretend).node == 1
    pretend.answer(only(pretend))
    pretend.wait(60.0)
    pretend.poll()
    assert only(pretend).node == 0, "after a while the leader is asked again"


def one_follower() -> Pretend:
    pretend = Pretend({T0: 0})
    pretend.nodes = {0, 1}
    pretend.logs[T0].add(10)
    pretend.poll()
    near(pretend)
    assert only(pretend).node == 1
    return pretend


def test_a_follower_that_lags():
    """Out of range there: the leader is asked, and nothing is reset."""
    pretend = one_follower()
    asked = only(pretend)
    pretend.answer(asked, failing(pretend, asked, E.OFFSET_OUT_OF_RANGE))
    assert (pretend.poll(), pretend.at(T0)) == ([], 0)
    assert only(pretend).node == 0


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.REPLICA_NOT_AVAILABLE, E.FENCED_LEADER_EPOCH])
def test_a_follower_that_is_none_any_more(code):
    pretend = one_follower()
    asked = only(pretend)
    pretend.answer(asked, failing(pretend, asked, code))
    pretend.poll()
    pretend.wait(0.3)
    pretend.poll()
    assert only(pretend).node == 0


def test_a_follower_that_is_gone():
    pretend = one_follower()
    pretend.hang_up(1)
    pretend.poll()
    assert only(pretend).node == 0


def test_a_replica_that_nobody_knows():
    pretend = ready()
    asked, before = only(pretend), len(pretend.of(METADATA.key))
    pretend.answer(asked, changed(pretend, asked, preferred_read_replica=5, records=b""))
    pretend.poll()
    assert only(pretend).node == 0
    pretend.wait(0.3)
    assert len(pretend.of(METADATA.key)) > before


def test_records_that_come_with_a_preferred_replica_are_read():
    pretend = ready()
    asked = only(pretend)
    pretend.answer(asked, changed(pretend, asked, preferred_read_replica=0))
    assert offsets(pretend.poll()) == list(range(10))


def test_a_follower_is_not_asked_about_epochs():
    """It may not have heard of the leader's yet, and would call the offset out of range."""
    pretend = one_follower()
    pretend.answer(only(pretend))
    pretend.poll()
    assert only(pretend).body.topics == [] or only(pretend).body.topics[0].partitions[0].last_fetched_epoch == -1
    assert pretend.positions.of(T0).epoch == 0


# Epochs and truncation (KIP-320)


def twice(pretend: Pretend) -> None:
    pretend.poll()
    pretend.poll()


def moved(pretend: Pretend, epoch: int, **how: Any) -> None:
    """Another leader, which metadata tells of."""
    pretend.epochs[T0] = pretend.logs[T0].epoch = epoch
    pretend.engine.metadata.refresh()
    pretend.run()


def read_all(pretend: Pretend) -> list[int]:
    pretend.answer(only(pretend))
    return offsets(pretend.poll())


def test_a_new_leader_is_asked_where_the_epoch_ended():
    pretend = ready()
    pretend.held.add(OFFSET_FOR_LEADER_EPOCH.key)
    read_all(pretend)
    pretend.answer(only(pretend))
    pretend.poll()
    fetch = only(pretend)
    moved(pretend, 1)
    pretend.answer(fetch)
    pretend.poll()
    assert pretend.fetches == [], "nothing is read before it has answered"
    (asked,) = pretend.asked
    (line,) = asked.body.topics[0].partitions
    assert (line.leader_epoch, line.current_leader_epoch, asked.body.replica_id) == (0, 1, -1)
    pretend.answer(asked)
    pretend.poll()
    (line,) = only(pretend).body.topics[0].partitions
    assert (line.fetch_offset, line.current_leader_epoch, line.last_fetched_epoch) == (10, 1, 0)


def test_buffered_records_are_dropped_while_epochs_are_validated():
    """They may be gone from the log by then; the position does not move meanwhile."""
    pretend = ready()
    pretend.held.add(OFFSET_FOR_LEADER_EPOCH.key)
    pretend.answer(only(pretend))
    assert offsets(pretend.poll(3)) == [0, 1, 2]
    moved(pretend, 1)
    assert (pretend.poll(), pretend.at(T0)) == ([], 3)
    (asked,) = pretend.asked
    pretend.answer(asked)
    pretend.poll()
    assert read_all(pretend) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_log_that_was_cut(policy):
    """The new leader's log ends before the position: read on from there, which are other records."""
    pretend = ready()
    read_all(pretend)
    log = pretend.logs[T0]
    log.batches, log.epoch = log.batches[:1], 1
    log.add(1)
    late = only(pretend)
    pretend.answer(late, pretend.line_alone(late, T0, high_watermark=10))
    moved(pretend, 1)
    assert pretend.poll() == []
    assert (pretend.at(T0), pretend.positions.of(T0).epoch) == (5, 0)
    assert read_all(pretend) == [5]
    assert pretend.positions.of(T0).epoch == 1


def test_a_log_that_was_cut_without_a_policy():
    """It is said each time until somebody seeks, and nothing is read over it."""
    pretend = Pretend({T0: 0}, auto_offset_reset="none")
    log = pretend.logs[T0]
    log.add(5)
    log.add(5)
    pretend.seek(T0, 0)
    pretend.poll()
    assert read_all(pretend) == list(range(10))
    log.batches, log.epoch = log.batches[:1], 1
    log.add(20)
    pretend.answer(only(pretend), FetchResponse(error_code=E.FETCH_SESSION_ID_NOT_FOUND))
    moved(pretend, 1)
    for _ in range(3):
        asked = len(pretend.of(OFFSET_FOR_LEADER_EPOCH.key))
        pretend.wait(1.0)
        with pytest.raises(LogTruncated, match="read up to 10; the log now ends at 5") as raised:
            twice(pretend)
        assert (raised.value.end, raised.value.position, pretend.at(T0)) == (5, 10, 10)
        assert len(pretend.of(OFFSET_FOR_LEADER_EPOCH.key)) <= asked + 1, "asked once for each time that it is said"
    assert pretend.fetches == []
    pretend.seek(T0, 5)
    pretend.poll()
    assert read_all(pretend) == list(range(5, 25))


def test_an_epoch_that_the_leader_does_not_know():
    """Nothing of what was read is there: the policy decides."""
    pretend = ready(auto_offset_reset="earliest")
    read_all(pretend)
    pretend.positions.of(T0).epoch = 7
    late = only(pretend)
    pretend.answer(late, pretend.line_alone(late, T0, high_watermark=10))
    pretend.epochs[T0] = 8
    pretend.engine.metadata.refresh()
    pretend.poll()
    assert pretend.of(OFFSET_FOR_LEADER_EPOCH.key)[0].body.topics[0].partitions[0].leader_epoch == 7
    pretend.poll()
    assert pretend.at(T0) == 0
    assert read_all(pretend) == list(range(10))


def test_a_broker_that_cannot_say_where_epochs_ended():
    pretend = ready(versions={OFFSET_FOR_LEADER_EPOCH.key: (0, 2)})
    read_all(pretend)
    moved(pretend, 1)
    pretend.answer(only(pretend))
    pretend.poll()
    assert pretend.of(OFFSET_FOR_LEADER_EPOCH.key) == []
    assert pretend.wanted(only(pretend)) == {T0: 10}


def diverging(pretend: Pretend, epoch: int, end: int) -> None:
    asked = only(pretend)
    parts = Line.EpochEndOffset(epoch=epoch, end_offset=end)
    pretend.answer(asked, pretend.line_alone(asked, T0, high_watermark=9, diverging_epoch=parts, records=b""))


def test_a_fetch_that_is_told_where_its_log_parts():
    pretend = ready()
    read_all(pretend)
    pretend.positions.of(T0).epoch = 3
    diverging(pretend, 2, 6)
    pretend.poll()
    assert (pretend.at(T0), pretend.positions.of(T0).epoch) == (6, 2)


def test_a_log_that_parts_behind_the_position_moves_nothing():
    """A position never goes ahead of records that were not read."""
    pretend = ready()
    read_all(pretend)
    diverging(pretend, 2, 500)
    pretend.poll()
    assert (pretend.at(T0), pretend.positions.of(T0).epoch) == (10, 2)


def test_a_log_that_parts_without_a_policy():
    pretend = Pretend({T0: 0}, auto_offset_reset="none")
    pretend.logs[T0].add(10)
    pretend.seek(T0, 0)
    pretend.poll()
    read_all(pretend)
    diverging(pretend, 0, 4)
    pretend.poll()
    with pytest.raises(LogTruncated, match="ends at 4"):
        pretend.poll()
    assert pretend.at(T0) == 10


# Sessions (KIP-227)


def test_a_session_is_told_only_what_is_new():
    pretend = ready({T0: 0, T1: 0, T2: 0}, records=0)
    first = only(pretend)
    assert (first.body.session_id, first.body.session_epoch, len(pretend.wanted(first))) == (0, 0, 3)
    pretend.answer(first)
    pretend.poll()
    second = only(pretend)
    assert (second.body.session_id, second.body.session_epoch, pretend.wanted(second)) == (100, 1, {})
    pretend.logs[T1].add(4)
    pretend.answer(second)
    assert len(pretend.poll()) == 4
    third = only(pretend)
    assert (third.body.session_epoch, pretend.wanted(third)) == (2, {T1: 4})
    pretend.positions.of(T2).paused = True
    pretend.answer(third)
    pretend.poll()
    fourth = only(pretend)
    (gone,) = fourth.body.forgotten_topics_data
    assert (fourth.body.session_epoch, pretend.wanted(fourth), gone.partitions) == (3, {}, [2])


@pytest.mark.parametrize(
    "code", [E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH, E.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_a_session_that_fails(code):
    """The next request names everything; what the broker may still have is ended by it."""
    pretend = ready({T0: 0, T1: 0}, records=0)
    pretend.answer(only(pretend))
    pretend.poll()
    pretend.answer(only(pretend), FetchResponse(error_code=code))
    assert pretend.poll() == []
    pretend.wait(0.3)
    pretend.poll()
    body = only(pretend).body
    assert (body.session_epoch, pretend.wanted(only(pretend))) == (0, {T0: 0, T1: 0})
    assert body.session_id == (0 if code == E.FETCH_SESSION_ID_NOT_FOUND else 100)
    pretend.logs[T0].add(3)
    pretend.answer(only(pretend))
    assert len(pretend.poll()) == 3


def test_a_broker_that_keeps_no_sessions():
    pretend = ready({T0: 0, T1: 0}, sessions=False)
    for _ in range(3):
        body = only(pretend).body
        assert (body.session_id, body.session_epoch, len(pretend.wanted(only(pretend)))) == (0, 0, 2)
        pretend.answer(only(pretend))
        pretend.poll()


def test_a_consumer_that_wants_no_sessions():
    pretend = ready({T0: 0}, fetch_sessions=False)
    for _ in range(2):
        assert (only(pretend).body.session_id, only(pretend).body.session_epoch) == (0, -1)
        pretend.answer(only(pretend))
        pretend.poll()


def test_sessions_end_with_the_consumer():
    pretend = ready({T0: 0, T1: 1}, records=0)
    pretend.answer_all()
    pretend.fetcher.close()
    pretend.run()
    endings = pretend.fetches
    assert sorted((a.node, a.body.session_id, a.body.session_epoch, a.body.topics) for a in endings) == [
        (0, 100, -1, []),
        (1, 101, -1, []),
    ]


# Topics made anew


def test_a_topic_deleted_and_made_anew():
    """Its id is another: an answer about the old one does not count, the session forgets it, and reading goes on."""
    pretend = ready()
    read_all(pretend)
    old = pretend.ids["t"]
    made_anew(pretend, 3)
    assert (pretend.poll(), pretend.at(T0)) == ([], 0), "the policy decides"
    asked = only(pretend)
    assert asked.body.topics[0].topic_id == UUID(int=99)
    assert [gone.topic_id for gone in asked.body.forgotten_topics_data] == [old]
    assert read_all(pretend) == [0, 1, 2]


def begun_at_0(policy: str) -> Pretend:
    """Ten records are read, and the next fetch is under way."""
    pretend = Pretend({T0: 0}, auto_offset_reset=policy)
    pretend.logs[T0].add(10)
    pretend.seek(T0, 0)
    pretend.poll()
    assert read_all(pretend) == list(range(10))
    return pretend


def made_anew(pretend: Pretend, records: int) -> None:
    """The topic is another of the same name before the consumer hears of it."""
    old = pretend.ids["t"]
    for late in pretend.fetches:
        pretend.fetched(late)  # for its session
    pretend.ids["t"], pretend.logs[T0] = UUID(int=99), Log()
    pretend.logs[T0].add(records)
    pretend.engine.metadata.refresh()
    pretend.run()
    for late in pretend.fetches:
        pretend.answer(late, failing_by_id(old, E.UNKNOWN_TOPIC_ID))


@pytest.mark.parametrize(("policy", "at"), [("earliest", 0), ("latest", 30)])
def test_a_topic_made_anew_that_is_longer_than_the_old_one_was(policy, at):
    """The position would be inside of its log, in the middle of records that nobody has read."""
    pretend = begun_at_0(policy)
    made_anew(pretend, 30)
    assert (pretend.poll(), pretend.at(T0)) == ([], at)
    pretend.logs[T0].add(5)
    assert read_all(pretend) == list(range(at, 35))


def test_records_that_wait_are_dropped_with_their_topic():
    pretend = ready()
    pretend.answer_all()
    assert offsets(pretend.poll(most=3)) == [0, 1, 2]
    made_anew(pretend, 30)
    assert pretend.poll() == []
    assert read_all(pretend) == list(range(30))


def test_a_topic_made_anew_without_a_policy():
    pretend = begun_at_0("none")
    made_anew(pretend, 30)
    for _ in range(2):
        with pytest.raises(NoOffset, match="topics deleted and made anew and no reset policy: t-0 at 10"):
            pretend.poll()
    pretend.seek(T0, 4)
    pretend.poll()
    assert read_all(pretend) == list(range(4, 30))


def test_a_topic_whose_id_is_told_only_later_is_the_same():
    pretend = ready(ids=False)
    pretend.answer_all()
    assert len(pretend.poll()) == 10
    pretend.ids["t"] = UUID(int=7)
    pretend.engine.metadata.refresh()
    pretend.run()
    assert (pretend.poll(), pretend.at(T0)) == ([], 10)


def failing_by_id(topic_id: UUID, code: int) -> FetchResponse:
    line = Line(partition_index=0, error_code=code, high_watermark=-1)
    return FetchResponse(session_id=100, responses=[FetchResponse.Topic(topic_id=topic_id, partitions=[line])])


def test_records_of_the_new_topic_in_an_answer_about_the_old():
    pretend = ready()
    asked = only(pretend)
    pretend.ids["t"] = UUID(int=99)
    pretend.engine.metadata.refresh()
    pretend.run()
    answer = pretend.fetched(asked)
    answer.responses = [
        FetchResponse.Topic(
            topic_id=UUID(int=99), partitions=[pretend.line(T0, asked.body.topics[0].partitions[0], asked)]
        )
    ]
    pretend.answer(asked, answer)
    assert (pretend.poll(), pretend.at(T0), pretend.fetcher.dropped) == ([], 0, 1)

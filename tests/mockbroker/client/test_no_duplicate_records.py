"""Invalid, late, repeated and unrelated Fetch responses never move a position or return a record twice."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tools.fake_logs import FakeLogCluster, FetchedPartition, offsets

from kwire.errorcodes import ErrorCode as E
from kwire.messages.fetch import FetchResponse
from kwire.records import Record, build_batch
from kwire.records.control import ControlType, build_marker
from mockbroker.client.errors import ConsumerError
from mockbroker.client.fetching import CompletedFetch, Fetcher

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
ALL = list(range(10))


def topics(cluster: FakeLogCluster, *partitions: FetchedPartition, name: str = "t") -> list[FetchResponse.Topic]:
    return [FetchResponse.Topic(topic=name, topic_id=cluster.topic_id(name), partitions=list(partitions))]


def filled(leaders: Any, **how: Any) -> FakeLogCluster:
    cluster = FakeLogCluster(leaders, **how)
    for log in cluster.logs.values():
        log.add(5)
        log.add(5)
    cluster.poll_records()
    return cluster


# A response that does not have exactly the requested partitions is dropped


def without_one(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    answer.responses[0].partitions.pop()


def with_a_foreign_partition(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    line = deepcopy(answer.responses[0].partitions[0])
    line.partition_index = 9
    answer.responses[0].partitions.append(line)


def with_a_foreign_topic(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    answer.responses += topics(cluster, deepcopy(answer.responses[0].partitions[0]), name="foreign")


def with_one_twice(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    answer.responses[0].partitions.append(deepcopy(answer.responses[0].partitions[0]))


def with_a_topic_twice(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    answer.responses.append(deepcopy(answer.responses[0]))


def with_a_partition_of_another_node(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    """Add a partition that is assigned to this consumer, but was not requested from this node."""
    answer.responses[0].partitions[0].partition_index = 2


def with_nothing(cluster: FakeLogCluster, answer: FetchResponse) -> None:
    answer.responses = []


TAMPERED = [
    without_one,
    with_a_foreign_partition,
    with_a_foreign_topic,
    with_one_twice,
    with_a_topic_twice,
    with_a_partition_of_another_node,
    with_nothing,
]


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
@pytest.mark.parametrize("tamper", TAMPERED)
def test_invalid_response_is_dropped(tamper, version):
    """No part of the response is used, and the next request is a full one."""
    cluster = filled({T0: 0, T1: 0, T2: 1}, served={"Fetch": (4, version)})
    request = next(each for each in cluster.fetches if each.node == 0)
    answer = cluster.fetch(request)
    tamper(cluster, answer)
    cluster.answer(request, answer)
    assert (cluster.poll_records(), cluster.fetcher.dropped) == ([], 1)
    assert [cluster.position(each) for each in (T0, T1, T2)] == [0, 0, 0]
    cluster.wait(0.3)
    cluster.poll_records()
    request = next(each for each in cluster.fetches if each.node == 0)
    assert cluster.fetch_offsets(request) == {T0: 0, T1: 0}
    assert request.body.session_epoch in (0, -1)
    cluster.answer_all()
    assert offsets(cluster.poll_records()) == ALL * 3


@pytest.mark.parametrize("version", [7, 13, 18])
@pytest.mark.parametrize("tamper", TAMPERED[1:6])
def test_invalid_response_within_a_session_is_dropped(tamper, version):
    """A response within a session may omit partitions, but may not add partitions that the session does not have."""
    cluster = filled({T0: 0, T1: 0, T2: 1}, served={"Fetch": (4, version)})
    cluster.answer_all()
    cluster.poll_records()
    for log in cluster.logs.values():
        log.add(2)
    request = next(each for each in cluster.fetches if each.node == 0)
    assert request.body.session_epoch == 1
    answer = cluster.fetch(request)
    tamper(cluster, answer)
    cluster.answer(request, answer)
    assert (cluster.poll_records(), cluster.position(T0), cluster.position(T1)) == ([], 10, 10)
    cluster.wait(0.3)
    cluster.poll_records()
    cluster.answer_all()
    assert offsets(cluster.poll_records()) == [10, 11] * 3


# A response is used only if it begins at the position


def test_late_response_of_the_old_leader_is_dropped():
    """After the leader moved, the new leader responds first, and the old leader's shorter response is dropped."""
    cluster = filled({T0: 0, T1: 1})
    cluster.engine.assign([T0])
    late = next(each for each in cluster.fetches if each.node == 0)
    response = cluster.fetch(late)
    response.responses[0].partitions[0].records = cluster.logs[T0].batches[0][3]
    cluster.leaders[T0], cluster.leader_epochs[T0] = 1, 1
    cluster.engine.metadata.update_leader(T0, 1, 1)
    cluster.answer_rightly(next(each for each in cluster.fetches if each.node == 1))
    cluster.poll_records()
    cluster.answer_rightly(next(each for each in cluster.fetches if each.node == 1))
    assert offsets(cluster.poll_records()) == ALL
    cluster.answer(late, response)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 10)


def test_response_to_a_fetch_before_a_seek_is_dropped():
    cluster = filled({T0: 0})
    (request,) = cluster.fetches
    cluster.seek(T0, 7)
    cluster.answer_rightly(request)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 7)


# Partitions with buffered records are not fetched


class RefetchingFetcher(Fetcher):
    """A fetcher that also fetches partitions with buffered records."""

    @property
    def buffered(self) -> set[tuple[str, int]]:
        return set()


class UncheckedFetcher(RefetchingFetcher):
    """A fetcher that also returns records that do not begin at the position."""

    def _is_current(self, fetched: CompletedFetch) -> bool:
        return fetched.reader is not None or self._initialize(fetched)


def read_to_the_end(kind: type[Fetcher]) -> tuple[list[int], int]:
    """Read a log whose responses arrive early. Return the offsets and the number of requests."""
    cluster = filled({T0: 0})
    cluster.fetcher.__class__ = kind
    returned = []
    for _ in range(12):
        for request in list(cluster.fetches):
            if cluster.fetch_offsets(request) != {T0: 10}:
                cluster.answer_rightly(request)
        returned += offsets(cluster.poll_records(3))
    return returned, len(cluster.of("Fetch"))


def test_buffered_partitions_are_not_fetched_again():
    assert read_to_the_end(Fetcher) == (ALL, 2)


def test_refetched_records_are_dropped_by_position():
    returned, requests = read_to_the_end(RefetchingFetcher)
    assert returned == ALL
    assert requests > 2


def test_without_both_checks_records_are_returned_twice():
    """This is the error that the two checks prevent."""
    returned, _ = read_to_the_end(UncheckedFetcher)
    assert len(returned) > len(ALL)
    assert returned[:13] == [*ALL, 3, 4, 5]


# Random sequences

LEADERS = {T0: 0, T1: 1, T2: 1, ("u", 0): 2}
PARTITIONS = st.sampled_from(sorted(LEADERS))


class Interleaved(RuleBasedStateMachine):
    """Reordered, lost, late, repeated and corrupt responses; seeks, pauses, revocations and leader changes.

    next_offsets: by partition, the lowest offset that the next record may have. Compaction leaves gaps.
    """

    committed = False

    def __init__(self) -> None:
        super().__init__()
        level = "read_committed" if self.committed else "read_uncommitted"
        self.cluster = FakeLogCluster(LEADERS, isolation_level=level, max_partition_fetch_bytes=300)
        self.next_offsets = dict.fromkeys(LEADERS, 0)
        # the offsets that a reader of this isolation level gets
        self.expected: dict[tuple[str, int], list[int]] = {partition: [] for partition in LEADERS}
        self.earlier: list[tuple[tuple[str, int], int, FetchedPartition]] = []
        for partition in LEADERS:
            self.add(partition, 5, 0)
        self.cluster.poll_records()

    @rule(partition=PARTITIONS, count=st.integers(1, 9), codec=st.integers(0, 4))
    def add(self, partition: tuple[str, int], count: int, codec: int) -> None:
        log = self.cluster.logs[partition]
        first = log.add(count, codec=codec)
        self.expected[partition] += range(first, first + count)

    @rule(partition=PARTITIONS, gap=st.integers(1, 5))
    def add_a_compacted_batch(self, partition: tuple[str, int], gap: int) -> None:
        log = self.cluster.logs[partition]
        at = log.end + gap
        log.append(
            build_batch([Record(offset=at, value=b"")], keep_offsets=True, base_offset=at - gap, last_offset=at + gap)
        )
        self.expected[partition].append(at)

    @rule(partition=PARTITIONS, count=st.integers(1, 4), aborted=st.booleans())
    def add_a_transaction(self, partition: tuple[str, int], count: int, aborted: bool) -> None:
        log = self.cluster.logs[partition]
        first = log.add(count, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        if aborted:
            log.aborted.append((7, first, log.end))
        if not (aborted and self.committed):
            self.expected[partition] += range(first, first + count)
        kind = ControlType.ABORT if aborted else ControlType.COMMIT
        log.append(build_marker(kind, producer_id=7, producer_epoch=0, timestamp=1, base_offset=log.end))

    @rule(most=st.integers(1, 20))
    def poll(self, most: int) -> None:
        cluster = self.cluster
        try:
            records = cluster.poll_records(most)
        except ConsumerError:
            return
        assert len(records) <= most
        for record in records:
            partition = record.topic, record.partition
            assert partition in cluster.positions
            assert not cluster.positions.of(partition).paused
            expected = next(at for at in self.expected[partition] if at >= self.next_offsets[partition])
            assert record.offset == expected, f"{partition} from {self.next_offsets[partition]}"
            self.next_offsets[partition] = record.offset + 1

    @precondition(lambda self: self.cluster.fetches)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.cluster.fetches))
        body = self.cluster.fetch(request)
        for partition, offset in self.cluster.fetch_offsets(request).items():
            for topic in body.responses:
                if self.cluster.name_of(topic, request.version) == partition[0]:
                    self.earlier += [
                        (partition, offset, deepcopy(p)) for p in topic.partitions if p.partition_index == partition[1]
                    ]
        self.cluster.answer(request, body)

    @precondition(lambda self: self.cluster.fetches)
    @rule(data=st.data())
    def answer_with_earlier_partitions(self, data: st.DataObject) -> None:
        """Replace partitions by those of earlier responses to requests from the same or a lower offset."""
        request = data.draw(st.sampled_from(self.cluster.fetches))
        body = self.cluster.fetch(request)
        wanted = self.cluster.fetch_offsets(request)
        for topic in body.responses:
            for n, line in enumerate(topic.partitions):
                partition = self.cluster.name_of(topic, request.version), line.partition_index
                earlier = [
                    old for known, at, old in self.earlier if known == partition and at <= wanted.get(partition, -1)
                ]
                if earlier:
                    topic.partitions[n] = deepcopy(data.draw(st.sampled_from(earlier)))
        self.cluster.answer(request, body)

    @precondition(lambda self: self.cluster.fetches)
    @rule(data=st.data(), tamper=st.sampled_from(TAMPERED[:6]))
    def answer_with_invalid_partitions(self, data: st.DataObject, tamper: Any) -> None:
        request = data.draw(st.sampled_from(self.cluster.fetches))
        body = self.cluster.fetch(request)
        full = request.version < 7 or request.body.session_epoch <= 0
        if (
            body.responses
            and (full or tamper is not without_one)
            and not (tamper is with_a_partition_of_another_node and request.node)
        ):
            tamper(self.cluster, body)
        self.cluster.answer(request, body)

    @precondition(lambda self: self.cluster.fetches)
    @rule(
        data=st.data(),
        cut=st.integers(1, 80),
        mark=st.integers(0, 30),
        kind=st.sampled_from(["cut", "corrupted", "high watermark", "diverging epoch"]),
    )
    def answer_corrupted(self, data: st.DataObject, cut: int, mark: int, kind: Any) -> None:
        request = data.draw(st.sampled_from(self.cluster.fetches))
        body = self.cluster.fetch(request)
        for line in (line for topic in body.responses for line in topic.partitions):
            if kind == "cut" and line.records:
                line.records = line.records[:-cut]
            elif kind == "corrupted" and len(line.records or b"") > cut + 20:
                line.records = line.records[:-cut] + bytes([line.records[-cut] ^ 1]) + line.records[-cut:][1:]
            elif kind == "high watermark":
                line.high_watermark = mark
            else:
                line.diverging_epoch = FetchedPartition.EpochEndOffset(epoch=0, end_offset=10_000)
        self.cluster.answer(request, body)

    @precondition(lambda self: self.cluster.fetches)
    @rule(
        data=st.data(),
        code=st.sampled_from(
            [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_LEADER_EPOCH, E.TOPIC_AUTHORIZATION_FAILED, E.FENCED_LEADER_EPOCH]
        ),
    )
    def answer_with_an_error(self, data: st.DataObject, code: E) -> None:
        request = data.draw(st.sampled_from(self.cluster.fetches))
        body = self.cluster.fetch(request)
        for line in (line for topic in body.responses for line in topic.partitions):
            line.error_code, line.records = code, b""
        self.cluster.answer(request, body)

    @precondition(lambda self: self.cluster.fetches)
    @rule(data=st.data(), code=st.sampled_from([70, 71, 106, -1]))
    def answer_with_a_session_error(self, data: st.DataObject, code: E) -> None:
        self.cluster.answer(data.draw(st.sampled_from(self.cluster.fetches)), FetchResponse(error_code=code))

    @rule(node=st.integers(0, 2))
    def hang_up(self, node: int) -> None:
        self.cluster.hang_up(node)

    @rule(partition=PARTITIONS, node=st.integers(0, 2), notified=st.booleans())
    def move_the_leader(self, partition: tuple[str, int], node: int, notified: bool) -> None:
        self.cluster.leaders[partition] = node
        self.cluster.leader_epochs[partition] += 1
        self.cluster.logs[partition].epoch += 1
        if notified:
            self.cluster.engine.metadata.refresh()

    @rule(partition=PARTITIONS, data=st.data())
    def seek(self, partition: tuple[str, int], data: st.DataObject) -> None:
        if partition in self.cluster.positions:
            at = data.draw(st.integers(0, self.cluster.logs[partition].end))
            self.cluster.seek(partition, at)
            self.next_offsets[partition] = at

    @rule(partition=PARTITIONS, paused=st.booleans())
    def pause(self, partition: tuple[str, int], paused: bool) -> None:
        if partition in self.cluster.positions:
            self.cluster.positions.of(partition).paused = paused

    @rule(partition=PARTITIONS, by_group=st.booleans())
    def revoke_or_assign(self, partition: tuple[str, int], by_group: bool) -> None:
        left = [each for each in LEADERS if (each in self.cluster.positions) is not (each == partition)]
        if partition not in self.cluster.positions:
            self.next_offsets[partition] = 0
        (self.cluster.positions.assign if by_group and left else self.cluster.engine.assign)(left)
        self.cluster.engine.metadata.require_topics({topic for topic, _ in LEADERS})

    @rule(seconds=st.floats(0, 2))
    def wait(self, seconds: float) -> None:
        self.cluster.wait(seconds)

    @invariant()
    def position_is_not_past_unreturned_records(self) -> None:
        for partition, position in self.cluster.positions.items():
            if position.known:
                missed = [at for at in self.expected[partition] if self.next_offsets[partition] <= at < position.offset]
                assert missed == [], f"{partition} stands at {position.offset}"

    def teardown(self) -> None:
        """Send correct responses from now on, and check that all remaining records are returned."""
        for partition in self.cluster.positions:
            self.cluster.positions.of(partition).paused = False
        for _ in range(300):
            self.cluster.answer_all()
            self.poll(1000)
            if all(self.next_offsets[p] > max(self.expected[p]) for p in self.cluster.positions):
                return
            self.cluster.wait(0.7)
        raise AssertionError(f"not all came: {self.next_offsets}, {self.expected}")


class InterleavedCommitted(Interleaved):
    """The same sequences with read_committed."""

    committed = True


TestInterleaved = Interleaved.TestCase
TestInterleavedCommitted = InterleavedCommitted.TestCase
TestInterleaved.settings = TestInterleavedCommitted.settings = settings(max_examples=60, stateful_step_count=40)

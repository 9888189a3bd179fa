"""The pump without sockets: which request is next, and that none delays the others. Turns are counted, not timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import APIS, DecodeError, WireError, encode, encode_request
from kwire import ErrorCode as E
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.records import Record, build_batch
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Client, Close, Delivery, Effects, Pace, Reply, SendMore, Ticket, Unmute
from mockbroker.broker.stages import Stage
from mockbroker.net.connection import Undecoded
from mockbroker.net.pump import COLLECT, LARGE, SLICE, Connection, Pump

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
Question = tuple[Any, int]
KEPT = 12, "", (True, False, False), (("t", 0),)  # key of a cached Metadata response


class Inbox:
    def __init__(self, node: int = 0) -> None:
        self.node = node
        self.ticket: Ticket | None = None
        self.calls: deque[Call[Any] | Undecoded] = deque()

    def next_call(self) -> Call[Any] | Undecoded | None:
        if self.ticket is not None or not self.calls:
            return None
        call = self.calls.popleft()
        self.ticket = call.ticket
        return call

    def skip_answer(self) -> None:
        self.ticket = None


class Wire(Connection):
    """A connection whose peer reads at once.

    sent: the responses, which are also in the log of the place
    encoded: the bytes of responses that were already encoded
    """

    session: Inbox

    def __init__(self, number: int, log: list[tuple[int, str]]) -> None:
        super().__init__(number, Inbox(), f"peer {number}")
        self.requests: Inbox = Inbox()
        self.log = log
        self.sent: list[Any] = []
        self.encoded: list[bytes] = []
        self.reason = ""

    def answer(self, reply: Reply) -> int:
        self.requests.ticket = None
        self.sent.append(reply.response)
        self.encoded += (reply.encoded or {}).values()
        self.log.append((self.number, type(reply.response).__name__.removesuffix("Response")))
        return 0

    def send(self) -> bool:
        return True

    def hang_up(self, reason: str) -> None:
        self.reason = reason


class Slow(Stage):
    """A stage in which each request takes this number of seconds of the place's time, by default more than a slice."""

    def __init__(self, place: Place, seconds: float = 2 * SLICE) -> None:
        self.place = place
        self.seconds = seconds

    def before(self, call: Call[Any], now: float) -> Effects | None:
        self.place.elapsed += self.seconds
        return None


class Place:
    """A pump whose turns are run by a test."""

    def __init__(self, **topics: int) -> None:
        self.harness = BrokerHarness()
        for name, partitions in topics.items():
            cluster = self.harness.broker.cluster
            cluster.create_topic(name, cluster.place(partitions, 1))
        self.elapsed = 0.0
        self.pump = Pump(self.harness.router, lambda: self.elapsed, in_a_row=2)
        self.log: list[tuple[int, str]] = []
        self.correlation = 0

    def connect(self) -> Wire:
        wire = Wire(len(self.pump.connections) + 1, self.log)
        self.pump.open(wire)
        return wire

    def send(self, wire: Wire, *questions: Question) -> None:
        for request, version in questions:
            self.correlation += 1
            api = schema_of(type(request)).api
            assert api is not None
            frame = encode_request(request, version, correlation_id=self.correlation, client_id="me")
            ticket = Ticket(wire.number, self.correlation, api.key, version)
            wire.requests.calls.append(Call(ticket, Client(0, "me", "/"), request, frame))
        self.pump.enqueue(wire)

    def turns(self) -> int:
        """Run turns until no work is left. Return their number."""
        number = 1
        while self.pump.turn(0.0):
            number += 1
        return number


def commit(partitions: Sequence[int], topic: str = "t") -> Question:
    kind = OffsetCommitRequest.Topic
    placed = [kind.Partition(partition_index=n, committed_offset=n, committed_metadata="") for n in partitions]
    return OffsetCommitRequest(group_id="g", topics=[kind(name=topic, partitions=placed)]), 5


def creation(names: Sequence[str]) -> Question:
    kind = CreateTopicsRequest.Topic
    return CreateTopicsRequest(topics=[kind(name=name, num_partitions=1, replication_factor=1) for name in names]), 2


# --- requests in slices ----------------------------------------------------------------------------------------------


def test_heartbeat_is_answered_between_slices_of_a_commit() -> None:
    place = Place(t=5_000)
    long, short = place.connect(), place.connect()
    place.send(long, commit(range(5_000)))
    place.pump.turn(0.0)
    place.send(short, BEAT)
    place.turns()
    assert [number for number, _ in place.log] == [short.number, long.number]


def test_commit_in_slices_stores_every_offset() -> None:
    place = Place(t=4_500)
    wire = place.connect()
    place.send(wire, commit([*range(4_500), 9_999]))
    assert place.turns() >= 5
    (response,) = wire.sent
    (topic,) = response.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        *((number, E.NONE) for number in range(4_000)),
        (9_999, E.UNKNOWN_TOPIC_OR_PARTITION),  # unknown partitions come first in each slice, as in every commit
        *((number, E.NONE) for number in range(4_000, 4_500)),
    ]
    committed = place.harness.broker.groups["g"].offsets.committed
    assert {index: each.offset for (_, index), each in committed.items()} == {n: n for n in range(4_500)}


def test_next_request_of_a_connection_waits_for_all_slices() -> None:
    place = Place(t=3_000)
    wire = place.connect()
    place.send(wire, commit(range(3_000)), BEAT)
    place.turns()
    assert [name for _, name in place.log] == ["OffsetCommit", "Heartbeat"]


def test_slices_of_a_commit_after_a_move_of_the_coordinator_fail() -> None:
    """The coordinator moves after the first slice."""
    place = Place(t=3_000)
    wire = place.connect()
    place.send(wire, commit(range(3_000)))
    place.pump.turn(0.0)
    broker = place.harness.broker
    broker.coordinator_error = lambda *_: E.NOT_COORDINATOR  # type: ignore[method-assign]
    place.turns()
    errors = [each.error_code for topic in wire.sent[0].topics for each in topic.partitions]
    assert errors == [E.NONE] * 1_000 + [E.NOT_COORDINATOR] * 2_000


def test_commit_is_finished_when_its_connection_is_closed() -> None:
    place = Place(t=3_000)
    wire = place.connect()
    place.send(wire, commit(range(3_000)))
    place.pump.turn(0.0)
    place.pump.close(wire)
    place.turns()
    assert wire.sent == []
    assert len(place.harness.broker.groups["g"].offsets.committed) == 3_000


def test_slices_of_a_stopped_broker_are_not_handled() -> None:
    place = Place(t=3_000)
    wire = place.connect()
    place.send(wire, commit(range(3_000)))
    place.pump.turn(0.0)
    place.pump.stop(0)
    place.pump.close(wire)
    place.turns()
    assert len(place.harness.broker.groups["g"].offsets.committed) == 1_000


def test_slices_are_forgotten_with_their_broker() -> None:
    place = Place(t=3_000)
    wire = place.connect()
    place.send(wire, commit(range(3_000)))
    place.pump.turn(0.0)
    place.pump.close(wire)
    place.pump.restart()
    assert place.turns() == 1
    assert len(place.harness.broker.groups["g"].offsets.committed) == 1_000


def test_topics_are_created_and_deleted_in_slices() -> None:
    place, names = Place(), [f"t{number}" for number in range(1_200)]
    wire = place.connect()
    place.send(wire, creation(names))
    assert place.turns() >= 24
    assert [(each.name, each.error_code) for each in wire.sent[0].topics] == [(name, E.NONE) for name in names]
    place.send(wire, (DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1))
    assert place.turns() >= 2
    assert [(each.name, each.error_code) for each in wire.sent[1].responses] == [(name, E.NONE) for name in names]


def test_metadata_of_many_partitions_is_answered_in_slices() -> None:
    place = Place(t=5_000)
    long, short = place.connect(), place.connect()
    place.send(long, (MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 12))
    turns = 0
    while not long.sent:
        place.send(short, BEAT)
        place.pump.turn(0.0)
        turns += 1
    assert turns >= 10  # the response is built and encoded, a thousand partitions at a time
    assert len(short.sent) == turns
    (topic,) = long.sent[0].topics
    assert [partition.partition_index for partition in topic.partitions] == list(range(5_000))


def test_answer_in_slices_is_encoded_as_any_other() -> None:
    place = Place(t=2_500)
    first, second = place.connect(), place.connect()
    question = MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 12
    place.send(first, question)
    place.turns()
    place.send(second, question)  # its response is cached
    assert place.turns() == 1
    (response,) = first.sent
    assert [encoded for wire in (first, second) for encoded in wire.encoded] == [encode(response, 12)] * 2


def test_answer_that_another_request_is_encoding_takes_slices() -> None:
    place = Place(t=2_500)
    first, second = place.connect(), place.connect()
    question = MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 12
    place.send(first, question)
    while place.harness.broker.metadata_responses.get(place.harness.broker.cluster.epoch, KEPT) is None:
        place.pump.turn(0.0)
    place.send(second, question)
    assert place.turns() >= 4
    assert second.encoded == [encode(first.sent[0], 12)]


def test_offset_fetch_in_slices_reads_the_offsets_of_one_moment() -> None:
    place = Place(t=3_000)
    long, short = place.connect(), place.connect()
    place.send(short, commit(range(900)), commit(range(900, 1_800)), commit(range(1_800, 2_700)))
    place.turns()
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)] * 2)
    place.send(long, (fetch, 8))
    place.pump.turn(0.0)
    kind = OffsetCommitRequest.Topic
    moved = kind.Partition(partition_index=2_699, committed_offset=9_999, committed_metadata="")
    place.send(short, (OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=[moved])]), 5))
    place.turns()
    assert [number for number, _ in place.log][-2:] == [short.number, long.number]
    for group in long.sent[0].groups:
        assert [each.committed_offset for each in group.topics[0].partitions] == list(range(2_700))


def test_offset_fetch_of_one_partition_may_take_two_slices() -> None:
    """Groups and topics count towards a slice, as partitions do."""
    place = Place(t=1)
    place.harness.broker.slice_size = 2
    long, short = place.connect(), place.connect()
    place.send(short, commit([0]))
    place.turns()
    wanted = [OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])]
    place.send(long, (OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=wanted)]), 8))
    place.pump.turn(0.0)
    kind = OffsetCommitRequest.Topic
    moved = kind.Partition(partition_index=0, committed_offset=9_999, committed_metadata="")
    place.send(short, (OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=[moved])]), 5))
    place.turns()
    assert [number for number, _ in place.log][-2:] == [short.number, long.number]
    assert long.sent[0].groups[0].topics[0].partitions[0].committed_offset == 0


def test_response_that_grows_too_large_in_slices_is_refused() -> None:
    place = Place(t=2_700)
    wire = place.connect()
    place.send(wire, commit(range(900)), commit(range(900, 1_800)), commit(range(1_800, 2_700)))
    place.turns()
    limit = {"mockbroker.response.max.bytes": "50000"}
    place.harness.broker.settings = place.harness.broker.settings.with_values(limit)
    place.send(wire, (OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)]), 8))
    assert place.turns() >= 3
    assert "above mockbroker.response.max.bytes (50000)" in wire.reason


def fetch(partitions: Sequence[int], wait_ms: int = 0, session: tuple[int, int] = (0, -1)) -> Question:
    """Return a Fetch for partitions of ``t``. ``session``: its id and epoch."""
    kind = FetchRequest.Topic
    wanted = [kind.Partition(partition=n, fetch_offset=0, partition_max_bytes=1_000) for n in partitions]
    topics = [kind(topic="t", partitions=wanted)] if partitions else []
    return (
        FetchRequest(
            session_id=session[0],
            session_epoch=session[1],
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=10_000,
            topics=topics,
        ),
        11,
    )


def test_list_offsets_is_answered_in_slices() -> None:
    """A lookup by timestamp takes as long as 200 lookups of the log end."""
    place = Place(t=2_000)
    kind = ListOffsetsRequest.Topic
    for timestamp, partitions, turns in ((-1, 2_000, 3), (1_000, 20, 4)):
        wire = place.connect()
        requested = [kind.Partition(partition_index=n, timestamp=timestamp) for n in range(partitions)]
        place.send(wire, (ListOffsetsRequest(replica_id=-1, topics=[kind(name="t", partitions=requested)]), 5))
        assert place.turns() >= turns
        assert [each.partition_index for each in wire.sent[0].topics[0].partitions] == list(range(partitions))


def test_offset_for_leader_epoch_is_answered_in_slices() -> None:
    place = Place(t=2_500)
    wire = place.connect()
    kind = OffsetForLeaderEpochRequest.Topic
    partitions = [kind.Partition(partition=n, leader_epoch=0) for n in range(2_500)]
    place.send(wire, (OffsetForLeaderEpochRequest(topics=[kind(topic="t", partitions=partitions)]), 3))
    assert place.turns() >= 5
    assert [each.partition for each in wire.sent[0].topics[0].partitions] == list(range(2_500))


def production(partitions: Sequence[int], value: bytes = b"v") -> Question:
    kind = ProduceRequest.Topic
    data = build_batch([Record(value=value)])
    placed = [kind.Partition(index=n, records=data) for n in partitions]
    return ProduceRequest(acks=-1, topic_data=[kind(name="t", partition_data=placed)]), 9


def with_records(response: FetchResponse) -> list[int]:
    """Return the partitions that have records in a response."""
    return [each.partition_index for topic in response.responses for each in topic.partitions if each.records]


def test_fetch_of_many_partitions_is_read_in_slices() -> None:
    place = Place(t=3_000)
    long, short = place.connect(), place.connect()
    place.send(short, production([7, 2_999]))
    place.turns()
    place.send(long, fetch(range(3_000)))
    place.pump.turn(0.0)
    place.send(short, BEAT)
    assert place.turns() >= 6  # the response is read, collected and encoded in slices
    assert [number for number, _ in place.log] == [short.number, short.number, long.number]
    assert with_records(long.sent[0]) == [7, 2_999]
    assert len(long.sent[0].responses[0].partitions) == 3_000


@pytest.mark.parametrize("slices", [1, 2, 3, 4, 9], ids="{} before".format)
def test_fetch_in_slices_sees_records_appended_meanwhile(slices: int) -> None:
    """The fetch also returns records of partitions that it has already read, and records that arrive while it waits."""
    place = Place(t=6)
    place.harness.broker.slice_size = 2
    long, short = place.connect(), place.connect()
    place.send(long, fetch(range(6), wait_ms=1_000))
    for _ in range(slices):
        place.pump.turn(0.0)
    assert long.sent == []
    place.send(short, production([0]))
    place.turns()
    assert [with_records(response) for response in long.sent] == [[0]]


def test_fetch_in_slices_waits_until_its_time_is_over() -> None:
    place = Place(t=6)
    place.harness.broker.slice_size = 2
    wire = place.connect()
    place.send(wire, fetch(range(6), wait_ms=1_000))
    place.turns()
    assert (wire.sent, place.harness.router.deadline()) == ([], 1.0)
    place.pump.deliver(place.harness.router.tick(1.0))
    place.turns()
    assert [len(response.responses[0].partitions) for response in wire.sent] == [6]
    assert place.harness.broker.fetch_purgatory.pending == {}


def test_fetch_in_slices_is_forgotten_with_its_connection() -> None:
    place = Place(t=6)
    place.harness.broker.slice_size = 2
    wire = place.connect()
    place.send(wire, fetch(range(6), wait_ms=1_000))
    place.pump.turn(0.0)
    place.pump.close(wire)
    place.turns()
    assert place.harness.broker.fetch_purgatory.pending == {}


@pytest.mark.parametrize("slices", range(1, 5))
def test_fetch_session_has_one_request_at_a_time(slices: int) -> None:
    """Another connection uses the session between two slices of its request."""
    place = Place(t=6)
    place.harness.broker.slice_size = 2
    long, other = place.connect(), place.connect()
    place.send(long, fetch(range(6), session=(0, 0)))
    place.turns()
    session_id = long.sent[0].session_id
    place.send(long, production(range(6)), fetch([], session=(session_id, 1)))
    while len(long.sent) < 2:
        place.pump.turn(0.0)
    for _ in range(slices):
        place.pump.turn(0.0)
    place.send(other, fetch([], session=(session_id, 2)))
    place.turns()
    assert long.sent[2].error_code == E.INVALID_FETCH_SESSION_EPOCH
    assert with_records(other.sent[0]) == list(range(6))  # no request has set a later fetch offset


def test_produce_to_many_partitions_is_appended_in_slices() -> None:
    place = Place(t=40)
    long, short = place.connect(), place.connect()
    place.send(long, production(range(40), bytes(900_000)))
    place.pump.turn(0.0)
    place.send(short, BEAT)
    assert place.turns() >= 2
    assert [number for number, _ in place.log] == [short.number, long.number]
    assert [each.error_code for each in long.sent[0].responses[0].partition_responses] == [E.NONE] * 40
    assert [each.log.end for each in place.harness.broker.cluster.topics["t"].partitions] == [1] * 40


def undecoded(place: Place, wire: Wire, question: Question, steps: int, error: WireError | None = None) -> None:
    """Send a request that is decoded in this number of steps and then, unless there is an error, handled."""
    place.send(wire, question)
    call = wire.requests.calls.pop()

    def decoding() -> Generator[None, None, Call[Any]]:
        for _ in range(steps):
            place.log.append((wire.number, "step"))
            yield
        if error is not None:
            raise error
        return call

    wire.requests.calls.append(Undecoded(call.ticket, decoding()))


def test_heartbeat_is_answered_while_a_request_is_decoded() -> None:
    place = Place()
    long, short = place.connect(), place.connect()
    undecoded(place, long, BEAT, 3)
    for _ in range(3):
        place.pump.turn(0.0)
        place.send(short, BEAT)
    place.send(long, BEAT)
    place.turns()
    other, own = (short.number, "Heartbeat"), (long.number, "step")
    assert place.log == [other, own, other, own, other, own, (long.number, "Heartbeat"), (long.number, "Heartbeat")]


def test_malformed_request_closes_only_its_connection() -> None:
    place = Place()
    long, short = place.connect(), place.connect()
    undecoded(place, long, BEAT, 1, DecodeError("the data ends"))
    place.send(short, BEAT)
    place.turns()
    assert (long.closed, long.reason, long.sent) == (True, "at byte 0: the data ends", [])
    assert len(short.sent) == 1


def test_request_is_decoded_after_its_connection_was_closed() -> None:
    place = Place(t=1)
    place.harness.broker.slice_size = 1
    long = place.connect()
    undecoded(place, long, commit([0]), 2)
    place.pump.turn(0.0)
    place.pump.close(long)
    place.turns()
    assert long.sent == []
    assert place.harness.broker.groups["g"].offsets


def test_topic_deleted_between_slices_of_a_produce_is_unknown() -> None:
    place = Place(t=6)
    place.harness.broker.slice_size = 6  # the size of two partitions
    long, short = place.connect(), place.connect()
    place.send(long, production(range(6)))
    place.pump.turn(0.0)
    place.send(short, (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 1))
    place.turns()
    errors = [each.error_code for each in long.sent[0].responses[0].partition_responses]
    assert errors == [E.NONE] * 2 + [E.UNKNOWN_TOPIC_OR_PARTITION] * 4


def test_fetch_that_waits_is_answered_after_a_produce_in_slices() -> None:
    """The response has the records of all slices. Kafka, too, completes fetches only after the whole request."""
    place = Place(t=6)
    place.harness.broker.slice_size = 6
    long, short = place.connect(), place.connect()
    place.send(short, fetch(range(6), wait_ms=1_000))
    place.turns()
    place.send(long, production(range(6)))
    place.turns()
    assert with_records(short.sent[0]) == list(range(6))


def test_transactional_commit_in_slices_holds_every_offset() -> None:
    place = Place(t=2_500)
    place.harness.broker.slice_size = 1_000
    long, short = place.connect(), place.connect()
    begun = place.harness.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
    identity = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    kind = TxnOffsetCommitRequest.Topic
    placed = [kind.Partition(partition_index=number, committed_offset=number) for number in range(2_500)]
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", topics=[kind(name="t", partitions=placed)], **identity
    )
    place.send(long, (request, 5))
    place.pump.turn(0.0)
    place.send(short, BEAT)
    place.turns()
    assert [number for number, _ in place.log] == [short.number, long.number]
    (topic,) = long.sent[0].topics
    assert {each.error_code for each in topic.partitions} == {E.NONE}
    assert len(topic.partitions) == 2_500
    ended = place.harness.ask(EndTxnRequest(transactional_id="tx", committed=True, **identity), 3)
    assert ended.error_code == E.NONE
    committed = place.harness.broker.groups["g"].offsets.committed
    assert {index: each.offset for (_, index), each in committed.items()} == {n: n for n in range(2_500)}


@pytest.mark.parametrize(
    ("names", "error", "answers"),
    [
        (["a", *(f"t{n}" for n in range(200)), "a"], E.INVALID_REQUEST, 201),
        ([f"t{n}" for n in range(12_000)], E.POLICY_VIOLATION, 12_000),
    ],
    ids=["twice", "too many"],
)
def test_creation_in_slices_looks_at_the_whole_request(names: list[str], error: E, answers: int) -> None:
    place = Place()
    wire = place.connect()
    place.send(wire, creation(names))
    assert place.turns() > 2
    assert len(wire.sent[0].topics) == answers
    refused = [each.name for each in wire.sent[0].topics if each.error_code == error]
    assert refused == [name for name in dict.fromkeys(names) if error is E.POLICY_VIOLATION or name == "a"]


# --- shares of a turn ------------------------------------------------------------------------------------------------


def test_pipelined_requests_do_not_keep_others_waiting() -> None:
    place = Place()
    long, short = place.connect(), place.connect()
    place.send(long, *[BEAT] * 6)
    place.send(short, BEAT)
    place.turns()
    assert [number for number, _ in place.log] == [1, 1, 2, 1, 1, 1, 1]


def test_turn_ends_after_a_slice() -> None:
    place = Place()
    place.pump.router.stages = (Slow(place),)
    wires = [place.connect() for _ in range(3)]
    for wire in wires:
        place.send(wire, BEAT)
    assert place.pump.turn(0.0)
    assert len(place.log) == 1
    assert place.pump.turn(0.0)
    assert [number for number, _ in place.log] == [1, 2]


class Buffering(Wire):
    """A connection that buffers its responses until ``send``, which is also in the log."""

    def answer(self, reply: Reply) -> int:
        self.out += b"."
        return super().answer(reply)

    def send(self) -> bool:
        self.out = b""
        self.log.append((self.number, "sent"))
        return True


@pytest.mark.parametrize(
    ("seconds", "order"),
    [
        pytest.param(0.0, ["Heartbeat"] * 3 + ["sent"] * 3, id="together"),
        pytest.param(COLLECT * 0.6, ["Heartbeat"] * 2 + ["sent"] * 2 + ["Heartbeat", "sent"], id="long requests"),
    ],
)
def test_responses_of_many_connections_are_sent_together(seconds: float, order: list[str]) -> None:
    place = Place()
    place.pump.router.stages = (Slow(place, seconds),)
    for number in range(1, 4):
        wire = Buffering(number, place.log)
        place.pump.open(wire)
        place.send(wire, BEAT)
    place.turns()
    assert [what for _, what in place.log] == order


def test_slow_connection_waits_for_those_that_are_quick() -> None:
    place = Place()
    slow = place.connect()
    slow.stages = (Slow(place),)
    place.send(slow, *[BEAT] * 4)
    place.pump.turn(0.0)
    place.pump.turn(0.0)
    quick = [place.connect() for _ in range(4)]
    for wire in quick:
        place.send(wire, BEAT)
    place.pump.turn(0.0)
    assert [number for number, _ in place.log] == [1, 1, 2, 3, 4, 5, 1]


def test_connection_that_was_slow_once_does_not_wait() -> None:
    """The system may have run another process in the meantime."""
    place = Place()
    large, once = place.connect(), place.connect()
    once.stages = (Slow(place),)
    place.send(once, BEAT)
    place.turns()
    once.stages = ()
    large.frames = SimpleNamespace(held=LARGE + 1)
    for _ in range(3):
        place.send(large, BEAT)
        place.send(once, BEAT)
        place.turns()
    assert [number for number, _ in place.log] == [once.number, *[once.number, large.number] * 3]


def test_large_requests_share_a_turn_one_at_a_time() -> None:
    place = Place()
    large = [place.connect() for _ in range(3)]
    for wire in large:
        wire.frames = SimpleNamespace(held=LARGE + 1)
        place.send(wire, BEAT)
    small = place.connect()
    place.send(small, BEAT)
    assert place.turns() == 3
    assert [number for number, _ in place.log] == [4, 1, 2, 3]


def test_large_requests_are_served_among_many_small_ones() -> None:
    place = Place()
    large, small = place.connect(), place.connect()
    large.frames = SimpleNamespace(held=LARGE + 1)
    place.send(large, BEAT)
    place.pump.router.stages = (Slow(place),)
    for _ in range(2):
        other = place.connect()
        place.send(other, BEAT)
        place.pump.turn(0.0)
    assert large.number in [number for number, _ in place.log]
    assert small.sent == []


# --- the end of a connection ------------------------------------------------------------------------------------------


def test_peer_that_ended_is_answered_first() -> None:
    place = Place()
    wire = place.connect()
    place.send(wire, *[BEAT] * 3, (MetadataRequest(topics=[]), 4))
    wire.ended = True
    place.pump.close_if_over(wire)
    assert not wire.closed
    place.turns()
    assert wire.closed
    assert [name for _, name in place.log] == ["Heartbeat"] * 3 + ["Metadata"]


def test_handler_that_raises_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    class Breaks(Stage):
        def before(self, call: Call[Any], now: float) -> Effects | None:
            raise RuntimeError("planted by a test")

    place = Place()
    broken, other = place.connect(), place.connect()
    broken.stages = (Breaks(),)
    for wire in (broken, other):
        place.send(wire, BEAT)
    place.turns()
    assert broken.closed
    assert "planted by a test" in broken.reason
    assert len(other.sent) == 1
    assert "internal error while handling a request" in caplog.text


# --- connections that a fault rule has muted, paced or closed ---------------------------------------------------------


class Link(Wire):
    """A connection whose peer reads as much as the pace allows. Each response has 10 bytes.

    steps: the calls of the transport
    """

    def __init__(self, number: int, log: list[tuple[int, str]]) -> None:
        super().__init__(number, log)
        self.steps: list[str] = []
        self.out: bytearray = bytearray()

    def answer(self, reply: Reply) -> int:
        super().answer(reply)
        self.out += bytes(10)
        return len(self.out)

    def send(self) -> bool:
        sent = len(self.out) if self.pace is None else min(len(self.out), self.pace.allowed)
        del self.out[:sent]
        self.steps.append(f"send {sent}")
        if self.pace is not None:
            self.pace.allowed -= sent
            if not self.out:
                self.pace.finished, self.pace = True, None
        return True

    def reset(self) -> None:
        self.out.clear()
        self.steps.append("reset")

    def hang_up(self, reason: str) -> None:
        super().hang_up(reason)
        self.out.clear()
        self.steps.append("close")


class Delivering(Stage):
    """A stage that sends each response with the next of the given deliveries, and later ones as usual."""

    def __init__(self, *deliveries: Delivery) -> None:
        self.deliveries = list(deliveries)
        self.closed: list[int] = []

    def before(self, call: Call[Any], now: float) -> Call[Any]:
        return call

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:
        if not self.deliveries:
            return effects
        delivery = self.deliveries.pop(0)
        return [replace(effect, delivery=delivery) if isinstance(effect, Reply) else effect for effect in effects]

    def forget_connection(self, number: int) -> None:
        self.closed.append(number)


def linked(place: Place, *deliveries: Delivery) -> Link:
    """Open a connection whose requests pass a ``Delivering`` stage."""
    link = Link(1, place.log)
    place.pump.open(link)
    stages = (Delivering(*deliveries),)
    place.harness.router.outer_stages = dict.fromkeys(APIS, stages)
    place.harness.router.noticing_stages = stages
    return link


def about(wire: Wire) -> Ticket:
    """Return the ticket of an earlier request of this connection."""
    return Ticket(wire.number, 99, 12, 4)


def test_requests_after_a_muting_answer_wait_for_the_unmute() -> None:
    place = Place()
    link = linked(place, Delivery(mute=True))
    place.send(link, BEAT, BEAT)
    place.turns()
    assert (len(link.sent), link.muted) == (1, True)
    place.pump.deliver([Unmute(about(link))])
    place.turns()
    assert (len(link.sent), link.muted) == (2, False)


def test_muted_connection_does_not_keep_others_waiting() -> None:
    place = Place()
    link, other = linked(place, Delivery(mute=True)), Wire(2, place.log)
    place.pump.open(other)
    place.send(link, BEAT, BEAT)
    place.turns()
    place.send(other, BEAT)
    place.turns()
    assert (len(link.sent), len(other.sent)) == (1, 1)


def test_unmute_of_a_closed_connection_is_ignored() -> None:
    place = Place()
    link = linked(place, Delivery(mute=True))
    place.send(link, BEAT, BEAT)
    place.turns()
    place.pump.close(link)
    place.pump.deliver([Unmute(about(link)), SendMore(about(link))])
    assert place.pump.queued == 0
    assert len(link.sent) == 1


def test_muted_peer_that_ended_is_closed() -> None:
    place = Place()
    link = linked(place, Delivery(mute=True))
    place.send(link, BEAT)
    link.ended = True
    place.turns()
    assert (len(link.sent), link.closed) == (1, True)


def test_paced_answer_is_sent_in_parts() -> None:
    place = Place()
    pace = Pace(allowed=4)
    link = linked(place, Delivery(pace=pace))
    place.send(link, BEAT, BEAT)
    place.turns()
    assert len(link.out) == 16
    for _ in range(4):
        pace.allowed += 4
        place.pump.deliver([SendMore(about(link))])
        place.turns()
    assert [step for step in link.steps if step != "send 0"] == ["send 4"] * 5  # both responses, in their order
    assert (pace.finished, link.pace) == (True, None)


def test_second_pace_ends_the_first() -> None:
    place = Place()
    first, second = Pace(allowed=4), Pace()
    link = linked(place, Delivery(pace=first), Delivery(pace=second))
    place.send(link, BEAT)
    place.turns()
    place.send(link, BEAT)
    place.turns()
    assert (first.finished, second.finished, link.pace) == (True, False, second)
    second.allowed = 100
    place.pump.deliver([SendMore(about(link))])
    assert (second.finished, len(link.out)) == (True, 0)


def test_pace_ends_with_its_connection() -> None:
    place = Place()
    pace = Pace()
    link = linked(place, Delivery(pace=pace))
    place.send(link, BEAT)
    place.turns()
    assert not pace.finished
    place.pump.close(link)
    assert pace.finished


def test_paced_peer_that_ended_gets_the_whole_answer() -> None:
    place = Place()
    pace = Pace(allowed=4)
    link = linked(place, Delivery(pace=pace))
    place.send(link, BEAT)
    link.ended = True
    place.turns()
    assert not link.closed
    pace.allowed = 6
    place.pump.deliver([SendMore(about(link))])
    place.turns()
    assert (pace.finished, link.closed) == (True, True)


def test_reset_after_an_answer_sends_the_answer_first() -> None:
    place = Place()
    link = linked(place, Delivery(close="cut", reset=True))
    place.send(link, BEAT, BEAT)
    place.turns()
    assert (link.steps, link.reason, len(link.sent)) == (["send 10", "reset", "close"], "cut", 1)


def test_close_without_reset_sends_the_answers_first() -> None:
    place = Place()
    link = linked(place, Delivery(close="cut"))
    place.send(link, BEAT)
    place.turns()
    assert link.steps == ["send 10", "close"]


def test_close_of_a_connection_needs_no_request() -> None:
    """A rule for new connections closes one like this, with a ticket of the connection instead of a request."""
    place = Place()
    link = linked(place)
    place.pump.deliver([Close(Ticket(link.number, 0, -1, 0), "refused", reset=True)])
    assert (link.steps, link.reason) == (["reset", "close"], "refused")
    place.pump.deliver([Close(Ticket(link.number, 0, -1, 0), "again")])
    assert link.reason == "refused"


class Syncing:
    """A disk whose changes become durable when a test sets ``synced``."""

    collected = 1
    synced = 0


def test_reset_waits_until_the_answer_is_durable() -> None:
    place, disk = Place(), Syncing()
    place.pump.disk = disk
    link = linked(place, Delivery(close="cut", reset=True))
    place.send(link, BEAT)
    place.turns()
    assert (link.steps, link.closed) == ([], False)
    disk.synced = 1
    place.pump.release()
    assert link.steps == ["send 10", "reset", "close"]


def test_stages_hear_of_a_closed_connection_once() -> None:
    place = Place()
    link = linked(place)
    (stage,) = place.harness.router.noticing_stages
    place.pump.close(link)
    place.pump.close(link)
    assert isinstance(stage, Delivering)
    assert stage.closed == [link.number]

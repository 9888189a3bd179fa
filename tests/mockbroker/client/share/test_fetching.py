"""The requests of a share consumer to the leaders of its partitions (ShareConsumeRequestManager)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.records import Record, build_batch
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.errors import AuthorizationFailed, ConsumerError, CorruptRecord
from mockbroker.client.share.acknowledgements import AcknowledgeType
from mockbroker.client.share.fetching import Acknowledged, ShareFetcher, check_acknowledged
from mockbroker.client.share.settings import ShareSettings

TOPIC = UUID(int=5)
T0, T1 = ("t", 0), ("t", 1)
ACCEPT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW
Fetched = ShareFetchResponse.Topic.Partition


class FakeMetadata:
    """Topic ``t``: partition n is led by node n. ``refreshes`` and ``retries`` count the requests for metadata."""

    def __init__(self) -> None:
        self.topic_names = {TOPIC: "t"}
        self.leaders = {T0: 0, T1: 1}
        self.refreshes = self.retries = 0

    def topic_id(self, _name: str) -> UUID:
        return TOPIC

    def leader(self, partition: tuple[str, int]) -> Any:
        node_id = self.leaders.get(partition)
        return None if node_id is None else SimpleNamespace(node_id=node_id)

    def refresh(self) -> None:
        self.refreshes += 1

    def retry_later(self) -> None:
        self.retries += 1


class FakeNetwork:
    """Nodes that keep the calls. ``busy``: nodes that can send no request now."""

    def __init__(self) -> None:
        self.nodes = {number: SimpleNamespace(id=number, ready=True) for number in (0, 1)}
        self.busy: set[int] = set()
        self.calls: list[tuple[int, OutgoingCall]] = []

    def broker(self, node_id: int) -> Any:
        return self.nodes.get(node_id)

    def can_send(self, node: Any) -> bool:
        return node.id not in self.busy

    def send_request(
        self,
        node: Any,
        key: int,
        build: Callable[[int], object],
        on_done: Callable[[OutgoingCall], None] | None = None,
        timeout: float = 0.0,
        versions: tuple[int, int | None] = (0, None),
    ) -> OutgoingCall:
        call = OutgoingCall(key, build, timeout, on_done, versions)
        self.calls.append((node.id, call))
        return call


class Harness:
    """A fetcher with the assigned partitions 0 and 1 of ``t``; the backoff is 0.1 s, then 0.2 s, ..."""

    def __init__(self) -> None:
        self.network, self.metadata, self.clock = FakeNetwork(), FakeMetadata(), Clock()
        member: Any = SimpleNamespace(member_id="m", assigned={(TOPIC, 0), (TOPIC, 1)})
        backoff = Backoff(0.1, 10.0, lambda: 0.5)
        settings, network, metadata = ShareSettings(), self.network, self.metadata
        self.fetcher = ShareFetcher("g", member, settings, network, metadata, self.clock, backoff)  # type: ignore[arg-type]
        self.member = member

    def sent(self, *, fetching: bool = True) -> dict[int, Any]:
        """Let the fetcher send; return the requests by node."""
        before = len(self.network.calls)
        self.fetcher.send_due(fetching=fetching)
        return {node: call.build(2) for node, call in self.network.calls[before:]}

    def call(self, node: int) -> OutgoingCall:
        """Return the request of a node that has no response yet."""
        (call,) = [call for number, call in self.network.calls if number == node and not call.done]
        return call

    def answer(self, node: int, *partitions: Fetched, error: E = E.NONE) -> None:
        response = ShareFetchResponse(error_code=error)
        if partitions:
            response.responses = [ShareFetchResponse.Topic(topic_id=TOPIC, partitions=list(partitions))]
        self.call(node).complete(response)

    def acknowledge(self, node: int, partition: tuple[str, int], kind: AcknowledgeType = ACCEPT) -> None:
        """Acknowledge offset 7 of a partition that a node has delivered."""
        delivery: Any = SimpleNamespace(node_id=node, partition=partition, take_types=lambda: {7: kind})
        self.fetcher.send_later([delivery])

    def results(self) -> list[tuple[tuple[str, int], str]]:
        """Return partition and error of each result, and forget them."""
        results = [(each.partition, str(each.error or "")) for each in self.fetcher.results]
        self.fetcher.results.clear()
        return results


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def established(harness: Harness) -> Harness:
    """Return a fetcher with a session with each node, and no request in flight."""
    harness.sent()
    for node in (0, 1):
        harness.answer(node)
    return harness


def delivered(number: int, count: int = 1) -> Fetched:
    """Return a partition with acquired records."""
    records = build_batch([Record(value=b"v")] * count)
    acquired = Fetched.AcquiredRecords(first_offset=0, last_offset=count - 1, delivery_count=1)
    return Fetched(partition_index=number, records=records, acquired_records=[acquired])


def acks(request: Any) -> dict[int, list[tuple[int, int]]]:
    """Return the acknowledged offsets in a request, by partition."""
    return {
        each.partition_index: [(batch.first_offset, batch.last_offset) for batch in each.acknowledgement_batches]
        for topic in request.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


def test_each_leader_gets_one_request_at_a_time(harness: Harness) -> None:
    requests = harness.sent()
    assert {node: type(request) for node, request in requests.items()} == dict.fromkeys((0, 1), ShareFetchRequest)
    assert [each.partition_index for topic in requests[1].topics for each in topic.partitions] == [1]
    assert (harness.sent(), harness.fetcher.waiting, harness.fetcher.busy) == ({}, True, True)
    harness.answer(0)
    assert list(harness.sent()) == [0]
    assert harness.fetcher.waiting


def test_partition_without_leader_or_name_is_not_read(harness: Harness) -> None:
    del harness.metadata.leaders[T0]
    assert list(harness.sent()) == [1]
    assert harness.metadata.retries == 1
    harness.metadata.topic_names.clear()
    harness.answer(1)
    assert (harness.sent(), harness.metadata.retries) == ({}, 3)


def test_no_record_is_fetched_while_deliveries_are_unread(harness: Harness) -> None:
    harness.sent()
    harness.answer(0, delivered(0, 2))
    harness.answer(1, delivered(1))
    assert harness.sent() == {}
    harness.fetcher._settings = ShareSettings(max_poll_records=2)
    assert [each.partition for each in harness.fetcher.take_deliveries()] == [T0]
    assert [each.partition for each in harness.fetcher.take_deliveries()] == [T1]
    assert list(harness.sent()) == [0, 1]


def test_acknowledgements_are_sent_with_the_next_fetch(established: Harness) -> None:
    established.acknowledge(0, T0)
    assert established.sent(fetching=False) == {}
    assert established.fetcher.busy
    requests = established.sent()
    assert isinstance(requests[0], ShareFetchRequest)
    assert {node: acks(request) for node, request in requests.items()} == {0: {0: [(7, 7)]}, 1: {}}
    established.answer(0)
    assert established.results() == [(T0, "")], "a partition without records and errors may be missing"


def test_acknowledgements_for_a_former_leader_need_no_fetch(established: Harness) -> None:
    established.acknowledge(0, T0)
    established.member.assigned = {(TOPIC, 1)}
    requests = established.sent()
    assert {node: type(request) for node, request in requests.items()} == {
        0: ShareAcknowledgeRequest,
        1: ShareFetchRequest,
    }
    assert acks(requests[0]) == {0: [(7, 7)]}


def test_commit_and_renewal_are_requests_of_their_own(established: Harness) -> None:
    established.acknowledge(0, T0, RENEW)
    requests = established.sent()
    assert isinstance(requests[0], ShareAcknowledgeRequest)
    assert requests[0].is_renew_ack
    assert isinstance(requests[1], ShareFetchRequest)
    established.call(0).complete(ShareAcknowledgeResponse())
    established.fetcher.committing = True
    established.acknowledge(0, T0)
    (request,) = established.sent().values()
    assert isinstance(request, ShareAcknowledgeRequest)
    assert (acks(request), request.is_renew_ack, request.share_session_epoch) == ({0: [(7, 7)]}, False, 2)


def test_each_partition_has_its_result(established: Harness) -> None:
    established.fetcher.committing = True
    established.metadata.leaders = {T0: 0, T1: 0}
    for partition in (T0, T1):
        established.acknowledge(0, partition)
    established.sent(fetching=False)
    partition = ShareAcknowledgeResponse.Topic.Partition(partition_index=1, error_code=E.INVALID_RECORD_STATE)
    topic = ShareAcknowledgeResponse.Topic(topic_id=TOPIC, partitions=[partition])
    established.call(0).complete(ShareAcknowledgeResponse(responses=[topic]))
    (first, second) = established.results()
    assert (first, second[0]) == ((T0, ""), T1)
    assert "ShareAcknowledge of t-1" in second[1]
    assert "INVALID_RECORD_STATE" in second[1]
    assert established.metadata.refreshes == 1
    assert not established.fetcher.waiting


def test_fetch_reports_the_error_of_its_acknowledgements(established: Harness) -> None:
    established.acknowledge(0, T0)
    established.sent()
    established.answer(0, Fetched(partition_index=0, acknowledge_error_code=E.INVALID_RECORD_STATE))
    ((partition, error),) = established.results()
    assert partition == T0
    assert "INVALID_RECORD_STATE" in error
    assert established.metadata.refreshes == 1


@pytest.mark.parametrize("known", [True, False], ids=["busy", "unknown"])
def test_acknowledgements_fail_if_the_broker_cannot_be_reached(established: Harness, known: bool) -> None:
    established.acknowledge(0, T0)
    if known:
        established.network.busy.add(0)
    else:
        del established.network.nodes[0]
    assert list(established.sent()) == [1]
    assert established.results() == [(T0, "broker 0 cannot be reached")]
    assert established.metadata.retries == 1


def test_acknowledgements_fail_with_their_session(harness: Harness) -> None:
    harness.acknowledge(0, T0)
    request = harness.sent()[0]
    assert acks(request) == {}
    (result,) = harness.fetcher.results
    assert (result.partition, result.offsets) == (T0, (7,))
    assert "SHARE_SESSION_NOT_FOUND" in str(result.error)


@pytest.mark.parametrize("code", [E.SHARE_SESSION_NOT_FOUND, E.INVALID_SHARE_SESSION_EPOCH, E.UNKNOWN_SERVER_ERROR])
def test_lost_session_begins_again_after_a_backoff(established: Harness, code: E) -> None:
    established.acknowledge(0, T0)
    assert established.sent()[0].share_session_epoch == 1
    established.answer(0, error=code)
    ((partition, error),) = established.results()
    assert partition == T0
    assert code.name in error
    assert (established.metadata.refreshes, established.fetcher.failure) == (1, None)
    assert established.fetcher.next_deadline() == pytest.approx(0.1)
    assert established.sent() == {}
    established.clock.now = 0.1
    assert established.sent()[0].share_session_epoch == (1 if code is E.UNKNOWN_SERVER_ERROR else 0)
    assert established.fetcher.next_deadline() == float("inf")


def test_backoff_grows_until_a_request_succeeds(harness: Harness) -> None:
    delays = []
    for step in range(5):
        harness.sent()
        if step == 3:
            harness.answer(0)
        else:
            harness.call(0).fail(Failure.DISCONNECTED)
            delays.append(round(harness.fetcher._retry_at[0] - harness.clock.now, 3))
        harness.clock.now += 100.0
    assert delays == [0.1, 0.2, 0.4, 0.1]
    assert harness.fetcher.failure is None


def test_first_backoff_to_end_is_the_deadline(harness: Harness) -> None:
    harness.sent()
    harness.call(0).fail(Failure.TIMED_OUT)
    harness.clock.now = 0.05
    harness.call(1).fail(Failure.TIMED_OUT)
    assert harness.fetcher.next_deadline() == pytest.approx(0.1)
    harness.clock.now = 0.1
    assert harness.fetcher.next_deadline() == pytest.approx(0.15)


def test_errors_that_the_application_must_handle(harness: Harness) -> None:
    harness.sent()
    harness.answer(0, Fetched(partition_index=0, error_code=E.NOT_LEADER_OR_FOLLOWER))
    assert (harness.fetcher.failure, harness.metadata.refreshes) == (None, 1)
    harness.answer(1, Fetched(partition_index=1, error_code=E.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(harness.fetcher.failure, AuthorizationFailed)
    harness.fetcher.failure = None
    harness.sent()
    harness.call(0).fail(Failure.UNSUPPORTED, "no version")
    assert str(harness.fetcher.failure) == "no version"
    harness.answer(1, error=E.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(harness.fetcher.failure, AuthorizationFailed)


def test_close_ends_the_established_sessions(established: Harness) -> None:
    established.fetcher._deliveries.clear()
    established.sent()
    established.answer(0, delivered(0))
    established.fetcher.close()
    (node, call) = established.network.calls[-1]
    request: Any = call.build(2)
    assert (node, request.share_session_epoch, acks(request)) == (0, -1, {0: [(0, 0)]})
    assert len(established.network.calls) == 5, "the other broker has a request in flight"


@pytest.mark.parametrize("case", ["gone", "disconnected", "no session"])
def test_close_sends_nothing_without_connection_or_session(established: Harness, case: str) -> None:
    for node in (0, 1):
        if case == "gone":
            del established.network.nodes[node]
        elif case == "disconnected":
            established.network.nodes[node].ready = False
        else:
            established.fetcher._sessions[node].reset()
    before = len(established.network.calls)
    established.fetcher.close()
    assert len(established.network.calls) == before


def test_results_have_sorted_offsets(established: Harness) -> None:
    established.fetcher._fail_acks({T0: {9: ACCEPT, 3: ACCEPT}}, error := ConsumerError("x"))
    assert list(established.fetcher.results) == [Acknowledged(T0, (3, 9), error)]


def test_open_records_must_be_acknowledged() -> None:
    deliveries: Any = [SimpleNamespace(open={1, 2}), SimpleNamespace(open={5})]
    with pytest.raises(ConsumerError, match="3 records of the last poll are not acknowledged"):
        check_acknowledged(deliveries)
    check_acknowledged([])


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.UNSUPPORTED])
def test_acknowledgements_without_a_response_fail(established: Harness, failure: Failure) -> None:
    established.acknowledge(0, T0)
    established.sent()
    established.call(0).fail(failure, "the reason")
    ((partition, error),) = established.results()
    assert (partition, error) == (T0, "the reason" if failure is Failure.UNSUPPORTED else "broker 0: the reason")


def test_commit_does_not_delay_fetches_from_other_leaders(established: Harness) -> None:
    established.fetcher.committing = True
    established.acknowledge(0, T0)
    requests = established.sent()
    assert {node: type(request) for node, request in requests.items()} == {
        0: ShareAcknowledgeRequest,
        1: ShareFetchRequest,
    }


def test_share_fetch_may_wait_for_records(harness: Harness) -> None:
    harness.sent()
    assert harness.call(0).deadline == pytest.approx(30.5)


def test_session_can_be_ended_with_every_stable_version(established: Harness) -> None:
    established.fetcher.close()
    for _, call in established.network.calls[-2:]:
        assert call.versions == (1, 2)
        request: Any = call.build(1)
        assert (request.share_session_epoch, request.is_renew_ack) == (-1, False)


def test_renewal_needs_v2_of_share_acknowledge(established: Harness) -> None:
    established.acknowledge(0, T0, RENEW)
    established.sent()
    assert established.call(0).versions == (2, 2)
    assert established.call(1).versions == (1, 2)


@pytest.mark.parametrize(("limit", "taken"), [(1, 1), (2, 2), (3, 2)])
def test_deliveries_are_taken_up_to_the_limit_of_records(harness: Harness, limit: int, taken: int) -> None:
    harness.sent()
    harness.answer(0, delivered(0))
    harness.answer(1, delivered(1))
    harness.fetcher._settings = ShareSettings(max_poll_records=limit)
    assert len(harness.fetcher.take_deliveries()) == taken


def test_delivery_without_a_failure_keeps_an_earlier_error(harness: Harness) -> None:
    earlier = harness.fetcher.failure = ConsumerError("earlier")
    harness.sent()
    harness.answer(0, delivered(0))
    assert harness.fetcher.failure is earlier


def test_lost_request_keeps_an_earlier_error(harness: Harness) -> None:
    earlier = harness.fetcher.failure = ConsumerError("earlier")
    harness.sent()
    harness.call(0).fail(Failure.DISCONNECTED, "lost")
    assert harness.fetcher.failure is earlier


def test_corrupt_record_is_an_error_of_the_next_poll(harness: Harness) -> None:
    harness.sent()
    damaged = delivered(0)
    assert damaged.records
    damaged.records = damaged.records[:-1] + bytes([damaged.records[-1] ^ 1])
    harness.answer(0, damaged)
    assert isinstance(harness.fetcher.failure, CorruptRecord)
    harness.answer(1, delivered(1))
    assert isinstance(harness.fetcher.failure, CorruptRecord), "a later response keeps it"


def test_busy_broker_does_not_delay_others(harness: Harness) -> None:
    harness.sent()
    harness.answer(1)
    assert set(harness.sent()) == {1}, "broker 0 has not responded"
    harness.answer(0)
    harness.answer(1)
    harness.network.busy = {0}
    assert set(harness.sent()) == {1}, "broker 0 cannot be reached"


def test_released_records_are_not_delivered(harness: Harness) -> None:
    harness.sent()
    harness.answer(0, delivered(0, 2))
    harness.fetcher.release_all()
    assert harness.fetcher.take_deliveries() == []
    harness.answer(1)
    assert acks(harness.sent()[0]) == {0: [(0, 1)]}


def test_session_begins_again_after_a_lost_connection(established: Harness) -> None:
    assert {node: request.share_session_epoch for node, request in established.sent().items()} == {0: 1, 1: 1}
    established.call(0).fail(Failure.DISCONNECTED, "lost")
    established.answer(1)
    established.clock.now += 0.1
    assert {node: request.share_session_epoch for node, request in established.sent().items()} == {0: 0, 1: 2}

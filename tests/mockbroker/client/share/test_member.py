"""A member of a share group: its heartbeats, and what their responses change (ShareMembershipManager)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse as Response
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.errors import UnsupportedVersion
from mockbroker.client.share.member import ShareMembership

TOPIC = UUID(int=5)


class FakeCoordinator:
    """A coordinator that keeps the calls; ``node``: None while it is unknown."""

    def __init__(self) -> None:
        self.node: Any = SimpleNamespace()
        self.calls: list[OutgoingCall] = []
        self.lost = 0

    def send_request(
        self,
        key: int,
        build: Callable[[int], object],
        on_done: Callable[[OutgoingCall], None] | None = None,
        versions: tuple[int, int | None] = (0, None),
    ) -> OutgoingCall | None:
        if self.node is None:
            return None
        call = OutgoingCall(key, build, 100.0, on_done, versions)
        self.calls.append(call)
        return call

    def mark_unknown(self) -> None:
        self.lost += 1


class Harness:
    """A member with its coordinator; the backoff is 0.1 s, then 0.2 s, ..."""

    def __init__(self, rack: str = "r") -> None:
        self.coordinator, self.clock = FakeCoordinator(), Clock()
        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        self.member = ShareMembership("g", "m", rack, self.coordinator, self.clock, backoff)  # type: ignore[arg-type]

    def request(self) -> Any:
        """Let the member send; return the request, or None if it sends none."""
        before = len(self.coordinator.calls)
        self.member.send_due()
        return self.coordinator.calls[-1].build(1) if len(self.coordinator.calls) > before else None

    def answer(self, epoch: int = 1, **fields: Any) -> None:
        """Answer the last request."""
        self.coordinator.calls[-1].complete(
            Response(**{"member_epoch": epoch, "heartbeat_interval_ms": 3_000} | fields)
        )


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.member.subscribe(["t", "s"])
    return harness


def assigned(*partitions: int) -> Response.Assignment:
    element = Response.Assignment.TopicPartition
    return Response.Assignment(topic_partitions=[element(topic_id=TOPIC, partitions=list(partitions))])


def test_member_without_topics_sends_nothing() -> None:
    harness = Harness()
    assert harness.request() is None
    assert harness.member.next_deadline() == float("inf")


def test_first_heartbeat_joins_with_topics_and_rack(harness: Harness) -> None:
    request = harness.request()
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 0)
    assert (request.subscribed_topic_names, request.rack_id) == (["s", "t"], "r")
    without = Harness(rack="")
    without.member.subscribe(["t"])
    assert without.request().rack_id is None
    assert harness.coordinator.calls[0].versions[0] == 1


def test_one_heartbeat_is_in_flight(harness: Harness) -> None:
    assert harness.member.next_deadline() == 0.0
    harness.request()
    assert harness.request() is None
    assert harness.member.next_deadline() == float("inf")
    harness.answer()
    assert harness.member.next_deadline() == 3.0


def test_next_heartbeat_follows_the_interval(harness: Harness) -> None:
    harness.request()
    harness.clock.now = 1.0
    harness.answer(epoch=4)
    harness.clock.now = 3.9
    assert harness.request() is None
    harness.clock.now = 4.0
    request = harness.request()
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (4, None, None)
    harness.answer(heartbeat_interval_ms=0)
    assert harness.member.next_deadline() == 7.0, "the interval stays"


def test_new_subscription_is_sent_at_once(harness: Harness) -> None:
    harness.request()
    harness.answer()
    harness.member.subscribe(["u"])
    assert harness.member.next_deadline() == 0.0
    assert harness.request().subscribed_topic_names == ["u"]
    harness.member.subscribe(["v"])
    harness.answer()
    assert harness.member.next_deadline() == harness.clock.now, "the response was to other topics"
    assert harness.request().subscribed_topic_names == ["v"]
    harness.answer()
    harness.member.subscribe(["v"])
    assert harness.request().subscribed_topic_names is None, "the coordinator knows them"


def test_response_sets_epoch_and_assignment(harness: Harness) -> None:
    harness.request()
    harness.answer(epoch=2, assignment=assigned(0, 3))
    assert (harness.member.epoch, harness.member.assigned) == (2, {(TOPIC, 0), (TOPIC, 3)})
    harness.clock.now = 3.0
    harness.request()
    harness.answer(epoch=3)
    assert (harness.member.epoch, harness.member.assigned) == (3, {(TOPIC, 0), (TOPIC, 3)})


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH])
def test_fenced_member_joins_again_at_once(harness: Harness, code: E) -> None:
    harness.request()
    harness.answer(epoch=2, assignment=assigned(0))
    harness.clock.now = 3.0
    harness.request()
    harness.clock.now = 3.5
    harness.answer(error_code=code)
    assert (harness.member.epoch, harness.member.assigned, harness.member.failure) == (0, frozenset(), None)
    assert harness.member.next_deadline() == 3.5
    request = harness.request()
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (0, ["s", "t"], "r")


@pytest.mark.parametrize(
    ("code", "lost", "fails"),
    [
        (E.COORDINATOR_LOAD_IN_PROGRESS, 0, False),
        (E.NOT_COORDINATOR, 1, False),
        (E.COORDINATOR_NOT_AVAILABLE, 1, False),
        (E.GROUP_AUTHORIZATION_FAILED, 0, True),
    ],
)
def test_failed_heartbeat_is_repeated_with_a_backoff(harness: Harness, code: E, lost: int, fails: bool) -> None:
    for number, delay in enumerate((0.1, 0.2, 0.4), 1):
        harness.request()
        harness.answer(error_code=code, error_message="text")
        assert harness.member.next_deadline() == pytest.approx(harness.clock.now + delay)
        assert harness.coordinator.lost == lost * number
        harness.clock.now += delay
    assert (harness.member.failure is not None) is fails
    assert not fails or "ShareGroupHeartbeat of g: text" in str(harness.member.failure)
    harness.request()
    harness.answer()
    harness.clock.now += 3.0
    harness.request()
    harness.answer(error_code=code)
    assert harness.member.next_deadline() == pytest.approx(harness.clock.now + 0.1), "a success ends the failures"


def test_error_without_a_message_has_the_code(harness: Harness) -> None:
    harness.request()
    harness.answer(error_code=E.GROUP_AUTHORIZATION_FAILED)
    assert str(harness.member.failure) == "ShareGroupHeartbeat of g: GROUP_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT, Failure.UNSUPPORTED])
def test_lost_response_looks_the_coordinator_up_again(harness: Harness, failure: Failure) -> None:
    harness.request()
    harness.coordinator.calls[-1].fail(failure, "reason")
    assert harness.coordinator.lost == 1
    assert harness.member.next_deadline() == pytest.approx(0.1)
    assert isinstance(harness.member.failure, UnsupportedVersion) is (failure is Failure.UNSUPPORTED)
    harness.clock.now = 0.1
    assert harness.request() is not None


def test_unknown_coordinator_is_tried_again_later(harness: Harness) -> None:
    harness.coordinator.node = None
    assert harness.request() is None
    assert harness.member.next_deadline() == float("inf")
    harness.coordinator.node = SimpleNamespace()
    assert harness.member.next_deadline() == pytest.approx(0.1)


def test_member_leaves_once_it_has_joined(harness: Harness) -> None:
    harness.request()
    harness.member.leave()
    assert (len(harness.coordinator.calls), harness.member.leaving) == (1, False)
    harness.answer(epoch=9)
    assert harness.member.epoch == 0, "it has left meanwhile"
    harness.member.subscribe(["t"])
    harness.request()
    harness.answer(epoch=1, assignment=assigned(0))
    harness.member.leave()
    leaving = harness.coordinator.calls[-1]
    request: Any = leaving.build(1)
    assert (request.group_id, request.member_id, request.member_epoch, leaving.versions[0]) == ("g", "m", -1, 1)
    assert (harness.member.topics, harness.member.assigned, harness.member.epoch) == (frozenset(), frozenset(), 0)
    assert harness.member.leaving
    leaving.complete(Response())
    assert not harness.member.leaving


def test_first_response_without_an_interval_means_5_s(harness: Harness) -> None:
    harness.request()
    harness.answer(heartbeat_interval_ms=0)
    assert harness.member.next_deadline() == 5.0


def test_member_that_left_joins_again_with_all_fields(harness: Harness) -> None:
    harness.request()
    harness.answer()
    harness.member.leave()
    harness.member.subscribe(["t", "s"])
    request = harness.request()
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (0, ["s", "t"], "r")


def test_lost_response_keeps_an_earlier_failure(harness: Harness) -> None:
    harness.request()
    harness.answer(error_code=E.GROUP_AUTHORIZATION_FAILED)
    earlier = harness.member.failure
    harness.clock.now = 1.0
    harness.request()
    harness.coordinator.calls[-1].fail(Failure.DISCONNECTED)
    assert earlier is harness.member.failure is not None

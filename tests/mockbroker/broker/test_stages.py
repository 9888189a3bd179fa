"""The stages that process a request before and after its handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire import encode_request
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mockbroker.base.effects import Call, Client, Dismiss, Effects, NoReply, Reply, Ticket
from mockbroker.broker.router import Outcome
from mockbroker.broker.stages import Stage

HEARTBEAT = 12


class Recorded(Stage):
    """A stage that records its calls in ``passed``. ``refuses``: reject every request."""

    def __init__(self, name: str, passed: list[str], *, refuses: bool = False) -> None:
        self.name, self.passed, self.refuses = name, passed, refuses

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:
        self.passed.append(f"before {self.name}")
        if self.refuses:
            return [Reply(call.ticket, HeartbeatResponse(error_code=E.GROUP_AUTHORIZATION_FAILED))]
        return call

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:
        self.passed.append(f"after {self.name}")
        return effects


def heartbeat(harness: BrokerHarness, own: Sequence[Stage] = ()) -> list[Outcome]:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(request, 4, correlation_id=1, client_id="me")
    return harness.router.step(Call(Ticket(1, 1, HEARTBEAT, 4), Client(0, "me", "/"), request, frame), 0.0, own)


def error(outcomes: list[Outcome]) -> int:
    (outcome,) = outcomes
    assert isinstance(outcome, Reply)
    assert isinstance(outcome.response, HeartbeatResponse)
    return outcome.response.error_code


def test_stages_of_the_connection_enclose_the_others() -> None:
    harness, passed = BrokerHarness(), list[str]()
    harness.router.stages = (Recorded("all", passed),)
    assert error(heartbeat(harness, [Recorded("own", passed)])) == E.UNKNOWN_MEMBER_ID
    assert passed == ["before own", "before all", "after all", "after own"]


def test_rejected_request_skips_later_stages() -> None:
    harness, passed = BrokerHarness(), list[str]()
    stages = [Recorded("first", passed), Recorded("second", passed, refuses=True), Recorded("third", passed)]
    assert error(heartbeat(harness, stages)) == E.GROUP_AUTHORIZATION_FAILED
    assert passed == ["before first", "before second", "after first"]


def test_stage_replaces_the_effects_of_the_handler() -> None:
    class Severs(Stage):
        def before(self, call: Call[Any], now: float) -> Call[Any]:
            return call

        def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:
            return [Dismiss(call.ticket, None, "severed")]

    (outcome,) = heartbeat(BrokerHarness(), [Severs()])
    assert isinstance(outcome, Dismiss)


def test_response_to_a_pending_request_runs_after_once() -> None:
    """A JoinGroup gets its response after the initial rebalance delay."""
    harness, passed = BrokerHarness(config={"group.initial.rebalance.delay.ms": 3_000}), list[str]()
    harness.router.stages = (Recorded("all", passed),)
    sent = harness.send(harness.join("g"), 3)
    assert (sent.answer, passed) == (None, ["before all"])
    harness.wait(3.0)
    assert sent.answer.generation_id == 1
    assert passed == ["before all", "after all"]


class Quick(Recorded):
    """A stage that only processes responses."""

    def only_processes_answer(self, call: Call[Any]) -> bool:
        return True

    def process_response(self, call: Call[Any], response: Reply | NoReply, now: float) -> Reply | NoReply:
        self.passed.append(f"response {self.name}")
        return response


def test_only_stage_may_process_just_the_response() -> None:
    harness, passed = BrokerHarness(config={"group.initial.rebalance.delay.ms": 3_000}), list[str]()
    harness.router.stages = (Quick("all", passed),)
    assert error(heartbeat(harness)) == E.UNKNOWN_MEMBER_ID
    assert passed == ["response all"]
    heartbeat(harness, [Recorded("own", passed)])
    assert passed[1:] == ["before own", "before all", "after all", "after own"]
    sent = harness.send(harness.join("g"), 3)
    harness.wait(3.0)
    assert (sent.answer.generation_id, passed[5:]) == (1, ["after all"])


def test_last_stage_processes_just_the_response() -> None:
    harness, passed = BrokerHarness(config={"group.initial.rebalance.delay.ms": 3_000}), list[str]()
    harness.router.stages = (Quick("all", passed),)
    passes = Stage()
    assert error(heartbeat(harness, [passes])) == E.UNKNOWN_MEMBER_ID
    assert passed == ["response all"]
    sent = harness.send(harness.join("g"), 3)
    harness.wait(3.0)
    assert (sent.answer.generation_id, passed[1:]) == (1, ["after all"])


def test_request_in_slices_runs_stages_once() -> None:
    harness, passed = BrokerHarness(), list[str]()
    harness.router.stages = (Recorded("all", passed),)
    harness.broker.slice_size = 1
    harness.ask(
        CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=name, num_partitions=1) for name in "abc"]), 7
    )
    assert passed == ["before all", "after all"]


def test_pending_request_of_a_closed_connection_is_forgotten() -> None:
    harness, passed = BrokerHarness(config={"group.initial.rebalance.delay.ms": 3_000}), list[str]()
    harness.router.stages = (Recorded("all", passed),)
    harness.router.forget(harness.send(harness.join("g"), 3).ticket)
    harness.wait(3.0)
    assert passed == ["before all"]


def test_stage_without_methods_changes_nothing() -> None:
    assert heartbeat(BrokerHarness(), [Stage()]) == heartbeat(BrokerHarness())


@pytest.mark.parametrize("refuses", [False, True])
def test_request_is_in_the_log_once(refuses: bool) -> None:
    harness = BrokerHarness()
    heartbeat(harness, [Recorded("own", [], refuses=refuses)])
    assert [request.api for request in harness.router.requests.select("Heartbeat")] == ["Heartbeat"]

"""The router: served APIs, deadlines, discarded requests and the journal."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import APIS, encode_request
from kwire.messages.fetch import FetchRequest
from kwire.messages.join_group import JoinGroupRequest
from mockbroker.base.effects import Call, Client, NoReply, Ticket
from mockbroker.base.timers import FetchDue
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router


def join(**changes: Any) -> JoinGroupRequest:
    fields = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=b"")],
    }
    return JoinGroupRequest(**fields | changes)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def test_served_apis(harness):
    assert harness.router.serves(11, 9)
    assert not harness.router.serves(11, 10)
    assert not harness.router.serves(11, -1)
    assert not harness.router.serves(999, 0)


def test_only_apis_with_a_handler_are_served(harness):
    router = Router(harness.broker, Journal(0.0), {18: HANDLERS[18]})
    assert not router.serves(11, 9)
    assert set(harness.broker.advertised_versions) == {18}


def test_each_key_has_the_handler_of_its_api():
    """Like KafkaApis.handle, which has one method per API."""
    names = {key: re.sub(r"(?<!^)(?=[A-Z])", "_", APIS[key].name).lower() for key in HANDLERS}
    modules = {key: handler.handle.__module__ for key, handler in HANDLERS.items()}
    assert modules == {key: f"mockbroker.broker.handlers.{name}" for key, name in names.items()}


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: APIS[key].name)
def test_request_goes_only_to_the_handler_of_its_api_key(harness, key):
    handled = []

    def spy(at: int) -> Any:
        def handle(broker: Any, call: Any, now: Any) -> Any:
            handled.append((at, broker, call, now))
            return [NoReply(call.ticket)]

        return Handler(HANDLERS[at].versions, handle)

    router = Router(harness.broker, Journal(0.0), {at: spy(at) for at in HANDLERS})
    version = HANDLERS[key].versions.last
    request = APIS[key].request()
    ticket = Ticket(1, 1, key, version)
    frame = encode_request(request, version, correlation_id=1, client_id="c")
    call = Call(ticket, Client(0, "c", "/127.0.0.1"), request, frame)
    assert router.step(call, 7.0) == [NoReply(ticket)]
    assert handled == [(key, harness.broker, call, 7.0)]


def test_no_deadline_in_an_idle_broker(harness):
    assert harness.router.deadline() == inf
    assert harness.router.tick(1e9) == []


def test_deadline_is_the_first_of_groups_and_fetches(harness):
    harness.ask(join(), 3)
    partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1)
    topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
    sent = harness.send(FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=topics), 11)
    assert harness.router.deadline() == 5.0
    harness.wait(5.0)
    assert sent.at == 5.0
    assert harness.router.deadline() > 5.0
    harness.wait(5.0)
    assert harness.broker.groups["g"].members == {}  # the session of the member has expired
    assert len(harness.broker.groups["g"].timers) == 0


def test_one_tick_runs_one_deadline(harness):
    for group_id in ("g", "h"):
        harness.ask(join(group_id=group_id), 3)
    harness.now = 20.0
    harness.router.tick(20.0)
    assert sorted(len(group.members) for group in harness.broker.groups.values()) == [0, 1]
    harness.router.tick(20.0)
    assert [len(group.members) for group in harness.broker.groups.values()] == [0, 0]
    assert harness.router.deadline() > 20.0


def test_pending_join_survives_its_connection():
    harness = BrokerHarness(config={"group.initial.rebalance.delay.ms": 3_000})
    sent = harness.send(join(), 3)
    harness.router.forget(sent.ticket)
    harness.wait(3.0)
    assert len(harness.broker.groups["g"].members) == 1
    assert harness.broker.groups["g"].generation == 1


def test_forgetting_an_unknown_request_has_no_effect(harness):
    harness.router.forget(Ticket(1, 1, 1, 11))
    assert FetchDue(Ticket(1, 1, 1, 11)) not in harness.broker.deadlines


def test_notes_go_to_the_journal(harness):
    harness.ask(join(), 3)
    assert [event.event for event in harness.journal.events] == ["join", "rebalance", "generation"]
    assert all(event.group == "g" for event in harness.journal.events)


def test_same_requests_get_the_same_responses():
    def run() -> list[object]:
        harness = BrokerHarness(brokers=3, config={"group.initial.rebalance.delay.ms": 1_000})
        node = harness.broker.coordinator("g")
        sents = []
        for number in range(5):
            sents.append(harness.send(join(), 3, node=node, client_id=f"c{number}"))
            harness.wait(0.3)
        harness.wait(200.0)
        return [(sent.answer, sent.at) for sent in sents] + list(harness.journal.events)

    assert run() == run()

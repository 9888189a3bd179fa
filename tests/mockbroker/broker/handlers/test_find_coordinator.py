"""FindCoordinator: groups and transactional ids in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.java import partition_for
from kwire.messages.find_coordinator import FindCoordinatorRequest


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(brokers=3)


@pytest.mark.parametrize("key", ["g", "group", "test", ""])
@pytest.mark.parametrize("version", range(4))
def test_one_key(harness, version, key):
    response = harness.ask(FindCoordinatorRequest(key=key), version)
    node = harness.leader("__consumer_offsets", partition_for(key, 50))
    assert (response.error_code, response.node_id, response.host, response.port) == (
        E.NONE,
        node,
        "127.0.0.1",
        9_000 + node,
    )
    assert response.error_message == ("NONE" if version >= 1 else "")


@pytest.mark.parametrize("version", range(4, 7))
def test_several_keys(harness, version):
    response = harness.ask(FindCoordinatorRequest(coordinator_keys=["g", "group", "", "g"]), version)
    assert [each.key for each in response.coordinators] == ["g", "group", "", "g"]
    assert {each.error_code for each in response.coordinators} == {E.NONE}
    assert {each.error_message for each in response.coordinators} == {""}
    assert all(each.port == 9_000 + each.node_id for each in response.coordinators)


@pytest.mark.parametrize("version", range(4, 7))
def test_no_keys(harness, version):
    assert harness.ask(FindCoordinatorRequest(coordinator_keys=[]), version).coordinators == []


KINDS = [  # version, key type, whether the response has an error message
    pytest.param(1, 9, True, id="unknown key type"),
    pytest.param(3, 9, True, id="unknown key type"),
    pytest.param(5, 9, True, id="unknown key type of each key"),
    pytest.param(6, 2, False, id="no share partition"),
    pytest.param(5, 2, False, id="share group before v6"),
    pytest.param(3, 2, True, id="share group before v6"),
]


@pytest.mark.parametrize(("version", "key_type", "text"), KINDS)
def test_unsupported_key_types(harness, version, key_type, text):
    if version >= 4:
        responses = harness.ask(
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g", "h"]), version
        ).coordinators
        assert [response.key for response in responses] == ["g", "h"]
    else:
        responses = [harness.ask(FindCoordinatorRequest(key_type=key_type, key="g"), version)]
    for response in responses:
        assert response.error_code == E.INVALID_REQUEST
        assert (response.node_id, response.host, response.port) == (-1, "", -1)
        assert bool(response.error_message) is text


def test_all_brokers_return_the_same_coordinator(harness):
    places = [harness.ask(FindCoordinatorRequest(key="g"), 2, node=node).node_id for node in range(3)]
    assert len(set(places)) == 1
    assert harness.broker.coordinator_error("g", places[0]) == E.NONE


@pytest.mark.parametrize("version", range(1, 7))
def test_transactional_ids_have_their_own_coordinator(version):
    harness = BrokerHarness(brokers=3)
    names = [f"t{number}" for number in range(20)]
    coordinators = [_node(harness, name, version) for name in names]
    assert coordinators == [harness.broker.transaction_coordinator(name) for name in names]
    assert set(coordinators) == {0, 1, 2}
    assert "__transaction_state" in harness.broker.cluster.topics


def _node(harness: BrokerHarness, name: str, version: int) -> Any:
    if version >= 4:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        return harness.ask(request, version).coordinators[0].node_id
    return harness.ask(FindCoordinatorRequest(key_type=1, key=name), version).node_id


def test_empty_transactional_id_has_a_coordinator():
    harness = BrokerHarness()
    response = harness.ask(FindCoordinatorRequest(key_type=1, key=""), 3)
    assert (response.error_code, response.node_id) == (E.NONE, 0)
    (coordinator,) = harness.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[""]), 6).coordinators
    assert (coordinator.error_code, coordinator.node_id, coordinator.error_message) == (E.NONE, 0, "")


def test_transaction_log_is_created_on_demand():
    harness = BrokerHarness(config={"mockbroker.transaction.log.on.demand": True})
    request = FindCoordinatorRequest(key_type=1, key="t")
    assert [harness.ask(request, 3).error_code for _ in range(2)] == [E.COORDINATOR_NOT_AVAILABLE, E.NONE]

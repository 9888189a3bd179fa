"""InitProducerId: ids for idempotent producers, and for transactional ids."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.init_producer_id import InitProducerIdRequest

VERSIONS = range(6)


@pytest.mark.parametrize("version", VERSIONS)
def test_producer_id_is_unique(version):
    harness = BrokerHarness()
    responses = [harness.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [(E.NONE, 0)] * 3
    assert len({response.producer_id for response in responses}) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_ids_keep_their_producer_id(version):
    harness = BrokerHarness()
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    responses = [harness.ask(request, version) for _ in range(3)]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [
        (E.NONE, 0),
        (E.NONE, 1),
        (E.NONE, 2),
    ]
    assert len({response.producer_id for response in responses}) == 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param({"transactional_id": ""}, E.INVALID_REQUEST, id="empty transactional id"),
        pytest.param({"transaction_timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT, id="timeout 0"),
        pytest.param(
            {"transaction_timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT, id="timeout above the maximum"
        ),
        pytest.param({"producer_id": 5}, E.INVALID_REQUEST, id="producer id without epoch"),
        pytest.param({"producer_epoch": 5}, E.INVALID_REQUEST, id="epoch without producer id"),
    ],
)
def test_rejected(fields, error):
    request = InitProducerIdRequest(**({"transactional_id": "x", "transaction_timeout_ms": 1000} | fields))
    response = BrokerHarness().ask(request, 5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error, -1, -1)


def test_not_the_coordinator():
    harness = BrokerHarness(brokers=3)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    errors = {node: harness.ask(request, 5, node=node).error_code for node in range(3)}
    coordinator = harness.broker.transaction_coordinator("x")
    assert errors == {node: E.NONE if node == coordinator else E.NOT_COORDINATOR for node in range(3)}

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
    answers = [harness.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(E.NONE, 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_ids_keep_their_producer_id(version):
    harness = BrokerHarness()
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    answers = [harness.ask(asked, version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(E.NONE, 0), (E.NONE, 1), (E.NONE, 2)]
    assert len({answer.producer_id for answer in answers}) == 1


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
    asked = InitProducerIdRequest(**({"transactional_id": "x", "transaction_timeout_ms": 1000} | fields))
    answer = BrokerHarness().ask(asked, 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def test_not_the_coordinator():
    harness = BrokerHarness(brokers=3)
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    found = {node: harness.ask(asked, 5, node=node).error_code for node in range(3)}
    here = harness.broker.transaction_coordinator("x")
    assert found == {node: E.NONE if node == here else E.NOT_COORDINATOR for node in range(3)}

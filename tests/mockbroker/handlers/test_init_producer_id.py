"""InitProducerId: ids for idempotent producers; no transactions."""

from __future__ import annotations

import pytest
from tools.desk import Desk

from kwire import ErrorCode as E
from kwire.messages.init_producer_id import InitProducerIdRequest

VERSIONS = range(6)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_that_nobody_has(version):
    desk = Desk()
    answers = [desk.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(E.NONE, 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_transactions_are_refused(version):
    answer = Desk().ask(InitProducerIdRequest(transactional_id="x"), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (E.INVALID_REQUEST, -1, -1)

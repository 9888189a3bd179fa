"""AlterClientQuotas. Kafka's responses are in the conversation quotas_altered."""

from __future__ import annotations

from math import inf, nan

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest
from mockbroker.quotas.entity import DEFAULT, Entity

Entry = AlterClientQuotasRequest.Entry


def entry(names: list[tuple[str, str | None]], *ops: tuple[str, float | None]) -> Entry:
    return Entry(
        entity=[Entry.Entity(entity_type=kind, entity_name=name) for kind, name in names],
        ops=[Entry.Op(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_and_removed(version: int) -> None:
    harness = BrokerHarness()
    entries = [
        entry([("user", "ann"), ("client-id", None)], ("producer_byte_rate", 5.0)),
        entry([("user", "bob")], ("request_percentage", 2.5), ("consumer_byte_rate", None)),
    ]
    response = harness.ask(AlterClientQuotasRequest(entries=entries), version)
    assert [(each.error_code, each.error_message) for each in response.entries] == [(E.NONE, None)] * 2
    assert [part.entity_type for part in response.entries[0].entity] == ["client-id", "user"]
    expected = {Entity("ann", DEFAULT): {"producer_byte_rate": 5.0}, Entity("bob"): {"request_percentage": 2.5}}
    assert harness.broker.quotas.quotas == expected


REPEATED = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=a})"
BOTH: list[tuple[str, str | None]] = [("user", "a"), ("client-id", None)]


@pytest.mark.parametrize("slice_size", [1, 100])
def test_the_first_entry_of_a_repeated_entity_is_applied(slice_size: int) -> None:
    harness = BrokerHarness()
    harness.broker.slice_size = slice_size
    entries = [
        entry(BOTH, ("producer_byte_rate", 5.0)),
        entry([("user", "fine")], ("producer_byte_rate", 5.0)),
        entry(BOTH[::-1], ("producer_byte_rate", 6.0)),
    ]
    response = harness.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert [(each.error_code, each.error_message) for each in response.entries] == [
        (E.INVALID_REQUEST, REPEATED),
        (E.NONE, None),
    ]
    quota = {"producer_byte_rate": 5.0}
    assert harness.broker.quotas.quotas == {Entity("a", DEFAULT): quota, Entity("fine"): quota}


def test_a_repeated_quota_is_refused() -> None:
    harness = BrokerHarness()
    wrong = entry(BOTH, ("producer_byte_rate", 5.0), ("producer_byte_rate", None))
    (refused,) = harness.ask(AlterClientQuotasRequest(entries=[wrong]), 1).entries
    assert (refused.error_code, refused.error_message) == (E.INVALID_REQUEST, REPEATED)
    assert harness.broker.quotas.quotas == {}


def test_the_last_name_of_a_repeated_entity_type_is_used() -> None:
    harness = BrokerHarness()
    twice = entry([("user", "a"), ("user", "b")], ("producer_byte_rate", 5.0))
    (altered,) = harness.ask(AlterClientQuotasRequest(entries=[twice]), 1).entries
    assert (altered.error_code, [part.entity_name for part in altered.entity]) == (E.NONE, ["b"])
    assert list(harness.broker.quotas.quotas) == [Entity("b")]


def test_validation_changes_nothing() -> None:
    harness = BrokerHarness()
    request = AlterClientQuotasRequest(
        entries=[entry([("user", "a")], ("producer_byte_rate", 5.0))], validate_only=True
    )
    assert harness.ask(request, 1).entries[0].error_code == E.NONE
    assert harness.broker.quotas.quotas == {}


def test_value_that_is_not_finite_is_answered() -> None:
    harness = BrokerHarness()
    entries = [
        entry([("user", "a")], ("producer_byte_rate", inf)),
        entry([("user", "b")], ("producer_byte_rate", nan)),
    ]
    response = harness.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert [(each.error_code, each.error_message) for each in response.entries] == [
        (E.INVALID_REQUEST, "Proposed value for producer_byte_rate is too large for a LONG."),
        (E.NONE, None),
    ]

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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            entry([("user", "a"), ("user", "b")], ("producer_byte_rate", 5.0)),
            "The entity type user occurs twice in an entity: name each type once",
        ),
        (
            entry([("user", "a")], ("producer_byte_rate", 5.0), ("producer_byte_rate", None)),
            "The quota producer_byte_rate occurs twice in the changes of an entity: name each quota once",
        ),
    ],
    ids=["type", "quota"],
)
def test_repetition_is_refused(wrong: Entry, message: str) -> None:
    harness = BrokerHarness()
    fine = entry([("user", "fine")], ("producer_byte_rate", 5.0))
    response = harness.ask(AlterClientQuotasRequest(entries=[wrong, fine]), 1)
    assert [each.error_code for each in response.entries] == [E.INVALID_REQUEST, E.NONE]
    assert response.entries[0].error_message == message
    assert list(harness.broker.quotas.quotas) == [Entity("fine")]


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

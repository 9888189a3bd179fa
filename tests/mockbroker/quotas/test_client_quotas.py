from __future__ import annotations

from math import inf, nan

import pytest

from mockbroker.quotas import client_quotas
from mockbroker.quotas.client_quotas import ClientQuotas, QuotaError, check_entity, matching
from mockbroker.quotas.entity import DEFAULT, Default, Entity


def quotas() -> ClientQuotas:
    return ClientQuotas({}, 11, 1, 11)


def test_most_specific_quota_applies() -> None:
    known = quotas()
    known.alter(Entity(None, DEFAULT), {"producer_byte_rate": 1}, validate_only=False)
    known.alter(Entity(DEFAULT), {"producer_byte_rate": 2, "consumer_byte_rate": 9}, validate_only=False)
    known.alter(Entity("ann", "app"), {"producer_byte_rate": 3}, validate_only=False)
    limits = [known.limit("producer_byte_rate", *client) for client in (("ann", "app"), ("ann", "other"), ("bob", "x"))]
    assert [(limit.value, limit.shared_by) for limit in limits if limit] == [
        (3, Entity("ann", "app")),
        (2, Entity("ann")),
        (2, Entity("bob")),
    ]
    assert known.limit("request_percentage", "ann", "app") is None


def test_removed_quotas_leave_nothing() -> None:
    known, calls = quotas(), list[int]()
    known.changed.append(lambda: calls.append(1))
    known.alter(Entity("ann"), {"producer_byte_rate": 5}, validate_only=False)
    known.alter(Entity("ann"), {"producer_byte_rate": None, "consumer_byte_rate": None}, validate_only=False)
    assert known.quotas == {}
    assert len(calls) == 2


def test_validation_changes_nothing() -> None:
    known = quotas()
    known.alter(Entity("ann"), {"producer_byte_rate": 5}, validate_only=True)
    assert known.quotas == {}


def test_number_of_entities_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    known = quotas()
    known.alter(Entity("ann"), {"producer_byte_rate": 5}, validate_only=False)
    known.alter(Entity("ann"), {"producer_byte_rate": 6}, validate_only=False)
    with pytest.raises(
        QuotaError, match="1 entities have quotas, which is the limit: remove the quotas of an entity first"
    ):
        known.alter(Entity("bob"), {"producer_byte_rate": 5}, validate_only=False)
    first = known.limit("producer_byte_rate", "ann", "")
    assert first is not None
    other = client_quotas.Limit("producer_byte_rate", 1, Entity("bob"))
    rate = known.rate(first)
    assert known.rate(first) is rate
    known.rate(other)
    assert known.rate(first) is not rate  # the measured use of the first limit was forgotten


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (Entity("ann"), "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        (Entity(ip="127.0.0.1"), "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        (
            Entity(ip="nowhere land"),
            "connection_creation_rate",
            1,
            "nowhere land is not a valid IP or resolvable host.",
        ),
        (Entity("ann"), "producer_byte_rate", 0.5, "producer_byte_rate cannot be a fractional value."),
        (Entity("ann"), "controller_mutation_rate", 0, "Quota controller_mutation_rate must be greater than 0"),
        (Entity("ann"), "producer_byte_rate", -0.5, "Quota producer_byte_rate must be greater than 0"),
        (Entity("ann"), "producer_byte_rate", -inf, "Quota producer_byte_rate must be greater than 0"),
        (Entity("ann"), "producer_byte_rate", inf, "Proposed value for producer_byte_rate is too large for a LONG."),
        (Entity("ann"), "consumer_byte_rate", 1e300, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (
            Entity(ip="::1"),
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
    ids=[
        "key of addresses",
        "key of clients",
        "address",
        "fraction",
        "zero",
        "negative",
        "negative infinity",
        "infinity",
        "above a LONG",
        "above an INT",
    ],
)
def test_invalid_quota_is_refused(entity: Entity, key: str, value: float, message: str) -> None:
    with pytest.raises(QuotaError) as error:
        quotas().alter(entity, {key: value}, validate_only=False)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({"client-id": ""}, "Empty client-id not supported"),
        (
            {"ip": "127.0.0.1", "user": "ann"},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
    ],
    ids=["empty", "type", "name", "combination"],
)
def test_invalid_entity_is_refused(names: dict[str, str | Default], message: str) -> None:
    with pytest.raises(QuotaError) as error:
        check_entity(names)
    assert str(error.value) == message


def test_filter_matches_names_and_defaults() -> None:
    known: dict[Entity, dict[str, float]] = {
        Entity("ann"): {},
        Entity(DEFAULT): {},
        Entity("ann", "app"): {},
        Entity(ip="::1"): {},
    }

    def found(parts: dict[str, str | Default | None], *, strict: bool = False) -> list[Entity]:
        return [entity for entity, _ in matching(known, parts, strict=strict)]

    assert found({}) == list(known)
    assert found({}, strict=True) == []
    assert found({"user": "ann"}) == [Entity("ann"), Entity("ann", "app")]
    assert found({"user": "ann"}, strict=True) == [Entity("ann")]
    assert found({"user": None}, strict=True) == [Entity("ann"), Entity(DEFAULT)]
    assert found({"user": DEFAULT}) == [Entity(DEFAULT)]
    assert found({"user": None, "client-id": None}) == [Entity("ann", "app")]


@pytest.mark.parametrize("value", [2.0**63, 1.0000001, nan])
def test_byte_rate_is_accepted_as_in_kafka(value: float) -> None:
    known = quotas()
    known.alter(Entity("ann"), {"producer_byte_rate": value}, validate_only=False)
    assert str(known.quotas[Entity("ann")]["producer_byte_rate"]) == str(value)


@pytest.mark.parametrize("value", [inf, nan])
def test_quota_that_is_not_finite_is_never_exceeded(value: float) -> None:
    known = quotas()
    known.alter(Entity(DEFAULT), {"request_percentage": 1}, validate_only=False)
    known.alter(Entity("ann"), {"request_percentage": value}, validate_only=False)
    assert known.limit("request_percentage", "ann", "") is None
    assert known.limit("request_percentage", "bob", "") is not None

"""Changes of topic configurations. Kafka's behaviour: the conversation configs_altered."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from mockbroker.base.release import KAFKA_4_2
from mockbroker.topics.alteration import APPEND, DELETE, SET, SUBTRACT, Change, alter, apply

POLICY, RETENTION = "cleanup.policy", "retention.ms"


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, Change(RETENTION, SET, "5"), {RETENTION: "5"}),
        ({RETENTION: "4"}, Change(RETENTION, SET, "-1"), {RETENTION: "-1"}),
        ({RETENTION: "4"}, Change(RETENTION, DELETE, None), {}),
        ({}, Change("no.such.config", DELETE, None), {}),
        ({}, Change(POLICY, APPEND, "compact"), {POLICY: "delete,compact"}),
        ({}, Change(POLICY, APPEND, "delete"), {POLICY: "delete"}),
        ({POLICY: "delete,compact"}, Change(POLICY, SUBTRACT, "delete"), {POLICY: "compact"}),
        ({POLICY: "compact"}, Change(POLICY, SUBTRACT, "delete"), {POLICY: "compact"}),
        ({}, Change("preallocate", SET, "true"), {"preallocate": "true"}),
        ({}, Change("min.cleanable.dirty.ratio", SET, "0.1"), {"min.cleanable.dirty.ratio": "0.1"}),
    ],
)
def test_valid_change_is_applied(before, change, after):
    assert apply(before, [change], KAFKA_4_2) == after


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([Change("no.such.config", SET, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, "x")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, str(2**63))], E.INVALID_CONFIG),
        ([Change("max.message.bytes", SET, str(2**31))], E.INVALID_CONFIG),
        ([Change("preallocate", SET, "yes")], E.INVALID_CONFIG),
        ([Change("min.cleanable.dirty.ratio", SET, "half")], E.INVALID_CONFIG),
        ([Change(RETENTION, APPEND, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SUBTRACT, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, None)], E.INVALID_REQUEST),
        ([Change(RETENTION, SET, "1"), Change(RETENTION, DELETE, None)], E.INVALID_REQUEST),
        ([Change(RETENTION, 9, "1")], E.UNKNOWN_SERVER_ERROR),
        ([Change(POLICY, SET, "compact"), Change(RETENTION, SET, "x")], E.INVALID_CONFIG),
        ([Change(POLICY, SET, "nonsense")], E.INVALID_CONFIG),
        ([Change(POLICY, APPEND, "nonsense")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, "-5")], E.INVALID_CONFIG),
    ],
)
def test_invalid_change_is_refused(changes, error):
    harness = BrokerHarness()
    refusal = alter(harness.broker.cluster, KAFKA_4_2, 2, "t", changes)
    assert (refusal.error, harness.broker.cluster.topics["t"].configs) == (error, {})


@pytest.mark.parametrize(("kind", "what"), [(4, "brokers"), (8, "broker loggers"), (32, "groups"), (99, "type 99")])
def test_error_names_the_resource_type_that_cannot_be_altered(kind, what):
    refusal = alter(BrokerHarness().broker.cluster, KAFKA_4_2, kind, "1", [Change(RETENTION, SET, "1")])
    assert refusal.error == E.INVALID_REQUEST
    assert what in (refusal.text or "")

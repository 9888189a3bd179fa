"""The actions that rules for an API can have."""

from __future__ import annotations

import pytest

from kwire.body_fields import fields_of
from kwire.messages import APIS, api_named
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.applicability import applies_to, fitting_fields, has_throttle_time, obstacle
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.rule import Action, Evict, Malform, Match, Throttle

WITH_MEMBER = {
    "ConsumerGroupHeartbeat",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "Heartbeat",
    "JoinGroup",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "SyncGroup",
    "TxnOffsetCommit",
}
WITHOUT_ARRAY = {
    "AddOffsetsToTxn",
    "AddRaftVoter",
    "CreateDelegationToken",
    "EndTxn",
    "ExpireDelegationToken",
    "Heartbeat",
    "InitProducerId",
    "PushTelemetry",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SyncGroup",
    "UnregisterBroker",
}
WITHOUT_LENGTH = {
    "AddOffsetsToTxn",
    "EndTxn",
    "ExpireDelegationToken",
    "Heartbeat",
    "InitProducerId",
    "PushTelemetry",
    "RenewDelegationToken",
}


def served(effect: object) -> set[str]:
    """Return the served APIs that can have an effect."""
    return {APIS[key].name for key in HANDLERS if obstacle(key, Action(effect=effect)) is None}


EVERY = {APIS[key].name for key in HANDLERS}


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: APIS[key].name)
def test_every_served_api_has_an_error_field(key):
    """Therefore an error rule is allowed for every API."""
    names = {path.rpartition(".")[2] for path, _ in fields_of(APIS[key].response)}
    assert names & {"error_code", "partition_error_code"}


def test_apis_with_a_throttle_time():
    without = {"DescribeQuorum", "SaslAuthenticate", "SaslHandshake", "WriteTxnMarkers"}
    without |= {f"{verb}ShareGroupState" for verb in ("Initialize", "Read", "Write", "Delete")}
    without |= {"ReadShareGroupStateSummary"}
    assert served(Throttle(throttle_ms=1)) == EVERY - without
    assert {APIS[key].name for key in HANDLERS if not has_throttle_time(key)} == without


def test_members_are_evicted_by_apis_that_name_one():
    assert served(Evict()) == WITH_MEMBER


FORMS_OF = [  # form, APIs
    ("length", EVERY),
    ("correlation_id", EVERY),
    ("truncate", EVERY),
    ("garbage", EVERY),
    ("null_array", EVERY - WITHOUT_ARRAY),
    ("huge_array", EVERY - WITHOUT_ARRAY),
    ("negative_length", EVERY - WITHOUT_LENGTH),
    ("unknown_version", {"ApiVersions"}),
    *((form, {"Fetch", "ShareFetch"}) for form, details in FORMS.items() if details.part == "records"),
]


@pytest.mark.parametrize(("form", "expected"), FORMS_OF, ids=[form for form, _ in FORMS_OF])
def test_apis_of_a_malformed_response(form, expected):
    assert served(Malform(malform=form)) == expected


def test_every_form_has_a_row():
    assert {form for form, _ in FORMS_OF} == FORMS.keys()


def test_fields_that_a_form_can_change():
    key = api_named("DescribeGroups").key
    assert fitting_fields(key, "null_array") == ("groups", "groups.members")
    assert "groups.members.member_id" in fitting_fields(key, "negative_length")
    assert fitting_fields(key, "crc") == ()


def test_a_rule_without_apis_needs_the_conditions_and_the_action():
    heartbeat, metadata = api_named("Heartbeat").key, api_named("Metadata").key
    assert applies_to(heartbeat, Match(group="g"), Action(effect=Evict()))
    assert not applies_to(heartbeat, Match(topic="t"), Action(effect=Evict()))
    assert applies_to(metadata, Match(topic="t"), Action())
    assert not applies_to(metadata, Match(topic="t"), Action(effect=Evict()))

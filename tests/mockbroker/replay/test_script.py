from __future__ import annotations

from golden import ROOT

from kwire.apikeys import ApiKey
from kwire.capture import Call, read
from kwire.messages.produce import ProduceResponse
from mockbroker.replay.script import Script

RECORDING = ROOT / "fixtures" / "recordings" / "kafka-python__mockbroker.jsonl"

FRANZ_GO = ROOT / "fixtures" / "recordings" / "franz-go__kafka-4.2.0.jsonl"


def test_a_script_has_the_brokers_topics_and_calls() -> None:
    calls = [item for item in read(RECORDING) if isinstance(item, Call)]
    script = Script.of(calls)
    assert (script.nodes, script.topics) == ([0, 1], {"orders": 2})
    assert len(script.calls) == len(calls) - script.left_out
    joins = [call for call in script.calls if call.api_key == ApiKey.JOIN_GROUP]
    assert [bool(call.request.member_id) for call in joins] == [False, True]
    assert all(0 <= call.latency < 30 for call in script.calls)


def test_requests_without_a_response_are_left_out() -> None:
    calls = [item for item in read(RECORDING) if isinstance(item, Call)]
    calls[3].response = None
    assert (
        Script.of(calls).left_out == Script.of(item for item in read(RECORDING) if isinstance(item, Call)).left_out + 1
    )


def test_unknown_versions_of_api_versions_are_not_left_out() -> None:
    """franz-go begins with a version that no broker supports, and the response to that version is always the same."""
    calls = [item for item in read(FRANZ_GO) if isinstance(item, Call)]
    assert sum(call.api_key == ApiKey.API_VERSIONS and call.request is None for call in calls) == 4
    script = Script.of(calls)
    assert script.left_out == 1
    assert [(each.api_key, each.min_version, each.max_version) for each in script.api_versions()] == [(18, 0, 4)]


def test_a_produce_without_acks_is_a_call_without_response() -> None:
    calls = [item for item in read(RECORDING) if isinstance(item, Call)]
    sent = next(call for call in calls if call.api_key == ApiKey.PRODUCE)
    sent.request.acks, sent.response = 0, None
    script = Script.of(calls)
    assert script.left_out == 1  # this is another call, which the recording has too
    (found,) = (call for call in script.calls if call.request is sent.request)
    assert (found.response, found.latency) == (ProduceResponse(), 0.0)

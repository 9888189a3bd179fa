"""The choice of responses, with the recordings of fixtures/recordings and the captures of fixtures/captures."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from golden import ROOT
from tools.captures import CAPTURES

from kwire.apikeys import ApiKey
from kwire.capture import Call, read
from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.redact import REDACTED
from mockbroker.replay.player import Answer, Departure, Player
from mockbroker.replay.script import Answered, Script
from mockbroker.replay.variables import rewrite

RECORDINGS = sorted((ROOT / "fixtures" / "recordings").glob("*.jsonl"))
KIP848 = CAPTURES / "confluent-kafka-2.16.1__kafka-4.2.0__kip848.pcap"


def script_of(path: Path) -> Script:
    return Script.of(item for item in read(path) if isinstance(item, Call))


def beat(number: int, error: int = 0, member: str = "m") -> Answered:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    return Answered(12, 4, "app", request, HeartbeatResponse(error_code=error, throttle_time_ms=number), 4, 0.5)


def asked(player: Player, request: Any, client_id: str = "app") -> int:
    """Return the number of the recorded heartbeat whose response the request gets."""
    found = player.answer(4, client_id, request)
    assert isinstance(found, Answer), found
    return int(found.response.throttle_time_ms)


@pytest.mark.parametrize("path", [*RECORDINGS, KIP848], ids=lambda path: path.name)
@pytest.mark.parametrize("change", [None, "settings of the client"])
def test_recorded_requests_get_their_responses(path: Path, change: str | None) -> None:
    script = script_of(path)
    calls, player = deepcopy(script.calls), Player(script)
    assert len(calls) > 20
    for call in calls:
        if change and call.api_key == ApiKey.JOIN_GROUP:
            call.request.session_timeout_ms, call.request.rebalance_timeout_ms = 7_777, 8_888
        found = player.answer(call.version, f"{call.client_id}{change or ''}", call.request)
        assert isinstance(found, Answer), found
        if call.api_key == ApiKey.FETCH:
            found.response.session_id = call.response.session_id
            asked_for = {part.partition for topic in call.request.topics for part in topic.partitions}
            if any(part.records for topic in call.response.responses for part in topic.partitions):
                assert {
                    part.partition_index for topic in found.response.responses for part in topic.partitions
                } == asked_for
        else:
            assert (found.response, found.latency) == (call.response, call.latency)


def test_ids_of_clients_are_translated_in_both_directions() -> None:
    script = script_of(KIP848)
    calls, player = deepcopy(script.calls), Player(script)
    made = {call.request.member_id for call in calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT}
    live = {member: f"live {number}" for number, member in enumerate(sorted(made))}
    assert len(made) > 1
    for call in calls:
        for message, version in ((call.request, call.version), (call.response, call.response_version)):
            rewrite(message, version, lambda _, text: live.get(text, text))
        found = player.answer(call.version, call.client_id, call.request)
        assert isinstance(found, Answer), found
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            assert found.response == call.response


def test_responses_come_in_order_and_the_last_is_repeated() -> None:
    player = Player(Script([beat(1), beat(2), beat(3, error=25)]))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert [asked(player, deepcopy(request)) for _ in range(5)] == [1, 2, 3, 3, 3]


def test_rebalances_are_not_repeated() -> None:
    player = Player(Script([beat(1), beat(2), beat(3, error=27)]))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert [asked(player, deepcopy(request)) for _ in range(5)] == [1, 2, 3, 2, 2]


def test_first_heartbeat_that_began_a_rebalance_is_not_repeated() -> None:
    joined = Answered(
        11, 4, "app", JoinGroupRequest(group_id="g"), JoinGroupResponse(generation_id=1, member_id="m"), 4, 0.5
    )
    player = Player(Script([joined, beat(1, error=27)]))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    errors = []
    for _ in range(3):
        found = player.answer(4, "app", deepcopy(request))
        assert isinstance(found, Answer)
        errors.append(found.response.error_code)
    assert errors == [27, 0, 0]


def test_heartbeats_of_a_recorded_member_need_no_recording() -> None:
    joined = JoinGroupResponse(generation_id=3, member_id="m")
    player = Player(Script([Answered(11, 4, "app", JoinGroupRequest(group_id="g"), joined, 4, 0.5)]))
    for group, generation, member, succeeds in (("g", 3, "m", True), ("g", 4, "m", False), ("h", 3, "m", False)):
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        assert isinstance(player.answer(4, "app", request), Answer) == succeeds


def test_the_same_client_id_is_preferred() -> None:
    first, second = beat(1), beat(2)
    second.client_id = "other"
    player = Player(Script([first, second]))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert asked(player, request, "other") == 2


def test_a_new_member_never_gets_the_id_of_another() -> None:
    script = script_of(RECORDINGS[0])
    joins = [call for call in script.calls if call.api_key == ApiKey.JOIN_GROUP and not call.request.member_id]
    player = Player(script)
    version, request = joins[0].version, deepcopy(joins[0].request)
    assert isinstance(player.answer(version, "reader", deepcopy(request)), Answer)
    found = player.answer(version, "reader", request)
    assert found == Departure(f"JoinGroup v{version} was sent more often than in the recording (1 times)")


@pytest.mark.parametrize(
    ("request_", "version", "reason"),
    [
        (HeartbeatRequest(group_id="h", generation_id=1, member_id="m"), 4, "Heartbeat v4 is not in the recording: group_id is 'h', recorded 'g'"),
        (HeartbeatRequest(group_id="g", generation_id=1), 3, "Heartbeat v3 is not in the recording, which has v4"),
        (JoinGroupRequest(), 9, "JoinGroup v9 is not in the recording"),
    ],
    ids=["another group", "another version", "another API"],
)  # fmt: skip
def test_the_reason_of_a_departure_is_the_difference(request_: Any, version: int, reason: str) -> None:
    assert Player(Script([beat(1)])).answer(version, "app", request_) == Departure(reason)


def alter(name: str, value: str) -> Any:
    config = AlterConfigsRequest.Resource.Config(name=name, value=value)
    return AlterConfigsRequest(resources=[AlterConfigsRequest.Resource(configs=[config])])


def test_passwords_are_compared_as_redacted_and_not_shown() -> None:
    kept = alter("ssl.key.password", REDACTED.decode())
    player = Player(Script([Answered(33, 2, "app", kept, AlterConfigsResponse(), 2, 0.5)]))
    found = player.answer(2, "app", alter("ssl.keystore.password", "a secret"))
    assert found == Departure(
        "AlterConfigs v2 is not in the recording: resources[0].configs[0].name is 'ssl.keystore.password', "
        "recorded 'ssl.key.password'"
    )
    assert isinstance(player.answer(2, "app", alter("ssl.key.password", "a secret")), Answer)


def fetch(version: int, *topics: tuple[str, int]) -> tuple[Any, Any]:
    """Return a Fetch of these partitions, and a response to it."""
    requests, responses = [], []
    for name, partition in topics:
        ids: Any = {"topic_id": UUID(int=ord(name))} if version >= 13 else {"topic": name}
        requests.append(FetchRequest.Topic(**ids, partitions=[FetchRequest.Topic.Partition(partition=partition)]))
        answered = FetchResponse.Topic.Partition(partition_index=partition)
        responses.append(FetchResponse.Topic(**ids, partitions=[answered]))
    return FetchRequest(topics=requests), FetchResponse(responses=responses)


@pytest.mark.parametrize(
    ("version", "asked_for", "reason"),
    [
        (12, ("a", 9), "Fetch v12 is not in the recording: topics[0].partitions[0].partition is 9, recorded 0, 1, 2, 3, 4, 1 more"),
        (12, ("b", 0), "Fetch v12 is not in the recording: topics[0].topic is 'b', recorded 'a'"),
        (13, ("a", 0), "Fetch v13 is not in the recording, which has v12"),
    ],
)  # fmt: skip
def test_the_partition_that_is_not_recorded_is_named(version: int, asked_for: tuple[str, int], reason: str) -> None:
    calls = [Answered(1, 12, "app", *fetch(12, ("a", number)), 12, 0.5) for number in range(6)]
    request, _ = fetch(version, asked_for)
    assert Player(Script(calls)).answer(version, "app", request) == Departure(reason)


def test_topic_ids_are_shown_in_the_form_of_kafka() -> None:
    calls = [Answered(1, 13, "app", *fetch(13, ("a", 0)), 13, 0.5)]
    request, _ = fetch(13, ("b", 0))
    assert Player(Script(calls)).answer(13, "app", request) == Departure(
        "Fetch v13 is not in the recording: topics[0].topic_id is AAAAAAAAAAAAAAAAAAAAYg, recorded "
        "AAAAAAAAAAAAAAAAAAAAYQ"
    )


@pytest.mark.parametrize(
    ("speed", "waits", "delay"), [(1.0, False, 2.0), (4.0, False, 0.5), (math.inf, False, 0.0), (math.inf, True, 2.0)]
)
def test_latencies_are_divided_by_the_speed(speed: float, waits: bool, delay: float) -> None:
    assert Answer(None, 0, 2.0, waits).delay(speed) == delay

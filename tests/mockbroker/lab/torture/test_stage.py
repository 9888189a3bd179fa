"""The stage that changes responses, with every change of the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire import APIS
from kwire.apikeys import ApiKey
from kwire.envelope import decode_response, encode_response
from kwire.frames import pack
from kwire.fuzz.values import full
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import Record, build_batch
from mockbroker.base.effects import Call, Client, Reply, Ticket
from mockbroker.broker.request_log import api_key
from mockbroker.lab.torture.case import EVERY, Case
from mockbroker.lab.torture.cases import cluster, data, groups
from mockbroker.lab.torture.catalogue import CASES
from mockbroker.lab.torture.stage import HostileStage

CHANGED = [case for case in CASES.values() if case.change is not None]
FRAMES = [case for case in CASES.values() if case.frames is not None]
ID = 77
BROKERS = [(1, "127.0.0.1", 9092), (2, "127.0.0.1", 9093)]


OAUTH = b"n,,\1auth=Bearer abc\1\1"  # SASL/OAUTHBEARER token of the client
SCRAM = b"r=abcdef,s=QSXCR+Q6sek8bf92,i=4096", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def response(step: str, version: int, number: int = 0) -> Any:
    """Return a response with a value in each field. ``number``: number of earlier responses."""
    message: Any = full(APIS[api_key(step)].response, version)
    match step:
        case "Fetch":
            for part in (part for topic in message.responses for part in topic.partitions):
                part.records = build_batch([Record(value=b"tea")], base_offset=9)
        case "SaslAuthenticate":
            message.auth_bytes = SCRAM[number % 2]
        case "ApiVersions":
            (fetch,) = message.api_keys
            message.api_keys = [replace(fetch, api_key=key) for key in (ApiKey.FETCH, ApiKey.OFFSET_FETCH)]
        case "Metadata":
            message.brokers = [replace(message.brokers[0], node_id=node) for node in (1, 2)]
            for topic in message.topics:
                parts = range(2)
                topic.partitions = [replace(topic.partitions[0], partition_index=n, leader_id=1) for n in parts]
    return message


def altered(
    stage: HostileStage, step: str, version: int, number: int = 0, *, connection: int = 1
) -> tuple[bytes, bytes]:
    """Return the frame of a response, and the bytes that are sent instead. ``number``: number of earlier responses."""
    ticket = Ticket(connection, ID, api_key(step), version)
    message = response(step, version, number)
    call = Call(ticket, Client(0, "client", "127.0.0.1"), SaslAuthenticateRequest(auth_bytes=OAUTH), b"")
    assert stage.before(call, 0.0) is call
    (reply,) = stage.after(call, [Reply(ticket, message)], 0.0)
    assert isinstance(reply, Reply)
    frame = pack(encode_response(message, version, correlation_id=ID))
    assert reply.delivery is not None
    assert reply.delivery.alter is not None
    altering = reply.delivery.alter(frame)
    with pytest.raises(StopIteration) as end:
        next(altering)
    return frame, end.value.value


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few elements, because their number makes no difference here."""
    for module, names in (
        (cluster, ("MANY_PARTITIONS", "MANY_BROKERS")),
        (groups, ("MANY_MEMBERS", "MANY_PARTITIONS")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 20)
    monkeypatch.setattr(data, "BOMB", 1_000)


def versions(case: Case) -> list[int]:
    """Return the latest and the oldest version."""
    step = "Metadata" if case.step == EVERY else case.step
    declared = APIS[api_key(step)].versions
    assert declared.last is not None
    return [declared.last, declared.first]


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: case.name)
def test_a_change_leaves_a_response_that_can_be_decoded(case: Case) -> None:
    """The response can be decoded in at least one version; not every version has the field."""
    changed = 0
    for version in versions(case):
        stage = HostileStage(case, seed=3, brokers=BROKERS)
        for number in range(2):  # some cases change every second response
            frame, sent = altered(stage, case.step, version, number)
            decoded = decode_response(sent[4:], api_key(case.step), version)
            assert decoded.header.correlation_id == ID
            changed += frame != sent
    assert changed


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case.name)
def test_a_change_of_bytes_depends_on_the_seed_only(case: Case) -> None:
    step = "Metadata" if case.step == EVERY else case.step
    version = versions(case)[0]
    first, second = HostileStage(case, seed=3), HostileStage(case, seed=3)
    rounds = [(altered(first, step, version), altered(second, step, version)) for _ in range(6)]
    assert all(one == two for one, two in rounds)
    assert any(frame != sent for (frame, sent), _ in rounds)
    assert first.changed == sum(frame != sent for (frame, sent), _ in rounds)
    assert first.last is not None


@pytest.mark.parametrize("step", ["Fetch", "Metadata"])
def test_held_response_follows_the_next_of_its_connection(step: str) -> None:
    stage = HostileStage(CASES["out-of-order" if step == "Fetch" else f"{step}-out-of-order"], seed=0)
    held, nothing = altered(stage, step, 12, connection=1)
    other, nothing_either = altered(stage, step, 11, connection=2)
    assert nothing == nothing_either == b""
    heartbeat, sent = altered(stage, "Heartbeat", 4, connection=2)
    assert sent == heartbeat + other
    commit, sent = altered(stage, "OffsetCommit", 8, connection=1)
    assert sent == commit + held
    assert altered(stage, "Heartbeat", 4, connection=1) == (heartbeat, heartbeat)
    assert stage.changed == 4


def test_held_response_is_dropped_with_its_connection() -> None:
    stage = HostileStage(CASES["out-of-order"], seed=0)
    altered(stage, "Fetch", 12)
    stage.forget_connection(1)
    frame, sent = altered(stage, "Heartbeat", 4)
    assert frame == sent


def test_repeated_challenge_is_of_the_same_connection() -> None:
    stage = HostileStage(CASES["scram-challenge-again"], seed=0)
    challenge, _ = altered(stage, "SaslAuthenticate", 2, number=0, connection=1)
    final, sent = altered(stage, "SaslAuthenticate", 2, number=1, connection=2)
    assert sent != final
    assert decode_response(sent[4:], ApiKey.SASL_AUTHENTICATE, 2).body.auth_bytes == b""
    assert altered(stage, "SaslAuthenticate", 2, number=1, connection=1)[1] == challenge


def test_responses_are_unchanged_when_the_stage_is_off() -> None:
    stage = HostileStage(CASES["twice"], seed=0)
    frame, sent = altered(stage, "Metadata", 9)
    assert sent == frame * 2
    stage.on = False
    call = Call(Ticket(1, ID, api_key("Metadata"), 9), Client(0, "client", "127.0.0.1"), object(), b"")
    assert stage.before(call, 0.0) is None


def test_other_steps_are_passed_on() -> None:
    stage = HostileStage(CASES["twice"], seed=0)
    call = Call(Ticket(1, ID, api_key("Fetch"), 9), Client(0, "client", "127.0.0.1"), object(), b"")
    assert stage.before(call, 0.0) is None


def test_a_field_that_a_version_does_not_have_changes_nothing() -> None:
    frame, sent = altered(HostileStage(CASES["falling-epochs"], seed=0), "Metadata", 1)
    assert frame == sent

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kwire import decode_request, encode_request
from kwire.envelope import Response
from kwire.frames import pack
from kwire.fuzz.session import EXCLUDED, RESPONSE_TIME, STORY, Names, Session, Step, due, shared
from kwire.headers import ResponseHeader
from kwire.layout import versions_of
from kwire.messages import APIS
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest

OFFERED = {key: versions_of(APIS[key].versions) for key in APIS}
NAMES = Names("0badcafe", UUID(int=5))


def session(seed: object, **options: Any) -> Session:
    return Session(Random(f"{seed}"), NAMES, 3, OFFERED, **options)


def steps(given: Session) -> list[Step]:
    return list(iter(given.next, None))


def keys(given: Session) -> list[int]:
    return [struct.unpack_from(">h", step.data, 4)[0] for step in steps(given)]


def test_one_step_is_broken_and_few_follow() -> None:
    for seed in range(100):
        result = steps(session(seed))
        (at,) = (at for at, step in enumerate(result) if step.broken)
        assert len(result) <= at + 4


def test_same_seed_gives_the_same_session() -> None:
    assert [steps(session(seed)) for seed in range(20)] == [steps(session(seed)) for seed in range(20)]


def test_unmutated_frames_decode() -> None:
    for seed in range(200):
        for step in steps(session(seed)):
            if not step.broken:
                assert decode_request(step.data[4:], strict=True).header.client_id == "kwfuzz"
                assert len(step.data) == 4 + int.from_bytes(step.data[:4], "big")


def test_dangerous_apis_are_excluded() -> None:
    reported: set[int] = set()
    for seed in range(300):
        given = session(seed)
        reported |= {int.from_bytes(step.data[4:6], "big") for step in steps(given) if not step.broken}
    assert not reported & set(EXCLUDED)
    assert reported >= set(STORY) | {0, 1, 2}


def test_unless_it_is_asked_for() -> None:
    for seed in range(20):
        result = steps(session(seed, api=19))
        assert [step.what.partition(" ")[0] for step in result if step.broken] == ["CreateTopics"]


def test_names_of_the_run_are_in_its_requests() -> None:
    results = [step for seed in range(50) for step in steps(session(seed)) if not step.broken]
    joins = [decode_request(step.data[4:]).body for step in results if step.what.startswith("JoinGroup")]
    assert joins
    assert {join.group_id for join in joins if isinstance(join, JoinGroupRequest)} == {"kwfuzz-0badcafe-000003"}


def test_learned_ids_are_used_in_requests() -> None:
    for seed in range(60):
        given = session(seed)
        while step := given.next():
            if step.what.startswith("JoinGroup"):
                answer = JoinGroupResponse(member_id="me", generation_id=4)
                header = ResponseHeader(correlation_id=1)
                given.answered(Response(api=APIS[11], version=2, header=header, body=answer))
                assert given.steps[-1].learned == "me"
            if step.what.startswith("Heartbeat") and not step.broken:
                body = decode_request(step.data[4:]).body
                assert isinstance(body, HeartbeatRequest)
                assert (body.member_id, body.generation_id) == ("me", 4)
                return
    raise AssertionError("no Heartbeat in any of them")


def test_only_versions_that_both_sides_have() -> None:
    assert shared({12: range(3, 99), 999: range(1), 0: range(0)}) == {12: [3, 4]}


def test_the_excluded_have_reasons() -> None:
    assert all(len(reason) > 20 for reason in EXCLUDED.values())
    assert not set(EXCLUDED) & set(STORY)


def sent(body: object, version: int) -> bytes:
    return pack(encode_request(body, version, correlation_id=1))


DUE: list[tuple[str, bytes, float]] = [
    ("a request", sent(MetadataRequest(), 9), RESPONSE_TIME),
    ("not to be read", pack(b"\0\3\0\1garbage"), RESPONSE_TIME),
    ("empty", pack(b""), RESPONSE_TIME),
    ("half a prefix", b"\0\0", math.inf),
    ("more is announced", b"\0\0\0\xff" + b"\0\3\0\1", math.inf),
    ("an API that only the broker knows", pack(struct.pack(">hhi", 999, 0, 1)), math.inf),
    ("an unknown API", pack(struct.pack(">hhi", 998, 0, 1)), RESPONSE_TIME),
    ("no wait for acks", sent(ProduceRequest(acks=0), 9), math.inf),
    ("acks", sent(ProduceRequest(acks=1, timeout_ms=1_000), 9), 1 + RESPONSE_TIME),
    ("a long wait", sent(FetchRequest(max_wait_ms=2**31 - 1), 4), math.inf),
    ("a wait below zero", sent(FetchRequest(max_wait_ms=-5), 4), RESPONSE_TIME),
    ("a join", sent(JoinGroupRequest(session_timeout_ms=6_000, rebalance_timeout_ms=3_000), 5), 6 + RESPONSE_TIME),
    ("a join for long", sent(JoinGroupRequest(session_timeout_ms=6_000, rebalance_timeout_ms=30_000), 5), math.inf),
    ("a sync", sent(SyncGroupRequest(), 3), 6 + RESPONSE_TIME),
]


@pytest.mark.parametrize(("data", "seconds"), [row[1:] for row in DUE], ids=[row[0] for row in DUE])
def test_due(data: bytes, seconds: float) -> None:
    assert due(data, {999: range(1)}) == seconds

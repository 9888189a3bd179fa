from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

import pytest

from kwire import encode_request
from kwire.envelope import Response
from kwire.frames import pack
from kwire.fuzz.findings import HANG, Finding, FindingError, Recorded, shrink
from kwire.fuzz.session import Names, Step
from kwire.headers import ResponseHeader
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupResponse

THEN, NOW = Names("aaaaaaaa", UUID(int=2**100)), Names("bbbbbbbb", UUID(int=7))
JOIN = Step(pack(b"\0\x0bkwfuzz-aaaaaaaa-000001" + THEN.topic_id.bytes), "JoinGroup v2", learned="member-1")
BEAT = Step(
    pack(encode_request(HeartbeatRequest(group_id=THEN.group(1), member_id="member-1"), 3, correlation_id=2)),
    "Heartbeat v3: count 1 says 2",
    broken=True,
)
FINDING = Finding(HANG, "no answer", 5, 1, THEN, (JOIN, BEAT))


def test_as_a_file() -> None:
    text = json.dumps(FINDING.to_json())
    assert Finding.from_json(text) == FINDING
    assert Finding.from_json(text.encode()) == FINDING
    assert FINDING.what == BEAT.what


def changed(**values: object) -> str:
    return json.dumps({**FINDING.to_json(), **values})


def step(**values: object) -> list[dict[str, object]]:
    return [{**FINDING.to_json()["steps"][0], **values}]


NOT_FINDINGS = {
    "no text": "",
    "array": "[]",
    "empty object": "{}",
    "null": "null",
    "nested arrays": "[" * 100_000,
    "unknown kind": changed(kind="x"),
    "another format": changed(form=2),
    "hex that is not hex": changed(steps=step(hex="zz")),
    "member id that is not UTF-8": changed(steps=step(learned="\ud800")),
    "topic id that is no uuid": changed(topic_id="x"),
    "infinite seed": changed(seed=float("inf")),
    "empty nonce": changed(nonce=""),
    "nonce of nine characters": changed(nonce="a" * 9),
    "nonce that is not ASCII": changed(nonce="\ud800" * 8),
}


@pytest.mark.parametrize("text", NOT_FINDINGS.values(), ids=NOT_FINDINGS)
def test_not_a_finding(text: str) -> None:
    with pytest.raises(
        FindingError, match=r"^(the file is not a valid finding|format 2 of the finding|unknown kind 'x')"
    ):
        Finding.from_json(text)


def answer(member_id: str) -> Response:
    body = JoinGroupResponse(member_id=member_id)
    return Response(api=APIS[11], version=2, header=ResponseHeader(correlation_id=1), body=body)


def test_replay_uses_the_names_of_its_own_run() -> None:
    script = Recorded(FINDING.steps, THEN, NOW)
    first = script.next()
    assert first is not None
    assert first.data == pack(b"\0\x0bkwfuzz-bbbbbbbb-000001" + NOW.topic_id.bytes)
    script.answered(answer("member-2"))
    second = script.next()
    assert second is not None
    assert b"member-2" in second.data
    assert b"member-1" not in second.data
    assert script.next() is None
    assert [step.learned for step in script.steps] == ["member-2", ""]


def test_another_length_is_left_alone() -> None:
    script = Recorded(FINDING.steps, THEN, NOW)
    script.next()
    script.answered(answer("longer-member-id"))
    second = script.next()
    assert second is not None
    assert b"member-1" in second.data


def test_shrink() -> None:
    """The condition to reproduce: a step ``evil`` after a step ``join``."""
    others = [Step(pack(b"0123456789"), f"other {number}") for number in range(4)]
    evil = Step(pack(b"01234567" + b"x" * 40 + b"evil" + b"y" * 40), "Metadata v1: something", broken=True)
    calls = 0

    def holds(steps: Sequence[Step]) -> bool:
        nonlocal calls
        calls += 1
        reported = [step.data for step in steps]
        return JOIN.data in reported and b"evil" in reported[-1]

    result = shrink([*others[:2], JOIN, *others[2:], evil], holds, 500)
    assert [step.what for step in result] == ["JoinGroup v2", "Metadata v1: something"]
    assert result[-1].data == pack(b"01234567evil")
    assert calls <= 500


def test_shrink_is_bounded() -> None:
    calls = 0

    def holds(steps: Sequence[Step]) -> bool:
        nonlocal calls
        calls += 1
        return False

    assert shrink(FINDING.steps, holds, 3) == FINDING.steps
    assert calls == 3


def test_wrong_length_is_kept_by_shrinking() -> None:
    lies = Step(b"\0\0\0\xff" + bytes(100), "Metadata v1: length 100 becomes 255", broken=True)
    assert shrink([lies], lambda _: True, 100) == (lies,)

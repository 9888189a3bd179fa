from __future__ import annotations

import json
from typing import Any

import golden
import pytest
from commands import kwire, printed

from kwire.blobs import STORED


@pytest.mark.parametrize("key", ["hex_body", "hex_as_stored"])
@pytest.mark.parametrize("name", STORED)
def test_both_ways(name: str, key: str) -> None:
    given = golden.blobs("fixtures", name)
    requested = [{key: line[key]} | ({"version": line["version"]} if key == "hex_body" else {}) for line in given]
    decoded = kwire("blob", name, given="\n".join(map(json.dumps, requested)))
    assert decoded.exit_code == 0
    encoded = kwire("blob", name, given=decoded.stdout)
    assert [(line["hex_body"], line["hex_as_stored"]) for line in printed(encoded)] == [
        (line["hex_body"], line["hex_as_stored"]) for line in given
    ]


def test_form() -> None:
    result = kwire("blob", "ConsumerProtocolAssignment", given='{"hex_as_stored": "000000000000ffffffff"}')
    fields = {"assigned_partitions": [], "user_data": None}
    assert printed(result) == [{"type": "ConsumerProtocolAssignment", "version": 0, "fields": fields}]


def test_newer_version_keeps_unknown_bytes() -> None:
    stored = "0009" + "00000000" + "ffffffff" + "cafe"
    result = kwire("blob", "ConsumerProtocolAssignment", given=json.dumps({"hex_as_stored": stored}))
    (form,) = printed(result)
    assert (form["version"], form["trailing"]) == (9, "cafe")
    assert printed(kwire("blob", "ConsumerProtocolAssignment", given=result.stdout))[0]["hex_as_stored"] == stored


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "the line has no content: expected one of the keys hex_as_stored, hex_body or fields"),
    ({"hex_body": "00"}, "version: missing"),
    ({"hex_body": "zz", "version": 0}, "hex_body: invalid hex digit 'z' at position 0"),
    ({"hex_as_stored": "00"}, "ConsumerProtocolAssignment at byte 0: expected 2 bytes of version, found 1"),
    ({"hex_as_stored": "ffff"}, "ConsumerProtocolAssignment at byte 0: ConsumerProtocolAssignment has no version -1: its versions are 0-3"),
    ({"hex_as_stored": None}, "hex_as_stored: missing"),
    ({"fields": {}}, "version: missing"),
    ({"fields": [], "version": 0}, "fields: expected an object, got an array"),
    ({"fields": {}, "version": 40000}, "version: ConsumerProtocolAssignment has no version 40000: its versions are 0-3"),
    ({"hex_body": "00", "version": -1}, "version: ConsumerProtocolAssignment has no version -1: its versions are 0-3"),
    ({"fields": {"x": 1}, "version": 0}, "ConsumerProtocolAssignment v0, x: unknown field in this version"),
    ({"hex_body": "00000001", "version": 0}, "ConsumerProtocolAssignment v0 at byte 0, assigned_partitions: 1 elements of at least 6 bytes do not fit into the remaining 0 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_refused(line: dict[str, Any], message: str) -> None:
    result = kwire("blob", "ConsumerProtocolAssignment", given=json.dumps(line))
    assert printed(result)[0]["error"]["message"] == message
    assert result.exit_code == 1


def test_user_data_both_ways() -> None:
    given = list(golden.read(golden.ROOT / "fixtures" / "blobs" / "StickyUserData.jsonl.gz"))
    decoded = kwire("blob", "StickyUserData", given="\n".join(map(json.dumps, given)))
    assert decoded.exit_code == 0
    assert [line["fields"]["generation"] for line in printed(decoded)] == [line["generation"] for line in given]
    assert [line["version"] for line in printed(decoded)] == [int(line["assignor"] == "sticky") for line in given]
    encoded = kwire("blob", "StickyUserData", given=decoded.stdout)
    assert [line["user_data_hex"] for line in printed(encoded)] == [line["user_data_hex"] for line in given]


USER_DATA: list[tuple[dict[str, Any], dict[str, Any]]] = [  # line, what is made of it
    ({"user_data_hex": "0000000000000007"}, {"version": 1, "fields": {"previous_assignment": [], "generation": 7}}),
    ({"user_data_hex": "00000000"}, {"version": 0, "fields": {"previous_assignment": []}}),
    ({"user_data_hex": "00000000cafe"}, {"version": 0, "fields": {"previous_assignment": []}, "trailing": "cafe"}),
    ({"fields": {}, "version": 1}, {"version": 1, "user_data_hex": "00000000ffffffff"}),
    ({"fields": {}, "version": 0, "trailing": "cafe"}, {"version": 0, "user_data_hex": "00000000cafe"}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "made"), USER_DATA)
def test_user_data(line: dict[str, Any], made: dict[str, Any]) -> None:
    result = kwire("blob", "StickyUserData", given=json.dumps(line))
    assert printed(result) == [{"type": "StickyUserData", "assignor": "sticky"} | made]


def test_four_bytes_that_are_no_array() -> None:
    result = kwire("blob", "StickyUserData", given='{"user_data_hex": "000002d4"}')
    form = {"type": "StickyUserData", "assignor": "cooperative-sticky", "version": 0, "fields": {"generation": 724}}
    assert printed(result) == [form]
    assert kwire("blob", "StickyUserData", given='{"user_data_hex": "000002d4", "assignor": "sticky"}').exit_code == 1


NO_USER_DATA: list[tuple[dict[str, Any], str]] = [
    ({}, "the line has no content: expected one of the keys user_data_hex or fields"),
    ({"user_data_hex": None}, "user_data_hex: missing"),
    ({"user_data_hex": ""}, "StickyUserData v0 at byte 0, previous_assignment: expected 4 bytes, found 0"),
    ({"user_data_hex": "00", "assignor": "range"}, "assignor: unknown assignor 'range': expected one of sticky, cooperative-sticky"),
    ({"user_data_hex": "00", "assignor": ["sticky"]}, "assignor: unknown assignor ['sticky']: expected one of sticky, cooperative-sticky"),
    ({"user_data_hex": "00", "assignor": "cooperative-sticky"}, "CooperativeStickyUserData v0 at byte 0, generation: expected 4 bytes, found 1"),
    ({"fields": {}}, "version: missing"),
    ({"fields": {}, "version": 2}, "StickyUserData has no version 2: its versions are 0-1"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), NO_USER_DATA)
def test_refused_user_data(line: dict[str, Any], message: str) -> None:
    result = kwire("blob", "StickyUserData", given=json.dumps(line))
    assert printed(result)[0]["error"]["message"] == message
    assert result.exit_code == 1


def test_unknown_type_is_wrong_usage() -> None:
    result = kwire("blob", "StickyUsreData")
    assert result.exit_code == 2
    assert "ConsumerProtocolAssignment" in result.stderr

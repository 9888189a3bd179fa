from __future__ import annotations

import json
from typing import Any

import golden
import pytest
from commands import kwire, printed

from kwire.blobs import BLOBS


@pytest.mark.parametrize("key", ["hex_body", "hex_as_stored"])
@pytest.mark.parametrize("name", BLOBS)
def test_both_ways(name: str, key: str) -> None:
    given = list(golden.read(golden.ROOT / "fixtures" / "blobs" / f"{name}.jsonl.gz"))
    asked = [{key: line[key]} | ({"version": line["version"]} if key == "hex_body" else {}) for line in given]
    decoded = kwire("blob", name, given="\n".join(map(json.dumps, asked)))
    assert decoded.exit_code == 0
    encoded = kwire("blob", name, given=decoded.stdout)
    assert [(line["hex_body"], line["hex_as_stored"]) for line in printed(encoded)] == [
        (line["hex_body"], line["hex_as_stored"]) for line in given
    ]


def test_form() -> None:
    result = kwire("blob", "ConsumerProtocolAssignment", given='{"hex_as_stored": "000000000000ffffffff"}')
    fields = {"assigned_partitions": [], "user_data": None}
    assert printed(result) == [{"type": "ConsumerProtocolAssignment", "version": 0, "fields": fields}]


def test_newer_version_keeps_what_it_cannot_read() -> None:
    stored = "0009" + "00000000" + "ffffffff" + "cafe"
    result = kwire("blob", "ConsumerProtocolAssignment", given=json.dumps({"hex_as_stored": stored}))
    (form,) = printed(result)
    assert (form["version"], form["trailing"]) == (9, "cafe")
    assert printed(kwire("blob", "ConsumerProtocolAssignment", given=result.stdout))[0]["hex_as_stored"] == stored


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "expected one of hex_as_stored, hex_body, fields"),
    ({"hex_body": "00"}, "version: missing"),
    ({"hex_body": "zz", "version": 0}, "hex_body: not hex: non-hexadecimal number found in fromhex() arg at position 0"),
    ({"hex_as_stored": "00"}, "ConsumerProtocolAssignment at byte 0: expected 2 bytes of version, found 1"),
    ({"hex_as_stored": "ffff"}, "ConsumerProtocolAssignment at byte 0: ConsumerProtocolAssignment has versions 0-3, not -1"),
    ({"hex_as_stored": None}, "hex_as_stored: missing"),
    ({"fields": {}}, "version: missing"),
    ({"fields": [], "version": 0}, "fields: expected an object, got an array"),
    ({"fields": {}, "version": 40000}, "ConsumerProtocolAssignment at byte 0: ConsumerProtocolAssignment has versions 0-3, not 40000"),
    ({"fields": {"x": 1}, "version": 0}, "ConsumerProtocolAssignment v0, x: this version has no such field"),
    ({"hex_body": "00000001", "version": 0}, "ConsumerProtocolAssignment v0 at byte 0, assigned_partitions: 1 elements of at least 6 bytes, 0 bytes left"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_refused(line: dict[str, Any], message: str) -> None:
    result = kwire("blob", "ConsumerProtocolAssignment", given=json.dumps(line))
    assert printed(result)[0]["error"]["message"] == message
    assert result.exit_code == 1


def test_unknown_type_is_wrong_usage() -> None:
    result = kwire("blob", "StickyUserData")
    assert result.exit_code == 2
    assert "ConsumerProtocolAssignment" in result.stderr

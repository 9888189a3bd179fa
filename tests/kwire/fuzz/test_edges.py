from __future__ import annotations

import pytest

from kwire.codec import decode, encode
from kwire.errors import DecodeError
from kwire.fuzz import edges
from kwire.fuzz.values import full
from kwire.layout import WIDTHS
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest


def test_every_form_of_integer_has_its_bits() -> None:
    assert {wire: bits // 8 for wire, (bits, _) in edges.BITS.items()} == {
        wire: width for wire, width in WIDTHS.items() if "int" in wire
    }


@pytest.mark.parametrize("wire", edges.BITS)
def test_integers_reach_both_ends(wire: str) -> None:
    result = edges.integers(wire)
    assert (result[0], result[-1]) == edges.limits(wire)
    assert {0, 1} < set(result)
    assert list(result) == sorted(set(result))


@pytest.mark.parametrize("text", edges.TEXTS)
def test_texts_can_be_written(text: str) -> None:
    value = HeartbeatRequest(group_id=text)
    for version in (0, 4):
        assert decode(HeartbeatRequest, encode(value, version), version) == value


@pytest.mark.parametrize("what", edges.VARINTS)
def test_varints_are_refused_or_null(what: str) -> None:
    data = encode(full(MetadataRequest, 9), 9)
    broken = edges.VARINTS[what] + data[1:]
    if what == "an overlong zero":
        assert edges.VARINTS[what] == b"\x80\x80\0"
        assert decode(MetadataRequest, edges.VARINTS[what] + b"\1\0\0\0", 9).topics is None
        return
    with pytest.raises(DecodeError):
        decode(MetadataRequest, broken, 9)

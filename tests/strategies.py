"""From a Layout to values: what a message can hold in one version, as a Hypothesis strategy."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kwire.blobs import BLOBS
from kwire.blobs.sticky import CooperativeStickyUserData
from kwire.headers import RequestHeader, ResponseHeader
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve, versions_of
from kwire.messages import APIS
from kwire.schema import schema_of

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
MESSAGES += [*BLOBS.values(), CooperativeStickyUserData, RequestHeader, ResponseHeader]
MAX_ELEMENTS = 2
FIRST_UNKNOWN_TAG = 20  # above every tag that is in use

TEXTS = st.text(max_size=3) | st.sampled_from(
    ["", "topic", "\u0442\u0435\u043c\u0430", "\udcff not UTF-8", "x" * 127, "x" * 128]
)
BLOBS_OF_BYTES = st.binary(max_size=3) | st.just(bytes(127))

_INTEGERS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True)}
_INTEGERS |= {"uint32": (32, False), "int64": (64, True)}


def cells(message: type) -> list[int]:
    """The versions of a message."""
    versions = schema_of(message).versions
    assert versions is not None
    return list(versions_of(versions))


@cache
def values(message: type, version: int) -> st.SearchStrategy[Any]:
    """Every value that this version of a message can carry."""
    return of(resolve(message, version))


def of(node: Node) -> st.SearchStrategy[Any]:
    match node:
        case Fixed(wire):
            return _fixed(wire)
        case Text(_, null):
            return st.none() | TEXTS if null else TEXTS
        case Blob(_, null):
            return st.none() | BLOBS_OF_BYTES if null else BLOBS_OF_BYTES
        case List(element, _, null):
            elements = st.lists(of(element), max_size=MAX_ELEMENTS)
            return st.none() | elements if null else elements
        case Maybe(record):
            return st.none() | of(record)
        case Record(cls, slots, flexible, tagged):
            fields = {slot.name: of(slot.node) for slot in (*slots, *tagged)}
            if flexible:
                fields["unknown_tags"] = st.none() | _unknown_tags()
            return st.builds(cls, **fields)


def _fixed(wire: str) -> st.SearchStrategy[Any]:
    if wire in _INTEGERS:
        bits, signed = _INTEGERS[wire]
        low = -(2 ** (bits - 1)) if signed else 0
        return st.integers(low, low + 2**bits - 1)
    return {"bool": st.booleans(), "float64": st.floats(allow_nan=False), "uuid": st.uuids()}[wire]


def _unknown_tags() -> st.SearchStrategy[dict[int, bytes]]:
    return st.dictionaries(st.integers(FIRST_UNKNOWN_TAG, 2**31 - 1), st.binary(max_size=3), min_size=1, max_size=2)


def sample(node: Node) -> Any:
    """One value with everything in it: an element in each list, nothing null, an unknown tag in each struct."""
    match node:
        case Fixed(wire):
            return {"bool": True, "float64": 0.5, "uuid": UUID(int=7)}.get(wire, 5)
        case Text():
            return "\u00e9"
        case Blob():
            return b"\x00\xff"
        case List(element):
            return [sample(element)]
        case Maybe(record):
            return sample(record)
        case Record(cls, slots, flexible, tagged):
            fields = {slot.name: sample(slot.node) for slot in (*slots, *tagged)}
            return cls(**fields, unknown_tags={FIRST_UNKNOWN_TAG: b"?"} if flexible else None)

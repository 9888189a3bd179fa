"""Hypothesis strategies for any message, header, blob or frame in one version.

The strategies are derived from the layout. Values are often edge cases: empty, null, lengths at which a varint needs a
second byte, extreme integers, text that is not ASCII or not UTF-8, unknown tagged fields, NaN. This module needs
Hypothesis: the extra ``kwire[fuzz]``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from kwire.envelope import encode_request, encode_response
from kwire.extras import missing
from kwire.fuzz import edges
from kwire.fuzz.values import UNKNOWN_TAG
from kwire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Slot, Text, resolve, versions_of
from kwire.limits import MAX_VARINT
from kwire.messages import APIS
from kwire.schema import Api

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise missing(error, "fuzz") from error

M = TypeVar("M")
Direction = Literal["request", "response"]
DIRECTIONS: tuple[Direction, ...] = ("request", "response")
MAX_ELEMENTS = 2  # maximum elements of an array of structs; arrays of numbers and strings may be longer


_made: dict[tuple[type, int, bool], st.SearchStrategy[Any]] = {}


def messages(message: type[M], version: int, *, nan: bool = True) -> st.SearchStrategy[M]:
    """Return a strategy for all values of one version of a message, header or blob.

    Args:
        message: class of the message.
        version: version whose fields get values.
        nan: False to exclude NaN, which is not equal to itself.

    Raises: SchemaError if the message does not have this version.
    """
    key = message, version, nan
    if key not in _made:
        _made[key] = _Fold(nan).of(resolve(message, version))
    return _made[key]


@st.composite
def frames(draw: st.DrawFn, api: Api, version: int, direction: Direction, *, nan: bool = True) -> bytes:
    """Draw frames of one API, version and direction: header and body, without the length prefix.

    Raises: ValueError for an unknown direction.

    Args:
        draw: function that Hypothesis passes.
        api: API of the frames.
        version: version of the frames.
        direction: "request" or "response".
        nan: False to exclude NaN, which is not equal to itself.
    """
    if direction not in ("request", "response"):
        raise ValueError(f"direction must be 'request' or 'response', got {direction!r}")
    if direction == "request":
        header = draw(messages(RequestHeader, request_header_version(api, version)))
        header.request_api_key, header.request_api_version = api.key, version
        body: object = draw(messages(api.request, version, nan=nan))
        return encode_request(body, version, correlation_id=0, header=header)
    answer_header = draw(messages(ResponseHeader, response_header_version(api, version)))
    answer: object = draw(messages(api.response, version, nan=nan))
    return encode_response(answer, version, correlation_id=0, header=answer_header)


@st.composite
def any_message(draw: st.DrawFn, *, nan: bool = True) -> tuple[Any, int]:
    """Draw a request or response body of any API, and a version for it.

    Args:
        draw: function that Hypothesis passes.
        nan: False to exclude NaN, which is not equal to itself.
    """
    api = APIS[draw(st.sampled_from(sorted(APIS)))]
    message = draw(st.sampled_from([api.request, api.response]))
    version = draw(st.sampled_from(list(versions_of(api.versions))))
    return draw(messages(message, version, nan=nan)), version


class _Fold:
    """A builder that derives the Hypothesis strategy of each field from its layout.

    Args:
        nan: False to exclude NaN, which is not equal to itself.
    """

    def __init__(self, nan: bool) -> None:
        self.nan = nan

    def of(self, node: Node) -> st.SearchStrategy[Any]:
        match node:
            case Fixed(wire):
                return self.fixed(wire)
            case Text(_, null):
                return _maybe_null(TEXTS, null)
            case Blob(_, null):
                return _maybe_null(CONTENTS, null)
            case List(element, _, null):
                return _maybe_null(self.elements(element), null)
            case Maybe(record):
                return st.none() | self.of(record)
            case Record(cls, slots, flexible, tagged):
                fields = {slot.name: self.of(slot.node) for slot in slots}
                fields |= {slot.name: self.tagged(slot) for slot in tagged}
                if flexible:
                    fields["unknown_tags"] = st.none() | _unknown_tags({slot.tag for slot in tagged})
                return st.builds(cls, **fields)

    def elements(self, element: Node) -> st.SearchStrategy[list[Any]]:
        few = st.lists(self.of(element), max_size=MAX_ELEMENTS)
        if not isinstance(element, (Fixed, Text)):
            return few
        return few | st.builds(lambda one, size: [one] * size, self.of(element), st.sampled_from(edges.SIZES))

    def tagged(self, slot: Slot) -> st.SearchStrategy[Any]:
        return st.builds(slot.field.initial) | self.of(slot.node)  # a field at its default is not encoded

    def fixed(self, wire: str) -> st.SearchStrategy[Any]:
        match wire:
            case "bool":
                return st.booleans()
            case "uuid":
                return st.sampled_from(edges.UUIDS) | st.uuids()
            case "float64":
                floats = st.sampled_from([value for value in edges.FLOATS if self.nan or value == value])
                return floats | st.floats(allow_nan=self.nan)
            case _:
                return st.sampled_from(edges.integers(wire)) | st.integers(*edges.limits(wire))


TEXTS: st.SearchStrategy[str] = st.sampled_from(edges.TEXTS) | st.text(max_size=3)
CONTENTS: st.SearchStrategy[bytes] = st.sampled_from(edges.CONTENTS) | st.binary(max_size=3)


def _maybe_null(strategy: st.SearchStrategy[Any], null: bool) -> st.SearchStrategy[Any]:
    return st.none() | strategy if null else strategy


def _unknown_tags(known: set[int | None]) -> st.SearchStrategy[dict[int, bytes]]:
    numbers = st.sampled_from([tag for tag in (UNKNOWN_TAG, *edges.TAGS) if tag not in known])
    some = numbers | st.integers(0, MAX_VARINT).filter(lambda tag: tag not in known)
    return st.dictionaries(some, CONTENTS, min_size=1, max_size=2)

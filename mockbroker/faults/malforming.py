"""Malformed responses: the bytes of a valid response frame, changed in one of the forms of ``malformed.FORMS``.

docs/faults.md documents the exact bytes of each form.
"""

from __future__ import annotations

import random
import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.buffers import join_in_steps
from kwire.codec import decode_at
from kwire.engines.varints import uvarint
from kwire.envelope import decode_response
from kwire.frames import PREFIX, pack
from kwire.headers import ResponseHeader, response_header_version
from kwire.layout import Blob, Fixed, List, Node, Text
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_FRAME
from kwire.messages import APIS
from mockbroker.faults import malformed_records
from mockbroker.faults.malformed import FORMS, INT16, Number
from mockbroker.faults.slice_counter import ELEMENTS, BytesInSlices, SliceCounter

if TYPE_CHECKING:
    from kwire.fuzz.sites import Site

Parameters: TypeAlias = Mapping[str, int | str]
Affects: TypeAlias = Callable[[str | UUID, int], bool]
Sites: TypeAlias = "Sequence[Site]"
EditsInSlices: TypeAlias = "Generator[None, None, list[_Edit]]"  # yields after each slice, and returns the edits

CORRELATION_ID = struct.Struct(">I")
LARGEST = MAX_FRAME  # bytes of a frame whose batches are duplicated
LONGEST_COUNT = 5  # bytes of a length or count
SUPPORTED_VERSION = re.compile(r"api_keys\[\d+\]\.max_version")


def malformed_in_slices(
    form: str,
    parameters: Parameters,
    frame: bytes,
    api_key: int,
    version: int,
    seed: int = 0,
    *,
    affects: Affects | None = None,
) -> BytesInSlices:
    """Return the malformed bytes of a response; the same bytes if the form cannot change this response.

    For example, the response may lack the field or the records that the form changes, or be shorter than the truncated
    frame. The generator yields after a limited amount of work, so that other requests are handled in between.

    Args:
        form: Name of the form, a key of ``FORMS``.
        parameters: Parameters of the form; an absent one has its default.
        frame: The valid response frame, with its length prefix.
        api_key: API key of the request.
        version: API version of the request.
        seed: Seed of random bytes.
        affects: For forms that change records: function that returns whether a topic (name, or id in versions with ids)
            and partition are affected; None for all.
    """
    response = _Response(frame[PREFIX.size :], api_key, version)
    values = _Values(form, parameters)
    match form:
        case "length":
            return b"".join([PREFIX.pack(values.number("value")), response.frame])
        case "correlation_id":
            (correlation_id,) = CORRELATION_ID.unpack_from(response.frame)
            changed = CORRELATION_ID.pack((correlation_id + values.number("add")) & 0xFFFF_FFFF)
            return b"".join([frame[: PREFIX.size], changed, memoryview(response.frame)[CORRELATION_ID.size :]])
        case "truncate":
            return pack(response.frame[: values.number("bytes")])
        case "garbage":
            body = random.Random(seed).randbytes(values.number("bytes"))  # noqa: S311 not a secret
            return pack(response.frame[: response.body_at] + body)
    sites = yield from response.sites()
    match form:
        case "null_array" | "negative_length" | "huge_array":
            edits = yield from _field_edits(sites, form, values)
        case "unknown_version":
            edits = list(_version_edits(sites, values.number("add")))
        case _:
            edits = yield from _record_edits(response.frame, sites, form, values, affects)
    if not edits:
        return frame
    changed = yield from _spliced(response.frame, sites, edits)
    yield
    return pack(changed)


class _Values:
    """The parameter values for one form of malformed response.

    A parameter that the fault rule does not set has its default value.

    Args:
        form: Name of the form.
        given: The parameters that the fault rule sets.
    """

    def __init__(self, form: str, given: Parameters) -> None:
        self._parameters = FORMS[form].parameters
        self._given = given

    def number(self, name: str) -> int:
        """Return the value of a parameter that is an integer."""
        parameter = self._parameters[name]
        assert isinstance(parameter, Number)
        return int(self._given.get(name, parameter.default))

    @property
    def numbers(self) -> dict[str, int]:
        """The values of all parameters that are integers, by name."""
        return {name: self.number(name) for name, each in self._parameters.items() if isinstance(each, Number)}

    @property
    def field(self) -> str | None:
        """The path of the field to change, as the rule gives it; None for the first field that the form can change."""
        path = self._given.get("field")
        return None if path is None else str(path)

    def names(self, path: str) -> bool:
        """Return whether the rule applies to the field at ``path``; True for all fields if the rule names no field.
        Indexes in ``path`` are ignored.
        """
        return self.field is None or re.sub(r"\[\d+\]", "", path) == self.field


@dataclass
class _Response:
    """A response frame, without its length prefix, that is to be changed to a malformed one.

    Attributes:
        frame: The bytes of the response.
        api_key: API key of the request.
        requested_version: API version of the request.
    """

    frame: bytes
    api_key: int
    requested_version: int

    @property
    def version(self) -> int:
        """The version of the body. It is 0 in an ApiVersions response to an unsupported version."""
        if self.api_key != ApiKey.API_VERSIONS:
            return self.requested_version
        return decode_response(self.frame, self.api_key, self.requested_version).version

    @property
    def body_at(self) -> int:
        """The offset of the body in the frame, in bytes."""
        header_version = response_header_version(APIS[self.api_key], self.version)
        return decode_at(ResponseHeader, self.frame, 0, header_version)[1]

    def sites(self) -> Generator[None, None, Sites]:
        """Return the positions of all fields, lengths and counts in the frame, in order.

        The generator yields after a limited amount of work, so that other requests are handled in between.
        """
        from kwire.fuzz.sites import (
            response_sites_in_slices,
        )  # imports construct; brokers without faults do not need it

        return (yield from response_sites_in_slices(self.frame, self.api_key, self.version, ELEMENTS))


_start = attrgetter("start")


class _Edit(NamedTuple):
    """A change of a frame: the bytes from ``start`` up to, but not including, ``end`` are replaced by ``new``.

    ``start`` and ``end`` count bytes from the start of the frame.
    """

    start: int
    end: int
    new: bytes


def _field_edits(sites: Sites, form: str, values: _Values) -> EditsInSlices:
    """Return the edit of one field in a list; [] if there is no suitable field.

    The field is the first suitable one that the rule allows. A field that is not nullable is preferred.

    Args:
        sites: Positions of the fields.
        form: Form of malformed response.
        values: Parameters of the form.
    """
    kinds = (Text, Blob, List) if form == "negative_length" else (List,)
    nullable, count = None, SliceCounter()  # the first field that fits but can be null
    for site in sites:
        if count.is_full():
            yield
        if not isinstance(site.node, kinds) or not values.names(site.path):
            continue
        if not _is_nullable(site.node):  # null is an error here
            return [_field_edit(site, form, values)]
        nullable = nullable or site
    if nullable is None or (values.field is None and form == "null_array"):
        return []
    return [_field_edit(nullable, form, values)]


def _field_edit(site: Site, form: str, values: _Values) -> _Edit:
    if form == "null_array":
        return _Edit(site.offset, site.whole, _length(site.node, -1))
    return _Edit(site.offset, site.end, _length(site.node, values.number(_LENGTH_OF[form])))


_LENGTH_OF = {"negative_length": "value", "huge_array": "count"}  # form -> the parameter that is the length or count


def _is_nullable(node: Node) -> bool:
    return isinstance(node, (Text, Blob, List)) and node.null


def _length(node: Node, value: int) -> bytes:
    """Return the encoding of a length or count, even of a value that no valid message contains.

    A compact length is the unsigned varint of the lowest 32 bits of ``value + 1``, which is how Java reads it. For a
    string that is not compact, a value below -32768 is encoded as -32768.

    Args:
        node: Node of the field in the layout.
        value: The length or count.
    """
    match node:
        case Text(compact=False):
            return struct.pack(">h", max(value, INT16[0]))
        case Blob(compact=False) | List(compact=False):
            return struct.pack(">i", value)
        case _:
            return uvarint(value + 1 & 0xFFFF_FFFF)


def _version_edits(sites: Sites, add: int) -> Iterator[_Edit]:
    for site in sites:
        if isinstance(site.node, Fixed) and SUPPORTED_VERSION.fullmatch(site.path):
            yield _Edit(site.offset, site.end, struct.pack(">h", min(site.value + add, INT16[1])))


def _record_edits(frame: bytes, sites: Sites, form: str, values: _Values, affects: Affects | None) -> EditsInSlices:
    """Return the edits of records fields: of all fields if the form changes all records, else of the first field that
    it can change.

    Args:
        frame: the response frame.
        sites: positions of the fields.
        form: form of malformed response.
        values: parameters of the form.
        affects: function that returns whether a topic and partition are affected; None for all.
    """
    fields = yield from _records_fields(frame, sites, affects)
    numbers = values.numbers
    if form == "duplicate_records":
        numbers["count"] = min(numbers["count"], _most_copies(frame, fields))
    edits, count = [], SliceCounter()
    for site in fields:
        if count.is_full(site.whole - site.end):
            yield
        records = frame[site.end : site.whole]
        changed = yield from malformed_records.FORMS[form](records, **numbers)
        if changed != records:
            edits.append(_Edit(site.offset, site.whole, _length(site.node, len(changed)) + changed))
            if form not in malformed_records.OF_ALL_PARTITIONS:
                break
    return edits


def _records_fields(frame: bytes, sites: Sites, affects: Affects | None) -> Generator[None, None, list[Site]]:
    """Return the non-empty records fields of the affected partitions.

    In the frame, the topic (name, or id in versions with ids) and the index of a partition precede its records.

    Args:
        frame: the response frame.
        sites: positions of the fields.
        affects: function that returns whether a topic and partition are affected; None for all.
    """
    topic: str | UUID = ""
    partition, fields, count = -1, [], SliceCounter()
    for site in sites:
        if count.is_full():
            yield
        match site.path.rpartition(".")[2]:
            case "topic":
                topic = frame[site.end : site.whole].decode()
            case "topic_id":
                topic = site.value
            case "partition_index":
                partition = site.value
        if not (isinstance(site.node, Blob) and site.node.records and site.value):
            continue
        if affects is None or affects(topic, partition):
            fields.append(site)
    return fields


def _most_copies(frame: bytes, sites: Collection[Site]) -> int:
    """Return how many more copies of the records fit into a frame of the maximum size.

    ``sites``: the records fields.
    """
    size = sum(site.whole - site.end for site in sites)
    return max(0, (LARGEST - len(frame) - LONGEST_COUNT * len(sites)) // max(size, 1))


def _spliced(frame: bytes, sites: Sites, edits: Sequence[_Edit]) -> BytesInSlices:
    """Return the frame with the edits applied. The sizes of tagged fields around an edit are adjusted.

    Args:
        frame: The response frame.
        sites: Positions of the fields.
        edits: The edits, in order.
    """
    edits, count = sorted(edits), SliceCounter()
    for site in reversed(sites):  # the inner tagged fields first
        if count.is_full():
            yield
        for entry in reversed(site.entries):
            first = at = bisect_left(edits, entry.content_at, key=_start)
            size = entry.end - entry.content_at
            while at < len(edits) and edits[at].end <= entry.end:
                size += len(edits[at].new) - (edits[at].end - edits[at].start)
                at += 1
            if at > first:
                edits.insert(first, _Edit(entry.size_at, entry.content_at, uvarint(size)))
    parts, at = [], 0
    for edit in edits:
        if count.is_full(len(edit.new)):
            yield
        parts += [frame[at : edit.start], edit.new]
        at = edit.end
    parts.append(frame[at:])
    yield
    return (yield from join_in_steps(parts))

"""Malformed responses: the bytes of a valid response frame, changed in one of the forms of ``malformed.FORMS``.

docs/faults.md has the exact bytes of each form.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from kwire.codec import decode_at
from kwire.engines.varints import uvarint
from kwire.envelope import decode_response
from kwire.frames import PREFIX, pack
from kwire.headers import ResponseHeader, response_header_version
from kwire.layout import Blob, Fixed, List, Node, Text
from kwire.limits import MAX_FRAME
from kwire.messages import APIS
from mockbroker.faults import malformed_records
from mockbroker.faults.malformed import FORMS, INT16, Number

if TYPE_CHECKING:
    from kwire.fuzz.sites import Site

Parameters: TypeAlias = Mapping[str, int | str]
Affects: TypeAlias = Callable[[str | UUID, int], bool]

CORRELATION_ID = struct.Struct(">I")
LARGEST = MAX_FRAME  # bytes of a frame whose batches are duplicated
LONGEST_COUNT = 5  # bytes of a length or count
SUPPORTED_VERSION = re.compile(r"api_keys\[\d+\]\.max_version")


def malformed(
    form: str,
    parameters: Parameters,
    frame: bytes,
    api_key: int,
    version: int,
    seed: int = 0,
    *,
    affects: Affects | None = None,
) -> bytes:
    """Return the malformed bytes of a response; the same bytes if it has nothing that the form changes.

    That is a response without such a field in its version, without records, or shorter than a truncated frame would be.

    Args:
        form: A form of ``FORMS``.
        parameters: Parameters of the form; an absent one has its default.
        frame: The valid response frame, with its length prefix.
        api_key: API key of the request.
        version: API version of the request.
        seed: Seed of random bytes.
        affects: Returns whether a topic (name, or id in versions with ids) and partition are affected, for the forms
            that change records; None for all.

    Raises: DecodeError if the frame is not a valid response, in forms that need its fields.
    """
    response = _Response(frame[PREFIX.size :], api_key, version)
    values = _Values(form, parameters)
    match form:
        case "length":
            return PREFIX.pack(values.number("value")) + response.frame
        case "correlation_id":
            (correlation_id,) = CORRELATION_ID.unpack_from(response.frame)
            changed = CORRELATION_ID.pack((correlation_id + values.number("add")) & 0xFFFF_FFFF)
            return frame[: PREFIX.size] + changed + response.frame[CORRELATION_ID.size :]
        case "truncate":
            return pack(response.frame[: values.number("bytes")])
        case "garbage":
            body = random.Random(seed).randbytes(values.number("bytes"))  # noqa: S311 not a secret
            return pack(response.frame[: response.body_at] + body)
        case "null_array" | "negative_length" | "huge_array":
            edits = list(_field_edits(response, form, values))
        case "unknown_version":
            edits = list(_version_edits(response, values.number("add")))
        case _:
            edits = list(_record_edits(response, form, values, affects))
    return pack(_spliced(response, edits)) if edits else frame


class _Values:
    """The parameters of a form, with its defaults."""

    def __init__(self, form: str, given: Parameters) -> None:
        self._parameters = FORMS[form].parameters
        self._given = given

    def number(self, name: str) -> int:
        """Return a parameter that is an integer."""
        parameter = self._parameters[name]
        assert isinstance(parameter, Number)
        return int(self._given.get(name, parameter.default))

    @property
    def numbers(self) -> dict[str, int]:
        """All parameters that are integers."""
        return {name: self.number(name) for name, each in self._parameters.items() if isinstance(each, Number)}

    @property
    def field(self) -> str | None:
        """The path of the field; None for the first that fits."""
        path = self._given.get("field")
        return None if path is None else str(path)


@dataclass
class _Response:
    """A response frame, without its length prefix."""

    frame: bytes
    api_key: int
    requested_version: int

    @cached_property
    def version(self) -> int:
        """The version of the body; 0 of an ApiVersions response to an unsupported version."""
        return decode_response(self.frame, self.api_key, self.requested_version).version

    @cached_property
    def body_at(self) -> int:
        header_version = response_header_version(APIS[self.api_key], self.version)
        return decode_at(ResponseHeader, self.frame, 0, header_version)[1]

    @cached_property
    def sites(self) -> Sequence[Site]:
        """Every field, length and count, in the order of the bytes."""
        from kwire.fuzz.sites import response_sites  # imports construct, which brokers without faults do not need

        return response_sites(self.frame, self.api_key, self.version)


class _Edit(NamedTuple):
    """Bytes of a frame from ``start`` to before ``end``, and what replaces them."""

    start: int
    end: int
    new: bytes


def _field_edits(response: _Response, form: str, values: _Values) -> Iterator[_Edit]:
    """Yield the edit of one field: the given one, or the first; if possible one that cannot be null."""
    kinds = (Text, Blob, List) if form == "negative_length" else (List,)
    fitting = [site for site in response.sites if isinstance(site.node, kinds)]
    if values.field is not None:
        fitting = [site for site in fitting if re.sub(r"\[\d+\]", "", site.path) == values.field]
    strict = [site for site in fitting if not _is_nullable(site.node)]  # null in place of these is an error
    if values.field is None and form == "null_array":
        fitting = strict
    for site in [*strict, *fitting][:1]:
        if form == "null_array":
            yield _Edit(site.offset, site.whole, _length(site.node, -1))
        else:
            yield _Edit(site.offset, site.end, _length(site.node, values.number(_LENGTH_OF[form])))


_LENGTH_OF = {"negative_length": "value", "huge_array": "count"}  # form -> the parameter that is the length or count


def _is_nullable(node: Node) -> bool:
    return isinstance(node, (Text, Blob, List)) and node.null


def _length(node: Node, value: int) -> bytes:
    """Return the encoding of a length or count, which may be one that no valid message has.

    A compact length is the unsigned varint of the lowest 32 bits of ``value + 1``, which is how Java reads it. For a
    string that is not compact, a value below -32768 is encoded as -32768.
    """
    match node:
        case Text(compact=False):
            return struct.pack(">h", max(value, INT16[0]))
        case Blob(compact=False) | List(compact=False):
            return struct.pack(">i", value)
        case _:
            return uvarint(value + 1 & 0xFFFF_FFFF)


def _version_edits(response: _Response, add: int) -> Iterator[_Edit]:
    for site in response.sites:
        if isinstance(site.node, Fixed) and SUPPORTED_VERSION.fullmatch(site.path):
            yield _Edit(site.offset, site.end, struct.pack(">h", min(site.value + add, INT16[1])))


def _record_edits(response: _Response, form: str, values: _Values, affects: Affects | None) -> Iterator[_Edit]:
    """Yield the edits of records fields: of the first one, or of all if the form changes all records."""
    sites = [site for site in response.sites if isinstance(site.node, Blob) and site.node.records and site.value]
    if affects is not None:
        names = {site.path: site for site in response.sites}
        sites = [site for site in sites if affects(*_partition_of(response.frame, site.path, names))]
    numbers = values.numbers
    if form == "duplicate_records":
        numbers["count"] = min(numbers["count"], _most_copies(response.frame, sites))
    for site in sites:
        records = response.frame[site.end : site.whole]
        changed = malformed_records.FORMS[form](records, **numbers)
        if changed != records:
            yield _Edit(site.offset, site.whole, _length(site.node, len(changed)) + changed)
            if form not in malformed_records.OF_ALL_PARTITIONS:
                return


def _most_copies(frame: bytes, sites: Collection[Site]) -> int:
    """Return how many more times the records fit into the largest frame."""
    size = sum(site.whole - site.end for site in sites)
    return max(0, (LARGEST - len(frame) - LONGEST_COUNT * len(sites)) // max(size, 1))


def _partition_of(frame: bytes, path: str, sites: Mapping[str, Site]) -> tuple[str | UUID, int]:
    """Return topic and partition of a records field, such as ``responses[0].partitions[1].records``."""
    partition, _, _ = path.rpartition(".")
    topic, _, _ = partition.rpartition(".")
    named = sites.get(f"{topic}.topic")
    name: Any = frame[named.end : named.whole].decode() if named else sites[f"{topic}.topic_id"].value
    return name, sites[f"{partition}.partition_index"].value


def _spliced(response: _Response, edits: Sequence[_Edit]) -> bytes:
    """Return the frame with edits, and with the sizes of the tagged fields around them adjusted."""
    edits = list(edits)
    entries = [entry for site in response.sites for entry in site.entries]
    for entry in sorted(entries, key=lambda entry: entry.size_at, reverse=True):  # the inner ones first
        inside = [edit for edit in edits if entry.content_at <= edit.start and edit.end <= entry.end]
        if inside:
            size = entry.end - entry.content_at + sum(len(edit.new) - (edit.end - edit.start) for edit in inside)
            edits.append(_Edit(entry.size_at, entry.content_at, uvarint(size)))
    parts, at = [], 0
    for edit in sorted(edits):
        parts += [response.frame[at : edit.start], edit.new]
        at = edit.end
    return b"".join([*parts, response.frame[at:]])

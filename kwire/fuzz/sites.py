"""Mutation points of a frame: the positions of all numbers, lengths, counts, null markers and tags.

For a frame that cannot be decoded, only the mutation points before the invalid field are returned.
"""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kwire import envelope
from kwire.engines import primitives
from kwire.engines.reference import to_construct
from kwire.errors import DecodeError
from kwire.headers import RequestHeader, ResponseHeader, response_header_version
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve, smallest
from kwire.lazy_dataclass import dataclass

ROOT = "(frame)"  # root of construct's paths; primitives.where removes it


@dataclass(frozen=True, slots=True)
class Entry:
    """The position of a tagged field in a frame, as offsets in bytes.

    Attributes:
        offset: offset of the tag number.
        size_at: offset of the size.
        content_at: offset of the content.
        end: offset of the byte after the field.
        tag: tag number of the field.
    """

    offset: int
    size_at: int
    content_at: int
    end: int
    tag: int


@dataclass(frozen=True, slots=True)
class Site:
    """A mutation point of a frame: a position that a mutation can change. Offsets are in bytes; an end is the offset of
    the byte after the last byte.

    Attributes:
        node: layout of the field. For the tagged section of a struct, the layout of the struct.
        path: path of the field, such as ``topics[0].name``.
        offset: start of the number, length, count or null marker.
        end: end of the number, length, count or null marker.
        value: decoded number, length or count; None for null. For a nullable struct, whether the struct is present.
        whole: end of the content that follows the length, count or null marker.
        first: end of the first element of an array; 0 if the field is not an array.
        entries: tagged fields of a tagged section; empty if the field is not a tagged section.
    """

    node: Node
    path: str
    offset: int
    end: int
    value: Any
    whole: int
    first: int = 0
    entries: tuple[Entry, ...] = ()


def request_sites(frame: bytes) -> list[Site]:
    """Return the mutation points of a request frame, including the header."""
    walk = _Walk(frame)
    with suppress(DecodeError):
        api, version, header_version = envelope.request_form(frame)
        walk.message(RequestHeader, header_version, "header")
        envelope.find_api(api.key, version)
        walk.message(api.request, version)
    return walk.sites


def response_sites(frame: bytes, api_key: int, api_version: int) -> list[Site]:
    """Return the mutation points of a response frame, including the header.

    Args:
        frame: response frame, without its length prefix.
        api_key: API key of the request.
        api_version: version of the request.
    """
    steps = response_sites_in_slices(frame, api_key, api_version, 0)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            sites: list[Site] = end.value
            return sites


def response_sites_in_slices(
    frame: bytes, api_key: int, api_version: int, size: int
) -> Generator[None, None, list[Site]]:
    """Find the mutation points of a response frame; yield regularly, so that the caller can do other work.

    Args:
        frame: response frame, without its length prefix.
        api_key: API key of the request.
        api_version: version of the request.
        size: number of mutation points after which the generator yields; 0 for never.

    Returns: the result of ``response_sites``, as the value of StopIteration.
    """
    walk = _Walk(frame, size)
    with suppress(DecodeError):
        api, version = envelope.response_api(api_key, api_version)
        walk.message(ResponseHeader, response_header_version(api, version), "header")
        yield from walk.record(resolve(api.response, version), ROOT)
    return walk.sites


def message_sites(message: type, data: bytes, version: int) -> list[Site]:
    """Return the mutation points of an encoded message without a header, such as a blob."""
    walk = _Walk(data)
    with suppress(DecodeError):
        walk.message(message, version)
    return walk.sites


class _Walk:
    """A decoder of one message that collects the mutation points.

    Args:
        data: encoded message, or frame.
        size: number of mutation points after which the decoder yields; 0 to never yield.

    Attributes:
        sites: mutation points so far.
    """

    def __init__(self, data: bytes, size: int = 0) -> None:
        self.stream = io.BytesIO(data)
        self.sites: list[Site] = []
        self._size = size
        self._next = size  # number of mutation points at which the present step ends

    @property
    def at(self) -> int:
        return self.stream.tell()

    def message(self, message: type, version: int, prefix: str = "") -> None:
        """Collect the mutation points of a message without yielding.

        Args:
            message: class of the message.
            version: version in which the message is encoded.
            prefix: path of the message, such as ``header``; "" for the body.
        """
        for _ in self.record(resolve(message, version), f"{ROOT} -> {prefix}" if prefix else ROOT):
            pass

    def record(self, record: Record, path: str) -> Generator[None, None, None]:
        """Collect the mutation points of a struct; yield after about every ``size`` mutation points.

        Args:
            record: layout of the struct.
            path: path of the struct.
        """
        for slot in record.slots:
            yield from self.node(slot.node, f"{path} -> {slot.name}")
        if record.flexible:
            yield from self.section(record, path)

    def node(self, node: Node, path: str) -> Generator[None, None, None]:
        start = self.at
        match node:
            case Fixed():
                value = to_construct(node)._parsereport(self.stream, None, path)
                self.note(node, path, start, value)
            case Text(compact) | Blob(compact):
                length = primitives.Length(None if compact else "h" if isinstance(node, Text) else "i", node.null)
                size = length._parse(self.stream, None, path)
                site = self.note(node, path, start, size)
                primitives.read(self.stream, size or 0, path, start)
                self.sites[site] = replace(self.sites[site], whole=self.at)
            case List(element, compact, null):
                count = primitives.read_count(
                    self.stream, primitives.Length(None if compact else "i", null), smallest(element), path
                )
                site = self.note(node, path, start, count)
                for index in range(count or 0):
                    yield from self.node(element, f"{path} -> [{index}]")
                    if index == 0:
                        self.sites[site] = replace(self.sites[site], first=self.at)
                    if self._size and len(self.sites) >= self._next:
                        self._next = len(self.sites) + self._size
                        yield
                self.sites[site] = replace(self.sites[site], whole=self.at)
            case Maybe(record, tagged):
                present = primitives.read_presence(self.stream, tagged, path)
                site = self.note(node, path, start, present)
                if present:
                    yield from self.record(record, path)
                self.sites[site] = replace(self.sites[site], whole=self.at)
            case Record():
                yield from self.record(node, path)

    def section(self, record: Record, path: str) -> Generator[None, None, None]:
        tagged_slots = {slot.tag: slot for slot in record.tagged}
        start = self.at
        count = primitives.read_tag_count(self.stream, path)
        site = self.note(record, path, start, count)
        for _ in range(count):
            offset = self.at
            tag = primitives.read_uvarint(self.stream, path, offset)
            size_at = self.at
            size = primitives.read_uvarint(self.stream, path, offset)
            content_at = self.at
            if tag in tagged_slots:
                here = f"{path} -> {tagged_slots[tag].name}"
                primitives.check_tag_size(self.stream, size, here)
                yield from self.node(tagged_slots[tag].node, here)
            else:
                primitives.read(self.stream, size, path, offset)
            entry = Entry(offset, size_at, content_at, self.at, tag)
            self.sites[site] = replace(self.sites[site], whole=self.at, entries=(*self.sites[site].entries, entry))

    def note(self, node: Node, path: str, start: int, value: Any) -> int:
        """Add a mutation point that begins at ``start`` and ends at the current position.

        Args:
            node: layout of the field.
            path: path of the field.
            start: offset in bytes.
            value: decoded number, length or count; None for null.

        Returns: the index of the mutation point, with which the caller can set further attributes.
        """
        self.sites.append(Site(node, primitives.where(path), start, self.at, value, self.at))
        return len(self.sites) - 1

"""Mutation points of a frame: each number, length, count, null marker and tag, with its position.

Of a frame that cannot be decoded, only the mutation points before the invalid field are returned.
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kwire import envelope
from kwire.engines import primitives
from kwire.engines.reference import to_construct
from kwire.errors import DecodeError
from kwire.headers import RequestHeader, ResponseHeader, response_header_version
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve, smallest

ROOT = "(frame)"  # root of construct's paths; primitives.where removes it


@dataclass(frozen=True, slots=True)
class Entry:
    """A tagged field, by offsets in bytes.

    Attributes:
        offset: offset of the tag.
        size_at: offset of the size.
        content_at: offset of the content.
        end: offset of the byte after the field.
        tag: the tag.
    """

    offset: int
    size_at: int
    content_at: int
    end: int
    tag: int


@dataclass(frozen=True, slots=True)
class Site:
    """A mutation point of a frame. Offsets are in bytes; an end is the offset of the byte after a part.

    Attributes:
        node: type on the wire; for the tagged section of a struct, the Record of the struct.
        path: path of the field.
        offset: start of the number, length, count or null marker.
        end: end of the number, length, count or null marker.
        value: decoded number, length or count; for a nullable struct, whether it is present; None for null.
        whole: end of the content after the length, count or null marker.
        first: end of the first element of an array.
        entries: tagged fields of a tagged section.
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
    """Return the mutation points of a response frame to a request of this API and version, including the header."""
    walk = _Walk(frame)
    with suppress(DecodeError):
        api, version = envelope.response_api(api_key, api_version)
        walk.message(ResponseHeader, response_header_version(api, version), "header")
        walk.message(api.response, version)
    return walk.sites


def message_sites(message: type, data: bytes, version: int) -> list[Site]:
    """Return the mutation points of a message without header, such as a blob."""
    walk = _Walk(data)
    with suppress(DecodeError):
        walk.message(message, version)
    return walk.sites


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)
        self.sites: list[Site] = []

    @property
    def at(self) -> int:
        return self.stream.tell()

    def message(self, message: type, version: int, prefix: str = "") -> None:
        self.record(resolve(message, version), f"{ROOT} -> {prefix}" if prefix else ROOT)

    def record(self, record: Record, path: str) -> None:
        for slot in record.slots:
            self.node(slot.node, f"{path} -> {slot.name}")
        if record.flexible:
            self.section(record, path)

    def node(self, node: Node, path: str) -> None:
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
                    self.node(element, f"{path} -> [{index}]")
                    if index == 0:
                        self.sites[site] = replace(self.sites[site], first=self.at)
                self.sites[site] = replace(self.sites[site], whole=self.at)
            case Maybe(record, tagged):
                present = primitives.read_presence(self.stream, tagged, path)
                site = self.note(node, path, start, present)
                if present:
                    self.record(record, path)
                self.sites[site] = replace(self.sites[site], whole=self.at)
            case Record():
                self.record(node, path)

    def section(self, record: Record, path: str) -> None:
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
                self.node(tagged_slots[tag].node, here)
            else:
                primitives.read(self.stream, size, path, offset)
            entry = Entry(offset, size_at, content_at, self.at, tag)
            self.sites[site] = replace(self.sites[site], whole=self.at, entries=(*self.sites[site].entries, entry))

    def note(self, node: Node, path: str, start: int, value: Any) -> int:
        """Add a mutation point that ends at the current position. Return its index, for adding attributes later."""
        self.sites.append(Site(node, primitives.where(path), start, self.at, value, self.at))
        return len(self.sites) - 1

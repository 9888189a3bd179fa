"""A frame, field by field: which bytes they are, what they are called, how they are written, and what they say.

One more fold over the Layout, beside the engines and the JSON form. The pieces of a frame stand in its order and cover
each of its bytes once: headers, counts, markers and the tagged sections included, and at the end what stands behind
the message, or what could not be read. Leaves are read by ``primitives``, so what is refused here is what decoding
refuses.

Some fields hold messages of their own. Where their bytes can be read as such, pieces of them hang below the field.
"""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kwire import codec, envelope, jsonform, primitives
from kwire.blobs import readable_version, stored_version
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.engines.reference import to_construct
from kwire.errors import DecodeError
from kwire.headers import (
    RequestHeader,
    ResponseHeader,
    response_header_version,
)
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, form, resolve, smallest
from kwire.messages.describe_groups import DescribeGroupsResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.records.batch import HEADER, Batch, batches
from kwire.records.compression import NAMES
from kwire.records.control import control_records
from kwire.schema import schema_of

ROOT = "(frame)"  # what construct's paths begin with; primitives.where takes it off
TAGGED_FIELDS = "_tagged_fields"  # path of the count of a tagged section
TRAILING = "trailing"
HEADERS = frozenset(schema_of(header).name for header in (RequestHeader, ResponseHeader))
UNREAD = "unread"  # type of the rest of a frame that cannot be decoded
INSIDE: Mapping[tuple[type, str], type] = {  # fields of bytes that hold a message behind its version
    (JoinGroupRequest.Protocol, "metadata"): ConsumerProtocolSubscription,
    (JoinGroupResponse.Member, "metadata"): ConsumerProtocolSubscription,
    (SyncGroupRequest.Assignment, "assignment"): ConsumerProtocolAssignment,
    (SyncGroupResponse, "assignment"): ConsumerProtocolAssignment,
    (DescribeGroupsResponse.Group.Member, "member_metadata"): ConsumerProtocolSubscription,
    (DescribeGroupsResponse.Group.Member, "member_assignment"): ConsumerProtocolAssignment,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the frame. ``value``: in the JSON form; a count for an array, None for what is null.

    ``inside``: pieces of a message that this field holds; their offsets count from the start of the frame as well.
    """

    offset: int
    length: int
    path: str
    type: str
    value: Any
    inside: tuple[Piece, ...] = ()

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Explanation:
    """``name``: of the message and its version; ``error``: why the last piece could not be read."""

    name: str
    frame: bytes
    pieces: tuple[Piece, ...]
    error: DecodeError | None = None


def explain_request(frame: bytes) -> Explanation:
    """The pieces of a request frame, which comes without its length prefix. Never raises for what the bytes are."""
    return _explain(frame, _request(frame), "request")


def explain_response(frame: bytes, api_key: int, api_version: int) -> Explanation:
    """The pieces of a response frame to a request of this API and version. Never raises for what the bytes are."""
    return _explain(frame, _response(frame, api_key, api_version), "response")


def explain_stored(blob: type, data: bytes, offset: int = 0) -> Iterator[Piece]:
    """The pieces of a message behind the int16 of its version. Raises: DecodeError."""
    version = readable_version(blob, written := stored_version(blob, data))
    yield Piece(offset, 2, "version", "int16", written)
    walk = Walk(data, 2)
    yield from (replace(piece, offset=offset + piece.offset) for piece in walk.message(blob, version))
    if walk.at < len(data):
        yield Piece(offset + walk.at, len(data) - walk.at, TRAILING, "bytes", data[walk.at :].hex())


def content(piece: Piece) -> bytes:
    """The bytes that a piece of bytes holds, without their length."""
    return b64decode(piece.value)


Step = Piece | str  # a name says whose pieces follow


def _explain(frame: bytes, steps: Iterator[Step], name: str) -> Explanation:
    pieces: list[Piece] = []
    error: DecodeError | None = None
    try:
        for step in steps:
            if isinstance(step, str):
                name = step
            else:
                pieces.append(step)
    except DecodeError as caught:
        error = caught
        pieces = [piece for piece in pieces if piece.end <= caught.offset]
    end = pieces[-1].end if pieces else 0
    if error is not None:
        in_header = error.path and error.message in HEADERS
        path = f"header.{error.path}" if in_header else error.path
        pieces.append(Piece(end, len(frame) - end, path, UNREAD, None))
    elif end < len(frame):
        pieces.append(Piece(end, len(frame) - end, TRAILING, "bytes", frame[end:].hex()))
    return Explanation(name, frame, tuple(pieces), error)


def _request(frame: bytes) -> Iterator[Step]:
    key, version = envelope.peek_request(frame)
    yield f"request of API {key} v{version}"
    walk = Walk(frame)
    yield Piece(0, 2, "header.request_api_key", "int16", key)
    api, version, header_version = envelope.request_form(frame)
    yield f"{schema_of(api.request).name} v{version}"
    header = walk.message(RequestHeader, header_version, "header.")
    next(header)  # the key is told already
    yield from header
    envelope.find_api(key, version)
    yield from walk.message(api.request, version)


def _response(frame: bytes, key: int, version: int) -> Iterator[Step]:
    api, version = envelope.response_api(key, version)
    yield f"{schema_of(api.response).name} v{version}"
    walk = Walk(frame)
    yield from walk.message(ResponseHeader, response_header_version(api, version), "header.")
    if version and envelope.answers_unsupported(api, frame, at := walk.at):
        try:
            codec.decode_at(api.response, frame, at, version)
        except DecodeError:
            version = 0
            yield f"{schema_of(api.response).name} v0"
    yield from walk.message(api.response, version)


class Walk:
    """Reads a frame from ``at`` on, and gives a Piece for each thing that it read."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.stream = io.BytesIO(data)
        self.stream.seek(at)

    @property
    def at(self) -> int:
        return self.stream.tell()

    def message(self, message: type, version: int, prefix: str = "") -> Iterator[Piece]:
        """The pieces of one message. Raises: DecodeError, as decoding does."""
        try:
            for piece in self._record(resolve(message, version), ROOT):
                yield replace(piece, path=prefix + piece.path) if prefix else piece
        except DecodeError as error:
            error.message, error.version = schema_of(message).name, version
            raise

    def _record(self, record: Record, path: str) -> Iterator[Piece]:
        for slot in record.slots:
            for piece in self._node(slot.node, f"{path} -> {slot.name}"):
                yield self._with_inside(piece, record, slot.name)
        if record.flexible:
            yield from self._tagged(record, path)

    def _node(self, node: Node, path: str) -> Iterator[Piece]:
        start = self.at
        match node:
            case Fixed() | Text() | Blob():
                value = to_construct(node)._parsereport(self.stream, None, path)
                inside = tuple(self._batches(value)) if isinstance(node, Blob) and node.records and value else ()
                yield self._piece(start, path, form(node), jsonform.dump(value, node), inside)
            case List(element, compact, null):
                length = primitives.Length(None if compact else "i", null)
                count = primitives.read_count(self.stream, length, smallest(element), path)
                yield self._piece(start, path, form(node), count)
                for index in range(count or 0):
                    yield from self._node(element, f"{path} -> [{index}]")
            case Maybe(record, tagged):
                there = primitives.read_presence(self.stream, tagged, path)
                yield self._piece(start, path, form(node), 1 if there else None)
                if there:
                    yield from self._record(record, path)
            case Record():
                yield from self._record(node, path)

    def _tagged(self, record: Record, path: str) -> Iterator[Piece]:
        known = {slot.tag: slot for slot in record.tagged}
        start = self.at
        count = primitives.read_tag_count(self.stream, path)
        yield self._piece(start, f"{path} -> {TAGGED_FIELDS}", "uvarint", count)
        for _ in range(count):
            start = self.at
            tag = primitives.read_uvarint(self.stream, path, start)
            middle = self.at
            size = primitives.read_uvarint(self.stream, path, start)
            slot = known.get(tag)
            here = f"{path} -> {slot.name}" if slot else f"{path} -> {jsonform.UNKNOWN_TAGS} -> {tag}"
            yield Piece(start, middle - start, primitives.where(here), "tag", tag)
            yield self._piece(middle, here, "size", size)
            begin = self.at
            if slot is None:
                content = primitives.read(self.stream, size, path, start)
                if size:
                    yield self._piece(begin, here, "bytes", jsonform.dump(content, Blob(True, False)))
                continue
            primitives.check_tag_size(self.stream, size, here)
            yield from self._node(slot.node, here)
            primitives.check_tag_end(self.stream, tag, begin, size, here)

    def _piece(self, start: int, path: str, type_: str, value: Any, inside: tuple[Piece, ...] = ()) -> Piece:
        return Piece(start, self.at - start, primitives.where(path), type_, value, inside)

    def _with_inside(self, piece: Piece, record: Record, name: str) -> Piece:
        blob = INSIDE.get((record.type, name))
        if blob is None or not piece.value:
            return piece
        data = content(piece)
        try:
            return replace(piece, inside=tuple(explain_stored(blob, data, piece.end - len(data))))
        except DecodeError:  # another protocol type, with bytes of its own
            return piece

    def _batches(self, records: bytes) -> Iterator[Piece]:
        """A line for the header of each batch, as far as they can be read."""
        at = self.at - len(records)
        try:
            for index, batch in enumerate(batches(records)):
                yield Piece(at, HEADER.size, f"[{index}]", "batch", _told(batch))
                at += len(batch.data)
        except DecodeError:
            return


def _told(batch: Batch) -> str:
    """What a batch is, in one line."""
    what = f"{batch.count} records" if batch.count != 1 else "1 record"
    offsets = f"offset {batch.base_offset}" if batch.count == 1 else f"offsets {batch.base_offset}-{batch.last_offset}"
    facts = [what, offsets, NAMES.get(batch.codec, f"codec {batch.codec}"), f"{len(batch.data)} bytes"]
    if batch.producer_id >= 0:
        facts.append(f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}")
    if batch.transactional:
        facts.append("transactional")
    if not batch.crc_is_right():
        facts.append("wrong checksum")
    elif batch.control:
        facts.append(_markers(batch))
    return ", ".join(facts)


def _markers(batch: Batch) -> str:
    try:
        return "control: " + " ".join(record.name for record in control_records(batch))
    except DecodeError:
        return "control"

"""The decoder of explanations, which decodes a message by its Layout and adds a Piece for every field.

``engines.primitives`` decodes the leaves, so that explaining rejects the same input as decoding. If a field contains a
message of its own or record batches, the pieces of this content are added below the field.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from kwire.blobs import KEYS, STORED, body_offset, readable_version, stored_version
from kwire.blobs.fields import ASSIGNORS, CONSUMER, INSIDE
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData
from kwire.counted import counted
from kwire.engines import primitives
from kwire.engines.reference import to_construct
from kwire.errors import DecodeError
from kwire.explain.meanings import meaning
from kwire.explain.pieces import (
    COUNT,
    LENGTH,
    PRESENCE,
    SIZE,
    STRUCT,
    TAG,
    TAG_TYPE,
    TAGGED_FIELDS,
    TRAILING,
    Explanation,
    Piece,
    TreeBuilder,
)
from kwire.explain.records import Allowance, explain_records
from kwire.json.objects import UNKNOWN_TAGS, dump
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, form, resolve, smallest
from kwire.schema import schema_of

ROOT = "(frame)"  # root of construct's paths; primitives.where removes it
USER_DATA = "ConsumerProtocolSubscription.user_data"  # its format depends on the assignor
ASSIGNOR_FIELDS = ("protocol_name", *ASSIGNORS.values())  # fields with the name of the group's assignor
USER_DATA_OF: Mapping[str, Sequence[tuple[type, int]]] = {
    "sticky": ((StickyUserData, 1), (StickyUserData, 0)),
    "cooperative-sticky": ((CooperativeStickyUserData, 0),),
}


class Walk:
    """A decoder of ``data`` that builds a tree of pieces, from the start of the data on.

    Args:
        base: offset of the data in the frame.
        prefix: prefix of all paths.
        seen: previously decoded strings by field name, such as the protocol type. They determine how the content of
            bytes fields is decoded.
        allowance: amount of data that the explanation of the frame may still contain; None for that of a new frame.
    """

    def __init__(
        self,
        data: bytes,
        *,
        base: int = 0,
        prefix: str = "",
        seen: Mapping[str, str] | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self.data = data
        self.stream = io.BytesIO(data)
        self.tree = TreeBuilder(base, prefix)
        self.seen = dict(seen or {})
        self.allowance = Allowance() if allowance is None else allowance

    @property
    def at(self) -> int:
        return self.stream.tell()

    def leaf(self, start: int, path: str, type_: str, value: Any = None, end: int | None = None, **more: Any) -> None:
        """Add a leaf for the bytes from ``start`` on.

        Args:
            start: offset of the first byte.
            path: path of the field.
            type_: wire type of the field.
            value: value in the JSON form.
            end: offset of the byte after the leaf; None for the current position.
            more: further attributes of the Piece.

        Raises: LimitError if ``allowance`` permits no further leaves.
        """
        self.allowance.count_leaf(start)
        self.tree.leaf(start, self.at if end is None else end, primitives.where(path), type_, value, **more)

    def message(self, message: type, version: int, root: str = ROOT) -> None:
        """Decode one message, and add the pieces of its fields.

        Args:
            message: class of the message.
            version: version of the message.
            root: path of the root piece.

        Raises: DecodeError if the bytes are not valid.
        """
        try:
            self._record(resolve(message, version), root)
        except DecodeError as error:
            error.message, error.version = schema_of(message).name, version
            raise

    def trailing(self) -> None:
        """Add a leaf for the bytes after the message, if there are any."""
        if rest := self.data[(start := self.at) :]:
            self.stream.seek(0, io.SEEK_END)
            self.tree.leaf(start, self.at, TRAILING, "bytes", rest.hex())

    def _record(self, record: Record, path: str) -> None:
        for slot in record.slots:
            self._slot(record, slot.name, slot.node, f"{path} -> {slot.name}")
        if record.flexible:
            self._tagged(record, path)

    def _slot(self, record: Record, name: str, node: Node, path: str) -> None:
        """Decode a field and add its pieces. The piece of a number contains the meaning of the number.

        If a bytes field contains a message or records, the pieces of that content are added too.

        Args:
            record: layout of the struct that contains the field.
            name: name of the field.
            node: layout of the field.
            path: path of the field.
        """
        struct = record.type.__qualname__
        start = self.at
        match node:
            case Fixed(wire):
                value = self._value(node, path)
                self.leaf(start, path, wire, value, note=meaning(struct, name, wire, value))
            case Text():
                text = self._text(node, path)
                if text is not None:
                    self.seen[name] = text
            case Blob():
                self._blob(node, path, f"{struct}.{name}")
            case _:
                self._node(node, path)

    def _value(self, node: Fixed | Text | Blob, path: str) -> Any:
        return dump(to_construct(node)._parsereport(self.stream, None, path), node)

    def _text(self, node: Text, path: str) -> str | None:
        start = self.at
        text: str | None = self._value(node, path)
        self.leaf(start, path, form(node), text, head=self._head(start, node))
        return text

    def _head(self, start: int, node: Text | Blob) -> int:
        """Return the size, in bytes, of the encoded length that begins at offset ``start``. ``node``: layout of the
        field.
        """
        if not node.compact:
            return 2 if isinstance(node, Text) else 4
        at = start
        while self.data[at] > 0x7F:
            at += 1
        return at + 1 - start

    def _node(self, node: Node, path: str) -> None:
        start = self.at
        match node:
            case Fixed(wire):
                self.leaf(start, path, wire, self._value(node, path))
            case Text():
                self._text(node, path)
            case Blob():
                self._blob(node, path, "")
            case List(element, compact, null):
                length = primitives.Length(None if compact else "i", null)
                count = primitives.read_count(self.stream, length, smallest(element), path)
                self.tree.open(start, primitives.where(path), form(node), count)
                self.leaf(start, f"{path} -> {COUNT}", "uvarint" if compact else "int32", count)
                for index in range(count or 0):
                    self._element(element, f"{path} -> [{index}]")
                self.tree.close(self.at)
            case Maybe(record, tagged):
                present = primitives.read_presence(self.stream, tagged, path)
                self.tree.open(start, primitives.where(path), form(node), 1 if present else None)
                self.leaf(start, f"{path} -> {PRESENCE}", "uvarint" if tagged else "int8", 1 if present else None)
                if present:
                    self._record(record, path)
                self.tree.close(self.at)
            case Record():
                self.tree.open(start, primitives.where(path), STRUCT)
                self._record(node, path)
                self.tree.close(self.at)

    def _element(self, node: Node, path: str) -> None:
        seen = dict(self.seen) if isinstance(node, Record) else self.seen
        self._node(node, path)
        self.seen = seen  # values of one element do not apply to the next

    def _tagged(self, record: Record, path: str) -> None:
        tagged_slots = {slot.tag: slot for slot in record.tagged}
        start = self.at
        count = primitives.read_tag_count(self.stream, path)
        section = f"{path} -> {TAGGED_FIELDS}"
        self.tree.open(start, primitives.where(section), "uvarint", count)
        self.leaf(start, f"{section} -> {COUNT}", "uvarint", count)
        for _ in range(count):
            start = self.at
            tag = primitives.read_uvarint(self.stream, path, start)
            middle = self.at
            size = primitives.read_uvarint(self.stream, path, start)
            slot = tagged_slots.get(tag)
            here = f"{path} -> {slot.name}" if slot else f"{path} -> {UNKNOWN_TAGS} -> {tag}"
            self.tree.open(start, primitives.where(here), TAG_TYPE, tag, counted(size, "byte"))
            self.leaf(start, f"{here} -> {TAG}", "uvarint", tag, middle)
            self.leaf(middle, f"{here} -> {SIZE}", "uvarint", size)
            begin = self.at
            if slot is None:
                content = primitives.read(self.stream, size, path, start)
                if size:
                    self.leaf(begin, here, "bytes", b64encode(content).decode())
            else:
                primitives.check_tag_size(self.stream, size, here)
                self._slot(record, slot.name, slot.node, here)
                primitives.check_tag_end(self.stream, tag, begin, size, here)
            self.tree.close(self.at)
        self.tree.close(self.at)

    def _blob(self, node: Blob, path: str, field: str) -> None:
        """Add a bytes field: one leaf, or a node that contains the length and the pieces of the content."""
        start = self.at
        value = to_construct(node)._parsereport(self.stream, None, path)
        head = self._head(start, node)
        shown = dump(value, node)
        inside = self._inside(node, value, field, primitives.where(path)) if value else None
        if inside is None:
            self.leaf(start, path, form(node), shown, head=head)
            return
        note, pieces = inside
        self.tree.open(start, primitives.where(path), form(node), shown, note)
        length = "uvarint" if node.compact else "int32"
        self.leaf(start, f"{path} -> {LENGTH}", length, len(value), start + head)
        self.tree.add(pieces)
        self.tree.close(self.at)

    def _inside(self, node: Blob, value: bytes, field: str, path: str) -> tuple[str, tuple[Piece, ...]] | None:
        """Return a one-line summary of the message or records inside a bytes field, and the pieces of this content.

        The result is None if the content has no known format.

        Args:
            node: layout of the field.
            value: bytes of the field.
            field: name of the field.
            path: path of the field.
        """
        base, prefix = self.tree.base + self.at - len(value), self.tree.prefix + path
        if node.records:
            return explain_records(value, base, prefix, self.allowance)
        if field == USER_DATA:
            return self._user_data(value, base, prefix)
        group = self.seen.get("protocol_type")
        if field not in INSIDE or group not in (None, CONSUMER):
            return None
        content = explain_stored(STORED[INSIDE[field]], value, base, f"{prefix}.", self.seen, self.allowance)
        return None if content.error and group is None else (content.name, content.pieces)

    def _user_data(self, value: bytes, base: int, prefix: str) -> tuple[str, tuple[Piece, ...]] | None:
        """Explain the user data of the sticky assignors in a subscription.

        The data contains no version, so the newest version that can be decoded is used.

        Args:
            value: the user data.
            base: offset of the user data in the frame.
            prefix: prefix of all paths.

        Returns: a one-line summary and the pieces; None if no version can be decoded.
        """
        assignor = next((self.seen[field] for field in ASSIGNOR_FIELDS if self.seen.get(field)), "")
        for blob, version in USER_DATA_OF.get(assignor, ()):
            content = explain_body(blob, version, value, base, f"{prefix}.", self.seen, self.allowance)
            if content.error is None:
                break
        else:
            return None
        return content.name, content.pieces


def explain_stored(
    blob: type, data: bytes, base: int, prefix: str, seen: Mapping[str, str], allowance: Allowance | None = None
) -> Explanation:
    """Return the explanation of a message that is stored with its version or, if it is a key, its record type.

    Args:
        blob: class of the message.
        data: version or record type, and the message. A message in SELF_DESCRIBED begins with its field ``version``.
        base: offset of the data in the frame.
        prefix: prefix of all paths.
        seen: previously decoded strings by field name, which determine how the content of bytes fields is decoded.
        allowance: amount of data that the explanation of the frame may still contain; None without a frame.
    """
    walk = Walk(data, base=base, prefix=prefix, seen=seen, allowance=allowance)
    name = schema_of(blob).name
    try:
        version = readable_version(blob, written := stored_version(blob, data))
        name = f"{name} v{written}"
        if offset := body_offset(blob):
            walk.stream.seek(offset)
            record_type = KEYS.get(schema_of(blob).name)
            what, value = ("version", written) if record_type is None else ("record_type", record_type)
            walk.tree.leaf(0, offset, what, "int16", value)
        walk.message(blob, version)
    except DecodeError as error:
        return Explanation(name, data, walk.tree.give_up(error, len(data)), error)
    walk.trailing()
    return Explanation(name, data, walk.tree.done())


def explain_body(
    blob: type, version: int, data: bytes, base: int, prefix: str, seen: Mapping[str, str], allowance: Allowance
) -> Explanation:
    """Return the explanation of a message that is stored without its version.

    Args:
        blob: class of the message.
        version: version of the message.
        data: bytes of the message.
        base: offset of the data in the frame.
        prefix: prefix of all paths.
        seen: previously decoded strings by field name, which determine how the content of bytes fields is decoded.
        allowance: amount of data that the explanation of the frame may still contain.
    """
    walk = Walk(data, base=base, prefix=prefix, seen=seen, allowance=allowance)
    name = f"{schema_of(blob).name} v{version}"
    try:
        walk.message(blob, version)
    except DecodeError as error:
        return Explanation(name, data, walk.tree.give_up(error, len(data)), error)
    walk.trailing()
    return Explanation(name, data, walk.tree.done())

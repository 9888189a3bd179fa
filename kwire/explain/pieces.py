"""The parts of an explanation: a tree of pieces, whose leaves are the bytes of a frame in order.

``TreeBuilder`` builds the tree while a frame is decoded. If decoding fails, the tree contains the pieces before the
error, and a leaf for the remaining bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kwire.errors import DecodeError
from kwire.lazy_dataclass import dataclass

COUNT, LENGTH, TAG, SIZE, PRESENCE = "(count)", "(length)", "(tag)", "(size)", "(presence)"
BOOKKEEPING = frozenset({COUNT, LENGTH, TAG, SIZE, PRESENCE})  # names of leaves that precede the bytes they describe
STRUCT = "struct"
TAG_TYPE = "tag"  # type of a tagged field, around its value
TAGGED_FIELDS = "_tagged_fields"  # name of a tagged section
TRAILING = "trailing"  # name of the bytes after a message
UNREAD = "unread"  # type of bytes that cannot be decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of bytes of a frame: a leaf, or a node with adjacent ``pieces`` that fill the range.

    Attributes:
        offset: offset of the first byte in the frame, or in the decompressed data.
        length: number of bytes.
        path: path of the field, such as ``protocols[0].metadata``. If a field contains a message, the paths of the
            message's fields begin with the path of this field.
        type: Kafka's name of the wire type; STRUCT, TAG_TYPE, UNREAD, or a part of a record batch.
        value: value in the JSON form. For an array: the count; for a tagged field: the tag; for a present nullable
            struct: 1. None for null and for pieces without a value.
        note: meaning of the value, such as the name of an error code; "" if the value has no known meaning.
        head: size in bytes of the length at the start of a leaf; 0 for none.
        error: reason why the bytes could not be decoded or decompressed; "" if there is no error.
        pieces: inner pieces of a node; empty for a leaf.
        unpacked: explanation of the decompressed content of a leaf, with offsets from the start of that content; None
            if the leaf is not compressed.
    """

    offset: int
    length: int
    path: str
    type: str
    value: Any = None
    note: str = ""
    head: int = 0
    error: str = ""
    pieces: tuple[Piece, ...] = ()
    unpacked: Explanation | None = None

    @property
    def end(self) -> int:
        """Offset of the byte after the last byte of the piece."""
        return self.offset + self.length

    @property
    def name(self) -> str:
        """The last component of the path, such as ``metadata`` or ``topics[0]``.

        A piece for a number that describes the bytes after it is named ``(count)``, ``(length)``, ``(tag)``, ``(size)``
        or ``(presence)``.
        """
        return self.path.rpartition(".")[2]

    @property
    def own(self) -> int:
        """The number of bytes at the start of the piece that are not part of an inner piece.

        For a leaf, this is the number of all its bytes. For a node, it is the size of its count or length.
        """
        if not self.pieces:
            return self.length
        own = 0
        for piece in self.pieces:
            if piece.name not in BOOKKEEPING:
                break
            own += piece.length
        return own

    @property
    def fields(self) -> tuple[Piece, ...]:
        """The inner pieces, except the count or length at the start of the piece."""
        return tuple(piece for piece in self.pieces if piece.name not in BOOKKEEPING)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a frame, or of the decompressed content of a piece.

    Attributes:
        name: name and version of the message.
        frame: bytes that are explained.
        pieces: outermost pieces, in order.
        error: reason why the last leaf could not be decoded; None if all bytes were decoded.
    """

    name: str
    frame: bytes
    pieces: tuple[Piece, ...]
    error: DecodeError | None = None

    def leaves(self) -> Iterator[Piece]:
        """Yield the pieces that have no inner pieces. They cover each byte of the frame once, in order."""
        return (piece for _, piece in self.walk() if not piece.pieces)

    def walk(self) -> Iterator[tuple[int, Piece]]:
        """Yield every piece with its depth in the tree, from 0. A node is yielded before its inner pieces.

        The pieces of decompressed content are not included.
        """
        pending = [(0, piece) for piece in reversed(self.pieces)]
        while pending:
            depth, piece = pending.pop()
            yield depth, piece
            pending += [(depth + 1, inner) for inner in reversed(piece.pieces)]


@dataclass(slots=True)
class _Node:
    """A node of the tree that is still open: further inner pieces can be added. The attributes are those of Piece.

    Attributes:
        start: offset of the node in the data.
    """

    start: int
    path: str
    type: str
    value: Any
    note: str
    pieces: list[Piece]


class TreeBuilder:
    """A builder of the tree of pieces. Pieces are added while data is decoded.

    Args:
        base: offset of the data in the frame.
        prefix: prefix of every path.
        start: offset in the data where the tree begins.
        path: path of the root; None for the prefix without its trailing dot.
    """

    def __init__(self, base: int = 0, prefix: str = "", *, start: int = 0, path: str | None = None) -> None:
        self.base = base
        self.prefix = prefix
        self._open = [_Node(start, prefix.removesuffix(".") if path is None else path, "", None, "", [])]

    def leaf(self, start: int, end: int, path: str, type_: str, value: Any = None, **more: Any) -> None:
        """Add a leaf for the bytes from ``start`` to ``end``.

        Args:
            start: offset of the first byte in the data.
            end: offset of the byte after the leaf.
            path: path of the field.
            type_: wire type of the field.
            value: value in the JSON form.
            more: further attributes of the Piece.
        """
        self._open[-1].pieces.append(
            Piece(
                offset=self.base + start, length=end - start, path=self.prefix + path, type=type_, value=value, **more
            )
        )

    def open(self, start: int, path: str, type_: str, value: Any = None, note: str = "") -> None:
        """Begin a node; the pieces that are added before ``close`` become its inner pieces.

        Args:
            start: offset of the node in the data.
            path: path of the node.
            type_: wire type of the node.
            value: value in the JSON form.
            note: meaning of the value.
        """
        self._open.append(_Node(start, self.prefix + path, type_, value, note, []))

    def close(self, end: int, note: str | None = None) -> None:
        """Close the node that was opened last.

        Args:
            end: offset of the byte after the node, in the data.
            note: meaning of the value; None to keep the note of ``open``.
        """
        node = self._open.pop()
        self._open[-1].pieces.append(
            Piece(
                offset=self.base + node.start,
                length=end - node.start,
                path=node.path,
                type=node.type,
                value=node.value,
                note=node.note if note is None else note,
                pieces=tuple(node.pieces),
            )
        )

    def add(self, pieces: tuple[Piece, ...]) -> None:
        """Add complete pieces to the innermost open node. Their offsets count from the start of the frame."""
        self._open[-1].pieces.extend(pieces)

    def done(self) -> tuple[Piece, ...]:
        """Return the outermost pieces of the finished tree. All nodes must be closed."""
        (root,) = self._open
        return tuple(root.pieces)

    def give_up(self, error: DecodeError, end: int) -> tuple[Piece, ...]:
        """Finish the tree after a decoding error, and return its outermost pieces.

        Pieces that end after the position of the error are dropped, and so are open nodes without pieces. The bytes
        from the last remaining piece up to ``end`` become an UNREAD piece in the innermost open node. This piece has
        the path of the error, or the path of the node if the error has no path.
        """
        for node in self._open:
            node.pieces = _before(node.pieces, self.base + error.offset)
        while len(self._open) > 1 and not self._open[-1].pieces:
            self._open.pop()  # no part of it could be decoded
        start = next((node.pieces[-1].end for node in reversed(self._open) if node.pieces), None)
        if start is None:
            start = self.base + self._open[0].start
        growing = self._open[-1]
        path = f"{self.prefix}{error.path}" if error.path else growing.path
        rest = self.base + end - start
        growing.pieces.append(Piece(offset=start, length=rest, path=path, type=UNREAD, error=error.reason))
        while len(self._open) > 1:
            self.close(end)
        return self.done()


def _before(pieces: list[Piece], end: int) -> list[Piece]:
    """Return the given pieces that end at ``end`` or before.

    A node that ends later is replaced by its inner pieces that end at ``end`` or before.
    """
    kept = [piece for piece in pieces if piece.end <= end]
    if len(kept) < len(pieces):
        kept += _before(list(pieces[len(kept)].pieces), end)
    return kept

"""What an explanation is made of: a tree of pieces, whose leaves are the bytes of a frame in order.

``Grower`` makes the tree while a frame is read, also of one that cannot be read to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kwire.errors import DecodeError

COUNT, LENGTH, TAG, SIZE, PRESENCE = "(count)", "(length)", "(tag)", "(size)", "(presence)"
BOOKS = frozenset({COUNT, LENGTH, TAG, SIZE, PRESENCE})  # names of leaves that stand before what they are about
STRUCT = "struct"
TAG_TYPE = "tag"  # type of a tagged field, around its value
TAGGED_FIELDS = "_tagged_fields"  # name of a tagged section
TRAILING = "trailing"  # name of what stands behind a message
UNREAD = "unread"  # type of bytes that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a frame: a leaf, or a node with ``pieces`` that follow each other and fill it.

    ``path``: as in error messages, ``protocols[0].metadata``; what a field holds inside goes on from there.
    ``type``: Kafka's word for the form; STRUCT, TAG_TYPE, UNREAD, or that of a part of a record batch.
    ``value``: in the JSON form; a count for an array, a tag for a tagged field, 1 for a struct that may be null and is
    there, None for null and for what has no value.
    ``note``: what the value stands for, such as the name of an error code; empty if it says all itself.
    ``head``: bytes of length at the start of a leaf. ``error``: why an UNREAD piece could not be read.
    ``unpacked``: what the bytes of this leaf hold compressed; offsets in there count in what they become.
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
        """Where the next piece begins."""
        return self.offset + self.length

    @property
    def name(self) -> str:
        """The last step of the path: ``metadata``, ``topics[0]``, or one of BOOKS."""
        return self.path.rpartition(".")[2]

    @property
    def own(self) -> int:
        """How many bytes at its start are no matter of a field below: all of a leaf, the count or length of a node."""
        if not self.pieces:
            return self.length
        own = 0
        for piece in self.pieces:
            if piece.name not in BOOKS:
                break
            own += piece.length
        return own

    @property
    def fields(self) -> tuple[Piece, ...]:
        """The pieces that are not in ``own``."""
        return tuple(piece for piece in self.pieces if piece.name not in BOOKS)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All pieces of some bytes: of a frame, or of what a compressed piece becomes.

    ``name``: of the message and its version. ``error``: why the last leaf could not be read.
    """

    name: str
    frame: bytes
    pieces: tuple[Piece, ...]
    error: DecodeError | None = None

    def leaves(self) -> Iterator[Piece]:
        """The pieces without others in them: they cover each byte of the frame once, in order."""
        return (piece for _, piece in self.walk() if not piece.pieces)

    def walk(self) -> Iterator[tuple[int, Piece]]:
        """Every piece with its depth, a node before what is in it. What is unpacked is not part of it."""
        waiting = [(0, piece) for piece in reversed(self.pieces)]
        while waiting:
            depth, piece = waiting.pop()
            yield depth, piece
            waiting += [(depth + 1, inner) for inner in reversed(piece.pieces)]


@dataclass(slots=True)
class _Node:
    """A node that is still growing. ``start``: in the data at hand."""

    start: int
    path: str
    type: str
    value: Any
    note: str
    pieces: list[Piece]


class Grower:
    """Grows the pieces of data that begins at ``base`` of a frame, from ``start`` of the data on.

    ``prefix`` stands before each path; ``path`` is that of the whole.
    """

    def __init__(self, base: int = 0, prefix: str = "", *, start: int = 0, path: str | None = None) -> None:
        self.base = base
        self.prefix = prefix
        self._open = [_Node(start, prefix.removesuffix(".") if path is None else path, "", None, "", [])]

    def leaf(self, start: int, end: int, path: str, type_: str, value: Any = None, **more: Any) -> None:
        """A leaf from ``start`` to ``end`` of the data; ``more``: other fields of a Piece."""
        self._open[-1].pieces.append(
            Piece(
                offset=self.base + start, length=end - start, path=self.prefix + path, type=type_, value=value, **more
            )
        )

    def open(self, start: int, path: str, type_: str, value: Any = None, note: str = "") -> None:
        """A node begins: what comes is in it until it is closed."""
        self._open.append(_Node(start, self.prefix + path, type_, value, note, []))

    def close(self, end: int, note: str | None = None) -> None:
        """The node that was opened last ends."""
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
        """Pieces that are done, with offsets of the frame."""
        self._open[-1].pieces.extend(pieces)

    def done(self) -> tuple[Piece, ...]:
        """The pieces, when everything that was opened is closed."""
        (root,) = self._open
        return tuple(root.pieces)

    def give_up(self, error: DecodeError, end: int) -> tuple[Piece, ...]:
        """The pieces up to what ``error`` is about, and one more: all bytes from there to ``end`` of the data.

        It stands in the node that was growing, and has its path if the error has none; what was told beyond the place
        of the error is taken back.
        """
        for node in self._open:
            node.pieces = _before(node.pieces, self.base + error.offset)
        while len(self._open) > 1 and not self._open[-1].pieces:
            self._open.pop()  # nothing of it could be read
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
    """The pieces that end at ``end`` or before; of a node that ends later those inside it, and not the node."""
    kept = [piece for piece in pieces if piece.end <= end]
    if len(kept) < len(pieces):
        kept += _before(list(pieces[len(kept)].pieces), end)
    return kept

"""The command ``kwire explain``, which shows a frame as annotated hex."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click

from kwire import explain
from kwire.cli import frames, lines
from kwire.command import one_line
from kwire.explain import UNREAD, Explanation, Piece
from kwire.explain.pieces import STRUCT, TAG_TYPE, TRAILING
from kwire.lazy_dataclass import dataclass

SHOWN_BYTES = 8  # maximum bytes of a piece that text shows
UNREAD_ROWS = 32  # maximum rows of bytes that could not be decoded
SHOWN_VALUE = 400  # maximum characters of a value, at any screen width
GOOD_ROOM = 32  # columns wanted for the value; with fewer, names are indented by 1 per level instead of 2
MIN_ROOM = 26  # columns for the value; with fewer, names longer than MIN_NAME may overflow their column
MIN_NAME = 22
LEAST_ROOM = 5  # columns for a value after the longest name and type
GAP = 2
WITHOUT_VALUE = frozenset({STRUCT, "record batch", "record", "message", "header", "compressed"})  # types
STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "offset": {"dim": True},
    "bytes": {"fg": "yellow"},
    "name": {"fg": "cyan"},
    "type": {"dim": True},
    "value": {},
    UNREAD: {"fg": "red"},
}


@click.command("explain")
@frames.arguments
@click.option("--flat", is_flag=True, help="Print full paths instead of a tree.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line instead of text.")
@click.option(
    "--width", type=click.IntRange(min=40), help="Width of the text in characters.  [default: the terminal's, or 100]"
)
def command(
    source: str,
    response: bool,
    api_key: int | None,
    api_version: int | None,
    flat: bool,
    as_json: bool,
    width: int | None,
) -> None:
    """Show frames as annotated hex: offset, bytes, path, type and value of every field, as a tree.

    The input is the same as for `kwire decode`. Every byte is shown once, in order. In a string, `|` separates the
    length from the text. The row of an array shows the bytes of its count. A message inside a field is shown below the
    field. Examples are the subscription in a JoinGroup, the assignment in a SyncGroup, and record batches. Offsets into
    decompressed data begin with `+`.

    \b
    kwire explain 00120000000000070000
    kwire explain --response --api-key 12 --api-version 0 000000070000

    With --json, a line is an object with "offset", "length", "path", "type", "value", "hex", "end" and "depth" of a
    field. "offset", "length" and "hex" are about the bytes of the field without its inner fields, and "end" includes
    the inner fields. Values are those of `kwire decode`; the value of an array is its count. Some lines also have
    "note" (the meaning of the value), "reason" (why bytes cannot be decoded) or "within" (the path of the compressed
    field that contains this field).

    An invalid frame is shown up to the invalid field. The remaining bytes and the error follow, and the exit code is 1.
    """
    defaults = frames.Defaults(frames.DIRECTIONS[response], api_key, api_version)
    text = TextForm(flat, width or lines.columns(), painter())
    form = (lambda explanation: json_lines(explanation, flat)) if as_json else text.lines
    frames.work_through(source, lambda line: explain_lines(defaults.read(line), form), text=not as_json)


Lines = Iterator[dict[str, Any] | str]


def explain_lines(source_frame: frames.FrameLine, form: Callable[[Explanation], Lines]) -> Lines:
    """Yield the output lines for one frame.

    Args:
        source_frame: frame of an input line.
        form: function that returns the lines of an explanation.

    Raises: DecodeError after the last line if the frame is invalid.
    """
    if source_frame.direction == "request":
        explanation = explain.explain_request(source_frame.frame)
    else:
        key, version = source_frame.api_key, source_frame.api_version
        explanation = explain.explain_response(source_frame.frame, key, version)
    yield from form(explanation)
    if explanation.error:
        raise explanation.error


@dataclass(frozen=True, slots=True)
class Place:
    """A ``Piece`` of an explanation, such as a field, with its position in the tree of pieces.

    Attributes:
        piece: explained bytes: their path, type and value.
        depth: number of pieces that contain this piece.
        data: bytes to which the offsets of the piece refer: the frame, or decompressed data.
        within: path of the compressed field that contains the piece; "" if the piece is in the frame itself.
    """

    piece: Piece
    depth: int
    data: bytes
    within: str = ""

    @property
    def own(self) -> bytes:
        return self.data[self.piece.offset : self.piece.offset + self.piece.own]


def places(explanation: Explanation, depth: int = 0, within: str = "") -> Iterator[Place]:
    """Yield every ``Piece`` of an explanation in frame order, including the pieces of decompressed data.

    Args:
        explanation: explanation of a frame or of decompressed data.
        depth: depth of the outermost pieces.
        within: path of the compressed field that the explanation describes; "" for a frame.
    """
    pending = [(depth, piece) for piece in reversed(explanation.pieces)]
    while pending:
        depth, piece = pending.pop()
        yield Place(piece, depth, explanation.frame, within)
        if piece.unpacked is not None:
            yield from places(piece.unpacked, depth + 1, piece.path)
        pending += [(depth + 1, inner) for inner in reversed(piece.fields)]


def json_lines(explanation: Explanation, flat: bool) -> Lines:
    """Yield one JSON object for each ``Piece`` of an explanation.

    Args:
        explanation: explanation of a frame.
        flat: True to leave out pieces whose bytes all belong to the pieces that they contain, such as structs.
    """
    for place in places(explanation):
        piece = place.piece
        if flat and not piece.own and piece.type != UNREAD:
            continue
        line = {
            "offset": piece.offset,
            "length": piece.own,
            "path": piece.path,
            "type": piece.type,
            "value": piece.value,
            "hex": place.own.hex(),
            "end": piece.end,
            "depth": place.depth,
        }
        optional = {"note": piece.note, "reason": piece.error, "within": place.within}
        yield line | {key: text for key, text in optional.items() if text}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the text output before its cells are aligned.

    Attributes:
        offset: text of the offset column.
        bytes: bytes of the piece, in hex.
        name: name or path of the piece.
        depth: level in the tree, by which the name is indented.
        type: type of the value.
        value: text of the value, to the right of the other cells.
        more: meaning or error after the value. It is printed on separate lines if it does not fit.
        unread: True for bytes that could not be decoded.
    """

    offset: str
    bytes: str
    name: str
    depth: int
    type: str
    value: str = ""
    more: str = ""
    unread: bool = False


@dataclass(frozen=True, slots=True)
class TextForm:
    """A converter of explanations to the text that ``kwire explain`` prints.

    Attributes:
        flat: True for full paths instead of a tree.
        width: width of the output in characters.
        paint: function that colours a cell, called as ``paint(style, text)``.
    """

    flat: bool
    width: int
    paint: Callable[[str, str], str]

    def lines(self, explanation: Explanation) -> Lines:
        """Yield a title, one or more lines for each ``Piece``, and an empty line.

        The widths of the columns are computed from the pieces of this explanation.
        """
        yield self.paint("title", f"{explanation.name}, {len(explanation.frame)} bytes")
        rows = [row for place in places(explanation) for row in self.rows(place)]
        widths, step = self.widths(rows)
        for row in rows:
            yield from self.laid_out(row, widths, step)
        yield ""

    def widths(self, rows: Sequence[Row]) -> tuple[list[int], int]:
        """Return the widths of the columns to the left of the value, and the indentation per level of the tree.

        Widths and indentation are in characters. The indentation is 2; it is 1 if values would have too little space.
        """
        offset, data = (max((len(cell) for cell in cells), default=0) for cells in zip(*map(_ends, rows), strict=True))
        kind = max((len(row.type) for row in rows if " " not in row.type), default=0)
        room, name = 0, 0
        for step in (2, 1):
            name = max((step * row.depth + len(row.name) for row in rows), default=0)
            room = self.width - (offset + data + name + kind + 4 * GAP)
            if room >= GOOD_ROOM:
                break
        name -= max(0, min(MIN_ROOM - room, name - MIN_NAME))
        return [offset, data, name, kind], step

    def laid_out(self, row: Row, widths: Sequence[int], step: int) -> Iterator[str]:
        """Yield the text lines of a row with aligned columns.

        A cell that is wider than its column moves the following cells to the right.

        Args:
            row: row with unaligned cells.
            widths: widths of the columns to the left of the value, in characters.
            step: indentation per level of the tree, in characters.
        """
        cells = (
            ("offset", row.offset),
            ("bytes", row.bytes),
            (UNREAD if row.unread else "name", " " * (step * row.depth) + row.name),
            ("type", row.type),
        )
        line, used, column = "", 0, 0
        for (style, cell), width in zip(cells, widths, strict=True):
            if style == "type" and len(cell) > width:  # uses free space of the name column, so that values stay aligned
                column = max(used + GAP, column + width - len(cell))
            line += " " * (column - used) + self.paint(style, cell)
            used = column + len(cell)
            column += max(width, len(cell)) + GAP
        room = max(LEAST_ROOM, self.width - column)
        paint = partial(self.paint, UNREAD if row.unread else "value")
        first = cut(row.value, room)
        if row.more and len(first) + 1 + len(row.more) <= room:
            first, more = f"{first} {row.more}".lstrip(), []
        else:
            more = textwrap.wrap(row.more, room, break_long_words=False)
            if not first and more and len(more[0]) <= room:
                first = more.pop(0)
        yield (line + " " * (column - used) + paint(first)).rstrip()
        for other in more:
            yield " " * max(0, min(column, self.width - len(other))) + paint(other)

    def rows(self, place: Place) -> Iterator[Row]:
        """Yield the rows of text for a ``Piece``: one row, or several for bytes that could not be decoded."""
        piece = place.piece
        if piece.type == UNREAD:
            yield from self.unread_rows(place)
        elif piece.own or not self.flat:
            value, more = value_text(piece)
            depth, data = self.depth(place), hex_cell(place.own, piece.head)
            yield Row(self.offset(place), data, self.name(place), depth, piece.type, value, more)
            if piece.error:
                yield Row("", "", "", 0, "", more=one_line(piece.error), unread=True)

    def unread_rows(self, place: Place) -> Iterator[Row]:
        """Yield the rows for bytes that could not be decoded: the reason and the first bytes."""
        piece, reason = place.piece, one_line(place.piece.error)
        sign = "+" * bool(place.within)
        first = place.own[:SHOWN_BYTES].hex()
        yield Row(f"{sign}{piece.offset}", first, self.name(place), self.depth(place), UNREAD, more=reason, unread=True)
        for at in range(SHOWN_BYTES, min(piece.length, UNREAD_ROWS * SHOWN_BYTES), SHOWN_BYTES):
            yield Row(f"{sign}{piece.offset + at}", place.own[at : at + SHOWN_BYTES].hex(), "", 0, "")
        if (more := piece.length - UNREAD_ROWS * SHOWN_BYTES) > 0:
            yield Row("", f"+{more}", "", 0, "")

    def offset(self, place: Place) -> str:
        """Return the text of the offset column: the offset of the first byte.

        For a ``Piece`` with fields, the text is the offsets of the first and the last byte.
        """
        piece, sign = place.piece, "+" * bool(place.within)
        if self.flat or not piece.fields:
            return f"{sign}{piece.offset}"
        return f"{sign}{piece.offset}-{piece.end - 1}"

    def depth(self, place: Place) -> int:
        return 0 if self.flat else place.depth

    def name(self, place: Place) -> str:
        path = one_line(place.piece.path)
        if self.flat:
            return path
        name = path.rpartition(".")[2]
        return f"tag {name}" if name.isdigit() else name


def _ends(row: Row) -> tuple[str, str]:
    return row.offset, row.bytes


def hex_cell(own: bytes, head: int) -> str:
    """Return the first bytes of a ``Piece`` in hex, with ``|`` after its length prefix.

    Args:
        own: bytes that belong to the piece but to none of its fields.
        head: size of the length prefix, in bytes; 0 for none.
    """
    shown = own[:SHOWN_BYTES].hex()
    if 0 < head < len(own):
        shown = f"{shown[: 2 * head]}|{shown[2 * head :]}"
    return f"{shown}…" if len(own) > SHOWN_BYTES else shown


def cut(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters. A longer text is cut, and ends with ``…``."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def value_text(piece: Piece) -> tuple[str, str]:
    """Return the value of a ``Piece`` as text, and the meaning of the value ("" if it has none).

    Strings are in quotes. For a bytes field without a meaning, the text is the size, and the content if it is printable
    UTF-8.
    """
    note = one_line(piece.note)
    if piece.type in WITHOUT_VALUE:
        return "", note
    if piece.value is None:
        return "null", ""
    if piece.type == TAG_TYPE:
        return "", note if piece.name.isdigit() else f"tag {piece.value}, {note}"
    if piece.type.endswith(("bytes", "records")):
        content = bytes.fromhex(piece.value) if piece.name == TRAILING else b64decode(piece.value)
        return "" if note else bytes_text(content), note
    if "array of" in piece.type:
        return f"{piece.value} element{'s' * (piece.value != 1)}", ""
    if piece.type == "nullable_struct":
        return "present", ""
    if isinstance(piece.value, str):
        return one_line(json.dumps(piece.value[:SHOWN_VALUE], ensure_ascii=False)), note
    return json.dumps(piece.value), f"({note})" if note[:1].isdigit() else note


def bytes_text(content: bytes) -> str:
    """Return the text for a field of bytes: the size, and the content if it is printable UTF-8."""
    size = f"{len(content)} byte{'s' * (len(content) != 1)}"
    shown = content[:SHOWN_VALUE].decode("utf-8", "replace")
    if not shown or not shown.isprintable() or "\ufffd" in shown:
        return size
    return f"{size} {json.dumps(shown, ensure_ascii=False)}"


def painter() -> Callable[[str, str], str]:
    """Return the function that colours a cell.

    It adds colours only if stdout is a terminal and the environment variable NO_COLOR is not set.
    """
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return lambda name, text: click.style(text, **STYLES[name]) if text else ""
    return lambda _, text: text

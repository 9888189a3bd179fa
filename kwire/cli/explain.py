"""``kwire explain``: a frame as annotated hex."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from kwire import explain
from kwire.cli import frames, lines
from kwire.command import one_line
from kwire.explain import UNREAD, Explanation, Piece
from kwire.explain.pieces import STRUCT, TAG_TYPE, TRAILING

SHOWN_BYTES = 8  # of a piece, in text
UNREAD_ROWS = 32  # of what could not be read
SHOWN_VALUE = 400  # characters of a value, on however wide a screen
GOOD_ROOM = 32  # columns for the value; for them names are indented by one column a level instead of two
MIN_ROOM = 26  # for them long names stand out, beyond MIN_NAME
MIN_NAME = 22
LEAST_ROOM = 5  # for a value behind the longest name and type that there are
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
@click.option("--flat", is_flag=True, help="Whole paths instead of a tree.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each line instead of text.")
@click.option("--width", type=click.IntRange(min=40), help="Columns of text.  [default: the terminal's, or 100]")
def command(
    source: str,
    response: bool,
    api_key: int | None,
    api_version: int | None,
    flat: bool,
    as_json: bool,
    width: int | None,
) -> None:
    """Frames as annotated hex: offset, bytes, path, type and value of every field, as a tree.

    Frames are given as to `kwire decode`. Every byte is told once, in order; `|` stands behind the bytes of a length,
    and the bytes of a count are those of the array. What a field holds inside hangs below it: the subscription in a
    JoinGroup, the assignment in a SyncGroup, record batches and their records. Offsets of what had to be unpacked
    first begin with `+`.

    \b
    kwire explain 00120000000000070000
    kwire explain --response --api-key 12 --api-version 0 000000070000

    With --json a line is {"offset", "length", "path", "type", "value", "hex", "end", "depth"}: offset, length and hex
    of the bytes that the line itself is about, end of all that hangs below it; "note" says what a value stands for,
    "reason" why bytes cannot be read, and "within" is the path of what had to be unpacked first. Values are those of
    `kwire decode`, a count for an array.

    A frame that cannot be read is told up to the field that is wrong; there stand the bytes that are left and the
    error, and the exit code is 1 at the end.
    """
    defaults = frames.Defaults(frames.DIRECTIONS[response], api_key, api_version)
    text = TextForm(flat, width or lines.columns(), painter())
    form = (lambda found: json_lines(found, flat)) if as_json else text.lines
    frames.work_through(source, lambda line: explained_frame(defaults.read(line), form), text=not as_json)


Lines = Iterator[dict[str, Any] | str]


def explained_frame(given: frames.Given, form: Callable[[Explanation], Lines]) -> Lines:
    """The lines about one frame. Raises: DecodeError at the end, if it could not be read."""
    if given.direction == "request":
        found = explain.explain_request(given.frame)
    else:
        found = explain.explain_response(given.frame, given.api_key, given.api_version)
    yield from form(found)
    if found.error:
        raise found.error


@dataclass(frozen=True, slots=True)
class Place:
    """A piece where it stands: in these bytes, which are the frame unless ``within`` names what was unpacked."""

    piece: Piece
    depth: int
    data: bytes
    within: str = ""

    @property
    def own(self) -> bytes:
        return self.data[self.piece.offset : self.piece.offset + self.piece.own]


def places(found: Explanation, depth: int = 0, within: str = "") -> Iterator[Place]:
    """Every piece in order, what is unpacked included; counts and lengths are told with what they are about."""
    waiting = [(depth, piece) for piece in reversed(found.pieces)]
    while waiting:
        depth, piece = waiting.pop()
        yield Place(piece, depth, found.frame, within)
        if piece.unpacked is not None:
            yield from places(piece.unpacked, depth + 1, piece.path)
        waiting += [(depth + 1, inner) for inner in reversed(piece.fields)]


def json_lines(found: Explanation, flat: bool) -> Lines:
    """One object for each piece; if ``flat`` not for those without bytes of their own."""
    for place in places(found):
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
        more = {"note": piece.note, "reason": piece.error, "within": place.within}
        yield line | {key: said for key, said in more.items() if said}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text before it is laid out: offset, bytes, name and type are cells, the value takes what is left.

    ``more``: words behind the value, on lines of their own if they do not fit.
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
    """How an Explanation becomes text; ``paint(style, text)`` colours a cell."""

    flat: bool
    width: int
    paint: Callable[[str, str], str]

    def lines(self, found: Explanation) -> Lines:
        """A title, and a line for each piece; columns are as wide as the frame needs."""
        yield self.paint("title", f"{found.name}, {len(found.frame)} bytes")
        rows = [row for place in places(found) for row in self.rows(place)]
        widths, step = self.widths(rows)
        for row in rows:
            yield from self.laid_out(row, widths, step)
        yield ""

    def widths(self, rows: Sequence[Row]) -> tuple[list[int], int]:
        """The widths of the columns before the value, and by how much a level is indented."""
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
        """The cells of a row under those of the others; one too long pushes the next."""
        cells = (
            ("offset", row.offset),
            ("bytes", row.bytes),
            (UNREAD if row.unread else "name", " " * (step * row.depth) + row.name),
            ("type", row.type),
        )
        line, used, column = "", 0, 0
        for (style, cell), width in zip(cells, widths, strict=True):
            if (
                style == "type" and len(cell) > width
            ):  # takes room that the name leaves, so that values stay in a column
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
        """The rows of a piece: one, but for what could not be read."""
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
        """The bytes that could not be read, with the reason; only the first are shown, if they are many."""
        piece, reason = place.piece, one_line(place.piece.error)
        sign = "+" * bool(place.within)
        first = place.own[:SHOWN_BYTES].hex()
        yield Row(f"{sign}{piece.offset}", first, self.name(place), self.depth(place), UNREAD, more=reason, unread=True)
        for at in range(SHOWN_BYTES, min(piece.length, UNREAD_ROWS * SHOWN_BYTES), SHOWN_BYTES):
            yield Row(f"{sign}{piece.offset + at}", place.own[at : at + SHOWN_BYTES].hex(), "", 0, "")
        if (more := piece.length - UNREAD_ROWS * SHOWN_BYTES) > 0:
            yield Row("", f"+{more}", "", 0, "")

    def offset(self, place: Place) -> str:
        """Where the piece is: its first byte, and the last of a node."""
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
    """The bytes of a piece, those of a length apart; only the first, if they are many."""
    shown = own[:SHOWN_BYTES].hex()
    if 0 < head < len(own):
        shown = f"{shown[: 2 * head]}|{shown[2 * head :]}"
    return f"{shown}…" if len(own) > SHOWN_BYTES else shown


def cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def value_text(piece: Piece) -> tuple[str, str]:
    """The value for a reader, and what is to be said of it: text in quotes, bytes by their size."""
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
    """Bytes by their size, and as text if that is what they are."""
    size = f"{len(content)} byte{'s' * (len(content) != 1)}"
    shown = content[:SHOWN_VALUE].decode("utf-8", "replace")
    if not shown or not shown.isprintable() or "\ufffd" in shown:
        return size
    return f"{size} {json.dumps(shown, ensure_ascii=False)}"


def painter() -> Callable[[str, str], str]:
    """How to write a cell: in colour on a terminal, unless NO_COLOR is set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return lambda name, text: click.style(text, **STYLES[name]) if text else ""
    return lambda _, text: text

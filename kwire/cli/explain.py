"""``kwire explain``: a frame as annotated hex."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from kwire import explain
from kwire.cli import frames, lines
from kwire.errorcodes import ErrorCode
from kwire.explain import UNREAD, Explanation, Piece
from kwire.messages import APIS

SHOWN_BYTES = 8  # of a piece, in text
UNREAD_ROWS = 32  # of what could not be read
SHOWN_VALUE = 60  # characters
STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "offset": {"dim": True},
    "bytes": {"fg": "yellow"},
    "path": {"fg": "cyan"},
    "type": {"dim": True},
    "value": {},
    UNREAD: {"fg": "red"},
}
Row = tuple[str, str, str, str, str]  # offset, bytes, path, type, value


@click.command("explain")
@frames.arguments
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each field instead of text.")
def command(source: str, response: bool, api_key: int | None, api_version: int | None, as_json: bool) -> None:
    """Frames as annotated hex: offset, bytes, path, type and value of every field.

    Frames are given as to `kwire decode`. Every byte is told once, in order. What a field holds inside, such as the
    subscription in a JoinGroup or the headers of record batches, stands indented below it, in text.

    \b
    kwire explain 00120000000000070000
    kwire explain --response --api-key 12 --api-version 0 000000070000

    With --json a field is {"offset", "length", "path", "type", "value", "hex"}; values are those of `kwire decode`, a
    count for an array.

    A frame that cannot be read is told up to the field that is wrong; then come the bytes that are left, the error, and
    exit code 1 at the end.
    """
    defaults = frames.Defaults(frames.DIRECTIONS[response], api_key, api_version)
    style = painter()
    form = json_lines if as_json else lambda found: text_lines(found, style)
    frames.work_through(source, lambda line: told(defaults.read(line), form), text=not as_json)


Lines = Iterator[dict[str, Any] | str]


def told(given: frames.Given, form: Callable[[Explanation], Lines]) -> Lines:
    """The lines about one frame. Raises: DecodeError at the end, if it could not be read."""
    if given.direction == "request":
        found = explain.explain_request(given.frame)
    else:
        found = explain.explain_response(given.frame, given.api_key, given.api_version)
    yield from form(found)
    if found.error:
        raise found.error


def json_lines(found: Explanation) -> Lines:
    """One object for each piece of the frame."""
    for piece in found.pieces:
        yield {
            "offset": piece.offset,
            "length": piece.length,
            "path": piece.path,
            "type": piece.type,
            "value": piece.value,
            "hex": found.frame[piece.offset : piece.end].hex(),
        }


def text_lines(found: Explanation, style: Callable[[str, str], str]) -> Lines:
    """A title, and a line for each piece; columns are as wide as the frame needs."""
    yield style("title", f"{found.name}, {len(found.frame)} bytes")
    rows = [(piece.type, row) for piece in found.pieces for row in rows_of(piece, found)]
    widths = [max(len(row[column]) for _, row in rows) for column in range(4)]
    for type_, (offset, data, path, kind, value) in rows:
        cells = (
            style("offset", offset.rjust(widths[0])),
            style("bytes", data.ljust(widths[1])),
            style(UNREAD if type_ == UNREAD else "path", path.ljust(widths[2])),
            style("type", kind.ljust(widths[3])),
            style("value", value),
        )
        yield "  ".join(cells).rstrip()
    yield ""


def rows_of(piece: Piece, found: Explanation) -> Iterator[Row]:
    if piece.type == UNREAD:
        yield from unread_rows(piece, found)
    else:
        yield from piece_rows(piece, found.frame, "")


def unread_rows(piece: Piece, found: Explanation) -> Iterator[Row]:
    """The bytes that could not be read, with the reason; only the first are shown, if they are many."""
    reason = lines.one_line(found.error.reason) if found.error else ""
    for at in range(0, min(piece.length, UNREAD_ROWS * SHOWN_BYTES) or 1, SHOWN_BYTES):
        start = piece.offset + at
        data = found.frame[start : start + SHOWN_BYTES].hex(" ")
        path, kind, value = ("", "", "") if at else (lines.one_line(piece.path), UNREAD, reason)
        yield str(start), data, path, kind, value
    if (more := piece.length - UNREAD_ROWS * SHOWN_BYTES) > 0:
        yield "", f"+{more}", "", "", ""


def piece_rows(piece: Piece, frame: bytes, indent: str) -> Iterator[Row]:
    """The row of a piece and, indented, of what is inside it."""
    data = frame[piece.offset : piece.end]
    shown = data[:SHOWN_BYTES].hex(" ")
    if len(data) > SHOWN_BYTES:
        shown = f"{shown} +{len(data) - SHOWN_BYTES}"
    yield str(piece.offset), shown, f"{indent}{lines.one_line(piece.path)}", piece.type, value_text(piece)
    for inner in piece.inside:
        yield from piece_rows(inner, frame, f"{indent}  ")


def value_text(piece: Piece) -> str:
    """The value for a reader: text in quotes, bytes by their size, a number with the name that it has."""
    if piece.value is None:
        return "null"
    if piece.type == "batch":
        return str(piece.value)
    if piece.type.endswith(("bytes", "records")):
        return f"{piece_size(piece)} bytes"
    if " " in piece.type or piece.type.endswith("array"):
        return f"{piece.value} element{'s' * (piece.value != 1)}"
    if piece.type == "nullable_struct":
        return "present"
    if isinstance(piece.value, str):
        shown = json.dumps(piece.value[:SHOWN_VALUE], ensure_ascii=False)
        return lines.one_line(shown) + (" ..." if len(piece.value) > SHOWN_VALUE else "")
    return f"{json.dumps(piece.value)}{name_of(piece)}"


def name_of(piece: Piece) -> str:
    """What the number stands for, if it has a name."""
    last = piece.path.rpartition(".")[2]
    if last == "error_code" and piece.value in tuple(ErrorCode):
        return f" {ErrorCode(piece.value).name}"
    if piece.path == "header.request_api_key" and piece.value in APIS:
        return f" {APIS[piece.value].name}"
    return ""


def piece_size(piece: Piece) -> int:
    """How many bytes a field of bytes holds: its value is base64, or hex behind the message."""
    return len(piece.value) // 2 if piece.path == explain.TRAILING else len(explain.content(piece))


def painter() -> Callable[[str, str], str]:
    """How to write a cell: in colour on a terminal, unless NO_COLOR is set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return lambda name, text: click.style(text, **STYLES[name])
    return lambda _, text: text

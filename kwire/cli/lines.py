"""What the verbs that read lines share: where lines come from, where results go, what becomes of a bad line.

A bad line never stops the others: its place on stdout is taken by ``{"error": ...}``, stderr has one line about it, and
the exit code is 1 at the end.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import click

from kwire.command import one_line
from kwire.errors import DecodeError, EncodeError, WireError

Result = dict[str, Any] | str  # a JSON object, or a line of text
Work = Callable[[str], dict[str, Any] | Iterator[Result]]

MAX_LINE = 256 * 1024 * 1024  # bytes: the largest frame that Kafka takes (100 MiB), as hex or base64 in JSON
WIDTH = 100  # columns of text, if it is not a terminal that says how many it has
OBJECTS = 100_000  # made between two searches for cycles, where there are many


class LineError(ValueError):
    """A line that is not what the verb reads; ``path`` names the key that is wrong."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path


def work_through(source: str, work: Work, *, text: bool = False) -> None:
    """Print what ``work`` makes of each line of ``source``, a path or ``-``. Exit 1 if it refused any."""
    if source == "-":
        report("<stdin>", lines(sys.stdin.buffer, "<stdin>"), work, text=text)
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 - closed below; only the opening is wrong usage
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"cannot read {source!r}: {reason}") from error
    with stream:
        report(source, lines(stream, source), work, text=text)


def report(name: str, found: Iterator[bytes], work: Work, *, text: bool = False) -> None:
    """Print what ``work`` makes of each line that is not blank. Exit 1 if it refused any.

    ``text``: what is printed is for people, so an error is told on stderr alone.
    """
    refused = False
    for number, line in enumerate(found, start=1):
        if not line.strip():
            continue
        try:
            made = work(_text(line))
            for result in (made,) if isinstance(made, dict) else made:
                _print(result)
        except (WireError, LineError, RecursionError) as error:
            refused = True
            told = error_form(error)
            message = told["error"]["message"]
            click.echo(one_line(f"{name}:{number}: {message}"), err=True)
            if not text:
                _print(told)
    if refused:
        sys.exit(1)


def lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a stream as they come. Of one beyond MAX_LINE only the first MAX_LINE + 1 bytes are kept."""
    try:
        while line := stream.readline(MAX_LINE + 1):
            rest = line
            while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE + 1)
            yield line
    except OSError as error:
        raise click.ClickException(f"cannot read {name}: {error.strerror}") from error


def error_form(error: Exception) -> dict[str, Any]:
    """What stands in the place of a result. ``offset`` is null where the problem is not at a byte of the frame."""
    message = "nested too deep" if isinstance(error, RecursionError) else str(error)
    path = error.path if isinstance(error, (LineError, DecodeError, EncodeError)) else ""
    offset = error.offset if isinstance(error, DecodeError) else None
    return {"error": {"message": message, "path": path, "offset": offset}}


def parse_object(line: str) -> dict[str, Any]:
    """The JSON object of a line. Raises: LineError, RecursionError."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg} at character {error.pos}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise LineError(f"not JSON that can be read: {error}") from error
    if not isinstance(found, dict):
        raise LineError(f"expected a JSON object, got {_kind(found)}")
    return found


def _value(found: Mapping[str, Any], key: str, default: Any) -> Any:
    """What stands under a key; null counts as missing."""
    value = found.get(key)
    if value is None:
        value = default
    if value is None:
        raise LineError("missing", key)
    return value


def integer(found: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """An integer of the line; null counts as missing. Raises: LineError."""
    value = _value(found, key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"expected an integer, got {_kind(value)}", key)
    return value


def member(found: Mapping[str, Any], key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object inside the line. Raises: LineError."""
    value = _value(found, key, default)
    if not isinstance(value, dict):
        raise LineError(f"expected an object, got {_kind(value)}", key)
    return value


def hexadecimal(found: Mapping[str, Any], key: str, default: str | None = None) -> bytes:
    """Bytes written in hex. Raises: LineError."""
    value = _value(found, key, default)
    if not isinstance(value, str):
        raise LineError(f"expected hex, got {_kind(value)}", key)
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        odd = len(value.strip()) % 2 and value.isalnum() and value.isascii()
        reason = "an odd number of hex digits" if odd else f"not hex: {error}"
        raise LineError(reason, key) from error


def _text(line: bytes) -> str:
    if len(line) > MAX_LINE:
        raise LineError(f"a line of more than {MAX_LINE} bytes")
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8: {error.reason} at byte {error.start} of the line") from error


def _print(result: Result) -> None:
    out = sys.stdout.buffer
    shown = result if isinstance(result, str) else json.dumps(result)
    out.write(shown.encode("utf-8", "backslashreplace") + b"\n")
    out.flush()  # whoever reads sees each result at once


def columns() -> int:
    """How wide text may be: as wide as the terminal, or WIDTH where there is none."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def writable(output: str | Path | None, inputs: Iterable[str] = ()) -> None:
    """Look at a path before anything is read for it. Raises: click.UsageError if it is an input, or has no folder."""
    if output is None:
        return
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise click.UsageError(f"{str(output)!r} is read, and would be overwritten")
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise click.UsageError(f"cannot write {str(output)!r}: there is no folder {folder}")


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Search for cycles seldom: rows are millions of objects in none, and looking takes a fifth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def progress(paths: Iterable[str], *, hidden: bool = False) -> Iterator[Callable[[int], object] | None]:
    """A bar on a terminal, of the bytes of captures that were read; ``hidden``: what is read is shown there itself.
    Raises: OSError.
    """
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from kwire.capture.files.capture_file import each
    from kwire.capture.files.file_systems import size_of

    size = sum(map(size_of, each(paths)))
    with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr) as bar:
        yield bar.update


def needed(package: str, extra: str) -> None:
    """Look for a package before any work is done. Raises: ClickException."""
    if find_spec(package) is None:
        raise click.ClickException(f"{package} is missing: pip install 'kwire[{extra}]'")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")

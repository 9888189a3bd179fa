"""Input and output of commands that process one input line at a time.

An invalid line does not stop the command. Instead of its result, ``{"error": ...}`` is printed to stdout. One line is
printed to stderr, and the exit code is 1.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from string import hexdigits, whitespace
from typing import Any, BinaryIO

import click
from click.core import ParameterSource

from kwire.command import one_line, read_errors
from kwire.engines.chosen import DEFAULT, KNOWN, Engine, implementation
from kwire.errors import DecodeError, EncodeError, EngineError, WireError, invalid_json

Result = dict[str, Any] | str  # a JSON object, or a line of text
Work = Callable[[str], dict[str, Any] | Iterator[Result]]

MAX_LINE = 256 * 1024 * 1024  # bytes: Kafka's largest frame (100 MiB) as hex or base64 in JSON
WIDTH = 100  # columns of text if stdout is not a terminal
OBJECTS = 1_000_000  # allocations between two runs of the cyclic garbage collector


def _installed(_context: click.Context, _parameter: click.Parameter, engine: Engine | None) -> Engine | None:
    try:
        implementation(engine or DEFAULT)
    except EngineError as error:
        raise click.UsageError(str(error)) from None
    return engine


engine_option = click.option(
    "--engine",
    type=click.Choice(KNOWN),
    callback=_installed,
    help="Engine of the codec.  [default: the fastest that is installed]",
)


class LineError(ValueError):
    """The error for an input line that the command cannot process.

    Args:
        reason: the problem, without the name of the key.

    Attributes:
        path: name of the invalid or missing key; "" if the whole line is invalid.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path


def expect_input(context: click.Context) -> None:
    """Check that a command without an argument has input on stdin.

    A terminal on stdin is an error, unless the argument is an explicit ``-``.

    Raises: click.UsageError.
    """
    if context.get_parameter_source("source") is ParameterSource.DEFAULT and sys.stdin.isatty():
        metavar = next(each.metavar for each in context.command.params if each.name == "source")
        raise click.UsageError(
            f"expected {metavar}, or input on stdin: --help has examples; use - to type the input in this terminal",
            context,
        )


def work_through(source: str, work: Work, *, text: bool = False) -> None:
    """Print the result of a function for each line of a file or stdin. Exit with code 1 if a line was invalid.

    Args:
        source: path of a file, or ``-`` for stdin.
        work: function that gets the text of a line and returns its result: a JSON object, or an iterator of JSON
            objects and lines of text. It raises WireError or LineError if the line is invalid.
        text: True if the output is text. Then errors are printed only on stderr. False to print errors also on stdout,
            as JSON.

    Raises: click.UsageError if stdin is a terminal, or if the file cannot be read.
    """
    if source == "-":
        expect_input(click.get_current_context())
        report("<stdin>", lines(sys.stdin.buffer, "<stdin>"), work, text=text)
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 - closed below; only the opening is wrong usage
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"cannot read {source!r}: {reason}") from error
    with stream:
        report(source, lines(stream, source), work, text=text)


def report(name: str, lines: Iterator[bytes], work: Work, *, text: bool = False) -> None:
    """Print the result of a function for each line that is not blank. Exit with code 1 if a line was invalid.

    Args:
        name: name of the input in error messages.
        lines: lines of the input, as bytes.
        work: function that gets the text of a line and returns its result: a JSON object, or an iterator of JSON
            objects and lines of text. It raises WireError or LineError if the line is invalid.
        text: True if the output is text. Then errors are printed only on stderr. False to print errors also on stdout,
            as JSON.
    """
    refused = False
    for number, given in enumerate(lines, start=1):
        line = given.removeprefix(BOM_UTF8) if number == 1 else given
        if not line.strip():
            continue
        try:
            results = work(_text(line))
            for result in (results,) if isinstance(results, dict) else results:
                _print(result)
        except (WireError, LineError, RecursionError) as error:
            refused = True
            form = error_form(error)
            message = form["error"]["message"]
            click.echo(one_line(f"{name}:{number}: {message}"), err=True)
            if not text:
                _print(form)
    if refused:
        sys.exit(1)


def lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a stream. A line longer than MAX_LINE bytes is cut after MAX_LINE + 1 bytes.

    The caller can recognise a line that was cut by its length.

    Args:
        stream: binary stream to read.
        name: name of the stream in error messages.

    Raises: click.ClickException if the stream cannot be read.
    """
    try:
        while line := stream.readline(MAX_LINE + 1):
            rest = line
            while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE + 1)
            yield line
    except OSError as error:
        raise click.ClickException(f"cannot read {name}: {error.strerror}") from error


def error_form(error: Exception) -> dict[str, Any]:
    """Return the JSON object that is printed instead of a result.

    ``offset`` in this object is null if the error does not refer to a byte of the frame.

    Args:
        error: WireError, LineError or RecursionError.
    """
    message = "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)
    path = error.path if isinstance(error, (LineError, DecodeError, EncodeError)) else ""
    offset = error.offset if isinstance(error, DecodeError) else None
    return {"error": {"message": message, "path": path, "offset": offset}}


def parse_object(line: str) -> dict[str, Any]:
    """Parse an input line that is a JSON object.

    Raises: LineError if the line is not a JSON object; RecursionError if the object is nested too deeply.
    """
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise LineError(invalid_json(error)) from error
    except ValueError as error:
        most = sys.get_int_max_str_digits()
        raise LineError(f"unsupported JSON: an integer has more than {most} digits") from error
    if not isinstance(value, dict):
        raise LineError(f"expected a JSON object, got {_kind(value)}")
    return value


def _value(line: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return the value of a key in an input line.

    Args:
        line: JSON object of the input line.
        key: name of the key.
        default: value to return if the key is missing or null; None to raise an error.

    Raises: LineError if the key is missing and has no default.
    """
    value = line.get(key)
    if value is None:
        value = default
    if value is None:
        raise LineError("missing", key)
    return value


def integer(line: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return the integer value of a key in an input line.

    Args:
        line: JSON object of the input line.
        key: name of the key.
        default: value to return if the key is missing or null; None to raise an error.

    Raises: LineError if the key is missing, or its value is not an integer.
    """
    value = _value(line, key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"expected an integer, got {_kind(value)}", key)
    return value


def member(line: Mapping[str, Any], key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object that is the value of a key in an input line.

    Args:
        line: JSON object of the input line.
        key: name of the key.
        default: value to return if the key is missing or null; None to raise an error.

    Raises: LineError if the key is missing, or its value is not an object.
    """
    value = _value(line, key, default)
    if not isinstance(value, dict):
        raise LineError(f"expected an object, got {_kind(value)}", key)
    return value


def hexadecimal(line: Mapping[str, Any], key: str, default: str | None = None) -> bytes:
    """Return the bytes for the hex text that is the value of a key in an input line.

    Args:
        line: JSON object of the input line.
        key: name of the key.
        default: hex to use if the key is missing or null; None to raise an error.

    Raises: LineError if the key is missing, or its value is not valid hex.
    """
    value = _value(line, key, default)
    if not isinstance(value, str):
        raise LineError(f"expected hex, got {_kind(value)}", key)
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise LineError(_hex_error(value), key) from error


def _hex_error(value: str) -> str:
    """Return the reason why a text is not valid hex."""
    for place, character in enumerate(value):
        if character not in hexdigits + whitespace:
            return f"invalid hex digit {character!r} at position {place}"
    if sum(character in hexdigits for character in value) % 2:
        return "odd number of hex digits"
    return "the two hex digits of a byte must not be separated"


def _text(line: bytes) -> str:
    if len(line) > MAX_LINE:
        raise LineError(f"the line is longer than the limit of {MAX_LINE} bytes")
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise LineError(f"invalid UTF-8: {error.reason} at byte {error.start} of the line") from error


def _print(result: Result) -> None:
    out = sys.stdout.buffer
    shown = result if isinstance(result, str) else json.dumps(result)
    out.write(shown.encode("utf-8", "backslashreplace") + b"\n")
    out.flush()  # so that a reader of a pipe sees each result at once


def columns() -> int:
    """Return the width of text output in characters: the width of the terminal, or WIDTH if stdout is no terminal."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def writable(output: str | Path | None, inputs: Iterable[str] = ()) -> None:
    """Check before the work begins that the folder of an output file exists, and that the file is not an input file.

    Args:
        output: path of the output file; None for stdout.
        inputs: paths of the input files.

    Raises: click.UsageError if the output file is also an input, or if its folder does not exist.
    """
    if output is None:
        return
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise click.UsageError(
                f"{str(output)!r} is also an input file and would be overwritten: use another output file"
            )
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise click.UsageError(f"cannot write {str(output)!r}: folder {folder} does not exist")


def alone(paths: Collection[str]) -> None:
    """Check that stdin (``-``) is not read together with files.

    Raises: click.UsageError if ``paths`` contains ``-`` and a second path.
    """
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("- (stdin) cannot be combined with files")


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Run the cyclic garbage collector only rarely inside the ``with`` block.

    A capture has millions of row objects without reference cycles. The collector would take a fifth of the time and
    find nothing.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def progress(paths: Collection[str], *, hidden: bool = False) -> Iterator[Callable[[int], object] | None]:
    """Show a progress bar of the bytes read from captures, if stderr is a terminal.

    The context manager yields a function, or None without a progress bar. The caller passes each number of bytes read
    to the function.

    Args:
        paths: paths of the captures.
        hidden: True for no progress bar, because the output goes to the same terminal.

    Raises: click.UsageError if a file or a folder cannot be read.
    """
    if hidden or "-" in paths or not sys.stderr.isatty():
        yield None
        return
    from kwire.capture.files.capture_file import CaptureFile, each

    with read_errors():
        size = sum(CaptureFile(path).size for path in each(paths))
    with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr) as bar:
        yield bar.update


def needed(package: str, extra: str) -> None:
    """Check before the work begins that an optional package is installed.

    Args:
        package: name of the Python package.
        extra: pip extra that installs the package.

    Raises: click.ClickException with the command that installs the extra.
    """
    if find_spec(package) is None:
        raise click.ClickException(f"{package} is missing: pip install 'kwire[{extra}]'")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")

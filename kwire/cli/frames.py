"""Parsing of frames in JSON lines or hex, for ``kwire decode`` and ``kwire explain``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from reprlib import repr as shorten
from typing import Any, TypeVar

import click

from kwire import envelope
from kwire.cli import lines
from kwire.lazy_dataclass import dataclass

HEX = re.compile(r"[0-9a-fA-F\s]+")
HEAD = 4  # bytes of API key and version at the start of a request
DIRECTIONS = ("request", "response")

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FrameLine:
    """A frame from one input line.

    Attributes:
        direction: "request" or "response".
        frame: header and body, without length prefix.
        api_key: API key. For a request, it is in the header of the frame; -1 if the frame is too short.
        api_version: API version. For a request, it is in the header of the frame; -1 if the frame is too short.
    """

    direction: str
    frame: bytes
    api_key: int
    api_version: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values of command line options, which are used for keys that are missing in an input line.

    Attributes:
        direction: "request" or "response".
        api_key: API key of responses; None if the option was not used.
        api_version: API version of responses; None if the option was not used.
    """

    direction: str
    api_key: int | None
    api_version: int | None

    def read(self, line: str) -> FrameLine:
        """Parse the frame of one input line.

        ``line``: JSON object, or the hex of a frame.

        Raises: LineError if the line is not valid.
        """
        members = lines.parse_object(line) if line.startswith("{") else {"hex": line}
        direction = members.get("direction", self.direction)
        if direction not in DIRECTIONS:
            raise lines.LineError(f"expected request or response, got {shorten(direction)}", "direction")
        frame = lines.hexadecimal(members, "hex")
        if direction == "response":
            key = _integer(members, "api_key", self.api_key)
            return FrameLine(direction, frame, key, _integer(members, "api_version", self.api_version))
        if len(frame) < HEAD:
            return FrameLine(direction, frame, -1, -1)  # decoding reports the missing bytes
        key, version = envelope.peek_request(frame)
        for name, carried in (("api_key", key), ("api_version", version)):
            if (stated := lines.integer(members, name, carried)) != carried:
                raise lines.LineError(
                    f"the line has {stated}, but the header of the frame has {carried}: remove {name} from the line",
                    name,
                )
        return FrameLine(direction, frame, key, version)


def _integer(line: Mapping[str, Any], key: str, default: int | None) -> int:
    """Return an integer of an input line. If the line does not have the key, return the value of the option.

    Args:
        line: JSON object of the input line.
        key: name of the key.
        default: value of the option; None if the option was not used.

    Raises: LineError if both are missing, or the value is not an integer.
    """
    if line.get(key) is None and default is None:
        raise lines.LineError(f"the key is missing: add it to the line, or use --{key.replace('_', '-')}", key)
    return lines.integer(line, key, default)


def arguments(command: C) -> C:
    """Add the argument SOURCE and the options of commands that read frames to a command.

    The options are ``--response``, ``--api-key`` and ``--api-version``.
    """
    for decorate in (
        click.option("--api-version", type=int, help="API version of responses without one in their line."),
        click.option("--api-key", type=int, help="API key of responses without one in their line."),
        click.option("--response", is_flag=True, help="Decode frames as responses unless their line has a direction."),
        click.argument("source", metavar="[FILE|-|HEX]", default="-"),
    ):
        command = decorate(command)
    return command


def work_through(source: str, work: lines.Work, *, text: bool = False) -> None:
    """Print the result of a function for each input line. Exit with code 1 if a line was invalid.

    Args:
        source: path of a file, ``-`` for stdin, or the hex of one frame.
        work: function that returns the result for an input line.
        text: True if the output is text. Then errors are printed only on stderr. False to print errors also on stdout,
            as JSON.

    Raises: click.UsageError if stdin is a terminal, or if the file cannot be read.
    """
    if HEX.fullmatch(source) and not os.path.exists(source):
        lines.report("<argument>", iter([" ".join(source.split()).encode()]), work, text=text)
    else:
        lines.work_through(source, work, text=text)

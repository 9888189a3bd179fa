"""What the verbs that read frames share: the forms in which a frame may be given."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from kwire import envelope
from kwire.cli import lines

HEX = re.compile(r"[0-9a-fA-F\s]+")
DIRECTIONS = ("request", "response")

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Given:
    """A frame; ``api_key`` and ``api_version`` of a request are those that it carries."""

    direction: str
    frame: bytes
    api_key: int
    api_version: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the command line says of frames that do not say it themselves."""

    direction: str
    api_key: int | None
    api_version: int | None

    def read(self, line: str) -> Given:
        """The frame of one line: a JSON object, or bare hex. Raises: WireError, LineError."""
        found = lines.parse_object(line) if line.startswith("{") else {"hex": line}
        direction = found.get("direction", self.direction)
        if direction not in DIRECTIONS:
            raise lines.LineError("expected request or response", "direction")
        frame = lines.hexadecimal(found, "hex")
        if direction == "response":
            key = lines.integer(found, "api_key", self.api_key)
            return Given(direction, frame, key, lines.integer(found, "api_version", self.api_version))
        key, version = envelope.peek_request(frame)
        for name, carried in (("api_key", key), ("api_version", version)):
            if (said := lines.integer(found, name, carried)) != carried:
                raise lines.LineError(f"the line says {said}, the frame {carried}", name)
        return Given(direction, frame, key, version)


def arguments(command: C) -> C:
    """The argument and flags of a verb that reads frames: source, response, api_key, api_version."""
    for decorate in (
        click.option("--api-version", type=int, help="API version of responses that do not say it."),
        click.option("--api-key", type=int, help="API key of responses that do not say it."),
        click.option("--response", is_flag=True, help="Frames that do not say their direction are responses."),
        click.argument("source", metavar="[FILE|-|HEX]", default="-"),
    ):
        command = decorate(command)
    return command


def work_through(source: str, work: lines.Work, *, text: bool = False) -> None:
    """As ``lines.work_through``; a source that is hex and no file is the one line itself."""
    if HEX.fullmatch(source) and not os.path.exists(source):
        lines.report("<argument>", iter([" ".join(source.split()).encode()]), work, text=text)
    else:
        lines.work_through(source, work, text=text)

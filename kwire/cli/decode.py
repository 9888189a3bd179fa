"""``kwire decode``: frames to JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from kwire import envelope, jsonform
from kwire.cli import lines
from kwire.codec import ENGINES, Engine
from kwire.envelope import Request, Response
from kwire.headers import request_header_version, response_header_version

HEX = re.compile(r"[0-9a-fA-F\s]+")
DIRECTIONS = ("request", "response")


@click.command("decode")
@click.argument("source", metavar="[FILE|-|HEX]", default="-")
@click.option("--response", is_flag=True, help="Frames that do not say their direction are responses.")
@click.option("--api-key", type=int, help="API key of responses that do not say it.")
@click.option("--api-version", type=int, help="API version of responses that do not say it.")
@click.option("--engine", type=click.Choice(sorted(ENGINES)), default="reference", show_default=True)
def command(source: str, response: bool, api_key: int | None, api_version: int | None, engine: Engine) -> None:
    """Frames to JSON, a line each.

    A line is {"hex": ..., "direction": "request"|"response", "api_key": n, "api_version": n}, where requests need
    neither key nor version, or the bare hex of a frame. The frame comes without its 4 bytes of length.

    \b
    kwire decode frames.jsonl
    kwire decode 00120000000000070000
    kwire decode --response --api-key 12 --api-version 0 000000070000

    A frame that cannot be read gives {"error": {"message", "path", "offset"}} in its place, and exit code 1 at the end.
    """
    defaults = Defaults(DIRECTIONS[response], api_key, api_version, engine)
    if HEX.fullmatch(source) and not os.path.exists(source):
        lines.report("<argument>", iter([" ".join(source.split()).encode()]), defaults.decode)
    else:
        lines.work_through(source, defaults.decode)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the command line says of frames that do not say it themselves."""

    direction: str
    api_key: int | None
    api_version: int | None
    engine: Engine

    def decode(self, line: str) -> dict[str, Any]:
        """The JSON form of one line. Raises: WireError, LineError."""
        found = lines.parse_object(line) if line.startswith("{") else {"hex": line}
        direction = found.get("direction", self.direction)
        if direction not in DIRECTIONS:
            raise lines.LineError("expected request or response", "direction")
        frame = lines.hexadecimal(found, "hex")
        if direction == "request":
            return self._decode_request(frame, found)
        key = lines.integer(found, "api_key", self.api_key)
        version = lines.integer(found, "api_version", self.api_version)
        return form_of(envelope.decode_response(frame, key, version, engine=self.engine))

    def _decode_request(self, frame: bytes, found: Mapping[str, Any]) -> dict[str, Any]:
        key, version = envelope.peek_request(frame)
        for name, carried in (("api_key", key), ("api_version", version)):
            if (said := lines.integer(found, name, carried)) != carried:
                raise lines.LineError(f"the line says {said}, the frame {carried}", name)
        return form_of(envelope.decode_request(frame, engine=self.engine))


def form_of(message: Request | Response) -> dict[str, Any]:
    """A decoded frame as the JSON object that ``kwire encode`` reads."""
    is_request = isinstance(message, Request)
    header_version = request_header_version if is_request else response_header_version
    form: dict[str, Any] = {
        "direction": "request" if is_request else "response",
        "api_key": message.api.key,
        "api_name": message.api.name,
        "api_version": message.version,
        "header": jsonform.to_json(message.header, header_version(message.api, message.version)),
        "body": jsonform.to_json(message.body, message.version),
    }
    if message.trailing:
        form["trailing"] = message.trailing.hex()
    return form

"""``kwire decode``: frames to JSON."""

from __future__ import annotations

from typing import Any

import click

from kwire import envelope
from kwire.cli import frames
from kwire.codec import ENGINES, Engine
from kwire.envelope import Request, Response
from kwire.headers import request_header_version, response_header_version
from kwire.json.objects import to_json


@click.command("decode")
@frames.arguments
@click.option("--engine", type=click.Choice(sorted(ENGINES)), default="compiled", show_default=True)
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
    defaults = frames.Defaults(frames.DIRECTIONS[response], api_key, api_version)
    frames.work_through(source, lambda line: decode(defaults.read(line), engine))


def decode(given: frames.Given, engine: Engine) -> dict[str, Any]:
    """The JSON form of one frame. Raises: WireError."""
    if given.direction == "request":
        return form_of(envelope.decode_request(given.frame, engine=engine))
    return form_of(envelope.decode_response(given.frame, given.api_key, given.api_version, engine=engine))


def form_of(message: Request | Response) -> dict[str, Any]:
    """A decoded frame as the JSON object that ``kwire encode`` reads."""
    is_request = isinstance(message, Request)
    header_version = request_header_version if is_request else response_header_version
    form: dict[str, Any] = {
        "direction": "request" if is_request else "response",
        "api_key": message.api.key,
        "api_name": message.api.name,
        "api_version": message.version,
        "header": to_json(message.header, header_version(message.api, message.version)),
        "body": to_json(message.body, message.version),
    }
    if message.trailing:
        form["trailing"] = message.trailing.hex()
    return form

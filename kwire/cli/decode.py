"""The command ``kwire decode``, which converts frames to JSON."""

from __future__ import annotations

from typing import Any

import click

from kwire import envelope
from kwire.cli import frames, lines
from kwire.engines.chosen import Engine
from kwire.envelope import Request, Response
from kwire.headers import request_header_version, response_header_version
from kwire.json.objects import to_json


@click.command("decode")
@frames.arguments
@lines.engine_option
def command(source: str, response: bool, api_key: int | None, api_version: int | None, engine: Engine | None) -> None:
    """Decode frames to JSON, one line each.

    A line of input is {"hex": ..., "direction": "request"|"response", "api_key": n, "api_version": n}, or only the hex
    of a frame. Requests need no api_key and no api_version. The frame has no length prefix.

    \b
    kwire decode frames.jsonl
    kwire decode 00120000000000070000
    kwire decode --response --api-key 12 --api-version 0 000000070000

    For an invalid frame, {"error": {"message", "path", "offset"}} is printed instead, and the exit code is 1.
    """
    defaults = frames.Defaults(frames.DIRECTIONS[response], api_key, api_version)
    frames.work_through(source, lambda line: decode(defaults.read(line), engine))


def decode(source_frame: frames.FrameLine, engine: Engine | None) -> dict[str, Any]:
    """Return the JSON object that ``kwire decode`` prints for a frame.

    Args:
        source_frame: frame of an input line.
        engine: engine that decodes the frame; None for the default engine.

    Raises: WireError if the bytes are not valid.
    """
    if source_frame.direction == "request":
        return form_of(envelope.decode_request(source_frame.frame, engine=engine))
    return form_of(
        envelope.decode_response(source_frame.frame, source_frame.api_key, source_frame.api_version, engine=engine)
    )


def form_of(message: Request | Response) -> dict[str, Any]:
    """Convert a decoded frame to the JSON object that ``kwire encode`` accepts."""
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

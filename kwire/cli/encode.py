"""``kwire encode``: what ``kwire decode`` prints, back to frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kwire import envelope
from kwire.cli import lines
from kwire.codec import ENGINES, Engine
from kwire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from kwire.json.objects import from_json
from kwire.schema import Api


@click.command("encode")
@click.argument("source", metavar="[FILE|-]", default="-")
@click.option("--engine", type=click.Choice(sorted(ENGINES)), default="compiled", show_default=True)
def command(source: str, engine: Engine) -> None:
    """JSON, as `kwire decode` prints it, to frames: {"hex": ...} each, without the 4 bytes of length.

    Needed are direction, api_key, api_version and body; header (correlation_id, client_id) and trailing (hex behind the
    body) may be left out, as may fields of the body that have their default.

    A line that cannot be encoded gives {"error": {"message", "path", "offset"}} in its place, and exit code 1 at the
    end.
    """
    lines.work_through(source, lambda line: {"hex": encode(lines.parse_object(line), engine).hex()})


def encode(form: Mapping[str, Any], engine: Engine) -> bytes:
    """The frame of one line. Raises: WireError, LineError."""
    if "error" in form and "body" not in form:
        raise lines.LineError("the line holds an error instead of a message", "error")
    api = envelope.find_api(lines.integer(form, "api_key"), version := lines.integer(form, "api_version"))
    if form.get("api_name", api.name) != api.name:
        raise lines.LineError(f"is {form['api_name']}, but {api.key} is {api.name}", "api_name")
    trailing = lines.hexadecimal(form, "trailing", "")
    header, body = lines.member(form, "header", {}), lines.member(form, "body")
    match form.get("direction"):
        case "request":
            return _encode_request(api, version, header, body, engine) + trailing
        case "response":
            return _encode_response(api, version, header, body, engine) + trailing
        case _:
            raise lines.LineError("expected request or response", "direction")


def _encode_request(api: Api, version: int, header: dict[str, Any], body: dict[str, Any], engine: Engine) -> bytes:
    known = {"request_api_key": api.key, "request_api_version": version}
    for name, value in known.items():
        if header.get(name, value) != value:
            raise lines.LineError(f"is {header[name]}, but the line says {value}", f"header.{name}")
    return envelope.encode_request(
        from_json(api.request, body, version),
        version,
        correlation_id=0,
        header=from_json(RequestHeader, known | header, request_header_version(api, version)),
        engine=engine,
    )


def _encode_response(api: Api, version: int, header: dict[str, Any], body: dict[str, Any], engine: Engine) -> bytes:
    return envelope.encode_response(
        from_json(api.response, body, version),
        version,
        correlation_id=0,
        header=from_json(ResponseHeader, header, response_header_version(api, version)),
        engine=engine,
    )

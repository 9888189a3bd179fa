"""The command ``kwire encode``, which converts the output of ``kwire decode`` to frames."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as shorten
from typing import Any

import click

from kwire import envelope
from kwire.cli import lines
from kwire.engines.chosen import Engine
from kwire.errors import UnknownApi
from kwire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from kwire.json.objects import from_json
from kwire.schema import Api


@click.command("encode")
@click.argument("source", metavar="[FILE|-]", default="-")
@lines.engine_option
def command(source: str, engine: Engine | None) -> None:
    """Encode JSON lines from `kwire decode` to frames: {"hex": ...} each, without the length prefix.

    The keys direction, api_key, api_version and body are required. The keys header (correlation_id, client_id) and
    trailing (hex of bytes after the body) are optional. A field that is missing in the body gets its default value.

    For an invalid line, {"error": {"message", "path", "offset"}} is printed instead, and the exit code is 1.
    """
    lines.work_through(source, lambda line: {"hex": encode(lines.parse_object(line), engine).hex()})


def encode(form: Mapping[str, Any], engine: Engine | None) -> bytes:
    """Return the frame that one input line describes.

    Args:
        form: JSON object of the input line.
        engine: engine that encodes the frame; None for the default engine.

    Raises: WireError if the bytes are not valid; LineError if the line is not valid.
    """
    if "error" in form and "body" not in form:
        raise lines.LineError("the line reports a decoding error and has no message: remove the line", "error")
    api, version = _api(form)
    if form.get("api_name", api.name) != api.name:
        raise lines.LineError(
            f"the name {form['api_name']} does not match api_key {api.key}, which is {api.name}", "api_name"
        )
    trailing = lines.hexadecimal(form, "trailing", "")
    header, body = lines.member(form, "header", {}), lines.member(form, "body")
    match form.get("direction"):
        case "request":
            return _encode_request(api, version, header, body, engine) + trailing
        case "response":
            return _encode_response(api, version, header, body, engine) + trailing
        case direction:
            raise lines.LineError(f"expected request or response, got {shorten(direction)}", "direction")


def _api(form: Mapping[str, Any]) -> tuple[Api, int]:
    """Return the API and the version that one input line names. Raises: LineError if kwire does not know them."""
    version = lines.integer(form, "api_version")
    try:
        return envelope.find_api(lines.integer(form, "api_key"), version), version
    except UnknownApi as error:
        raise lines.LineError(error.reason, error.path.removeprefix("request_")) from error


def _encode_request(
    api: Api, version: int, header: dict[str, Any], body: dict[str, Any], engine: Engine | None
) -> bytes:
    expected = {"request_api_key": api.key, "request_api_version": version}
    for name, value in expected.items():
        if header.get(name, value) != value:
            raise lines.LineError(
                f"the value is {shorten(header[name])}, but {name.removeprefix('request_')} of the line is {value}",
                f"header.{name}",
            )
    return envelope.encode_request(
        from_json(api.request, body, version),
        version,
        correlation_id=0,
        header=from_json(RequestHeader, expected | header, request_header_version(api, version)),
        engine=engine,
    )


def _encode_response(
    api: Api, version: int, header: dict[str, Any], body: dict[str, Any], engine: Engine | None
) -> bytes:
    return envelope.encode_response(
        from_json(api.response, body, version),
        version,
        correlation_id=0,
        header=from_json(ResponseHeader, header, response_header_version(api, version)),
        engine=engine,
    )

"""The command ``kwire blob``, which converts messages that are stored inside other messages or in a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kwire import codec
from kwire.blobs import BLOBS, STORED, body_offset, prefix, readable_version, stored_version
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData, decode_user_data, read_user_data
from kwire.cli import lines
from kwire.errors import UnknownApi
from kwire.json.objects import from_json, to_json

ASSIGNORS: Mapping[str, type] = {"sticky": StickyUserData, "cooperative-sticky": CooperativeStickyUserData}


@click.command("blob", epilog=f"TYPE is Kafka's name: {', '.join(sorted(BLOBS))}.")
@click.argument("blob_type", metavar="TYPE", type=click.Choice(sorted(BLOBS)))
@click.argument("source", metavar="[FILE|-]", default="-")
def command(blob_type: str, source: str) -> None:
    """Decode and encode messages that are stored inside other messages, one JSON line each.

    \b
    An input line has one of three forms:
      {"hex_as_stored": ...}             decoded; it begins with the version, or a key's record type
      {"hex_body": ..., "version": n}    decoded
      {"fields": {...}, "version": n}    encoded, to hex_body and hex_as_stored
    The output for one form is valid input in another form.

    \b
    StickyUserData does not contain its version:
      {"user_data_hex": ...}             decoded, as v1 or else as v0
      {"fields": {...}, "version": n}    encoded, to user_data_hex
    With "assignor": "cooperative-sticky", the data is only a generation; so are 4 bytes that are neither v1 nor v0.

    For an invalid line, {"error": {"message", "path", "offset"}} is printed instead, and the exit code is 1.
    """
    if blob_type in STORED:
        lines.work_through(source, lambda line: convert(BLOBS[blob_type], lines.parse_object(line)))
    else:
        lines.work_through(source, lambda line: convert_user_data(lines.parse_object(line)))


def convert(blob: type, line: Mapping[str, Any]) -> dict[str, Any]:
    """Decode or encode the message of one input line; return the output line.

    Args:
        blob: class of the message.
        line: JSON object of the input line.

    Raises: WireError if the bytes are not valid; LineError if the line is not valid.
    """
    if "hex_as_stored" in line:
        data = lines.hexadecimal(line, "hex_as_stored")
        version = stored_version(blob, data)
        return _decode(blob, data, body_offset(blob), version, readable_version(blob, version))
    if "hex_body" in line:
        return _decode(blob, lines.hexadecimal(line, "hex_body"), 0, *_versions(blob, line))
    if "fields" in line:
        return _encode(blob, line)
    raise lines.LineError("the line has no content: expected one of the keys hex_as_stored, hex_body or fields")


def _versions(blob: type, line: Mapping[str, Any]) -> tuple[int, int]:
    """Return the version that an input line names, and the version to use for the body.

    Raises: LineError if kwire does not know the version.
    """
    version = lines.integer(line, "version")
    try:
        return version, readable_version(blob, version)
    except UnknownApi as error:
        raise lines.LineError(error.reason, "version") from error


def _decode(blob: type, data: bytes, offset: int, version: int, readable: int) -> dict[str, Any]:
    value: object
    value, end = codec.decode_at(blob, data, offset, readable)
    form = {"type": blob.__name__, "version": version, "fields": to_json(value, readable)}
    if end < len(data):
        form["trailing"] = data[end:].hex()
    return form


def _encode(blob: type, line: Mapping[str, Any]) -> dict[str, Any]:
    version, readable = _versions(blob, line)
    value: object = from_json(blob, lines.member(line, "fields"), readable)
    body = codec.encode(value, readable) + lines.hexadecimal(line, "trailing", "")
    stored = prefix(value, version) + body
    return {"type": blob.__name__, "version": version, "hex_body": body.hex(), "hex_as_stored": stored.hex()}


def convert_user_data(line: Mapping[str, Any]) -> dict[str, Any]:
    """Decode or encode the StickyUserData of one input line; return the output line.

    Args:
        line: JSON object of the input line.

    Raises: WireError if the bytes are not valid; LineError if the line is not valid.
    """
    assignor = line.get("assignor")
    if assignor is not None and (not isinstance(assignor, str) or assignor not in ASSIGNORS):
        raise lines.LineError(f"unknown assignor {assignor!r}: expected one of {', '.join(ASSIGNORS)}", "assignor")
    if "user_data_hex" in line:
        return _decode_user_data(assignor, lines.hexadecimal(line, "user_data_hex"))
    if "fields" in line:
        assignor = assignor or "sticky"
        version = lines.integer(line, "version")
        value: object = from_json(ASSIGNORS[assignor], lines.member(line, "fields"), version)
        body = codec.encode(value, version) + lines.hexadecimal(line, "trailing", "")
        return {"type": "StickyUserData", "assignor": assignor, "version": version, "user_data_hex": body.hex()}
    raise lines.LineError("the line has no content: expected one of the keys user_data_hex or fields")


def _decode_user_data(assignor: str | None, data: bytes) -> dict[str, Any]:
    value: object
    if assignor == "cooperative-sticky" or (assignor is None and read_user_data(data) is None and len(data) == 4):
        assignor, version = "cooperative-sticky", 0
        value, end = codec.decode_at(CooperativeStickyUserData, data, 0, version)
    else:
        assignor = "sticky"
        value, version, end = decode_user_data(data)
    fields = to_json(value, version)
    form = {"type": "StickyUserData", "assignor": assignor, "version": version, "fields": fields}
    return form | ({"trailing": data[end:].hex()} if end < len(data) else {})

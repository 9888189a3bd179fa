"""``kwire blob``: messages that travel inside others, under a version of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kwire import codec
from kwire.blobs import BLOBS, STORED, body_offset, prefix, readable_version, stored_version
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData, decode_user_data, read_user_data
from kwire.cli import lines
from kwire.json.objects import from_json, to_json

ASSIGNORS: Mapping[str, type] = {"sticky": StickyUserData, "cooperative-sticky": CooperativeStickyUserData}


@click.command("blob", epilog=f"TYPE is Kafka's name: {', '.join(sorted(BLOBS))}.")
@click.argument("blob_type", metavar="TYPE", type=click.Choice(sorted(BLOBS)))
@click.argument("source", metavar="[FILE|-]", default="-")
def command(blob_type: str, source: str) -> None:
    """Messages that travel inside others, to JSON and back, a line each.

    \b
    A line is one of
      {"hex_as_stored": ...}             decoded; it begins with the version, or a key's record type
      {"hex_body": ..., "version": n}    decoded
      {"fields": {...}, "version": n}    encoded, to hex_body and hex_as_stored
    and what one of them prints, another reads.

    \b
    StickyUserData does not say its version:
      {"user_data_hex": ...}             decoded, as v1 or else as v0
      {"fields": {...}, "version": n}    encoded, to user_data_hex
    and with "assignor": "cooperative-sticky", or if 4 bytes cannot be either, it is a generation alone.

    A line that cannot be read gives {"error": {"message", "path", "offset"}} in its place, and exit code 1 at the end.
    """
    if blob_type in STORED:
        lines.work_through(source, lambda line: convert(BLOBS[blob_type], lines.parse_object(line)))
    else:
        lines.work_through(source, lambda line: convert_user_data(lines.parse_object(line)))


def convert(blob: type, found: Mapping[str, Any]) -> dict[str, Any]:
    """One line the other way round. Raises: WireError, LineError."""
    if "hex_as_stored" in found:
        data = lines.hexadecimal(found, "hex_as_stored")
        return _decode(blob, data, body_offset(blob), stored_version(blob, data))
    if "hex_body" in found:
        return _decode(blob, lines.hexadecimal(found, "hex_body"), 0, lines.integer(found, "version"))
    if "fields" in found:
        return _encode(blob, found)
    raise lines.LineError("expected one of hex_as_stored, hex_body, fields")


def _decode(blob: type, data: bytes, offset: int, version: int) -> dict[str, Any]:
    known = readable_version(blob, version)
    value: object
    value, end = codec.decode_at(blob, data, offset, known)
    form = {"type": blob.__name__, "version": version, "fields": to_json(value, known)}
    if end < len(data):
        form["trailing"] = data[end:].hex()
    return form


def _encode(blob: type, found: Mapping[str, Any]) -> dict[str, Any]:
    version = lines.integer(found, "version")
    known = readable_version(blob, version)
    value: object = from_json(blob, lines.member(found, "fields"), known)
    body = codec.encode(value, known) + lines.hexadecimal(found, "trailing", "")
    stored = prefix(value, version) + body
    return {"type": blob.__name__, "version": version, "hex_body": body.hex(), "hex_as_stored": stored.hex()}


def convert_user_data(found: Mapping[str, Any]) -> dict[str, Any]:
    """One line of StickyUserData the other way round. Raises: WireError, LineError."""
    assignor = found.get("assignor")
    if assignor is not None and (not isinstance(assignor, str) or assignor not in ASSIGNORS):
        raise lines.LineError(f"expected one of {', '.join(ASSIGNORS)}", "assignor")
    if "user_data_hex" in found:
        return _decode_user_data(assignor, lines.hexadecimal(found, "user_data_hex"))
    if "fields" in found:
        assignor = assignor or "sticky"
        version = lines.integer(found, "version")
        value: object = from_json(ASSIGNORS[assignor], lines.member(found, "fields"), version)
        body = codec.encode(value, version) + lines.hexadecimal(found, "trailing", "")
        return {"type": "StickyUserData", "assignor": assignor, "version": version, "user_data_hex": body.hex()}
    raise lines.LineError("expected one of user_data_hex, fields")


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

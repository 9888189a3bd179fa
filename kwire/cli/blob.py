"""``kwire blob``: messages that travel inside others, under a version of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kwire import codec, jsonform
from kwire.blobs import BLOBS, readable_version, stored_version
from kwire.cli import lines


@click.command("blob", epilog=f"TYPE is Kafka's name: {', '.join(sorted(BLOBS))}.")
@click.argument("blob_type", metavar="TYPE", type=click.Choice(sorted(BLOBS)))
@click.argument("source", metavar="[FILE|-]", default="-")
def command(blob_type: str, source: str) -> None:
    """Messages that travel inside others, to JSON and back, a line each.

    \b
    A line is one of
      {"hex_as_stored": ...}             decoded; the first two bytes are the version
      {"hex_body": ..., "version": n}    decoded
      {"fields": {...}, "version": n}    encoded, to hex_body and hex_as_stored
    and what one of them prints, another reads.

    A line that cannot be read gives {"error": {"message", "path", "offset"}} in its place, and exit code 1 at the end.
    """
    lines.work_through(source, lambda line: convert(BLOBS[blob_type], lines.parse_object(line)))


def convert(blob: type, found: Mapping[str, Any]) -> dict[str, Any]:
    """One line the other way round. Raises: WireError, LineError."""
    if "hex_as_stored" in found:
        data = lines.hexadecimal(found, "hex_as_stored")
        return _decode(blob, data, 2, stored_version(blob, data))
    if "hex_body" in found:
        return _decode(blob, lines.hexadecimal(found, "hex_body"), 0, lines.integer(found, "version"))
    if "fields" in found:
        return _encode(blob, found)
    raise lines.LineError("expected one of hex_as_stored, hex_body, fields")


def _decode(blob: type, data: bytes, offset: int, version: int) -> dict[str, Any]:
    known = readable_version(blob, version)
    value: object
    value, end = codec.decode_at(blob, data, offset, known)
    form = {"type": blob.__name__, "version": version, "fields": jsonform.to_json(value, known)}
    if end < len(data):
        form["trailing"] = data[end:].hex()
    return form


def _encode(blob: type, found: Mapping[str, Any]) -> dict[str, Any]:
    version = lines.integer(found, "version")
    known = readable_version(blob, version)
    value: object = jsonform.from_json(blob, lines.member(found, "fields"), known)
    body = codec.encode(value, known) + lines.hexadecimal(found, "trailing", "")
    stored = version.to_bytes(2, "big", signed=True) + body
    return {"type": blob.__name__, "version": version, "hex_body": body.hex(), "hex_as_stored": stored.hex()}

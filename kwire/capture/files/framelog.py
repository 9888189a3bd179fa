"""Frame logs: files with one JSON object per line. Programs that record Kafka frames instead of packets write them.

``{"time_us", "connection", "client", "broker", "direction": "request"|"response", "hex"}``, where ``connection`` is any
text that identifies the connection and ``hex`` is the frame without its length prefix.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kwire.capture.files.blocks import Damage
from kwire.capture.limits import MAX_LINE, MAX_TIME_US
from kwire.errors import invalid_json
from kwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """One line of a frame log.

    Attributes:
        time_us: time, in microseconds since 1970.
        connection: text that identifies the connection.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
        to_broker: True for a request.
        frame: frame without its length prefix.
        position: byte offset of the line in the file.
    """

    time_us: int
    connection: str
    client: str
    broker: str
    to_broker: bool
    frame: bytes
    position: int


def lines(source: Any, size: int) -> Iterator[bytes]:
    """Yield the lines of a stream. Raises: Damage for a line longer than MAX_LINE.

    Args:
        source: binary stream that is opened for reading.
        size: number of bytes that one read requests.
    """
    rest, at = b"", 0
    while more := source.read(size):
        rest += more
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line + b"\n"
            at += len(line) + 1
        if len(rest) > MAX_LINE:
            raise Damage(at, f"the line is longer than the limit of {MAX_LINE} bytes")
    if rest:
        yield rest


def logged(line: bytes, at: int) -> LoggedFrame:
    """Return the frame in one line of a frame log.

    Args:
        line: the line.
        at: byte offset of the line in the file.

    Raises: Damage if the line is invalid.
    """
    try:
        fields = json.loads(line)
        direction = fields["direction"]
        if direction not in ("request", "response"):
            raise ValueError(f"direction is {direction!r}, expected request or response")
        texts = [fields[name] for name in ("client", "broker")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("client and broker must be strings")
        connection = str(fields.get("connection", ""))
        "".join([*texts, connection]).encode()  # JSON can contain lone surrogates, which no text may have
        time = fields["time_us"]
        if isinstance(time, bool) or not isinstance(time, int) or not -MAX_TIME_US < time < MAX_TIME_US:
            raise ValueError(
                f"time_us is {time!r}, expected an integer between -2**62 and 2**62 (microseconds since 1970)"
            )
        return LoggedFrame(
            time,
            connection,
            texts[0],
            texts[1],
            direction == "request",
            bytes.fromhex(fields["hex"]),
            at,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damage(at, f"invalid line of a frame log: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return invalid_json(error)
        case KeyError():
            return f"{error} is missing"
        case UnicodeEncodeError():
            return "client, broker and connection must be valid Unicode"
        case RecursionError():
            return "the JSON is nested too deeply"
        case _:
            return str(error)

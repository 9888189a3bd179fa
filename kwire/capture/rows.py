"""The rows that ``kwire capture`` prints, one per frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

from kwire.capture.calls.bodies import decoded
from kwire.capture.calls.model import UNREADABLE, Call, Connection
from kwire.capture.files.blocks import Problem, Skipped
from kwire.capture.reading import Item
from kwire.json.expanded import PLAIN, Context, error_of, form_of
from kwire.json.native import is_body, line_writer
from kwire.messages import NAMES

COLUMNS = (
    "time",
    "file",
    "client",
    "broker",
    "direction",
    "api_key",
    "api_name",
    "api_version",
    "correlation_id",
    "client_id",
    "size",
    "latency_ms",
    "error_code",
    "body",
)
NUMBERS = {
    "api_key",
    "api_version",
    "correlation_id",
    "size",
    "latency_ms",
    "error_code",
    "position",
    "packets",
}  # all others are text
DIRECTIONS = ("request", "response")
# Further columns; those from "reason" on only if they have a value.
MORE = ("connection", "position", "reason", "error", "raw", "packets", "note")
WAITING = 20_000  # frames buffered for sorting
WAITING_BYTES = 64 * 1024 * 1024

Row = dict[str, Any]
US = 1_000_000
FIRST, LAST = -62_135_596_800 * US, 253_402_300_799 * US  # the years 1 to 9999


@lru_cache(64)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def time_text(time_us: int) -> str | None:
    """Return a time as text in UTC with microseconds; None for a time outside of the years 1 to 9999.

    ``time_us``: microseconds since 1970.
    """
    if not FIRST <= time_us <= LAST:
        return None
    return f"{_second(time_us // US)}.{time_us % US:06d}Z"


def in_order(
    items: Iterable[Item], *, every_connection: bool = False, waiting: int = WAITING
) -> Iterator[tuple[Call, bool] | Connection | Problem | Skipped]:
    """Yield frames in order of time. Each frame is a pair of a call and a bool: True for the response, False for the
    request.

    Frames and ended connections are sorted in a buffer. Damage and skipped packets are yielded at their position in the
    file, after all buffered frames.

    Args:
        items: calls, connections and problems of the capture.
        every_connection: True to yield also connections that were decoded completely.
        waiting: maximum number of frames in the buffer, whose size is also limited to WAITING_BYTES. 0 to yield each
            call as soon as it is complete.
    """
    buffered: list[tuple[int, int, Call | Connection, bool]] = []

    def next_one() -> tuple[Call, bool] | Connection:
        _, _, item, is_response = heappop(buffered)
        return item if isinstance(item, Connection) else (item, is_response)

    number = held = 0
    for item in items:
        if isinstance(item, (Problem, Skipped)):
            while buffered:
                yield next_one()
            yield item
            held = 0
        elif isinstance(item, Connection):
            if every_connection or item.remark is not None:
                number += 1
                heappush(buffered, (item.last_us, number, item, False))
        elif isinstance(item, Call):
            for time_us, size, is_response in (
                (item.request_us, item.request_size, False),
                (item.response_us, item.response_size, True),
            ):
                if time_us is not None:
                    number += 1
                    heappush(buffered, (time_us, number, item, is_response))
                    held += size or 0
            while len(buffered) > waiting or (held > WAITING_BYTES and buffered):
                earliest = next_one()
                if isinstance(earliest, tuple):
                    call, is_response = earliest
                    held -= (call.response_size if is_response else call.request_size) or 0
                yield earliest
    while buffered:
        yield next_one()


def row_of(call: Call, is_response: bool) -> Row:
    """Return the row of a frame, without its body.

    Args:
        call: call of the frame.
        is_response: True for the response of the call, False for its request.
    """
    time_us = call.response_us if is_response else call.request_us
    assert time_us is not None
    latency = error = None
    if is_response:
        if call.request_us is not None:
            latency = (time_us - call.request_us) / 1_000
        if call.response is not None and call.response_version is not None:
            error = _error_of(call.response, call.response_version)
    key = call.api_key
    row = {
        "time": time_text(time_us),
        "file": call.response_file if is_response else call.file,
        "client": call.client,
        "broker": call.broker,
        "direction": "response" if is_response else "request",
        "api_key": key,
        "api_name": None if key is None else NAMES.get(key),
        "api_version": call.api_version,
        "correlation_id": call.correlation_id,
        "client_id": call.client_id,
        "size": call.response_size if is_response else call.request_size,
        "latency_ms": latency,
        "error_code": error,
        "body": None,
        "connection": call.connection,
        "position": call.response_position if is_response else call.position,
    }
    if call.reason is not None:
        row["reason"] = call.reason
    if call.error is not None and call.reason == UNREADABLE:
        row["error"] = call.error
    raw = call.response_raw if is_response else call.request_raw
    if raw is not None:
        row["raw"] = raw.hex()
    return row


def body_of(call: Call, is_response: bool, context: Context = PLAIN) -> Row | None:
    """Return the body of a frame in the JSON form; None if it was not decoded.

    Args:
        call: call of the frame.
        is_response: True for the response of the call, False for its request.
        context: topic names and options of the JSON form.
    """
    body, version = decoded(call, is_response), call.response_version if is_response else call.api_version
    return None if body is None or version is None else form_of(body, version, context)


def _error_of(response: Any, version: int) -> int | None:
    error: int | None = response.error if is_body(response.__class__) else error_of(response, version)
    return error


def remark_row(item: Connection | Problem | Skipped) -> Row | None:
    """Return a row about traffic that could not be decoded; None for a connection that was decoded completely.

    A row about damage has a text in ``error``. A row about a connection or skipped packets has ``reason`` and ``note``.
    """
    row: Row = dict.fromkeys(COLUMNS)
    match item:
        case Problem():
            row["time"] = None if item.time_us is None else time_text(item.time_us)
            return row | {"file": item.file, "position": item.position, "error": item.reason}
        case Skipped(is_damage=True):
            return row | {"file": item.file, "reason": item.reason, "packets": item.packets, "error": item.note}
        case Skipped():
            return row | {"file": item.file, "reason": item.reason, "packets": item.packets, "note": item.note}
        case Connection(remark=None):
            return None
        case _:
            row |= {"time": time_text(item.last_us), "client": item.client, "broker": item.broker}
            reason, note = item.remark or ("", "")
            return row | {"client_id": item.client_id, "connection": item.id, "reason": reason, "note": note}


def rows(
    items: Iterable[Item],
    context: Context = PLAIN,
    *,
    where: Callable[[Row], bool] | None = None,
    needs_body: bool = False,
    waiting: int = WAITING,
) -> Iterator[Row]:
    """Yield the rows of frames and remarks, in order of time.

    Args:
        items: calls, connections and problems of the capture.
        context: information for the JSON form of the bodies, such as topic names.
        where: function that selects rows; rows about damage are always yielded.
        needs_body: True if ``where`` uses bodies.
        waiting: number of frames that are buffered for sorting.
    """
    for item in in_order(items, waiting=waiting):
        if not isinstance(item, tuple):
            remark = remark_row(item)
            if remark is not None and (where is None or remark.get("error") or where(remark)):
                yield remark
            continue
        row = row_of(*item)
        if where is None or needs_body or where(row):
            row["body"] = body_of(*item, context)
            if not needs_body or where is None or where(row):
                yield row


def json_lines(
    items: Iterable[Item],
    context: Context = PLAIN,
    *,
    where: Callable[[Row], bool] | None = None,
    needs_body: bool = False,
    waiting: int = WAITING,
) -> Iterator[bytes]:
    """Yield the rows of frames and remarks as lines of JSON, in order of time. The arguments are those of ``rows``.

    If the calls were read with ``as_json=True`` (an argument of ``read``), the native engine writes most lines directly
    from the encoded bytes.
    """
    dump = json.JSONEncoder().encode
    writer = line_writer(Call, NAMES)
    if writer is None or context.records or (where is not None and needs_body):
        for row in rows(items, context, where=where, needs_body=needs_body, waiting=waiting):
            yield f"{dump(row)}\n".encode()
        return
    line_of, name_of = writer.line, context.name_of
    for item in in_order(items, waiting=waiting):
        if isinstance(item, tuple):
            if where is not None and not where(row_of(*item)):
                continue
            line = line_of(*item, name_of)
            if line is None:
                line = f"{dump(row_of(*item) | {'body': body_of(*item, context)})}\n".encode()
            yield line
        else:
            remark = remark_row(item)
            if remark is not None and (where is None or remark.get("error") or where(remark)):
                yield f"{dump(remark)}\n".encode()

"""The rows of the tables ``connections``, ``frames`` and ``problems``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import Row
from kwire.analysis.events import error_name
from kwire.analysis.usage import Refusal, api_name
from kwire.capture.calls.model import Call, Connection
from kwire.capture.files.blocks import Problem, Skipped
from kwire.capture.rows import remark_row
from kwire.errors import WireError
from kwire.json.text import json_text


def connection_row(connection: Connection, capture_id: str, clusters: Clusters | None = None) -> Row:
    """Return the row of the table ``connections`` for a connection.

    Args:
        connection: the connection.
        capture_id: id of the capture, for the column ``capture_id``.
        clusters: clusters of the brokers; None to leave the columns ``cluster`` and ``node_id`` empty.
    """
    values = {
        name: getattr(connection, name)
        for name in Connection.__slots__
        if name not in ("id", "first_us", "last_us", "lost")
    }
    values["notes"] = list(connection.notes)
    row = tables.CONNECTIONS.row(
        capture_id=capture_id,
        conn_id=connection.id,
        first_ts=connection.first_us,
        last_ts=connection.last_us,
        **values,
    )
    return located(row, clusters) if clusters else row


def located(row: Row, clusters: Clusters) -> Row:
    """Return a copy of a row of ``connections`` with values in the columns ``cluster`` and ``node_id``."""
    where = row["conn_id"], row["broker"], row["first_ts"]
    return row | {"cluster": clusters.of(*where), "node_id": clusters.node_id(*where)}


def problem_row(item: Connection | Problem | Skipped, capture_id: str) -> Row | None:
    """Return the row of ``problems`` for a damaged part of a file, skipped packets, or a connection.

    The result is None for a connection that was decoded completely.
    """
    remark = remark_row(item)
    if remark is None:
        return None
    ts = item.last_us if isinstance(item, Connection) else item.time_us if isinstance(item, Problem) else None
    names = ("file", "position", "client", "broker", "reason", "packets", "note", "error")
    values = {name: remark.get(name) for name in names}
    return tables.PROBLEMS.row(capture_id=capture_id, ts=ts, conn_id=remark.get("connection"), **values)


def frame_row(call: Call, capture_id: str, refusals: Sequence[Refusal], *, bodies: bool = True) -> Row:
    """Return the row of ``frames`` for a call. For the arguments, see ``frame_values``."""
    return dict(zip(_FRAME_COLUMNS, frame_values(call, capture_id, refusals, bodies=bodies), strict=True))


def frame_values(call: Call, capture_id: str, refusals: Sequence[Refusal], *, bodies: bool = True) -> tuple[Any, ...]:
    """Return the values of the columns of ``frames`` for a call, in the order of the columns.

    Args:
        call: call with its decoded bodies.
        capture_id: id of the capture, for the column ``capture_id``.
        refusals: errors in the response.
        bodies: True to include the request and response bodies as JSON.
    """
    response, version, key = call.response, call.api_version, call.api_key
    sent, answered = call.request_us, call.response_us
    code = None if response is None else refusals[0].code if refusals else 0
    request_text = response_text = None
    if bodies and version is not None:
        request_text = body_text(call.request, version)
        response_text = body_text(response, version if call.response_version is None else call.response_version)
    return (
        capture_id,
        call.connection,
        call.number,
        call.client,
        call.broker,
        call.correlation_id,
        key,
        api_name(key),
        version,
        call.client_id,
        sent,
        answered,
        None if sent is None or answered is None else answered - sent,
        call.request_size,
        call.response_size,
        call.reason,
        code,
        error_name(code),
        getattr(response, "throttle_time_ms", None),
        call.file,
        call.position,
        call.response_file,
        call.response_position,
        request_text,
        response_text,
    )


_FRAME_COLUMNS = tuple(column.name for column in tables.FRAMES.columns)


def body_text(body: Any, version: int) -> str | None:
    """Return a decoded body as one line of JSON.

    The result is None without a body, or if the body cannot be represented as JSON in this version.
    """
    if body is None:
        return None
    try:
        return json_text(body, version, records=False)  # records are payload: only their size is included
    except (WireError, ValueError):
        return None

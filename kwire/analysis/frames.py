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
    """Return the row of ``frames`` for a call.

    Args:
        call: call with its decoded bodies.
        capture_id: id of the capture, for the column ``capture_id``.
        refusals: errors in the response.
        bodies: True to include the request and response bodies as JSON.
    """
    both = call.request_us is not None and call.response_us is not None
    code = None if call.response is None else refusals[0].code if refusals else 0
    request = response = None
    if bodies and call.api_version is not None:
        request = body_text(call.request, call.api_version)
        version = call.api_version if call.response_version is None else call.response_version
        response = body_text(call.response, version)
    return {
        "capture_id": capture_id,
        "conn_id": call.connection,
        "number": call.number,
        "client": call.client,
        "broker": call.broker,
        "correlation_id": call.correlation_id,
        "api_key": call.api_key,
        "api_name": api_name(call.api_key),
        "api_version": call.api_version,
        "client_id": call.client_id,
        "request_ts": call.request_us,
        "response_ts": call.response_us,
        "latency_us": (call.response_us or 0) - (call.request_us or 0) if both else None,
        "request_size": call.request_size,
        "response_size": call.response_size,
        "reason": call.reason,
        "error_code": code,
        "error_name": error_name(code),
        "throttle_ms": getattr(call.response, "throttle_time_ms", None),
        "file": call.file,
        "position": call.position,
        "response_file": call.response_file,
        "response_position": call.response_position,
        "request": request,
        "response": response,
    }


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

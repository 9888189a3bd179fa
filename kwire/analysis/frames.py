"""Connections and calls as rows."""

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
    """A row of ``connections``; without ``clusters`` it says nothing of its own."""
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
    """A row of ``connections`` that says of which cluster the broker is, and its id."""
    where = row["conn_id"], row["broker"], row["first_ts"]
    return row | {"cluster": clusters.of(*where), "node_id": clusters.node_id(*where)}


def problem_row(item: Connection | Problem | Skipped, capture_id: str) -> Row | None:
    """A row of ``problems``; None of a connection that could be read."""
    told = remark_row(item)
    if told is None:
        return None
    ts = item.last_us if isinstance(item, Connection) else item.time_us if isinstance(item, Problem) else None
    names = ("file", "position", "client", "broker", "reason", "packets", "note", "error")
    values = {name: told.get(name) for name in names}
    return tables.PROBLEMS.row(capture_id=capture_id, ts=ts, conn_id=told.get("connection"), **values)


def frame_row(call: Call, capture_id: str, found: Sequence[Refusal], *, bodies: bool = True) -> Row:
    """A row of ``frames``; ``found``: the error codes of the response. Without ``bodies`` they are None."""
    both = call.request_us is not None and call.response_us is not None
    code = None if call.response is None else found[0].code if found else 0
    asked = told = None
    if bodies and call.api_version is not None:
        asked = body_text(call.request, call.api_version)
        version = call.api_version if call.response_version is None else call.response_version
        told = body_text(call.response, version)
    return tables.FRAMES.row(
        capture_id=capture_id,
        conn_id=call.connection,
        number=call.number,
        client=call.client,
        broker=call.broker,
        correlation_id=call.correlation_id,
        api_key=call.api_key,
        api_name=api_name(call.api_key),
        api_version=call.api_version,
        client_id=call.client_id,
        request_ts=call.request_us,
        response_ts=call.response_us,
        latency_us=(call.response_us or 0) - (call.request_us or 0) if both else None,
        request_size=call.request_size,
        response_size=call.response_size,
        reason=call.reason,
        error_code=code,
        error_name=error_name(code),
        throttle_ms=getattr(call.response, "throttle_time_ms", None),
        file=call.file,
        position=call.position,
        response_file=call.response_file,
        response_position=call.response_position,
        request=asked,
        response=told,
    )


def body_text(body: Any, version: int) -> str | None:
    """A body as one line of JSON; None if there is none, or if it has no JSON form in this version."""
    if body is None:
        return None
    try:
        return json_text(body, version, records=False)  # records are payload: only their size is kept
    except (WireError, ValueError):
        return None

"""The rows of the tables ``connections``, ``frames`` and ``problems``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import ColumnRows, PackedRows, Row, TupleRows
from kwire.analysis.events import error_name
from kwire.analysis.native import new_columns
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


# Columns of ``frames`` and the attributes of a call that contain their values.
_OF_CALL = {
    "conn_id": "connection",
    "number": "number",
    "client": "client",
    "broker": "broker",
    "correlation_id": "correlation_id",
    "api_key": "api_key",
    "api_version": "api_version",
    "client_id": "client_id",
    "request_ts": "request_us",
    "response_ts": "response_us",
    "request_size": "request_size",
    "response_size": "response_size",
    "reason": "reason",
    "file": "file",
    "position": "position",
    "response_file": "response_file",
    "response_position": "response_position",
}
_NAMES = [column.name for column in tables.FRAMES.columns]
_SLOTS = [_OF_CALL.get(name) for name in _NAMES]
_DERIVED = [name for name in _NAMES if name not in _OF_CALL]
_of_call = attrgetter(*_OF_CALL.values())
_in_order = itemgetter(*map([*_OF_CALL, *_DERIVED].index, _NAMES))


def _derived(call: Call, capture_id: str, refusals: Sequence[Refusal], *, bodies: bool) -> tuple[Any, ...]:
    """Return the values of the columns of ``frames`` that are not in ``_OF_CALL``, in the order of the columns."""
    response, version = call.response, call.api_version
    sent, answered = call.request_us, call.response_us
    code = None if response is None else refusals[0].code if refusals else 0
    request_text = response_text = None
    if bodies and version is not None:
        request_text = body_text(call.request, version)
        response_text = body_text(response, version if call.response_version is None else call.response_version)
    return (
        capture_id,
        api_name(call.api_key),
        None if sent is None or answered is None else answered - sent,
        code,
        error_name(code),
        getattr(response, "throttle_time_ms", None),
        request_text,
        response_text,
    )


def frame_row(call: Call, capture_id: str, refusals: Sequence[Refusal], *, bodies: bool = True) -> Row:
    """Return the row of ``frames`` for a call.

    Args:
        call: call with its decoded bodies.
        capture_id: id of the capture, for the column ``capture_id``.
        refusals: errors in the response.
        bodies: True to include the request and response bodies as JSON.
    """
    given = _derived(call, capture_id, refusals, bodies=bodies)
    return dict(zip(_NAMES, _in_order(_of_call(call) + given), strict=True))


class FrameRows:
    """A collector of the rows of ``frames``. With the native engine, the package kwire-native stores the rows.

    Args:
        capture_id: id of the capture, for the column ``capture_id``.
        bodies: True to include the request and response bodies as JSON.
        new: function that creates a table, like ``new_columns``.
    """

    def __init__(self, capture_id: str, *, bodies: bool, new: Callable[..., Any] = new_columns) -> None:
        self._capture_id = capture_id
        self._bodies = bodies
        self._columns = new([column.type for column in tables.FRAMES.columns], _SLOTS, Call)
        self._values: list[tuple[Any, ...]] = []

    def add(self, call: Call, refusals: Sequence[Refusal]) -> None:
        """Add the row of a call. ``refusals``: errors in the response."""
        given = _derived(call, self._capture_id, refusals, bodies=self._bodies)
        if self._columns is None:
            self._values.append(_in_order(_of_call(call) + given))
        else:
            self._columns.add(call, given)

    def rows(self) -> ColumnRows:
        """Return the sorted rows. No more rows can be added."""
        if self._columns is None:
            return TupleRows(tables.FRAMES, self._values)
        return PackedRows(tables.FRAMES, self._columns)


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

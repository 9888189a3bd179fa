"""Logged requests without their bodies, as the live page lists them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kwire import APIS, WireError
from kwire.envelope import decode_request, decode_response
from mockbroker.base.effects import Call as KafkaCall
from mockbroker.base.effects import Ticket
from mockbroker.broker.request_log import LENGTH, has_error_code
from mockbroker.control.control import Control
from mockbroker.control.resources.requests import REQUEST
from mockbroker.control.shapes import Items, Null, Object, Text, Whole
from mockbroker.faults.identifiers import GROUP, TOPIC
from mockbroker.faults.lookups import broker_lookups
from mockbroker.faults.matching import Subject, names_in

NAMES = 20  # maximum number of groups, and of topics, in a row
DECODED = 1 << 18  # bytes; a larger response is not decoded for its error code
WITHOUT_BODIES = {name: shape for name, shape in REQUEST.required.items() if name not in ("request", "response")}
ROW = Object(
    {
        **WITHOUT_BODIES,
        "groups": Items(Text()),
        "topics": Items(Text()),
        "size": Whole(),
        "response_size": Null(Whole()),
    },
    name="RequestRow",
)


def row_json(control: Control, number: int, entry: Ticket) -> dict[str, Any]:
    """Return a logged request as a JSON object without bodies. ``number``: id of the request."""
    received, answered = control.request_log.times(entry)
    time_ms = round(received * 1000)
    lookups = replace(broker_lookups(lambda: control.broker, lambda _: ""), topics=tuple)  # all topics are no names
    request = decode_request(entry.frame)
    subject = Subject(KafkaCall(entry, entry.client, request.body, entry.frame), lookups)
    return {
        "id": number,
        "time": control.feed.time(time_ms),
        "time_ms": time_ms,
        "api": APIS[entry.api_key].name,
        "version": request.version,
        "client_id": entry.client.client_id,
        "broker": entry.client.node,
        "host": entry.client.host.removeprefix("/"),
        "groups": names_in(subject, GROUP, NAMES),
        "topics": names_in(subject, TOPIC, NAMES),
        "error_code": _error_code(entry),
        "latency_ms": None if answered is None else round((answered - received) * 1000),
        "fault": entry.fault or None,
        "size": len(entry.frame),
        "response_size": None if entry.response is None else len(entry.response) - LENGTH,
    }


def _error_code(entry: Ticket) -> int | None:
    """Return the top-level error code of a response.

    The result is None if the response has no such field, has not been sent, cannot be decoded, or is too large to be
    decoded.
    """
    if entry.response is None or not has_error_code(APIS[entry.api_key].response, entry.version):
        return None
    if len(entry.response) > DECODED:
        return None
    try:
        body: Any = decode_response(entry.response[LENGTH:], entry.api_key, entry.version).body
    except WireError:  # a fault rule has malformed it
        return None
    return int(body.error_code)

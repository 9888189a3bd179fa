"""The bytes of logged requests and responses: explained field by field, or as a frame log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kwire.envelope import peek_request
from kwire.explain import explain_request, explain_response
from mockbroker.base.effects import Ticket
from mockbroker.broker.redacted_frames import redacted_request, redacted_response
from mockbroker.broker.request_log import LENGTH
from mockbroker.control.control import Control
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.resources.explanation import explanation_json
from mockbroker.control.resources.request_rows import ROW, row_json
from mockbroker.control.resources.requests import FILTERS, REQUEST, request_filter, request_json
from mockbroker.control.routes import HEADERS, LISTED, MOST_LISTED, Answer, CheckedRequest, Parameter
from mockbroker.control.shapes import Anything, Flag, MapOf, Null, Object, Text, Whole
from mockbroker.faults.sections import Problem

DECODED = 1 << 17  # bytes of both frames; larger messages are not decoded as a whole
EXPLAINED = 16_384  # bytes of a frame that are explained
SHOWN = 65_536  # bytes of a frame in hex
FRAME_LOG = "application/x-ndjson"
FRAME = Object({"hex": Null(Text()), "size": Whole(), "left_out": Whole(), "explain": MapOf(Anything())}, name="Frame")
DETAILS = Object(
    {**ROW.required, **REQUEST.required, "request_frame": FRAME, "response_frame": Null(FRAME)},
    {"bodies_left_out": Flag()},
    name="RequestDetails",
)
FRAMES_PARAMETERS = (
    Parameter("ids", Text(), "only requests with these ids, separated by commas"),
    Parameter("after", Whole(), "begin after this id"),
    Parameter("limit", Whole(1, MOST_LISTED), f"maximum number of requests, {LISTED} if absent", LISTED),
    *FILTERS,
)


async def details(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/requests/{request}: return a logged request and its response, explained field by field."""
    number = Whole().parse(call.path["request"])
    entry = _entry(control, number) if isinstance(number, int) else None
    if entry is None:
        raise Refused(
            404,
            f"request {call.path['request']!r} is not in the request log: GET /v1/requests lists the logged requests",
        )
    row = row_json(control, number, entry)
    request, response = entry.frame, entry.response
    if len(request) + len(response or b"") <= DECODED:
        row |= request_json(control, control.request_log, number, entry)
    else:
        row |= {"request": {}, "response": None, "bodies_left_out": True}
    row["request_frame"] = await _explained(request, None)
    row["response_frame"] = None if response is None else await _explained(response[LENGTH:], entry)
    return Answer(row)


async def frames(control: Control, call: CheckedRequest) -> Response:
    """Answer GET /v1/requests/frames: return logged requests and responses as a frame log."""
    log, limit, matches = control.request_log, call.query["limit"], request_filter(control, call)
    if (ids := call.query["ids"]) is not None:
        numbers = [Whole().parse(text.strip()) for text in ids.split(",")][: MOST_LISTED + 1]
        if len(numbers) > MOST_LISTED or not all(isinstance(each, int) for each in numbers):
            raise NotPossible([Problem("ids", f"expected at most {MOST_LISTED:,} ids of requests, such as 1,2,5")])
        entries = [entry for each in numbers if (entry := _entry(control, each)) is not None and matches(entry)]
    else:
        entries = []
        for entry in log.entries(max(call.query["after"] or 0, log.removed)):
            if len(entries) == limit:
                break
            if matches(entry):
                entries.append(entry)
            await trio.lowlevel.checkpoint()
    return FrameLog(control, entries)


class FrameLog(Response):
    """The response with a frame log, which ``kwire capture`` and ``kwire decode`` read.

    Args:
        control: the state of the control API.
        entries: entries of the requests in the request log. Each gives a line for the request, and a line for the
            response if it is known.
    """

    def __init__(self, control: Control, entries: list[Ticket]) -> None:
        disposition = {"Content-Disposition": 'attachment; filename="requests.jsonl"'}
        super().__init__(headers={**HEADERS, **disposition}, media_type=FRAME_LOG)
        del self.headers["content-length"]
        self._entries = entries
        self._start = control.cluster.clock.wall() - control.cluster.clock.now()
        self._log = control.request_log
        self._brokers = {node.node_id: f"{node.host}:{node.port}" for node in control.cluster.nodes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the lines one by one, as an ASGI application."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for entry in self._entries:
            for line in self._lines(entry):
                await send({"type": "http.response.body", "body": line, "more_body": True})
                await trio.lowlevel.checkpoint()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _lines(self, entry: Ticket) -> Iterator[bytes]:
        received, answered = self._log.times(entry)
        frame, _ = without_secrets(entry.frame, None)
        yield self._line(entry, received, "request", frame)
        if entry.response is not None and answered is not None:
            frame, _ = without_secrets(entry.response[LENGTH:], entry)
            yield self._line(entry, answered, "response", frame)

    def _line(self, entry: Ticket, seconds: float, direction: str, frame: bytes) -> bytes:
        fields = {
            "time_us": round((self._start + seconds) * 1_000_000),
            "connection": str(entry.connection),
            "client": entry.client.host.removeprefix("/"),
            "broker": self._brokers.get(entry.client.node, str(entry.client.node)),
            "direction": direction,
            "api_key": entry.api_key,
            "api_version": entry.version,
            "hex": frame.hex(),
        }
        return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def without_secrets(frame: bytes, request: Ticket | None) -> tuple[bytes, bool]:
    """Return a copy of a frame in which secrets are replaced, and whether the frame contained a secret.

    Args:
        frame: the frame, without its length prefix.
        request: for a response frame, the entry of its request in the request log; None for a request frame.
    """
    if request is None:
        return redacted_request(frame, peek_request(frame)[0])
    return redacted_response(frame, request.api_key, request.version)


async def _explained(frame: bytes, request: Ticket | None) -> dict[str, Any]:
    """Return a frame as a JSON object, with an explanation of each field.

    Args:
        frame: the frame, without its length prefix.
        request: for a response frame, the entry of its request in the request log; None for a request frame.
    """
    clean, has_secrets = without_secrets(frame, request)
    return {
        "hex": None if has_secrets else clean[:SHOWN].hex(),
        "size": len(frame),
        "left_out": max(len(clean) - EXPLAINED, 0),
        "explain": await trio.to_thread.run_sync(_explain, clean[:EXPLAINED], request),
    }


def _explain(frame: bytes, request: Ticket | None) -> dict[str, Any]:
    if request is None:
        return explanation_json(explain_request(frame))
    return explanation_json(explain_response(frame, request.api_key, request.version))


def _entry(control: Control, number: int) -> Ticket | None:
    """Return the entry of a request in the request log; None if the log no longer contains it. ``number``: id of the
    request.
    """
    log = control.request_log
    if not log.removed < number <= log.removed + len(log):
        return None
    return log.entries(number - 1)[0]

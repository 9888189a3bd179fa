"""Text about requests, for the messages of failed assertions."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from kwire import ErrorCode
from kwire.json.objects import to_json
from mockbroker.broker.request_log import Request

REQUESTS_SHOWN = 20  # maximum number of latest requests in a report
BODY_LENGTH = 300  # characters of a request body in a line


def request_report(title: str, requests: Sequence[Request], marked: Collection[int] = ()) -> list[str]:
    """Return a title line and one line for each of the last REQUESTS_SHOWN requests.

    Without requests, the result is one line: the title and "none".

    Args:
        title: heading, such as ``OffsetCommit requests``.
        requests: the requests, oldest first.
        marked: indexes of requests whose lines begin with an asterisk.
    """
    if not requests:
        return [f"{title}: none"]
    first = max(len(requests) - REQUESTS_SHOWN, 0)
    shown = f"last {REQUESTS_SHOWN} of {len(requests)}" if first else str(len(requests))
    lines = (f"{'*' if first + n in marked else ' '} {_line(each)}" for n, each in enumerate(requests[first:]))
    return [f"{title}: {shown}", *lines]


def _line(request: Request) -> str:
    body = json.dumps(to_json(request.body, request.version))
    details = [f"{request.time_ms / 1000:8.3f} s  {request.api} v{request.version}", f"client={request.client_id}"]
    if request.error_code:
        details.append(f"error={ErrorCode(request.error_code).name}")
    if request.fault is not None:
        details.append(f"fault={request.fault}")
    return "  ".join([*details, body if len(body) <= BODY_LENGTH else f"{body[:BODY_LENGTH]}..."])

"""The reading of the usual segments of a connection by the package ``kwire-native``.

A segment is usual if it is in order, and has no payload or complete frames of known API versions. In one call, the
package divides many such segments into frames, decodes headers and bodies, and matches responses to requests. It stops
before the first segment that is not usual, and changes nothing for this segment: ``Conversation`` processes it in
Python. So all errors are raised or recorded by Python code, and the calls are the same without the package.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kwire.apikeys import ApiKey
from kwire.capture.calls.bodies import AT_ONCE
from kwire.capture.calls.frame_headers import form_of
from kwire.capture.calls.model import Call
from kwire.capture.limits import MAX_PENDING
from kwire.capture.tcp.stream import KEPT
from kwire.engines.chosen import DEFAULT
from kwire.engines.native import package, walker
from kwire.limits import UNWEIGHED

# APIs whose frames need more than decoding: secrets, SASL, the software of a client, and requests without response.
LEFT_TO_PYTHON = AT_ONCE | {ApiKey.PRODUCE}
LEAST_ROWS = 4  # for fewer segments, a call of the package does not pay
LONGEST_WAIT = 8  # segments that Python processes between two calls of the package if the segments are not usual


@cache
def call_reader() -> Any:
    """Return the native reader of calls; None if the native engine is not the default engine."""
    return native_reader() if DEFAULT == "native" else None


def native_reader() -> Any:
    """Return a new native reader of calls, which the package kwire-native must provide."""
    return package().Calls(Call, _messages, MAX_PENDING, UNWEIGHED, KEPT)


def _messages(key: int, version: int) -> tuple[Any, Any, bool, bool] | None:
    """Return how the native package reads an API version; None if Python must read the frames of this version.

    Args:
        key: API key.
        version: API version.

    Returns: the native readers of the request and of the response, and for each header whether it has tagged fields.
    """
    form = form_of(key, version)
    if form is None or key in LEFT_TO_PYTHON or form.request_header == 0:
        return None
    messages = [walker(message, version) for message in (form.request, form.response)]
    if not all(isinstance(message, package().Message) for message in messages):
        return None
    return messages[0], messages[1], form.request_header == 2, form.response_header == 1

"""The error response to a request that is not in the recording."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from mockbroker.faults.error_fields import answer_of
from mockbroker.faults.errors import ErrorInjection
from mockbroker.faults.matching import WHOLE_REQUEST

REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR


def refusal(request: Any, version: int) -> Any | None:
    """Return a response with the error UNKNOWN_SERVER_ERROR; None if the response of the API has no error field.

    Args:
        request: the decoded request.
        version: API version of the request.
    """
    api_key = request.__kafka__.api.key
    answer = answer_of(api_key, version)
    if api_key == ApiKey.METADATA or (not answer.error and not answer.arrays):
        return None
    return ErrorInjection(api_key, version, request, [WHOLE_REQUEST], REFUSED).error_response()

"""The errors that Kafka returns for each API, from a data file that tools/errors_page.py writes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

# The errors that Kafka returns for the whole response, by API, where all others are those of topics or partitions.
_SHARE_ERRORS = frozenset(
    {
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_REQUEST",
        "INVALID_SHARE_SESSION_EPOCH",
        "SHARE_SESSION_LIMIT_REACHED",
        "SHARE_SESSION_NOT_FOUND",
        "UNKNOWN_SERVER_ERROR",
        "UNSUPPORTED_VERSION",
    }
)
OF_RESPONSES: Mapping[str, frozenset[str]] = {
    "Fetch": frozenset(
        {
            "FETCH_SESSION_ID_NOT_FOUND",
            "FETCH_SESSION_TOPIC_ID_ERROR",
            "INVALID_FETCH_SESSION_EPOCH",
            "UNKNOWN_SERVER_ERROR",
        }
    ),
    "Metadata": frozenset({"REBOOTSTRAP_REQUIRED", "UNKNOWN_SERVER_ERROR"}),
    "ShareAcknowledge": _SHARE_ERRORS,
    "ShareFetch": _SHARE_ERRORS,
}


@cache
def api_errors() -> Mapping[str, frozenset[str]]:
    """Return the names of the errors that Kafka returns: API name -> error names."""
    text = resources.files("mockbroker.faults").joinpath("api_errors.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {api: frozenset(errors.split()) for api, errors in rows}


def unusual_error(api: str, error: str) -> str | None:
    """Return a warning if Kafka does not return an error for an API.

    The result is None if Kafka returns the error, or if the errors of the API are not known.

    Args:
        api: Kafka's name of the API.
        error: name of the error.
    """
    known = api_errors().get(api)
    if known is None or error in known:
        return None
    return f"Kafka does not return {error} for {api}; it returns {', '.join(sorted(known))}"


def error_of_elements(api: str, error: str) -> str | None:
    """Return a warning if Kafka returns an error for single topics or partitions of an API, not for the whole response.

    Args:
        api: Kafka's name of the API.
        error: name of the error.
    """
    of_response = OF_RESPONSES.get(api)
    if of_response is None or error in of_response or error not in api_errors()[api]:
        return None
    elements = "topics" if api == "Metadata" else "partitions"
    return f"Kafka returns {error} for {elements} of {api}, not for the whole response: add the condition topic '*'"

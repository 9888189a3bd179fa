"""The errors that Kafka returns for each API, from a data file that tools/errors_page.py writes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources


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

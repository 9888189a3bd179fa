"""The strategies of kwire.fuzz for values that are compared: without NaN, which is not equal to itself."""

from __future__ import annotations

from functools import cache, partial

import effort

from kwire.blobs import BLOBS
from kwire.blobs.sticky import CooperativeStickyUserData
from kwire.fuzz.strategies import messages
from kwire.headers import RequestHeader, ResponseHeader
from kwire.layout import resolve, versions_of
from kwire.messages import APIS
from kwire.schema import schema_of

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
MESSAGES += [*BLOBS.values(), CooperativeStickyUserData, RequestHeader, ResponseHeader]

values = partial(messages, nan=False)


def cells(message: type) -> list[int]:
    """Return the versions of a message."""
    versions = schema_of(message).versions
    assert versions is not None
    return list(versions_of(versions))


@cache
def layouts(message: type) -> list[int]:
    """Return the versions of a message; in ``make test`` one per layout, as equal layouts are coded in the same way."""
    first = {resolve(message, version): version for version in reversed(cells(message))}
    return cells(message) if effort.LONG else sorted(first.values())

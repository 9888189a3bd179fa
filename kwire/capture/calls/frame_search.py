"""The search for positions in captured bytes at which a frame may begin, by the first bytes of frames.

A position is only a candidate: the caller has to decode the frame to be certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from kwire.capture.calls.frame_headers import HEADER, INT32, LEAST_REQUEST, LEAST_RESPONSE, form_of
from kwire.capture.limits import MAX_SEARCH, MAX_TRIES
from kwire.messages import APIS

SELECTIVE = 4  # length of a client id that is long enough to search for


def responses(data: bytes, pending: Iterable[int]) -> list[int]:
    """Return the offsets at which a response to a pending request may begin: at most MAX_TRIES offsets.

    Args:
        data: captured bytes.
        pending: correlation ids of the pending requests.
    """
    size = _words(data, ">i4", 0)
    count = len(size) - 4
    if count <= 0:
        return []
    mask = np.isin(size[4:], np.array(list(pending), np.int64))
    mask &= (size[:count] >= LEAST_RESPONSE) & (size[:count] <= MAX_SEARCH)
    return [int(at) for at in np.flatnonzero(mask)[:MAX_TRIES]]


def requests(data: bytes, client_id: bytes | None) -> list[int]:
    """Return the offsets at which a request may begin: at most MAX_TRIES offsets.

    Requests are found by the client id if it is known and long enough, else by the whole header.

    Args:
        data: captured bytes.
        client_id: client id of earlier requests of the connection, as encoded; None if unknown.
    """
    if client_id is not None and len(client_id) >= SELECTIVE:
        return _of_client(data, client_id)
    size = _words(data, ">i4", 0)
    count = len(data) - 13
    if count <= 0:
        return []
    keys, versions = _words(data, ">u2", 4)[:count], _words(data, ">i2", 6)[:count]
    client = _words(data, ">i2", 12)[:count]
    size = size[:count]
    lowest, highest = _bounds()
    keys = np.minimum(keys, len(highest) - 1)
    mask = (size >= LEAST_REQUEST) & (size <= MAX_SEARCH) & (versions >= lowest[keys]) & (versions <= highest[keys])
    mask &= (client >= -1) & (client <= size - LEAST_REQUEST)
    return [int(at) for at in np.flatnonzero(mask)[:MAX_TRIES]]


def _of_client(data: bytes, client_id: bytes) -> list[int]:
    mark = len(client_id).to_bytes(2, "big") + client_id
    places: list[int] = []
    at = data.find(mark, 12)
    while at >= 0 and len(places) < MAX_TRIES:
        (size,) = INT32(data, at - 12)
        key, version, _, _ = HEADER(data, at - 8)
        if LEAST_REQUEST <= size <= MAX_SEARCH and form_of(key, version) is not None:
            places.append(at - 12)
        at = data.find(mark, at + 1)
    return places


def _words(data: bytes, kind: str, start: int) -> Any:
    """Return an array with one integer for each byte offset from ``start`` on: the integer that begins at this offset.

    Args:
        data: captured bytes.
        kind: numpy type of the integers, such as ``>i4``.
        start: first offset.
    """
    count = max(len(data) - start - int(kind[2]) + 1, 0)
    return np.ndarray((count,), kind, data, start if count else 0, strides=(1,)).astype(np.int64)


@cache
def _bounds() -> tuple[Any, Any]:
    """Return two arrays that are indexed by API key: the lowest and the highest version of each API.

    For an unknown API key, the lowest version is above the highest version.
    """
    size = max(APIS) + 2
    lowest, highest = np.full(size, 1, np.int64), np.full(size, 0, np.int64)
    for key, api in APIS.items():
        assert api.versions.last is not None
        lowest[key], highest[key] = api.versions.first, api.versions.last
    return lowest, highest

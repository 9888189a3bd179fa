"""Requests of a rebalance to the coordinator: each waits for the coordinator, then for its response."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from mockbroker.client.call import OutgoingCall
from mockbroker.client.flow import WAIT, Waiting
from mockbroker.client.parts import Parts

PROTOCOL_TYPE = "consumer"


class Retry(Enum):
    """When to send the next JoinGroup, after one that brought no assignment."""

    AT_ONCE = "at once"
    AFTER_BACKOFF = "after the backoff"


def call_coordinator(
    parts: Parts, key: int, build: Callable[[int], object], *, static_since: int, timeout: float | None = None
) -> Waiting[OutgoingCall | None]:
    """Return the call once it has a response; None if the connection was lost or the response is overdue.

    ``static_since``: the first version with instance ids; ``timeout``: seconds, the request timeout if None.
    Raises: UnsupportedVersion.
    """
    versions = (0 if parts.settings.group_instance_id is None else static_since), None
    while (call := parts.coordinator.ask(key, build, timeout=timeout, versions=versions)) is None:
        yield WAIT
    while not call.done:
        yield WAIT
    if unsupported := call.unsupported:
        raise unsupported
    if call.failure is not None:
        parts.coordinator.unknown()
        return None
    return call

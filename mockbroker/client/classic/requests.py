"""The requests of a rebalance to the coordinator, with the wait for the coordinator and for the response."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from mockbroker.client.call import OutgoingCall
from mockbroker.client.components import Components
from mockbroker.client.flow import WAIT, Waiting

PROTOCOL_TYPE = "consumer"


class Retry(Enum):
    """The time of the next JoinGroup after a rebalance without an assignment: immediately, or after the backoff."""

    AT_ONCE = "at once"
    AFTER_BACKOFF = "after the backoff"


def call_coordinator(
    components: Components,
    key: int,
    build: Callable[[int], object],
    *,
    first_static_version: int,
    timeout: float | None = None,
) -> Waiting[OutgoingCall | None]:
    """Send a request to the coordinator, and wait for its response.

    The generator yields the condition under which it is resumed (see flow.py).

    Args:
        components: the components of the consumer.
        key: API key.
        build: function that returns the request; its argument is the API version.
        first_static_version: lowest version to use if the consumer has a group instance id.
        timeout: seconds until the request times out; None for ``request_timeout``.

    Returns: the call, with the response in its attribute ``response``; None if the connection was lost or the request
        timed out. The coordinator is then unknown, because its connection has ended.

    Raises: UnsupportedVersion if the broker supports none of the versions that can be used.
    """
    versions = (0 if components.settings.group_instance_id is None else first_static_version), None
    while (call := components.coordinator.send_request(key, build, timeout=timeout, versions=versions)) is None:
        yield WAIT
    while not call.done:
        yield WAIT
    if unsupported := call.unsupported:
        raise unsupported
    return None if call.failure is not None else call

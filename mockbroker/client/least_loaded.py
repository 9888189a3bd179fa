"""Requests that any broker can answer."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.client.call import OutgoingCall
from mockbroker.client.network import Network


class LeastLoadedRequest:
    """Requests of one API to the least loaded node, one in flight at a time.

    on_done: called with each call once it is done.
    in_flight: whether a call has no response yet.
    """

    def __init__(self, network: Network, key: int, on_done: Callable[[OutgoingCall], None]) -> None:
        self._network, self._key, self._on_done = network, key, on_done
        self.in_flight = False

    def send(self, build: Callable[[int], object]) -> bool:
        """Send the request that ``build`` makes of a version; False if no node is available now."""
        node = self._network.least_loaded()
        if node is None:
            return False
        self.in_flight = not self._network.send_request(node, self._key, build, self._done).done
        return True

    def _done(self, call: OutgoingCall) -> None:
        self.in_flight = False
        self._on_done(call)

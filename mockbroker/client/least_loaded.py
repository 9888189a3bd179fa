"""The sender of requests that any broker can answer. A request is sent to the node with the fewest requests in
flight.
"""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.client.call import OutgoingCall
from mockbroker.client.network import Network


class LeastLoadedRequest:
    """A sender of requests of one API to the least loaded node. At most one request is in flight.

    Args:
        network: The nodes of the consumer.
        key: API key.
        on_done: Callback that is called with each request once there is a response or a failure.

    Attributes:
        in_flight: Whether a request has neither a response nor a failure yet.
    """

    def __init__(self, network: Network, key: int, on_done: Callable[[OutgoingCall], None]) -> None:
        self._network, self._key, self._on_done = network, key, on_done
        self.in_flight = False

    def send(self, build: Callable[[int], object]) -> bool:
        """Send a request to the least loaded node. Return False, without sending, if all nodes are in reconnect
        backoff.

        Args:
            build: Function that returns the request; its argument is the API version.
        """
        node = self._network.least_loaded()
        if node is None:
            return False
        self.in_flight = not self._network.send_request(node, self._key, build, self._done).done
        return True

    def _done(self, call: OutgoingCall) -> None:
        self.in_flight = False
        self._on_done(call)

"""The coordinator of a group: the lookup of the coordinator with FindCoordinator, and the connection to the
coordinator.

Any broker can answer FindCoordinator. The connection to the coordinator is separate from the connections for other
requests.

Source: AbstractCoordinator.lookupCoordinator of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.errorcodes import ErrorCode
from kwire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import OutgoingCall, VersionRange
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.least_loaded import LeastLoadedRequest
from mockbroker.client.metadata import Metadata
from mockbroker.client.network import Network, Node

GROUP = 0  # key type
COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)  # look up the coordinator again
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    *COORDINATOR_MOVED,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Coordinator:
    """The coordinator of one group.

    Args:
        group: Group id.
        network: The known brokers and the connections to them.
        metadata: The metadata of the cluster.
        clock: The current time of the consumer.
        backoff: The delays after failed lookups.

    Attributes:
        node: Node of the coordinator; None while the coordinator is unknown.
        failure: Error of the lookup; None without an error. The next poll raises and clears the error. Before this
            poll, commits and lookups of offsets that wait for the coordinator fail with the error.
        on_found: Callback that is called after each successful lookup.
    """

    def __init__(self, group: str, network: Network, metadata: Metadata, clock: Clock, backoff: Backoff) -> None:
        self._group, self._network, self._metadata, self._clock, self._backoff = (
            group,
            network,
            metadata,
            clock,
            backoff,
        )
        self.node: Node | None = None
        self.failure: ConsumerError | None = None
        self.on_found: Callable[[], None] = lambda: None
        self._lookup = LeastLoadedRequest(network, FIND_COORDINATOR.key, self._handle_response)
        self._retry_at = 0.0
        self._failures = 0

    def send_request(
        self,
        key: int,
        build: Callable[[int], object],
        on_done: Callable[[OutgoingCall], None] | None = None,
        *,
        timeout: float | None = None,
        versions: VersionRange = (0, None),
    ) -> OutgoingCall | None:
        """Send a request to the coordinator; return None while the coordinator is unknown or in reconnect backoff.

        Args:
            key: API key.
            build: function that returns the request; its argument is the API version.
            on_done: callback that is called with the request once there is a response or a failure.
            timeout: seconds until the request times out; None for ``request_timeout``.
            versions: lowest and highest version that can carry the request; None as the highest for no upper limit.
        """
        if self.node is None or not self._network.can_send(self.node):
            return None
        return self._network.send_request(self.node, key, build, on_done, timeout=timeout, versions=versions)

    def mark_unknown(self) -> None:
        """Set the coordinator to unknown, because it moved or failed. ``find_if_due`` looks up the coordinator
        again.
        """
        self.node = None

    def disconnect(self) -> None:
        """Close the connection to a coordinator that does not respond, and look up the coordinator again.

        Requests that are in flight on the connection fail.
        """
        node, self.node = self.node, None
        if node and node.link:
            node.link.close("the session timed out")

    def handle_disconnect(self, node: Node) -> None:
        """Set the coordinator to unknown, and begin a backoff, if ``node`` is the coordinator. ``node``: a node whose
        connection has ended.
        """
        if node is self.node:
            self.node = None
            self._retry_at = max(self._retry_at, self._clock.now + self._backoff.after(self._failures))
            self._failures += 1

    def next_deadline(self) -> float:
        """Return the time of the next lookup, in seconds on the engine's clock; inf if the coordinator is known, and
        during a lookup.
        """
        return float("inf") if self.node or self._lookup.in_flight else self._retry_at

    def find_if_due(self) -> None:
        """Send FindCoordinator if the coordinator is unknown and the backoff is over."""
        if self.node or self._lookup.in_flight or self._clock.now < self._retry_at:
            return
        if not self._lookup.send(self._request):
            self._retry_at = self._clock.now + self._backoff.after(0)

    def _request(self, version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[self._group])
        return FindCoordinatorRequest(key=self._group, key_type=GROUP)

    def _handle_response(self, call: OutgoingCall) -> None:
        if call.failure is not None:
            self.failure = call.unsupported or self.failure
            self._retry()
            return
        response: FindCoordinatorResponse = call.response
        coordinator: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator = response
        if call.version >= 4:
            if len(response.coordinators) != 1:
                self.failure = ConsumerError(
                    f"FindCoordinator returned {len(response.coordinators)} coordinators of group {self._group}, "
                    "expected 1"
                )
                self._retry()
                return
            coordinator = response.coordinators[0]
            if coordinator.key != self._group:  # a response about another group
                self._retry()
                return
        if coordinator.error_code:
            if coordinator.error_code not in RETRIABLE:
                self.failure = broker_error(coordinator.error_code, f"FindCoordinator of group {self._group} failed")
            self._retry()
            return
        self.node = self._network.coordinator(coordinator.node_id, coordinator.host, coordinator.port)
        if not self._network.can_send(self.node):  # in reconnect backoff: another broker may soon name another one
            self.node = None
            self._retry()
            return
        self._failures, self.failure = 0, None
        self.on_found()

    def _retry(self) -> None:
        self._metadata.refresh()
        self._retry_at = self._clock.now + self._backoff.after(self._failures)
        self._failures += 1

"""Who coordinates the group: found by asking any broker, talked to over a connection of its own.

Source: AbstractCoordinator.lookupCoordinator of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.errorcodes import ErrorCode
from kwire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.call import OutgoingCall, Span
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.metadata import Metadata
from mockbroker.client.network import Network, Node
from mockbroker.client.question import Question

GROUP = 0  # the kind of key
ELSEWHERE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)  # it is to be looked for again
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    *ELSEWHERE,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Coordinator:
    """``node``: None while it is not known. ``failure``: what the user has to know, taken away by the poll that raises
    it; until then commits and questions that wait for the coordinator end with it.
    """

    def __init__(self, group: str, network: Network, metadata: Metadata, time: Moment, backoff: Backoff) -> None:
        self._group, self._network, self._metadata, self._time, self._backoff = group, network, metadata, time, backoff
        self.node: Node | None = None
        self.failure: ConsumerError | None = None
        self.found: Callable[[], None] = lambda: None
        self._question = Question(network, FIND_COORDINATOR.key, self._answered)
        self._not_before = 0.0
        self._failures = 0

    def ask(
        self,
        key: int,
        build: Callable[[int], object],
        then: Callable[[OutgoingCall], None] | None = None,
        *,
        timeout: float | None = None,
        versions: Span = (0, None),
    ) -> OutgoingCall | None:
        """Send a request to the coordinator; None while it is not known, or cannot be reached just now."""
        if self.node is None or not self._network.can_ask(self.node):
            return None
        return self._network.ask(self.node, key, build, then, timeout=timeout, versions=versions)

    def unknown(self) -> None:
        """It is somebody else, or gone: look again. What is consumed meanwhile goes on."""
        self.node = None

    def hang_up(self) -> None:
        """It does not answer: what is under way to it is given up, and it is looked for anew."""
        node, self.node = self.node, None
        if node and node.link:
            node.link.close("the session is over")

    def lost(self, node: Node) -> None:
        """The connection of a node ended."""
        if node is self.node:
            self.node = None
            self._not_before = max(self._not_before, self._time.now + self._backoff.after(self._failures))
            self._failures += 1

    def due(self) -> float:
        """When ``find_if_due`` has something to do."""
        return float("inf") if self.node or self._question.under_way else self._not_before

    def find_if_due(self) -> None:
        """Ask who it is, if that is not known."""
        if self.node or self._question.under_way or self._time.now < self._not_before:
            return
        if not self._question.ask(self._request):
            self._not_before = self._time.now + self._backoff.after(0)

    def _request(self, version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[self._group])
        return FindCoordinatorRequest(key=self._group, key_type=GROUP)

    def _answered(self, call: OutgoingCall) -> None:
        if call.failure is not None:
            self.failure = call.unsupported or self.failure
            self._again()
            return
        answer: FindCoordinatorResponse = call.answer
        told: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator = answer
        if call.version >= 4:
            if len(answer.coordinators) != 1:
                answered = len(answer.coordinators)
                self.failure = ConsumerError(f"one coordinator was asked for, {answered} were answered")
                self._again()
                return
            told = answer.coordinators[0]
            if told.key != self._group:  # an answer to another question
                self._again()
                return
        if told.error_code:
            if told.error_code not in RETRIED:
                self.failure = broker_error(told.error_code, f"coordinator of group {self._group}")
            self._again()
            return
        self.node = self._network.coordinator(told.node_id, told.host, told.port)
        if not self._network.can_ask(self.node):  # found, and not to be reached: others may know better soon
            self.node = None
            self._again()
            return
        self._failures, self.failure = 0, None
        self.found()

    def _again(self) -> None:
        self._metadata.refresh()
        self._not_before = self._time.now + self._backoff.after(self._failures)
        self._failures += 1

"""The base class of scripted clients: process start and end, connections, coordinator lookup, request timeouts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kwire.apikeys import ApiKey
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.history import History
from mockbroker.lab.simulation.network import Link, Network, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.script import MemberScript
from mockbroker.lab.simulation.trace import Trace
from mockbroker.topics.model import ClusterState

BACKOFF = 0.1  # seconds
REQUEST_TIMEOUT = 5.0  # seconds
GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator


class Client:
    """A scripted client process.

    Args:
        cluster: function that returns the current state of the cluster.

    Attributes:
        script: script of this client.
        history: history of the run; the client adds the records that it sends and reads.
        name: client name in the trace.
        topics: subscribed topics.
        up: whether the process is running.
        life: number of times the process was started. Timers from before the last start are ignored.
        paused_until: virtual time until which the process is paused, as by a garbage collection, seconds.
        slow: additional network delay of each message, seconds.
        fatal: name of the error that ended the process; "" without such an error.
        link: network link between the client and the brokers.
        bootstrap: connection to any broker; None without a connection.
        coordinator: connection to the coordinator; None without a connection.
        dice: random number generator of the client.
        queue: the event queue, which has the virtual time.
        network: the simulated network.
        trace: trace of the run.
    """

    def __init__(
        self,
        script: MemberScript,
        dice: Dice,
        queue: Queue,
        network: Network,
        trace: Trace,
        cluster: Callable[[], ClusterState],
        history: History | None = None,
    ) -> None:
        self.history = history or History()
        self.script = script
        self.dice = dice
        self.queue = queue
        self.network = network
        self.trace = trace
        self._cluster = cluster
        self.name = f"m{script.number}"
        self.topics = script.topics
        self.up = False
        self.life = 0
        self.paused_until = 0.0
        self.slow = 0.0
        self.fatal = ""
        self.link = Link()
        self._finds = False  # whether another coordinator lookup is scheduled
        self._queued_responses: deque[tuple[Wire, Any, Any]] = deque()
        self.bootstrap: Wire | None = None
        self.coordinator: Wire | None = None

    # --- the process ---

    def start(self) -> None:
        """Start the process without state from earlier starts. Do nothing if it is running."""
        if self.up:
            return
        self.up, self.fatal = True, ""
        self.life += 1
        self._finds = False
        self.say("starts")
        self.begin()
        self.find()

    def crash(self) -> None:
        """Crash the process of the client. The operating system closes the connections of the process."""
        if self.up:
            self.say("crashes")
            self.stop()

    def stop(self) -> None:
        self.up = False
        self._queued_responses.clear()
        for connection in (self.bootstrap, self.coordinator):
            if connection is not None:
                self.network.close(connection)
        self.bootstrap = self.coordinator = None

    def end(self, why: str) -> None:
        """End the process because of the fatal error ``why``."""
        self.say(f"ends: {why}")
        self.fatal = why
        self.stop()

    def say(self, what: str) -> None:
        self.trace.add(self.queue.now, f"{self.name} {what}")

    def later(self, seconds: float, what: Callable[..., None], *with_: Any) -> None:
        """Schedule a function call in virtual time.

        If the client's process is paused at that time, the call is made at the end of the pause. If the process has
        ended, the call is not made.

        Args:
            seconds: time until the call, seconds.
            what: the function.
            with_: arguments of the function.
        """
        self.queue.after(seconds, self._now, self.life, what, with_)

    def _now(self, life: int, what: Callable[..., None], with_: tuple[Any, ...]) -> None:
        if life != self.life or not self.up:
            return
        if self.queue.now < self.paused_until:
            self.queue.at(self.paused_until, self._now, life, what, with_)
        else:
            what(*with_)

    # --- overridden by the kinds of clients ---

    def begin(self) -> None:
        """Initialize the state of the process. The base class calls this method when the process starts."""

    def ready(self) -> None:
        """Send the first requests to the coordinator.

        The base class calls this method when the coordinator is connected.
        """

    def leave(self) -> None:
        """Leave the group if the client is a member, and stop the process."""
        self.stop()

    @property
    def key(self) -> tuple[str, int]:
        """The name and the key type (GROUP or TRANSACTION) with which FindCoordinator looks up the coordinator."""
        return self.script.group, GROUP

    # --- finding the coordinator ---

    def find(self) -> None:
        """Look up the coordinator of the client's group or transactional id: send FindCoordinator to any broker.

        The connection to the old coordinator is closed. If no broker runs, the lookup is made later.
        """
        self.drop_coordinator()
        if self.bootstrap is None:
            nodes = sorted(self._cluster().nodes)
            if not nodes:
                self.find_later()
                return
            node = self.dice.pick(nodes)
            self.bootstrap = self.network.connect(self, self.link, node, self.name)
        name, kind = self.key
        request = FindCoordinatorRequest(coordinator_keys=[name], key_type=kind)
        self.send(self.bootstrap, ApiKey.FIND_COORDINATOR, 4, request, self._found)

    def find_later(self) -> None:
        self.drop_coordinator()
        if not self._finds:
            self._finds = True
            self.later(BACKOFF if self._cluster().nodes else 10 * BACKOFF, self._find_again)

    def _find_again(self) -> None:
        self._finds = False
        if self.coordinator is None and (self.bootstrap is None or not self.bootstrap.waiting):
            self.find()

    def _found(self, answer: FindCoordinatorResponse) -> None:
        (coordinator,) = answer.coordinators
        if coordinator.error_code:
            self.find_later()
            return
        self.coordinator = self.network.connect(self, self.link, coordinator.node_id, self.name)
        self.ready()

    def drop_coordinator(self) -> None:
        if self.coordinator is not None:
            self.network.close(self.coordinator)
            self.coordinator = None

    # --- requests ---

    def ask(self, api_key: int, version: int, request: object, then: Callable[..., None], timeout: float = 0.0) -> None:
        """Send a request to the coordinator. Send nothing if no coordinator is connected.

        Args:
            api_key: API key of the request.
            version: version of the request.
            request: body of the request.
            then: function that is called with the response body.
            timeout: request timeout in seconds; 0 for REQUEST_TIMEOUT.
        """
        if self.coordinator is not None:
            self.send(self.coordinator, api_key, version, request, then, timeout)

    def send(
        self,
        to: Wire,
        api_key: int,
        version: int,
        request: object,
        then: Callable[..., None] | None,
        timeout: float = 0.0,
    ) -> None:
        """Send a request on a connection.

        Args:
            to: the connection.
            api_key: API key of the request.
            version: version of the request.
            request: body of the request.
            then: function that is called with the response body; None for a request without a response.
            timeout: request timeout in seconds; 0 for REQUEST_TIMEOUT.
        """
        self.network.ask(to, api_key, version, request, then)
        if then is None:
            return
        if timeout:
            self.later(timeout, self._on_request_timeout, to, to.correlation)
            return
        deadline = self.queue.now + REQUEST_TIMEOUT
        to.deadlines.append((deadline, to.correlation))
        if len(to.deadlines) == 1:  # the timer of an earlier request schedules the next one
            self.later(REQUEST_TIMEOUT, self._on_request_timeouts, to)

    def _on_request_timeouts(self, to: Wire) -> None:
        """Close a connection if the oldest request without a response has timed out; else check again at its timeout.

        Only requests with the default timeout (REQUEST_TIMEOUT) are considered.

        ``to``: the connection.
        """
        deadlines, waiting = to.deadlines, to.waiting
        while deadlines and (not waiting or waiting[0][0].ticket.correlation_id > deadlines[0][1]):
            del deadlines[0]  # there is a response
        if not deadlines:
            return
        deadline, correlation = deadlines[0]
        if deadline <= self.queue.now:
            deadlines.clear()
            self._on_request_timeout(to, correlation)
        else:
            self.queue.at(deadline, self._now, self.life, self._on_request_timeouts, (to,))

    def _on_request_timeout(self, to: Wire, correlation: int) -> None:
        """Handle a request timeout: close the connection if the request or an earlier request still has no response.

        Args:
            to: the connection.
            correlation: correlation id of the request.
        """
        if to.open and to.waiting and to.waiting[0][0].ticket.correlation_id <= correlation:
            self.say("waits no longer for an answer")
            self.network.close(to)
            self.disconnected(to)

    def delay(self) -> float:
        return self.script.delay * (0.5 + self.dice.random()) + self.slow

    def receive(self, connection: Wire, call: Any, response: Any) -> None:
        """Handle a response. While the process is paused, the response is queued.

        Args:
            connection: connection of the response.
            call: the request.
            response: the response body.
        """
        self.link.refused = 0
        if self.queue.now < self.paused_until or self._queued_responses:
            self._queued_responses.append((connection, call, response))
            self.later(0.0, self._read)
        elif self.up and connection.open:
            self._take(connection, call, response)

    def _read(self) -> None:
        """Handle the queued responses in order, at the end of a pause."""
        while self._queued_responses:
            connection, call, response = self._queued_responses.popleft()
            if self.up and connection.open:
                self._take(connection, call, response)

    def _take(self, connection: Wire, call: Any, response: Any) -> None:
        asked, then, _ = connection.waiting.pop(0)
        assert asked is call, f"{self.name}: got the response to {call.ticket}, expected the response to {asked.ticket}"
        then(response)

    def disconnected(self, connection: Wire) -> None:
        """Handle a connection that was closed.

        If it was the connection to the coordinator, look up the coordinator again. Do the same if it was the connection
        for lookups, and the coordinator is unknown.
        """
        if connection is self.bootstrap:
            self.bootstrap = None
            if self.up and self.coordinator is None:
                self.find_later()
        elif connection is self.coordinator:
            self.coordinator = None
            if self.up:
                self.find_later()

    # --- metadata ---

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, or 0 if the topic does not exist."""
        metadata = self._cluster().topics.get(topic)
        return len(metadata.partitions) if metadata else 0

    def cluster(self) -> ClusterState:
        return self._cluster()

    @property
    def identifier(self) -> tuple[str, int]:
        """The client name and the number of the start, which together identify a process in the history."""
        return self.name, self.life

"""A consumer of the draft protocol, sans-IO: its inputs are responses and timers, its outputs are connections and
requests.

A consumer has at most one request in flight to the coordinator. Each poll reads one record of each partition. All times
are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.messages import (
    ConsumerMetadataRequest,
    ConsumerMetadataResponse,
    Error,
    GroupRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    TopicPartition,
)
from mockbroker.lab.history.draft.rules import CONSUMER, ConsumerEvent, Consuming, move

CONSUMES = {Consuming.MEMBER, Consuming.REDISCOVERING}
ELSEWHERE = {  # errors after which the consumer looks up the coordinator again
    Error.COORDINATOR_STARTUP_NOT_COMPLETE,
    Error.ILLEGAL_PROTOCOL_STATE,
    Error.NOT_COORDINATOR_FOR_GROUP,
}
REFUSALS = {Error.INCONSISTENT_PARTITIONING_STRATEGY, Error.UNKNOWN_PARTITIONING_STRATEGY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a consumer of the draft protocol. All times are in seconds.

    Attributes:
        strategy: name of the assignment strategy.
        session_timeout: session timeout.
        heartbeat_frequency: heartbeats per session timeout.
        poll_interval: time between two polls.
        commit_interval: time between two commits.
        backoff: time before the coordinator is looked up again after a failure.
        rejoins_with_id: whether JoinGroup contains the consumer id when the consumer rejoins.
        asks_first: whether the first request to a new coordinator is always a heartbeat, even if a JoinGroup was
            pending at the old coordinator. The draft describes both behaviours.
        background: whether heartbeats are sent during record processing, as since Kafka 0.10.1.
    """

    strategy: str = "range"
    session_timeout: float = 6.0
    heartbeat_frequency: float = 3.0
    poll_interval: float = 0.1
    commit_interval: float = 1.0
    backoff: float = 0.1
    rejoins_with_id: bool = True
    asks_first: bool = False
    background: bool = False


@dataclass(frozen=True, slots=True)
class Connect:
    """The instruction to open a connection to a broker.

    Attributes:
        link: the number that the consumer gave to the connection.
        node: broker id.
    """

    link: int
    node: int


@dataclass(frozen=True, slots=True)
class Send:
    """The instruction to send a request.

    Attributes:
        link: the number that the consumer gave to the connection.
        request: the request.
    """

    link: int
    request: Request


@dataclass(frozen=True, slots=True)
class Close:
    """The instruction to close a connection. ``link``: the number that the consumer gave to the connection."""

    link: int


@dataclass(frozen=True, slots=True)
class Read:
    """The instruction to deliver a record to the application that uses the consumer.

    Attributes:
        partition: topic and partition number.
        offset: offset of the record.
    """

    partition: TopicPartition
    offset: int


Effect = Connect | Send | Close | Read
Effects = list[Effect]


OnTransition = Callable[[Consuming, ConsumerEvent, Consuming], None]  # called with each transition


class Consumer:
    """A consumer of the draft protocol.

    The methods return effects: a list of instructions (Connect, Send, Close, Read), which the caller must carry out in
    order.

    Args:
        name: name and host of the consumer.
        group: group id.
        topics: subscribed topics.
        bootstrap: ids of the brokers to which the consumer sends coordinator lookups, in turn.
        options: options of the consumer; the defaults if None.
        on_transition: callback for each state transition: old state, event, new state.

    Attributes:
        state: current state.
        error: error of the failed join; NONE without a failure.
        consumer_id: id that the coordinator assigned; None before the first response.
        generation: current generation; -1 before the first generation.
        partitions: assigned partitions.
        positions: partition -> next offset to read.
    """

    def __init__(
        self,
        name: str,
        group: str,
        topics: Sequence[str],
        bootstrap: Sequence[int],
        options: Options | None = None,
        *,
        on_transition: OnTransition = lambda *_: None,
    ) -> None:
        self.name, self.group, self.topics = name, group, tuple(topics)
        self.options = options or Options()
        self.state = Consuming.DOWN
        self.error = Error.NONE
        self.consumer_id: str | None = None
        self.generation = -1
        self.partitions: tuple[TopicPartition, ...] = ()
        self.positions: dict[TopicPartition, int] = {}
        self._on_transition = on_transition
        self._bootstrap = tuple(bootstrap)
        self._turn = 0
        self._links = 0
        self._forget()

    def _forget(self) -> None:
        """Reset the state of the consumer to the state of a new process."""
        self.consumer_id, self.generation = None, -1
        self.partitions, self.positions = (), {}
        self._lookup: int | None = None  # link for the coordinator lookup
        self._link: int | None = None  # link to the coordinator
        self._connected = False  # whether _link is connected
        self._waits: GroupRequest | None = None  # pending request
        self._response_deadline = inf  # timeout of the pending connection or request
        self._lookup_at = inf
        self._heartbeat_at = inf
        self._commit_at = inf
        self._poll_at = inf
        self._asked_to_join = False

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer currently reads, or an empty tuple while the consumer does not read."""
        return self.partitions if self.state in CONSUMES else ()

    # --- events ---

    def start(self, now: float) -> Effects:
        self._forget()
        self._move(ConsumerEvent.START)
        return self._look_up(now)

    def end(self) -> Effects:
        """End the process, and reset its state. Return the effects."""
        self._move(ConsumerEvent.END)
        self._forget()
        return []

    def leave(self, now: float) -> Effects:
        """Close the connections and end the process. Return the effects. (The draft has no LeaveGroup request.)

        A member without a request in flight commits its positions first.

        ``now``: virtual time, seconds.
        """
        last: Effects = []
        if self.state is Consuming.MEMBER and self._is_idle() and self.positions:
            last = self._send(self._commit(), now)
        links = [link for link in (self._lookup, self._link) if link is not None]
        return [*last, *(Close(link) for link in links), *self.end()]

    def connected(self, link: int, now: float) -> Effects:
        if link == self._lookup:
            self._response_deadline = now + self.options.session_timeout
            return [Send(link, ConsumerMetadataRequest(group=self.group))]
        if link == self._link:
            self._connected = True
            self._response_deadline = inf
            return self._at_coordinator(now)
        return []

    def disconnected(self, link: int, now: float) -> Effects:
        """Handle a connection that was refused or closed, and return the effects.

        Args:
            link: the number that the consumer gave to the connection.
            now: virtual time, seconds.
        """
        return self._lose(now) if link in (self._lookup, self._link) else []

    def received(self, link: int, response: Response, now: float) -> Effects:
        if link == self._lookup and isinstance(response, ConsumerMetadataResponse):
            self._lookup = None
            self._link = self._new_link()
            self._response_deadline = now + self.options.session_timeout
            return [Close(link), Connect(self._link, response.node)]
        if link != self._link:
            return []
        self._waits, self._response_deadline = None, inf
        return [*self._take(response, now), *self._send_what_is_due(now)]

    def tick(self, now: float) -> Effects:
        """Handle all due timers, and return the effects. ``now``: virtual time, seconds."""
        effects: Effects = []
        if self._response_deadline <= now:
            effects += self._lose(now, backoff=0.0)
        if self._lookup_at <= now:
            effects += self._look_up(now)
        if self._poll_at <= now:
            effects += self._poll(now)
        return effects + self._send_what_is_due(now)

    def deadline(self) -> float:
        due = min(self._response_deadline, self._lookup_at, self._poll_at)
        return min(due, self._heartbeat_at, self._commit_at) if self._is_idle() else due

    def busy(self, until: float) -> None:
        """Postpone the next poll until the time ``until`` (seconds), because the application processes records."""
        self._poll_at = max(self._poll_at, until)

    # --- the coordinator: find, connect, send ---

    def _look_up(self, now: float) -> Effects:
        self._lookup_at = inf
        self._lookup = self._new_link()
        self._response_deadline = now + self.options.session_timeout
        node = self._bootstrap[self._turn % len(self._bootstrap)]
        self._turn += 1
        return [Connect(self._lookup, node)]

    def _lose(self, now: float, backoff: float | None = None) -> Effects:
        """Close the connections, and look up the coordinator again after a backoff. Return the effects.

        Args:
            now: virtual time, seconds.
            backoff: seconds until the lookup; None for ``Options.backoff``.
        """
        self._move(ConsumerEvent.LOST)
        links = [link for link in (self._lookup, self._link) if link is not None]
        self._lookup = self._link = self._waits = None
        self._connected = False
        self._response_deadline = inf
        self._lookup_at = now + (self.options.backoff if backoff is None else backoff)
        return [Close(link) for link in links]

    def _at_coordinator(self, now: float) -> Effects:
        """Send the first request on the new connection to the coordinator, and return the effects.

        ``now``: virtual time, seconds.
        """
        if self.state is Consuming.STARTING:
            return self._send(self._join(), now)
        if self.state is Consuming.STOPPED and self._asked_to_join and not self.options.asks_first:
            return self._send(self._join(), now)
        return self._send(self._heartbeat(), now)

    def _is_idle(self) -> bool:
        return self._connected and self._waits is None and self.state in CONSUMES

    def _send_what_is_due(self, now: float) -> Effects:
        if not self._is_idle():
            return []
        if self._heartbeat_at <= now:
            return self._send(self._heartbeat(), now)
        if self.partitions and not self.positions:
            return self._send(OffsetFetchRequest(group=self.group, partitions=self.partitions), now)
        if self._commit_at <= now:
            self._commit_at = now + self.options.commit_interval
            return self._send(self._commit(), now) if self.positions else []
        return []

    def _send(self, request: GroupRequest, now: float) -> Effects:
        assert self._link is not None
        assert self._waits is None
        self._waits = request
        self._response_deadline = now + self.options.session_timeout
        if isinstance(request, HeartbeatRequest):
            self._heartbeat_at = now + self.options.session_timeout / self.options.heartbeat_frequency
        self._asked_to_join = isinstance(request, JoinGroupRequest)
        return [Send(self._link, request)]

    def _join(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group=self.group,
            consumer_id=self.consumer_id if self.options.rejoins_with_id else None,
            host=self.name,
            topics=self.topics,
            strategy=self.options.strategy,
            session_timeout=self.options.session_timeout,
        )

    def _heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(group=self.group, consumer_id=self.consumer_id, generation=self.generation)

    def _commit(self) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group=self.group, consumer_id=self.consumer_id, generation=self.generation, offsets=dict(self.positions)
        )

    # --- answers ---

    def _take(self, response: Response, now: float) -> Effects:
        error = response.error
        if error in ELSEWHERE:
            return self._lose(now)
        if error is Error.UNKNOWN_CONSUMER:
            return self._join_as_a_new_one(now)
        if error in REFUSALS:
            return self._give_up(error)
        match response:
            case JoinGroupResponse():
                self._joined(response, now)
            case HeartbeatResponse() if error is Error.NONE:
                self._move(ConsumerEvent.GOOD)
                if self.positions and self._poll_at == inf:
                    self._poll_at = now  # the consumer had stopped, and continues
            case HeartbeatResponse():
                return self._stop(now)
            case OffsetCommitResponse() if error is Error.ILLEGAL_GENERATION and self.state in CONSUMES:
                return self._stop(now, save=False)
            case OffsetCommitResponse() if self.state is Consuming.STOPPED:
                return self._send(self._join(), now)
            case OffsetFetchResponse():
                self.positions = {partition: response.offsets.get(partition, 0) for partition in self.partitions}
                self._poll_at = now
            case _:
                pass
        return []

    def _joined(self, response: JoinGroupResponse, now: float) -> None:
        self._move(ConsumerEvent.JOINED)
        self.consumer_id, self.generation = response.consumer_id, response.generation
        self.partitions, self.positions = response.partitions, {}
        self._heartbeat_at = now + self.options.session_timeout / self.options.heartbeat_frequency
        self._commit_at = now + self.options.commit_interval

    def _stop(self, now: float, *, save: bool = True) -> Effects:
        """Stop reading because a rebalance has begun, and send the next request. Return the effects.

        The next request is OffsetCommit if ``save`` is True and the consumer has positions; JoinGroup follows after the
        response. Else the next request is JoinGroup.

        Args:
            now: virtual time, seconds.
            save: True to commit the offsets first.
        """
        self._move(ConsumerEvent.ILLEGAL_GENERATION)
        self._poll_at = inf
        return self._send(self._commit() if save and self.positions else self._join(), now)

    def _join_as_a_new_one(self, now: float) -> Effects:
        """Discard the state of the member (id, generation, partitions and positions), and send JoinGroup without an id.

        Return the effects. The coordinator has removed the consumer from the group before.

        ``now``: virtual time, seconds.
        """
        self._move(ConsumerEvent.UNKNOWN)
        self.consumer_id, self.generation = None, -1
        self.partitions, self.positions = (), {}
        self._poll_at = inf
        return self._send(self._join(), now)

    def _give_up(self, error: Error) -> Effects:
        self._move(ConsumerEvent.REFUSED)
        self.error = error
        links = [link for link in (self._lookup, self._link) if link is not None]
        self._forget()
        return [Close(link) for link in links]

    # --- reading ---

    def _poll(self, now: float) -> Effects:
        self._poll_at = now + self.options.poll_interval
        read: Effects = [Read(partition, offset) for partition, offset in self.positions.items()]
        self.positions = {partition: offset + 1 for partition, offset in self.positions.items()}
        return read

    def _new_link(self) -> int:
        self._links += 1
        return self._links

    def _move(self, why: ConsumerEvent) -> None:
        before, self.state = self.state, move(CONSUMER, self.state, why)
        self._on_transition(before, why, self.state)

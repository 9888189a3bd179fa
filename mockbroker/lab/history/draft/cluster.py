"""A cluster of the draft protocol in virtual time: brokers, a controller, a store and consumers.

The caller adds consumers to a ``DraftCluster``, makes brokers or consumers fail, runs the cluster up to a time, and
reads the results. The same calls always result in the same trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from typing import Any
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.actions import Action, Actions, Answer, Became, Cut, Keep, Noticed, Watch, Write
from mockbroker.lab.history.draft.broker import SUBSETS, Broker, subset_of
from mockbroker.lab.history.draft.consumer import Close, Connect, Consumer, Effects, Options, Read, Send
from mockbroker.lab.history.draft.coordinator import Coordinator
from mockbroker.lab.history.draft.messages import (
    ConsumerMetadataRequest,
    Error,
    JoinGroupResponse,
    Request,
    Response,
    name,
)
from mockbroker.lab.history.draft.network import DraftConnection, Network
from mockbroker.lab.history.draft.rules import Cause, ConsumerEvent, Consuming, Coordinating
from mockbroker.lab.history.draft.store import Store
from mockbroker.lab.history.draft.trace import Moment, Span
from mockbroker.lab.simulation.queue import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """The delays in a cluster of the draft protocol, in seconds.

    Attributes:
        delay: network delay, one way.
        notice: time until the controller detects that a broker has failed.
        update: time until brokers receive the metadata of an election.
        load: time for loading the groups of a subset.
        answer_gap: time between two JoinGroup responses of a coordinator.
    """

    delay: float = 0.001
    notice: float = 0.5
    update: float = 0.002
    load: float = 0.2
    answer_gap: float = 0.0


class DraftCluster:
    """A cluster of the draft protocol.

    Args:
        topics: topic name -> number of partitions.
        brokers: number of brokers.
        settings: delays.
        store: the model of ZooKeeper that all brokers share; by default a new store with ``topics``.
        uuid: function that returns a new UUID for a consumer id.
        queue: event queue to share with another simulation; a new queue by default.

    Attributes:
        store: the model of ZooKeeper that all brokers share; it counts its reads, writes and notifications.
        brokers: broker id -> running broker.
        consumers: consumer name -> consumer.
        leaders: subset of the groups (``Broker``) -> id of the elected broker.
        messages: message name -> number of messages.
        rebalances: time in seconds, group and generation of each rebalance.
        trace: events of the cluster.
        spans: intervals of partition ownership, including intervals that have not ended.
        records: time in seconds, consumer, partition and offset of each record read.
        reached: state and cause of each transition that occurred.
        delays: consumer name -> one-way network delay in seconds, where it differs from ``settings.delay``.
        updates: broker id -> metadata delay in seconds, where it differs from ``settings.update``.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        brokers: int = 3,
        settings: DraftSettings | None = None,
        store: Store | None = None,
        uuid: Callable[[], str] | None = None,
        queue: Queue | None = None,
    ) -> None:
        numbers = count(1)
        self.settings = settings or DraftSettings()
        self.store = Store(topics) if store is None else store
        self.brokers: dict[int, Broker] = {}
        self.consumers: dict[str, Consumer] = {}
        self.leaders: dict[int, int] = {}
        self.messages: Counter[str] = Counter()
        self.rebalances: list[tuple[float, str, int]] = []
        self.records: list[tuple[float, str, tuple[str, int], int]] = []
        self.trace: list[Moment] = []
        self.reached: set[tuple[Coordinating, Cause] | tuple[Consuming, ConsumerEvent]] = set()
        self.updates: dict[int, float] = {}
        self._uuid = uuid or (lambda: str(UUID(int=next(numbers))))
        self._queue = queue or Queue()
        self._network = Network(self._queue, self.settings.delay)
        self.delays = self._network.delays
        self._nodes = range(brokers)
        self._numbers = count(1)
        self._connections: dict[int, DraftConnection] = {}  # connections that are open at the broker
        self._links: dict[tuple[str, int], DraftConnection] = {}
        self._wakes: dict[tuple[str, str | int], float] = {}
        self._frozen: dict[str, list[tuple[Callable[..., Effects], tuple[Any, ...]]]] = {}
        self._mute: set[int] = set()  # failed brokers that neither close nor refuse connections
        self._refusing: set[int] = set()
        self._owned: dict[tuple[str, tuple[str, int]], float] = {}
        self._spans: list[Span] = []
        self._strike: Callable[[Moment], bool] | None = None
        for node in self._nodes:
            self._start_broker(node)
        for subset in range(SUBSETS):
            self._elect(subset, self._nodes[subset % brokers], took_over=False)
        for broker in self.brokers.values():
            broker.metadata.update(self.leaders)

    # --- control by the caller ---

    @property
    def now(self) -> float:
        return self._queue.now

    def run(self, until: float) -> None:
        """Run all events up to and including the time ``until``, seconds."""
        while self._queue.next <= until:
            self._queue.step()
        self._queue.now = max(until, self._queue.now)

    def at(self, time: float, what: Callable[..., Any], *with_: Any) -> None:
        """Schedule a call of ``what(*with_)`` at ``time``, seconds; for example ``cluster.at(5.0, cluster.crash,
        "c1")``.
        """
        self._queue.at(time, what, *with_)

    def add(self, group: str, topics: list[str], options: Options | None = None, consumer: str | None = None) -> str:
        """Start a new consumer and return the consumer's name.

        Args:
            group: group id.
            topics: subscribed topics.
            options: options of the consumer.
            consumer: name and host of the consumer; ``c1``, ``c2``, ... by default.
        """
        name = consumer or f"c{len(self.consumers) + 1}"
        bootstrap = [*self._nodes[len(self.consumers) % len(self._nodes) :], *self._nodes]
        self.consumers[name] = Consumer(
            name, group, topics, bootstrap[: len(self._nodes)], options, on_transition=self._consumer_moves(name)
        )
        self.start(name)
        return name

    def start(self, consumer: str) -> None:
        """Start a stopped consumer again, as a new process that has no consumer id yet."""
        self._perform_consumer(consumer, self.consumers[consumer].start(self.now))

    def leave(self, consumer: str) -> None:
        """Stop a consumer: the consumer commits and closes its connections."""
        self._end_pause(consumer)
        self._perform_consumer(consumer, self.consumers[consumer].leave(self.now))

    def crash(self, consumer: str, *, silent: bool = False) -> None:
        """Crash a consumer.

        Args:
            consumer: consumer name.
            silent: True if the consumer's connections stay open, as after a failure of the machine; False if they are
                closed.
        """
        self._frozen.pop(consumer, None)
        self._perform_consumer(consumer, self.consumers[consumer].end())
        for connection in [one for one in self._links.values() if one.consumer == consumer and not silent]:
            self._close(connection)

    def pause(self, consumer: str, seconds: float) -> None:
        """Pause the process of a consumer, as a garbage collection does.

        Messages to the consumer and its timers are delayed until the end of the pause.

        Args:
            consumer: consumer name.
            seconds: duration of the pause, seconds.
        """
        self._frozen.setdefault(consumer, [])
        self._queue.after(seconds, self._end_pause, consumer)

    def work(self, consumer: str, seconds: float) -> None:
        """Make a consumer process records, so that the consumer does not poll.

        During this time, the consumer sends heartbeats only if its option ``background`` is True.

        Args:
            consumer: consumer name.
            seconds: duration of the processing, seconds.
        """
        if self.consumers[consumer].options.background:
            self.consumers[consumer].busy(self.now + seconds)
        else:
            self.pause(consumer, seconds)

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or set the number of partitions of an existing topic.

        Brokers with a watch on the topic are notified.

        Args:
            topic: topic name.
            partitions: number of partitions after the change.
        """
        for node in self.store.set_topic(topic, partitions):
            self._perform(node, self.brokers[node], self.brokers[node].topic_changed())

    def coordinator_node(self, group: str) -> int:
        """Return the id of the broker that is elected as the group's coordinator; this broker may be down."""
        return self.leaders[subset_of(group)]

    def coordinator(self, group: str) -> Coordinator | None:
        """Return the coordinator of a group; None if its broker is down, or the group never had a member."""
        broker = self.brokers.get(self.coordinator_node(group))
        return broker.coordinator(group) if broker else None

    def fail_coordinator(self, group: str, *, silent: bool = False) -> int:
        """Fail the broker that coordinates a group; return the id of this broker.

        Args:
            group: group id.
            silent: True if the connections of the broker stay open and new connections get no answer, as after a
                failure of the machine.
        """
        node = self.coordinator_node(group)
        self.fail(node, silent=silent)
        return node

    def fail(self, node: int, *, silent: bool = False) -> None:
        """Fail a broker.

        Args:
            node: broker id.
            silent: True if the connections of the broker stay open and new connections get no answer, as after a
                failure of the machine.
        """
        lost = self.brokers.pop(node).lost()
        self._note(kind="failed", node=node)
        for action in lost:
            self._do(node, action)
        self.store.session_ends(node)
        if silent:
            self._mute.add(node)
        for connection in [one for one in self._connections.values() if one.node == node]:
            del self._connections[connection.number]
            if not silent:
                self._network.to_consumer(connection, self._disconnect_consumer, connection)
        self._queue.after(self.settings.notice, self._elect_coordinators)

    def recover(self, node: int) -> None:
        """Restart the failed broker ``node``, and elect a coordinator for each subset of the groups that has none."""
        self._mute.discard(node)
        self._start_broker(node)
        self.brokers[node].metadata.update(self.leaders)
        self._note(kind="recovered", node=node)
        self._elect_coordinators()

    def move_group(self, group: str, node: int) -> None:
        """Make broker ``node`` the coordinator of a group and of all groups in the same subset.

        The broker that was the coordinator before keeps running.
        """
        subset = subset_of(group)
        former = self.leaders[subset]
        self._perform(former, self.brokers[former], self.brokers[former].resign(subset))
        self._elect(subset, node, took_over=True)
        self._publish({subset: node})

    def refuse(self, node: int, seconds: float) -> None:
        """Make the broker ``node`` refuse new connections for ``seconds``."""
        self._refusing.add(node)
        self._queue.after(seconds, self._refusing.discard, node)

    def strike(self, when: Callable[[Moment], bool]) -> None:
        """Make a broker fail right after an action: the first action for whose trace entry ``when`` returns True.

        A later call replaces ``when``.

        ``when``: function that gets a trace entry.
        """
        self._strike = when

    def send(self, consumer: str, link: int, request: Request) -> None:
        """Send an additional request on a connection of a consumer.

        Args:
            consumer: consumer name.
            link: the number that the consumer gave to the connection.
            request: the request.
        """
        self._send(self._links[consumer, link], request)

    @property
    def spans(self) -> list[Span]:
        going_on = [
            Span(self.consumers[consumer].group, partition, consumer, since)
            for (consumer, partition), since in self._owned.items()
        ]
        return self._spans + going_on

    def is_settled(self, group: str) -> bool:
        """Return whether a group is stable.

        A group is stable if its coordinator is in state Steady, all running consumers are members, and all of them have
        the current generation. The result is False if the coordinator is down.
        """
        coordinator = self.coordinator(group)
        running = [one for one in self.consumers.values() if one.group == group and one.state is not Consuming.DOWN]
        return (
            coordinator is not None
            and coordinator.state is Coordinating.STEADY
            and {one.consumer_id for one in running} == coordinator.members.keys()
            and all(
                one.state is Consuming.MEMBER and one.generation == coordinator.record.generation for one in running
            )
        )

    # --- the controller ---

    def _start_broker(self, node: int) -> None:
        self.brokers[node] = Broker(
            node,
            self.store,
            self._uuid,
            load=self.settings.load,
            answer_gap=self.settings.answer_gap,
        )

    def _elect_coordinators(self) -> None:
        """Elect a coordinator for each subset without one, as the controller does, and send the metadata to all
        brokers. If no broker runs, do nothing.
        """
        if not self.brokers:
            return
        living = sorted(self.brokers)
        elected = {
            subset: node if node in self.brokers else living[subset % len(living)]  # may be back already
            for subset, node in self.leaders.items()
            if node not in self.brokers or subset not in self.brokers[node].elections
        }
        for subset, node in elected.items():
            self._elect(subset, node, took_over=True)
        self._publish(elected)

    def _elect(self, subset: int, node: int, *, took_over: bool) -> None:
        self.leaders[subset] = node
        if (broker := self.brokers.get(node)) is not None:  # the broker may have failed during an earlier election
            self._perform(node, broker, broker.elect(subset, self.now, took_over=took_over))

    def _publish(self, elected: Mapping[int, int]) -> None:
        for node, broker in self.brokers.items() if elected else ():
            self.messages["UpdateMetadata"] += 1
            self._queue.after(self.updates.get(node, self.settings.update), broker.metadata.update, dict(elected))

    # --- broker actions ---

    def _perform(self, node: int, broker: Broker, actions: Actions) -> None:
        """Perform the actions of a broker in order.

        If the broker fails after an action, the remaining actions are dropped.

        Args:
            node: broker id.
            broker: the broker.
            actions: the actions.
        """
        for action in actions:
            if self.brokers.get(node) is not broker:
                return
            self._do(node, action)
        if self.brokers.get(node) is broker:
            self._schedule("broker", node, broker.deadline())

    def _do(self, node: int, action: Action) -> None:
        match action:
            case Noticed(_, cause):
                self._act(node, "noticed", cause.value)
            case Became(_, before, cause, after):
                self.reached.add((before, cause))
                self._act(node, "became", after.value)
            case Watch(topic):
                self.store.watch(topic, node)
                self._act(node, "watched", topic)
            case Write(group, record):
                self.store.write(group, record)
                self.rebalances.append((self.now, group, record.generation))
                self._act(node, "wrote", group, generation=record.generation)
            case Keep(group, offsets):
                self.store.commit(group, offsets)
                self._act(node, "kept", "offsets")
            case Cut(number):
                if (connection := self._connections.pop(number, None)) is not None:
                    self._network.to_consumer(connection, self._disconnect_consumer, connection)
                    self._act(node, "cut", consumer=connection.consumer)
            case Answer(number, response):
                self._answer(node, number, response)

    def _answer(self, node: int, number: int, response: Response) -> None:
        if (connection := self._connections.get(number)) is None:
            return
        connection.busy = False
        self.messages[name(response)] += 1
        self._network.to_consumer(connection, self._received, connection, response)
        self._queue.after(0.0, self._serve, connection)
        joined = isinstance(response, JoinGroupResponse) and response.error is Error.NONE
        generation = response.generation if isinstance(response, JoinGroupResponse) and joined else None
        self._act(node, "answered", name(response), connection.consumer, response.error, generation)

    def _act(
        self,
        node: int,
        kind: str,
        what: str = "",
        consumer: str | None = None,
        error: Error = Error.NONE,
        generation: int | None = None,
    ) -> None:
        moment = self._note(kind=kind, what=what, node=node, consumer=consumer, error=error, generation=generation)
        if self._strike is not None and self._strike(moment):
            self._strike = None
            self.fail(node)

    def _note(self, **fields: Any) -> Moment:
        moment = Moment(time=self.now, **fields)
        self.trace.append(moment)
        return moment

    def _serve(self, connection: DraftConnection) -> None:
        """Make the broker handle the next received request of a connection.

        Do nothing while an earlier request of the connection is pending, or if no request is waiting.
        """
        if connection.busy or not connection.inbox or connection.number not in self._connections:
            return
        connection.busy = True
        request, node = connection.inbox.popleft(), connection.node
        broker = self.brokers[node]
        generation = None if isinstance(request, ConsumerMetadataRequest) else getattr(request, "generation", None)
        self._act(node, "received", name(request), connection.consumer, generation=generation)
        if self.brokers.get(node) is broker:
            self._perform(node, broker, broker.handle(connection.number, request, self.now))

    # --- the network ---

    def _connect(self, consumer: str, link: int, node: int) -> None:
        connection = DraftConnection(next(self._numbers), consumer, link, node)
        self._links[consumer, link] = connection
        self._network.to_broker(connection, self._arrived, connection)

    def _arrived(self, connection: DraftConnection) -> None:
        if connection.node in self._mute or (connection.consumer, connection.link) not in self._links:
            return
        if connection.node not in self.brokers or connection.node in self._refusing:
            self._network.to_consumer(connection, self._disconnect_consumer, connection)
            return
        self._connections[connection.number] = connection
        consumer = self.consumers[connection.consumer]
        self._network.to_consumer(connection, self._deliver, connection.consumer, consumer.connected, connection.link)

    def _send(self, connection: DraftConnection, request: Request) -> None:
        self.messages[name(request)] += 1
        self._network.to_broker(connection, self._arrives, connection, request)

    def _arrives(self, connection: DraftConnection, request: Request) -> None:
        connection.inbox.append(request)
        self._serve(connection)

    def _close(self, connection: DraftConnection) -> None:
        """Close a connection, as its consumer requests. The broker is notified after the network delay."""
        self._links.pop((connection.consumer, connection.link), None)
        self._network.to_broker(connection, self._closed, connection)

    def _closed(self, connection: DraftConnection) -> None:
        if self._connections.pop(connection.number, None) is not None:
            broker = self.brokers[connection.node]
            self._perform(connection.node, broker, broker.disconnected(connection.number, self.now))

    def _disconnect_consumer(self, connection: DraftConnection) -> None:
        """Notify the consumer that its connection has failed, because the broker is down or has closed or refused the
        connection.
        """
        self._deliver(connection.consumer, self._connection_ended, connection)

    def _connection_ended(self, connection: DraftConnection, now: float) -> Effects:
        self._links.pop((connection.consumer, connection.link), None)
        return self.consumers[connection.consumer].disconnected(connection.link, now)

    def _received(self, connection: DraftConnection, response: Response) -> None:
        self._deliver(connection.consumer, self.consumers[connection.consumer].received, connection.link, response)

    # --- consumer actions ---

    def _deliver(self, consumer: str, what: Callable[..., Effects], *with_: Any) -> None:
        if consumer in self._frozen:
            self._frozen[consumer].append((what, with_))
        else:
            self._perform_consumer(consumer, what(*with_, self.now))

    def _end_pause(self, consumer: str) -> None:
        """End the pause of a consumer: deliver the messages that arrived during the pause, then handle due timers."""
        for what, with_ in self._frozen.pop(consumer, ()):
            self._perform_consumer(consumer, what(*with_, self.now))
        due = self.consumers[consumer].deadline() <= self.now
        self._perform_consumer(consumer, self.consumers[consumer].tick(self.now) if due else [])

    def _perform_consumer(self, consumer: str, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Connect(link, node):
                    self._connect(consumer, link, node)
                case Send(link, request):
                    self._send(self._links[consumer, link], request)
                case Close(link):
                    if (consumer, link) in self._links:
                        self._close(self._links[consumer, link])
                case Read(partition, offset):
                    self.records.append((self.now, consumer, partition, offset))
        self._note_ownership(consumer)
        self._schedule("consumer", consumer, self.consumers[consumer].deadline())

    def _note_ownership(self, consumer: str) -> None:
        owned = self.consumers[consumer].owned
        for key in [key for key in self._owned if key[0] == consumer and key[1] not in owned]:
            since = self._owned.pop(key)
            self._spans.append(Span(self.consumers[consumer].group, key[1], consumer, since, self.now))
        for partition in owned:
            self._owned.setdefault((consumer, partition), self.now)

    # --- time and transitions ---

    def _schedule(self, kind: str, subject: str | int, at: float) -> None:
        if at < self._wakes.get((kind, subject), inf):
            self._wakes[kind, subject] = at
            self._queue.at(at, self._wake, kind, subject, at)

    def _wake(self, kind: str, subject: Any, at: float) -> None:
        if self._wakes.get((kind, subject)) != at:
            return
        del self._wakes[kind, subject]
        if kind == "broker" and subject in self.brokers:
            self._perform(subject, self.brokers[subject], self.brokers[subject].tick(self.now))
        elif kind == "consumer" and subject not in self._frozen:
            self._perform_consumer(subject, self.consumers[subject].tick(self.now))

    def _consumer_moves(self, consumer: str) -> Callable[[Consuming, ConsumerEvent, Consuming], None]:
        def moved(before: Consuming, why: ConsumerEvent, after: Consuming) -> None:
            self.reached.add((before, why))
            if before is not after:
                self._note(kind="became", what=after.value, consumer=consumer)

        return moved

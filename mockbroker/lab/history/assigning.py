"""Scheme 2: coordinators on the brokers watch ZooKeeper and assign partitions to consumers.

A consumer registers an ephemeral node under ``/consumers/[group]/ids`` and sets no watch. A hash of the group id
determines the coordinator of the group. The consumer connects to this coordinator. When the registered nodes change,
the coordinator computes an assignment and stops all consumers of the group. After all have stopped, it sends each
consumer its partitions. A consumer reads only its assigned partitions.

The brokers are started with a table of assignment strategies. When a consumer registers, it names one strategy. Adding
a strategy requires a restart of the brokers.
Source: a design in Kafka's wiki from before 0.9, with the requests StopFetcher and StartFetcher.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from kwire.assignors import Assignor, RangeAssignor, RoundRobinAssignor, Subscription, without_racks
from kwire.java import partition_for
from mockbroker.lab.history.ledger import Ledger, Place
from mockbroker.lab.history.scheme import TOPICS, OfConsumers
from mockbroker.lab.history.story import Story
from mockbroker.lab.history.watching import BACKOFF, CONSUMER, CONSUMERS, ids_of
from mockbroker.lab.history.zookeeper import NO_NODE, Answer, Asking, Session, carry_out
from mockbroker.lab.simulation.queue import Queue

COORDINATOR = "coordinator"  # role of the coordinators' ZooKeeper sessions
HOP = 0.002  # mean seconds of a message between consumer and coordinator; actual times vary by half
RESET = 0.01  # seconds until the coordinator notices a closed connection
RETURN = 1.0  # seconds between the stop and the start of the brokers

Strategies = Mapping[str, Callable[[], Assignor]]
STRATEGIES: Strategies = MappingProxyType({"range": RangeAssignor, "roundrobin": RoundRobinAssignor})


class UnknownStrategy(ValueError):
    """The error for a strategy that is not in the table of the coordinators."""


class Consumer:
    """A consumer process that gets its assignment from the coordinator of its group.

    Attributes:
        name: name of the consumer in the story (the script of the simulation).
        group: group id.
        server: number of the ZooKeeper server that the consumer connects to.
        strategy: name of the assignment strategy.
        topics: subscribed topics.
        id: member id, which is the name of the consumer's ephemeral node. Each start creates a new id.
        up: whether the process is running.
        refused: reason why the coordinator rejected the consumer; "" if the consumer was not rejected.
        lives: number of starts.
        scheme: the scheme that simulates the consumer.
    """

    def __init__(self, scheme: Assigning, name: str, group: str, server: int, strategy: str) -> None:
        self.scheme = scheme
        self.name = name
        self.group = group
        self._home = self.server = server
        self.strategy = strategy
        self.topics = tuple(sorted(scheme.story.topics))
        self.id = ""
        self.up = False
        self.refused = ""
        self.lives = 0
        self._session: Session | None = None

    @property
    def coordinator(self) -> Coordinator:
        return self.scheme.coordinator_of(self.group)

    def start(self) -> None:
        self.up, self.refused = True, ""
        self.lives += 1
        self.server = self._home
        self.id = f"{self.name}-{self.lives}"
        self.find()
        self._connect()

    def find(self) -> None:
        """Look up the coordinator of the group with a request to any broker, and connect to the coordinator."""
        self.scheme.messages_sent += 2
        self.scheme.send(f"from {self.name}", self.coordinator.connected, self)

    def _connect(self) -> None:
        zookeeper = self.scheme.zookeeper
        server = self.server % len(zookeeper.servers)
        self._session = zookeeper.connect(CONSUMER, server, self.scheme.story.session, self._granted, self._expired)

    def _granted(self, session: Session) -> None:
        if session is self._session:
            subscription = json.dumps({"topics": self.topics, "strategy": self.strategy})
            path = f"{ids_of(self.group)}/{self.id}"
            session.create(path, partial(self._registered, session), data=subscription, ephemeral=True)

    def _registered(self, session: Session, answer: Answer) -> None:
        if answer.error and session is self._session:  # the node of the last session still exists
            self.scheme.queue.after(BACKOFF, self._granted, session)

    def _expired(self) -> None:
        """Open a new ZooKeeper session after the old one has expired.

        The consumer continues to read its partitions until the coordinator sends it the request to stop.
        """
        assert self._session is not None
        self.server = self._session.server + 1
        self._connect()

    def leave(self) -> None:
        self.read([])
        self._end_process(Session.close)

    def crash(self) -> None:
        self._end_process(Session.abandon)

    def _end_process(self, end: Callable[[Session], None]) -> None:
        self.up = False
        if self._session is not None:
            end(self._session)
            self._session = None
        self.scheme.queue.after(RESET, self.coordinator.disconnected, self, self.lives)

    # --- requests of the coordinator ---

    def stop(self, generation: int) -> None:
        if self.up:
            self.read([])
            self.scheme.send(f"from {self.name}", self.coordinator.stopped, self, generation)

    def begin(self, share: list[Place]) -> None:
        if self.up:
            self.read(share)

    def refuse(self, why: str) -> None:
        if self.up:
            self.refused = why
            self._end_process(Session.close)

    def read(self, share: list[Place]) -> None:
        self.scheme.ledger.read(self.group, self.name, share)


class _Group:
    """A consumer group, as its coordinator knows it.

    Attributes:
        name: group id.
        connections: consumer name -> connected consumer.
        generation: number of assignments so far.
        waits: names of the consumers that still have to stop reading for the current rebalance.
        plan: member id -> partitions in the current assignment.
        watched: whether the coordinator watches the nodes of the group in ZooKeeper.
        busy: whether the coordinator is reading the nodes of the group.
        due: whether the nodes have changed since the coordinator read them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: dict[str, Consumer] = {}
        self.generation = 0
        self.waits: dict[str, None] = {}
        self.plan: dict[str, list[Place]] = {}
        self.watched = self.busy = self.due = False


class Coordinator:
    """The coordinator that runs on one broker.

    Attributes:
        number: broker id.
        strategies: name -> assignor factory, fixed at the start of the broker.
        groups: group id -> state of the group.
        log: a text line for each watch notification and each assignment.
        up: whether the broker runs.
        scheme: the scheme that simulates the coordinator.
    """

    def __init__(self, scheme: Assigning, number: int, strategies: Strategies) -> None:
        self.scheme = scheme
        self.number = number
        self.strategies = MappingProxyType(dict(strategies))  # a copy: a later strategy requires a restart
        self.groups: dict[str, _Group] = {}
        self.log: list[str] = []
        self.up = True
        self._server = number
        self._session: Session | None = None
        self.connect()

    def connect(self) -> None:
        zookeeper = self.scheme.zookeeper
        server = self._server % len(zookeeper.servers)
        self._session = zookeeper.connect(COORDINATOR, server, self.scheme.story.session, self._granted, self._expired)

    def stop(self) -> None:
        """Stop the broker and close its connections."""
        self.up = False
        if self._session is not None:
            self._session.close()
            self._session = None

    def _granted(self, session: Session) -> None:
        if session is self._session:
            self._watch_groups()
            for group in self.groups.values():
                group.busy = False
                if group.watched:
                    self._changed(group)

    def _expired(self) -> None:
        assert self._session is not None
        self._server = self._session.server + 1
        self.connect()

    # --- discovery of groups ---

    def _watch_groups(self, *_: str) -> None:
        if self._session is not None:
            self._session.children(CONSUMERS, self._groups_seen, watch=self._watch_groups)

    def _groups_seen(self, answer: Answer) -> None:
        if answer.error == NO_NODE:  # no group has registered yet
            assert self._session is not None
            self._session.create(CONSUMERS, lambda _: self._watch_groups())
        for name in answer.names:
            if self.scheme.coordinator_of(name) is self and not self._group(name).watched:
                self._group(name).watched = True
                self._changed(self._group(name))

    def _group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group(name))

    # --- connections ---

    def connected(self, consumer: Consumer) -> None:
        if self.up and consumer.up:
            group = self._group(consumer.group)
            group.connections[consumer.name] = consumer
            if not group.waits and consumer.id in group.plan:
                self._begin(group, consumer)

    def disconnected(self, consumer: Consumer, life: int) -> None:
        group = self._group(consumer.group)
        if consumer.lives == life and group.connections.pop(consumer.name, None) is not None:
            self._record_stop(group, consumer.name)

    def stopped(self, consumer: Consumer, generation: int) -> None:
        group = self._group(consumer.group)
        if generation == group.generation:
            self._record_stop(group, consumer.name)

    # --- a rebalance ---

    def _watched(self, group: _Group, kind: str, path: str) -> None:
        self.log.append(f"{self.scheme.queue.now:.3f} {path} {kind}")
        self._changed(group)

    def _changed(self, group: _Group) -> None:
        group.due = True
        if not group.busy and self._session is not None and self._session.open:
            group.busy = True
            session = self._session
            carry_out(self._read_and_assign(group, session), lambda: session is self._session)

    def _read_and_assign(self, group: _Group, session: Session) -> Asking:
        """Read the members and topics of a group from ZooKeeper, then assign the partitions.

        The generator yields each ZooKeeper request, and receives the response. If members or topics change while it
        reads them, it starts the reading again before it assigns.

        Args:
            group: the group.
            session: ZooKeeper session of the broker.
        """
        watch = partial(self._watched, group)
        while group.due:
            group.due = False
            ids = yield partial(session.children, ids_of(group.name), watch=watch)
            members: dict[str, Subscription] = {}
            strategies: dict[str, str] = {}
            for name in ids.names:
                registration = yield partial(session.read, f"{ids_of(group.name)}/{name}")
                if not registration.error:
                    data = json.loads(registration.data)
                    members[name], strategies[name] = Subscription(data["topics"]), data["strategy"]
            counts: dict[str, int] = {}
            for topic in sorted({topic for member in members.values() for topic in member.topics}):
                count = yield partial(session.read, f"{TOPICS}/{topic}", watch=watch)
                if not count.error:
                    counts[topic] = int(count.data)
            if not group.due:
                self._assign(group, members, strategies, counts)
        group.busy = False
        return True

    def strategy(self, name: str) -> Assignor:
        """Return a new assignor.

        ``name``: name of the assignment strategy.

        Raises: UnknownStrategy if the broker was started without the strategy.
        """
        if name not in self.strategies:
            known = ", ".join(sorted(self.strategies))
            raise UnknownStrategy(f"unknown strategy {name!r}: the brokers were started with {known}")
        return self.strategies[name]()

    def _assign(
        self, group: _Group, members: dict[str, Subscription], strategies: dict[str, str], counts: dict[str, int]
    ) -> None:
        """Assign the partitions, and stop all consumers of the group if the assignment has changed.

        A member with an unknown strategy, or with another strategy than the first member, is rejected.

        Args:
            group: the group.
            members: member id -> subscription; rejected members are removed.
            strategies: member id -> name of its strategy.
            counts: topic name -> number of partitions.
        """
        chosen: Assignor | None = None
        for member in list(members):
            try:
                own = self.strategy(strategies[member])
            except UnknownStrategy as error:
                del members[member]
                self._refuse(group, member, str(error))
                continue
            chosen = chosen or own
            if own.name != chosen.name:
                del members[member]
                self._refuse(group, member, f"the group uses {chosen.name!r}, not {own.name!r}")
        plan: dict[str, list[Place]] = {}
        if chosen is not None:
            shares = chosen.assign(without_racks(counts), members)
            plan = {member: list(share.partitions) for member, share in shares.items()}
        if plan == group.plan:
            return  # only a rejected consumer joined or left
        group.plan = plan
        group.generation += 1
        self.scheme.worked_out += 1
        self.log.append(f"{self.scheme.queue.now:.3f} {group.name} generation {group.generation}: {len(plan)} members")
        group.waits = dict.fromkeys(sorted(group.connections))
        for consumer in list(group.connections.values()):
            self._notify(consumer, consumer.stop, group.generation)
        self.scheme.queue.after(self.scheme.story.session, self._on_stop_timeout, group, group.generation)
        if not group.waits:
            self._all_stopped(group)

    def _refuse(self, group: _Group, member: str, why: str) -> None:
        for consumer in group.connections.values():
            if consumer.id == member:
                self._notify(consumer, consumer.refuse, why)

    def _record_stop(self, group: _Group, name: str) -> None:
        if name in group.waits:
            del group.waits[name]
            if not group.waits:
                self._all_stopped(group)

    def _on_stop_timeout(self, group: _Group, generation: int) -> None:
        """Assign the partitions, even if some consumers have not stopped reading within the session timeout.

        If all consumers have stopped, or a newer generation has begun, do nothing.

        Args:
            group: the group.
            generation: generation of the rebalance for which the timeout was set.
        """
        if group.waits and generation == group.generation:
            group.waits = {}
            self._all_stopped(group)

    def _all_stopped(self, group: _Group) -> None:
        for consumer in group.connections.values():
            if consumer.id in group.plan:
                self._begin(group, consumer)

    def _begin(self, group: _Group, consumer: Consumer) -> None:
        self._notify(consumer, consumer.begin, group.plan[consumer.id])

    def _notify(self, consumer: Consumer, what: Callable[..., None], *with_: Any) -> None:
        self.scheme.send(f"to {consumer.name}", what, *with_)


class Assigning(OfConsumers[Consumer]):
    """Scheme 2: coordinators on the brokers assign partitions.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.
        strategies: assignment strategies by name.
        strategy: name of the strategy that the consumers use.

    Attributes:
        coordinators: the coordinators, one per broker.
        consumers: consumer name -> consumer.
        messages_sent: number of messages between consumers and coordinators.
    """

    name = "server"

    def __init__(
        self,
        story: Story,
        queue: Queue,
        ledger: Ledger,
        strategies: Strategies = STRATEGIES,
        strategy: str = "range",
    ) -> None:
        super().__init__(story, queue, ledger)
        self.messages_sent = 0
        self._arrived: dict[str, float] = {}  # connection name -> arrival time of its last message
        self.coordinators = [Coordinator(self, number, strategies) for number in range(story.brokers)]
        self.consumers = {
            name: Consumer(self, name, group, number, strategy)
            for number, (name, group) in enumerate(story.groups.items())
        }

    def coordinator_of(self, group: str) -> Coordinator:
        return self.coordinators[partition_for(group, len(self.coordinators))]

    def restart(self, strategies: Strategies) -> None:
        """Restart all brokers with a new table of assignment strategies. Consumers continue to read, and reconnect.

        ``strategies``: name of the strategy -> function that creates the assignor.
        """
        for coordinator in self.coordinators:
            coordinator.stop()
        self.queue.after(RETURN, self._return, strategies)

    def _return(self, strategies: Strategies) -> None:
        self.coordinators = [Coordinator(self, number, strategies) for number in range(self.story.brokers)]
        for consumer in self.consumers.values():
            if consumer.up:
                consumer.find()

    def send(self, connection: str, what: Callable[..., None], *with_: Any) -> None:
        """Send a message that has no response. When the message arrives, ``what(*with_)`` is called.

        Messages of one connection arrive in order.

        ``connection``: name of the connection.
        """
        self.messages_sent += 1
        at = max(self._arrived.get(connection, 0.0), self.queue.now + HOP * (0.5 + self.dice.random()))
        self._arrived[connection] = at
        self.queue.at(at, what, *with_)

    @property
    def messages(self) -> int:
        return self.zookeeper.of(CONSUMER).messages + self.zookeeper.of(COORDINATOR).messages + self.messages_sent

    @property
    def heartbeats(self) -> int:
        return self.zookeeper.of(CONSUMER).pings + self.zookeeper.of(COORDINATOR).pings

"""Scheme 1, until Kafka 0.8: consumers watch ZooKeeper, and each consumer computes its own assignment.

A consumer registers an ephemeral node under ``/consumers/[group]/ids``. It watches this path, ``/brokers/ids`` and its
topics. After every change, the consumer stops reading and releases its partitions. Then it reads the list of members,
computes its own range of partitions, and claims each partition with a node under ``/consumers/[group]/owners``.

A claim fails if another consumer has not released the partition yet. Then the consumer that failed releases all
partitions, waits and tries again. After four failed attempts, the consumer reads nothing until the next change.

Source: ZookeeperConsumerConnector of Kafka 0.8.
"""

from __future__ import annotations

from functools import partial

from kwire.assignors import Subscription, assignor, without_racks
from mockbroker.lab.history.ledger import Ledger, Place
from mockbroker.lab.history.scheme import BROKERS, TOPICS, OfConsumers
from mockbroker.lab.history.story import Story
from mockbroker.lab.history.zookeeper import NO_NODE, Answer, Asking, Session, Then, carry_out
from mockbroker.lab.simulation.queue import Queue

CONSUMER = "consumer"  # role of the consumers' ZooKeeper sessions
BACKOFF = 2.0  # seconds, as rebalance.backoff.ms
MOST_TRIES = 4  # as rebalance.max.retries
CONSUMERS = "/consumers"


def ids_of(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def owner_of(group: str, place: Place) -> str:
    topic, number = place
    return f"{CONSUMERS}/{group}/owners/{topic}/{number}"


class Consumer:
    """A consumer process that watches ZooKeeper and computes its own assignment.

    Attributes:
        name: name of the consumer in the story (the script of the simulation).
        group: group id.
        server: number of the ZooKeeper server that the consumer connects to.
        topics: subscribed topics.
        id: member id, which is the name of the consumer's ephemeral node. Each start creates a new id.
        seen: member ids in the list that the consumer read last from ZooKeeper.
        owned: partitions that the consumer has claimed.
        failed: number of rebalances given up after the maximum number of attempts.
        expiries: number of expired sessions.
        scheme: the scheme that simulates the consumer.
    """

    def __init__(self, scheme: Watching, name: str, group: str, server: int) -> None:
        self.scheme = scheme
        self.name = name
        self.group = group
        self._home = self.server = server
        self.topics = tuple(sorted(scheme.story.topics))
        self.id = ""
        self.seen: tuple[str, ...] = ()
        self.owned: list[Place] = []
        self.failed = self.expiries = 0
        self._lives = 0
        self._session: Session | None = None
        self._work: Asking | None = None
        self._due = False

    # --- the process ---

    def start(self) -> None:
        self._lives += 1
        self.server = self._home
        self.id = f"{self.name}-{self._lives}"
        self._due = False
        self._connect()

    def leave(self) -> None:
        """Stop reading and close the session. ZooKeeper then removes the consumer's ephemeral nodes."""
        self._read([])
        session = self._end()
        if session is not None:
            session.close()

    def crash(self) -> None:
        session = self._end()
        if session is not None:
            session.abandon()

    def _end(self) -> Session | None:
        session, self._session = self._session, None
        self._work, self.owned = None, []
        return session

    def _read(self, share: list[Place]) -> None:
        self.scheme.ledger.read(self.group, self.name, share)

    # --- the session ---

    def _connect(self) -> None:
        servers = len(self.scheme.zookeeper.servers)
        self._session = self.scheme.zookeeper.connect(
            CONSUMER, self.server % servers, self.scheme.story.session, self._granted, self._expired
        )

    def _granted(self, session: Session) -> None:
        if session is self._session:
            self._go(self._registers(session))

    def _expired(self) -> None:
        """Open a new session after the old one has expired. The consumer has lost its claims of partitions.

        Nevertheless, it continues to read until it rebalances in the new session.
        """
        self.expiries += 1
        self._work, self.owned = None, []
        assert self._session is not None
        self.server = self._session.server + 1
        self._connect()

    # --- sequential requests ---

    def _go(self, work: Asking) -> None:
        self._work = work
        carry_out(work, lambda: work is self._work)

    def _waits(self, then: Then) -> None:
        self.scheme.queue.after(BACKOFF, then, Answer())

    def _notified(self, kind: str, path: str) -> None:  # noqa: ARG002 - every change causes a full rebalance
        self._due = True
        if self._work is None and self._session is not None:
            self._go(self._rebalances(self._session))

    # --- rebalance ---

    def _registers(self, session: Session) -> Asking:
        mine = f"{ids_of(self.group)}/{self.id}"
        answer = yield partial(session.create, mine, data=",".join(self.topics), ephemeral=True)
        while answer.error:  # the node of an old session still exists
            yield self._waits
            answer = yield partial(session.create, mine, data=",".join(self.topics), ephemeral=True)
        self._due = True
        return (yield from self._rebalances(session))

    def _rebalances(self, session: Session) -> Asking:
        while self._due:
            self._due = False
            for _ in range(MOST_TRIES):
                if (yield from self._try_rebalance(session)):
                    break
                yield self._waits
            else:
                self.failed += 1
        self._work = None
        return True

    def _try_rebalance(self, session: Session) -> Asking:
        """Attempt a rebalance once.

        The generator yields each ZooKeeper request, and receives the response. Its return value is False if the attempt
        failed, because data from ZooKeeper was stale or another consumer still owned a partition; else True.

        ``session``: ZooKeeper session of the consumer.
        """
        self._read([])
        for place in self.owned:
            yield partial(session.delete, owner_of(self.group, place))
        self.owned = []
        ids = yield partial(session.children, ids_of(self.group), watch=self._notified)
        self.seen = ids.names
        brokers = yield partial(session.children, BROKERS, watch=self._notified)
        if not brokers.names:
            return True  # nothing to read; the watch fires when a broker registers
        members: dict[str, Subscription] = {}
        for name in ids.names:
            registration = yield partial(session.read, f"{ids_of(self.group)}/{name}")
            if registration.error:
                return False
            members[name] = Subscription(registration.data.split(","))
        counts: dict[str, int] = {}
        for topic in self.topics:
            count = yield partial(session.read, f"{TOPICS}/{topic}", watch=self._notified)
            if count.error != NO_NODE:
                counts[topic] = int(count.data)
        self.scheme.worked_out += 1
        plan = assignor("range").assign(without_racks(counts), members)
        return (yield from self._claims(session, list(plan[self.id].partitions)))

    def _claims(self, session: Session, share: list[Place]) -> Asking:
        taken: list[Place] = []
        for place in share:
            answer = yield partial(session.create, owner_of(self.group, place), data=self.id, ephemeral=True)
            if not answer.error:
                taken.append(place)
        if len(taken) < len(share):
            for place in taken:
                yield partial(session.delete, owner_of(self.group, place))
            return False
        self.owned = taken
        self._read(taken)
        return True


class Watching(OfConsumers[Consumer]):
    """Scheme 1: consumers coordinate through ZooKeeper watches.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.
    """

    name = "zookeeper"
    exclusive = False  # after its session has expired, a consumer reads on until it is notified

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        super().__init__(story, queue, ledger)
        self.consumers = {
            name: Consumer(self, name, group, number) for number, (name, group) in enumerate(story.groups.items())
        }

    @property
    def messages(self) -> int:
        return self.zookeeper.of(CONSUMER).messages

    @property
    def heartbeats(self) -> int:
        return self.zookeeper.of(CONSUMER).pings

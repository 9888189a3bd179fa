"""Scheme 3, used since Kafka 0.9, and its successors: mockbroker coordinates the members of each group protocol.

- ``classic``: all members revoke all partitions; then the group leader assigns (range).
- ``cooperative``: the group leader assigns, and members revoke only the partitions that move.
- ``consumer``: the coordinator assigns (KIP-848), and each member reconciles on its own.

Only the brokers use ZooKeeper. Members, network and invariant checkers are from mockbroker.lab.simulation.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from kwire.apikeys import ApiKey
from kwire.assignors import Assignor, assignor, read_subscription, without_racks
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event, Journal
from mockbroker.lab.history.ledger import Ledger
from mockbroker.lab.history.scheme import Scheme
from mockbroker.lab.history.story import Story
from mockbroker.lab.history.zookeeper import HOP
from mockbroker.lab.simulation.clients.admin import Admin
from mockbroker.lab.simulation.clients.classic import ClassicClient
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.clients.consumer import ConsumerClient
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import Reader
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.disk import Disk
from mockbroker.lab.simulation.invariants import watchers
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.script import MemberScript
from mockbroker.lab.simulation.shell import ObservedRouter, Shell
from mockbroker.lab.simulation.trace import Trace
from mockbroker.lab.simulation.watching import Watcher, Watchers
from mockbroker.topics.model import ClusterState, Node

RELEASE = "4.2"
REBALANCE = 60.0  # rebalance timeout of members, seconds; shorter than the default max.poll.interval.ms
OF_GROUPS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)
BEATS = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)


class Counting(Watcher):
    """An observer that counts group messages, heartbeats and rebalances. The simulation calls the methods of an
    invariant checker on this object, but the object checks nothing.
    """

    def __init__(self) -> None:
        self.messages = self.heartbeats = self.rebalances = 0

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._count(call)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        self._count(call)

    def _count(self, call: Call[Any]) -> None:
        self.messages += call.ticket.api_key in OF_GROUPS
        self.heartbeats += call.ticket.api_key in BEATS

    def journaled(self, broker: Broker, event: Event) -> None:
        self.rebalances += event.event == EventKind.GENERATION


class ReportingReader(Reader):
    """A group member that reports the partitions it reads to the ledger (the record of all readers).

    Attributes:
        ledger: the ledger.
        beats_at: earliest virtual time of the next heartbeat, seconds. As in Java's clients, the heartbeat interval
            starts at the last heartbeat or at the start of the generation.
    """

    ledger: Ledger
    beats_at = 0.0

    def own(self, share: frozenset[Place]) -> None:
        super().own(share)
        self.ledger.read(self.script.group, self.name, share)

    def stop(self) -> None:
        super().stop()
        self.ledger.read(self.script.group, self.name, ())


class Classic(ReportingReader, ClassicClient):
    """A group member of the classic protocol.

    Attributes:
        assignor: client-side assignor; the broker receives only its name.
    """

    assignor: Assignor

    @property
    def strategy(self) -> str:
        return self.assignor.name

    def _beat(self) -> None:
        if self.queue.now < self.beats_at:
            self.later(self.beats_at - self.queue.now, self._beat)
        else:
            super()._beat()

    def _synced(self, answer: SyncGroupResponse) -> None:
        super()._synced(answer)
        self.beats_at = self.queue.now + self.script.heartbeat

    def _plan(self, joined: JoinGroupResponse) -> dict[str, frozenset[Place]]:
        members = {
            member.member_id: read_subscription(
                decode_stored(ConsumerProtocolSubscription, member.metadata)[0], member.group_instance_id
            )
            for member in joined.members
        }
        partitions = {topic: self.partitions(topic) for member in members.values() for topic in member.topics}
        self.see(partitions)
        shares = self.assignor.assign(without_racks(partitions), members)
        return {member_id: frozenset(share.partitions) for member_id, share in shares.items()}

    def leave(self) -> None:
        self.own(frozenset())
        super().leave()


class Consuming(ReportingReader, ConsumerClient):
    """A consumer group member (KIP-848)."""

    def _beat(self) -> None:
        if self.queue.now < self.beats_at:
            self.later(self.beats_at - self.queue.now, self._beat)
        else:
            super()._beat()

    def heartbeat(self) -> None:
        super().heartbeat()
        self.beats_at = self.queue.now + self.interval

    def leave(self) -> None:
        self.own(frozenset())
        super().leave()


class Coordinated(Scheme):
    """The base class of schemes with a group coordinator: the brokers are mockbroker's.

    A subclass sets ``name`` and ``kind``, and the attributes whose defaults do not fit.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.

    Attributes:
        kind: kind of the members: ``eager``, ``cooperative`` or ``consumer`` (``MemberScript.kind``).
        strategy: name of the client-side assignor; "" if the coordinator assigns.
        member: class of the members.
    """

    kind: ClassVar[str]
    strategy: ClassVar[str] = ""
    member: ClassVar[type[ReportingReader]] = Classic

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        super().__init__(story, queue, ledger)
        self.counting = Counting()
        self.trace = Trace()
        ids = Dice("ids", story.seed)
        nodes = [Node(number, "127.0.0.1", 9092 + number) for number in range(story.brokers)]
        settings = Settings.parse(
            {
                "group.initial.rebalance.delay.ms": 0,
                "group.consumer.session.timeout.ms": round(story.session * 1000),
                "group.consumer.heartbeat.interval.ms": round(story.heartbeat * 1000),
                "offsets.topic.num.partitions": 2 * story.brokers,
            }
        )
        broker = Broker(nodes, settings, ids.uuid, RELEASES[RELEASE])
        for topic, count in story.topics.items():
            broker.cluster.create_topic(topic, broker.cluster.place(count, 1))
        checkers = Watchers([*watchers(2 * (REBALANCE + story.session)), self.counting])
        self.shell = Shell(queue, self.trace, ObservedRouter(broker, Journal(0.0)), checkers, None, _no_successor)
        self.shell.begin()
        self.clients = {name: self._member(number, name) for number, name in enumerate(story.groups)}
        script = MemberScript(number=len(story.groups), kind="admin", group="", topics=(), delay=HOP)
        self.admin = self._connected(Admin, script)
        self.admin.start()

    def _member(self, number: int, name: str) -> ReportingReader:
        script = MemberScript(
            number=number,
            kind=self.kind,
            group=self.story.groups[name],
            topics=tuple(sorted(self.story.topics)),
            session=self.story.session,
            rebalance=REBALANCE,
            heartbeat=self.story.heartbeat,
            delay=HOP,
        )
        client: ReportingReader = self._connected(self.member, script)
        client.name, client.ledger = name, self.ledger
        if isinstance(client, Classic):
            client.assignor = assignor(self.strategy)
        return client

    def _connected(self, kind: type[Any], script: MemberScript) -> Any:
        dice = Dice("client", self.story.seed, script.number)
        return kind(script, dice, self.queue, self.shell.network, self.trace, partial(_cluster, self.shell))

    def start(self, consumer: str) -> None:
        self.clients[consumer].start()

    def leave(self, consumer: str) -> None:
        client: Client = self.clients[consumer]
        if client.up:
            client.leave()

    def crash(self, consumer: str) -> None:
        self.clients[consumer].crash()

    def busy(self, consumer: str, seconds: float) -> None:
        """Stop the polls of a consumer.

        The consumer continues to send heartbeats. It takes part in a rebalance only at its next poll.

        Args:
            consumer: name of the consumer.
            seconds: time without polls, seconds.
        """
        self.clients[consumer].polls_at = self.queue.now + seconds

    def topic_grew(self, topic: str, count: int) -> None:
        self.admin.grow(topic, count)

    @property
    def messages(self) -> int:
        return self.counting.messages

    @property
    def heartbeats(self) -> int:
        return self.counting.heartbeats

    @property
    def rebalances(self) -> int:
        return self.counting.rebalances


class Eager(Coordinated):
    """The scheme with the classic protocol and eager rebalances."""

    name = "classic"
    kind = "eager"
    strategy = "range"


class Cooperative(Coordinated):
    """The scheme with the classic protocol and cooperative rebalances (KIP-429)."""

    name = "cooperative"
    kind = "cooperative"
    strategy = "cooperative-sticky"


class ConsumerProtocol(Coordinated):
    """The scheme with the consumer protocol (KIP-848)."""

    name = "consumer"
    kind = "consumer"
    member = Consuming


def _cluster(shell: Shell) -> ClusterState:
    return shell.broker.cluster


def _no_successor(disk: Disk) -> Broker:
    raise AssertionError(f"cannot restart from {disk}: the brokers of this scheme have no disk")

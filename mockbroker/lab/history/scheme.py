"""The base classes of the rebalance schemes. A scheme executes the steps of a story (a script of events) and counts
messages.

In every scheme, the brokers register themselves and the topics in ZooKeeper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from typing import ClassVar, Generic, Protocol, TypeVar

from mockbroker.lab.history.ledger import Ledger
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LAGGING, LEAVE, Step, Story
from mockbroker.lab.history.zookeeper import NO_NODE, Answer, Session, ZooKeeper
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue

BROKER = "broker"  # role of ZooKeeper sessions that are not used for groups
BROKERS, TOPICS = "/brokers/ids", "/brokers/topics"


class Registry:
    """The ZooKeeper sessions of the brokers; broker 0 is the controller and watches the topics.

    Brokers connect only to ZooKeeper servers that do not lag.

    Args:
        zookeeper: the simulated ZooKeeper.
        story: story with the number of brokers, the topics and the session timeout.
        topic_grew: function that is called with a topic and its new number of partitions when the controller reads the
            change.
    """

    def __init__(self, zookeeper: ZooKeeper, story: Story, topic_grew: Callable[[str, int], None]) -> None:
        self._topic_grew = topic_grew
        self._zookeeper = zookeeper
        self._timeout = story.session
        self._sessions: dict[int, Session] = {}
        self._topics = dict(story.topics)
        self._begun = False
        for number in range(story.brokers):
            self.start(number)

    @property
    def nodes(self) -> list[int]:
        return sorted(self._sessions)

    def start(self, number: int) -> None:
        """Start a broker: connect it to ZooKeeper, and register it. ``number``: broker id."""
        servers = [each.number for each in self._zookeeper.servers if each.number != LAGGING]
        server = servers[number % len(servers)]
        granted = partial(self._register, number)
        self._sessions[number] = self._zookeeper.connect(BROKER, server, self._timeout, granted, _never)

    def stop(self, number: int) -> None:
        """Stop a broker, and close its ZooKeeper session. ``number``: broker id."""
        self._sessions.pop(number).close()

    def _register(self, number: int, session: Session) -> None:
        session.create(f"{BROKERS}/{number}", _done, data=f"127.0.0.1:{9092 + number}", ephemeral=True)
        if not self._begun:
            self._begun = True
            for topic, count in self._topics.items():
                session.create(f"{TOPICS}/{topic}", _done, data=str(count))
                self._watch(session, topic)

    def _watch(self, controller: Session, topic: str) -> None:
        controller.read(
            f"{TOPICS}/{topic}", partial(self._seen, topic), watch=lambda *_: self._watch(controller, topic)
        )

    def _seen(self, topic: str, answer: Answer) -> None:
        if answer.error == NO_NODE:
            return  # the server has not created it yet; then it fires the watch
        if int(answer.data) > self._topics[topic]:
            self._topics[topic] = int(answer.data)
            self._topic_grew(topic, self._topics[topic])

    def grow(self, topic: str, count: int) -> None:
        """Write a new number of partitions of a topic to ZooKeeper, as kafka-topics does. ``count``: the new number."""
        self._sessions[self.nodes[0]].put(f"{TOPICS}/{topic}", str(count), _done)


class Scheme(ABC):
    """A rebalance scheme: how the consumers of a group divide its partitions. Base class of all schemes.

    A story is a script of events, such as a consumer that starts or crashes. Each instance of a scheme runs one story.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.

    Attributes:
        name: name of the scheme.
        exclusive: whether the scheme guarantees at most one reader per partition in a group.
        messages: number of messages (requests, responses, notifications) for groups, without commits and fetches.
        heartbeats: number of heartbeats and session pings in ``messages``.
        rebalances: number of computed assignments.
        watchers: current number of ZooKeeper sessions with watches for groups.
        notifications: number of watch notifications for groups.
    """

    name: ClassVar[str]
    exclusive: ClassVar[bool] = True

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        self.story = story
        self.queue = queue
        self.ledger = ledger
        self.dice = Dice("scheme", story.seed)
        self.zookeeper = ZooKeeper(queue, Dice("zookeeper", story.seed))
        self.registry = Registry(self.zookeeper, story, self.topic_grew)
        self.worked_out = 0

    @abstractmethod
    def start(self, consumer: str) -> None:
        """Start a new process of a consumer."""

    @abstractmethod
    def leave(self, consumer: str) -> None:
        """Stop a consumer, so that it leaves its group."""

    @abstractmethod
    def crash(self, consumer: str) -> None:
        """Crash the process of a consumer."""

    def busy(self, consumer: str, seconds: float) -> None:  # noqa: B027 - in most schemes another thread rebalances
        """Make a consumer process records. The consumer does not poll during this time.

        Args:
            consumer: name of the consumer.
            seconds: duration of the processing, seconds.
        """

    def topic_grew(self, topic: str, count: int) -> None:  # noqa: B027 - in most schemes consumers watch topics themselves
        """Handle a topic that has got more partitions, after the controller has read the change.

        Args:
            topic: topic name.
            count: new number of partitions.
        """

    @property
    @abstractmethod
    def messages(self) -> int: ...

    @property
    @abstractmethod
    def heartbeats(self) -> int: ...

    @property
    def rebalances(self) -> int:
        return self.worked_out

    @property
    def watchers(self) -> int:
        return sum(session.role != BROKER for session in self.zookeeper.watchers)

    @property
    def notifications(self) -> int:
        roles = self.zookeeper.traffic
        return sum(traffic.notifications for role, traffic in roles.items() if role != BROKER)

    def do(self, step: Step) -> None:
        """Execute a step of the story, such as the start of a consumer.

        The caller has advanced the virtual time to the step.
        """
        group = self.story.groups.get(step.name, "")
        if step.kind == JOIN:
            self.ledger.come(group, step.name)
            self.start(step.name)
        elif step.kind == LEAVE:
            self.ledger.go(group, step.name)
            self.leave(step.name)
        elif step.kind == CRASH:
            self.ledger.go(group, step.name)
            self.crash(step.name)
            self.ledger.read(group, step.name, ())
        elif step.kind == GROW:
            self.ledger.grow(step.name, ceil(step.value))
            self.registry.grow(step.name, ceil(step.value))
        else:
            assert step.kind == LAG
            self.zookeeper.lag(LAGGING, step.value)


class Living(Protocol):
    """The interface of a consumer that can be started, stopped and crashed."""

    def start(self) -> None: ...
    def leave(self) -> None: ...
    def crash(self) -> None: ...


C = TypeVar("C", bound=Living)


class OfConsumers(Scheme, Generic[C]):
    """The base class of schemes with their own consumers, instead of the simulated members of
    mockbroker.lab.simulation.

    Attributes:
        consumers: consumer name -> consumer.
    """

    consumers: Mapping[str, C]

    def start(self, consumer: str) -> None:
        self.consumers[consumer].start()

    def leave(self, consumer: str) -> None:
        self.consumers[consumer].leave()

    def crash(self, consumer: str) -> None:
        self.consumers[consumer].crash()


def _done(_: Answer) -> None:
    """Ignore the response of ZooKeeper to a request."""


def _never() -> None:
    raise AssertionError("a broker's ZooKeeper session expired while the broker was running")

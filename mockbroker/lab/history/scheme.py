"""What every scheme is: a machine to which the steps of a story are done, and which counts what it says.

Below each of them stand the brokers of a cluster of that time, which keep their registry and the topics in ZooKeeper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from typing import ClassVar, Generic, Protocol, TypeVar

from mockbroker.lab.history.ledger import Ledger
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LAGGING, LEAVE, Step, Story
from mockbroker.lab.history.zookeeper import Answer, Session, ZooKeeper
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue

BROKER = "broker"  # the role of sessions that have nothing to do with groups
BROKERS, TOPICS = "/brokers/ids", "/brokers/topics"


class Registry:
    """Brokers register themselves; broker 0 is the controller, which watches the topics. They are at servers that do
    not lag.

    ``nodes``: the brokers that are meant to be there; ``grown``: told by the controller, of a topic and its partitions.
    """

    def __init__(self, zookeeper: ZooKeeper, story: Story, grown: Callable[[str, int], None]) -> None:
        self._grown = grown
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
        """A broker comes."""
        servers = [each.number for each in self._zookeeper.servers if each.number != LAGGING]
        server = servers[number % len(servers)]
        granted = partial(self._register, number)
        self._sessions[number] = self._zookeeper.connect(BROKER, server, self._timeout, granted, _never)

    def stop(self, number: int) -> None:
        """A broker goes in good order."""
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

    def _seen(self, topic: str, found: Answer) -> None:
        if int(found.data) > self._topics[topic]:
            self._topics[topic] = int(found.data)
            self._grown(topic, self._topics[topic])

    def grow(self, topic: str, count: int) -> None:
        """A tool writes how many partitions the topic has from now on."""
        self._sessions[self.nodes[0]].put(f"{TOPICS}/{topic}", str(count), _done)


class Scheme(ABC):
    """One way to rebalance, under one story. ``rebalances``: how often anybody worked out who gets what.

    ``messages``: everything that groups cost, requests, answers and notifications, ``heartbeats`` (and pings of
    sessions) among them; without commits and fetches. ``watchers``: who waits now to be told something by ZooKeeper on
    behalf of groups. ``notifications``: those of watches. ``exclusive``: whatever the story, nobody reads what another
    reads.
    """

    name: ClassVar[str]
    exclusive: ClassVar[bool] = True

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        self.story = story
        self.queue = queue
        self.ledger = ledger
        self.dice = Dice("scheme", story.seed)
        self.zookeeper = ZooKeeper(queue, Dice("zookeeper", story.seed))
        self.registry = Registry(self.zookeeper, story, self.grown)
        self.worked_out = 0

    @abstractmethod
    def start(self, who: str) -> None:
        """A consumer's process begins, and knows nothing."""

    @abstractmethod
    def leave(self, who: str) -> None:
        """It goes in good order."""

    @abstractmethod
    def crash(self, who: str) -> None:
        """It is gone without a word."""

    def busy(self, who: str, seconds: float) -> None:  # noqa: B027 - of most, other threads rebalance
        """Its application works on what was read, for so long, and does not ask for more."""

    def grown(self, topic: str, count: int) -> None:  # noqa: B027 - most look at ZooKeeper themselves
        """The controller has heard that a topic has more partitions."""

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
        """One step of the story."""
        group = self.story.groups.get(step.who, "")
        if step.kind == JOIN:
            self.ledger.come(group, step.who)
            self.start(step.who)
        elif step.kind == LEAVE:
            self.ledger.go(group, step.who)
            self.leave(step.who)
        elif step.kind == CRASH:
            self.ledger.go(group, step.who)
            self.crash(step.who)
            self.ledger.read(group, step.who, ())
        elif step.kind == GROW:
            self.ledger.grow(step.who, ceil(step.value))
            self.registry.grow(step.who, ceil(step.value))
        else:
            assert step.kind == LAG
            self.zookeeper.lag(LAGGING, step.value)


class Living(Protocol):
    """A consumer that comes and goes."""

    def start(self) -> None: ...
    def leave(self) -> None: ...
    def crash(self) -> None: ...


C = TypeVar("C", bound=Living)


class OfConsumers(Scheme, Generic[C]):
    """A scheme whose consumers are machines of its own, by name."""

    consumers: Mapping[str, C]

    def start(self, who: str) -> None:
        self.consumers[who].start()

    def leave(self, who: str) -> None:
        self.consumers[who].leave()

    def crash(self, who: str) -> None:
        self.consumers[who].crash()


def _done(_: Answer) -> None:
    """Nothing follows."""


def _never() -> None:
    raise AssertionError("a broker's session ends before it does")

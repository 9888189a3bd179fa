"""The rebalance scheme that runs the draft of a group protocol for Kafka 0.9 (``history/draft``), for comparison with
the other schemes.

ZooKeeper never lags in this scheme. A consumer that leaves closes its connections; to the coordinator, this looks like
a crash.
"""

from __future__ import annotations

from mockbroker.lab.history.draft import DraftCluster, DraftSettings, Options
from mockbroker.lab.history.ledger import Ledger, Place
from mockbroker.lab.history.scheme import Scheme
from mockbroker.lab.history.story import Story
from mockbroker.lab.history.zookeeper import HOP
from mockbroker.lab.simulation.queue import Queue

OF_GROUPS = ("ConsumerMetadata", "JoinGroup", "Heartbeat")
BEAT = "Heartbeat"
POLLED = 1.0  # seconds between two polls, which are not counted as messages


class StoryCluster(DraftCluster):
    """A cluster of the draft protocol that reports the partitions of each reader to the ledger.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.
    """

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reported: dict[str, tuple[Place, ...]] = {}
        super().__init__(story.topics, brokers=story.brokers, settings=DraftSettings(delay=HOP), queue=queue)

    def _note_ownership(self, consumer: str) -> None:
        super()._note_ownership(consumer)
        state = self.consumers[consumer]
        if state.owned != self._reported.get(consumer):
            self._reported[consumer] = state.owned
            self._ledger.read(state.group, consumer, state.owned)


class Drafted(Scheme):
    """The scheme of the unreleased draft of a group protocol, in which the coordinator assigns partitions.

    Args:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.

    Attributes:
        cluster: simulated cluster of the draft protocol.
    """

    name = "draft"

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        super().__init__(story, queue, ledger)
        self.cluster = StoryCluster(story, queue, ledger)

    def start(self, consumer: str) -> None:
        if consumer in self.cluster.consumers:
            self.cluster.start(consumer)
            return
        options = Options(
            session_timeout=self.story.session,
            heartbeat_frequency=self.story.session / self.story.heartbeat,
            poll_interval=POLLED,
        )
        self.cluster.add(self.story.groups[consumer], sorted(self.story.topics), options, consumer)

    def leave(self, consumer: str) -> None:
        self.cluster.leave(consumer)

    def crash(self, consumer: str) -> None:
        self.cluster.crash(consumer)

    def busy(self, consumer: str, seconds: float) -> None:
        self.cluster.work(consumer, seconds)

    def topic_grew(self, topic: str, count: int) -> None:
        self.cluster.set_topic(topic, count)

    @property
    def messages(self) -> int:
        store, asked = self.cluster.store, self.cluster.store.reads + self.rebalances
        return sum(map(self._messages, OF_GROUPS)) + 2 * asked + store.notifications

    @property
    def heartbeats(self) -> int:
        return self._messages(BEAT)

    def _messages(self, name: str) -> int:
        """Return the number of requests and responses of the API with this name."""
        return self.cluster.messages[name] + self.cluster.messages[f"{name} answer"]

    @property
    def watchers(self) -> int:
        return len(self.cluster.store.watchers)

    @property
    def notifications(self) -> int:
        return self.cluster.store.notifications

    @property
    def rebalances(self) -> int:
        return len(self.cluster.rebalances)

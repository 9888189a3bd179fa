"""The protocol that 0.9 was to have, under the stories of all others: the machine of ``history/draft``.

Its store is one that never lags. A consumer that leaves closes its connections, and its coordinator takes it as it
takes a crash.
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
POLLED = 1.0  # seconds between two looks for records, which nobody counts here


class StoryCluster(DraftCluster):
    """A cluster that tells the ledger who reads what."""

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: dict[str, tuple[Place, ...]] = {}
        super().__init__(story.topics, brokers=story.brokers, settings=DraftSettings(delay=HOP), queue=queue)

    def _note_ownership(self, consumer: str) -> None:
        super()._note_ownership(consumer)
        found = self.consumers[consumer]
        if found.owned != self._told.get(consumer):
            self._told[consumer] = found.owned
            self._ledger.read(found.group, consumer, found.owned)


class Drafted(Scheme):
    """``cluster``: the machine."""

    name = "draft"

    def __init__(self, story: Story, queue: Queue, ledger: Ledger) -> None:
        super().__init__(story, queue, ledger)
        self.cluster = StoryCluster(story, queue, ledger)

    def start(self, who: str) -> None:
        if who in self.cluster.consumers:
            self.cluster.start(who)
            return
        options = Options(
            session_timeout=self.story.session,
            heartbeat_frequency=self.story.session / self.story.heartbeat,
            poll_interval=POLLED,
        )
        self.cluster.add(self.story.groups[who], sorted(self.story.topics), options, who)

    def leave(self, who: str) -> None:
        self.cluster.leave(who)

    def crash(self, who: str) -> None:
        self.cluster.crash(who)

    def busy(self, who: str, seconds: float) -> None:
        self.cluster.work(who, seconds)

    def grown(self, topic: str, count: int) -> None:
        self.cluster.set_topic(topic, count)

    @property
    def messages(self) -> int:
        store, asked = self.cluster.store, self.cluster.store.reads + self.rebalances
        return sum(map(self._said, OF_GROUPS)) + 2 * asked + store.notifications

    @property
    def heartbeats(self) -> int:
        return self._said(BEAT)

    def _said(self, name: str) -> int:
        """Requests of this name and their answers."""
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

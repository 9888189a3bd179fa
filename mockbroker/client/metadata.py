"""What the consumer knows of the cluster: brokers, topics, who leads which partition, and when to ask again.

Source: org.apache.kafka.clients.Metadata and MetadataCache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kwire.assignors import Partition
from kwire.errorcodes import ErrorCode
from kwire.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.call import OutgoingCall
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.network import Network
from mockbroker.client.question import Question
from mockbroker.client.settings import Settings

NO_ID = UUID(int=0)
TopicPartition = tuple[str, int]
WITH_A_CHOICE = 4  # the version that can ask without creating topics
FATAL = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(slots=True)
class Leader:
    """Of a partition. ``node_id`` is -1 while there is none; ``replicas``: node ids."""

    node_id: int
    epoch: int
    replicas: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Topic:
    """``partitions``: by number, from 0 on; empty while there is an error."""

    topic_id: UUID
    partitions: list[Leader]
    internal: bool = False


class Metadata:
    """``version`` grows with each answer. ``errors``: by topic, what only the user can mend.

    ``wanted``: topics that are read; ``aside``: that somebody asks about in passing.
    """

    def __init__(self, network: Network, settings: Settings, time: Moment, backoff: Backoff) -> None:
        self._network, self._settings, self._time, self._backoff = network, settings, time, backoff
        self.topics: dict[str, Topic] = {}
        self.names: dict[UUID, str] = {}
        self.racks: dict[int, str | None] = {}
        self.errors: dict[str, int] = {}
        self.failure: ConsumerError | None = None
        self.version = 0
        self.wanted: set[str] = set()
        self.aside: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self._question = Question(network, METADATA.key, self._answered)
        self._asked_for: tuple[str, ...] | None = None
        self._known_for: frozenset[str] = frozenset()
        self.knows_all = False  # the latest answer was asked for all topics
        self._due = 0.0
        self._failures = 0

    def want(self, topics: Iterable[str]) -> None:
        """From now on know these, and no others but ``aside``."""
        wanted = set(topics)
        if wanted - self.wanted:
            self.refresh()
        self.wanted = wanted

    def want_aside(self, topics: Iterable[str]) -> None:
        """Know these too, as long as they are asked about; their errors are for who asks."""
        aside = set(topics) - self.wanted
        if aside - self.aside:
            self.refresh()
        self.aside = aside

    def want_matching(self, pattern: re.Pattern[str] | None) -> None:
        """Know all topics, of which those that match ``pattern`` are meant; None ends that."""
        if pattern is not None:
            self.refresh()
        self.pattern = pattern

    def refresh(self) -> None:
        """Ask again, at once unless the last answer failed or was incomplete: then after the backoff."""
        self._due = min(self._due, self._time.now + (self._backoff.after(self._failures - 1) if self._failures else 0))

    def retry_later(self) -> None:
        """Ask again after the backoff: what was answered did not help."""
        self._due = min(self._due, self._time.now + self._backoff.after(self._failures))

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Who leads a partition; None if it is not known, or there is no leader."""
        topic = self.topics.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions):
            return None
        leader = topic.partitions[partition[1]]
        return leader if leader.node_id >= 0 else None

    def topic_id(self, topic: str) -> UUID:
        """All zero if the broker does not give ids."""
        known = self.topics.get(topic)
        return known.topic_id if known else NO_ID

    def counts(self, topics: Iterable[str]) -> dict[str, tuple[int, tuple[tuple[str, ...], ...]]]:
        """Partitions, and the racks of their replicas, by topic: when these change, a leader assigns anew."""
        found = {}
        for name in topics:
            if topic := self.topics.get(name):
                racks = tuple(tuple(sorted(str(self.racks.get(n)) for n in p.replicas)) for p in topic.partitions)
                found[name] = (len(topic.partitions), racks)
        return found

    def for_assignor(self, topics: Iterable[str]) -> Mapping[str, list[Partition]]:
        """Topics as assignors take them; those without partitions are left out."""
        found = {}
        for name in topics:
            if (topic := self.topics.get(name)) and topic.partitions:
                found[name] = [
                    Partition([self.racks.get(n) for n in p.replicas], self.racks.get(p.node_id))
                    for p in topic.partitions
                ]
        return found

    def matching(self) -> set[str]:
        """Topics that match the pattern; internal ones are left out."""
        pattern = self.pattern
        return {n for n, t in self.topics.items() if pattern and pattern.fullmatch(n) and not t.internal}

    def covers(self, topics: Iterable[str]) -> bool:
        """True if the latest answer was asked for all of these, whether they are there or not."""
        return self.knows_all or self._known_for.issuperset(topics)

    def lacks(self, topic: str) -> bool:
        """True if the latest answer says that there is no such topic."""
        return self.covers((topic,)) and topic not in self.topics and topic not in self.errors

    def raise_errors(self) -> None:
        """Raises: what only the user can mend, of the topics that are wanted."""
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        for topic, code in self.errors.items():
            if topic in self.wanted:
                raise broker_error(code, f"topic {topic}")

    def leader_is(self, partition: TopicPartition, node_id: int, epoch: int) -> bool:
        """An answer told of a new leader (KIP-951). False if nothing newer is known now."""
        topic = self.topics.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions) or self._network.broker(node_id) is None:
            return False
        known = topic.partitions[partition[1]]
        if epoch <= known.epoch:
            return False
        topic.partitions[partition[1]] = Leader(node_id, epoch, known.replicas)
        return True

    def due(self) -> float:
        """When ``request_if_due`` has something to do."""
        return float("inf") if self._question.under_way else self._due

    def request_if_due(self) -> None:
        """Ask if it is time to."""
        if self._question.under_way or self._time.now < self._due:
            return
        asked = tuple(sorted(self.wanted | self.aside)) if self.pattern is None else None
        self._asked_for = asked
        self._due = self._time.now + self._settings.metadata_max_age
        if not self._question.ask(lambda version: self._request(asked, version)):
            self._due = self._time.now + self._backoff.after(0)

    def _request(self, asked: tuple[str, ...] | None, version: int) -> MetadataRequest:
        if version == 0 and asked == ():
            asked = ("__consumer_offsets",)  # v0 cannot ask for none; brokers are what is wanted
        return MetadataRequest(
            topics=None
            if asked is None and version > 0
            else [MetadataRequest.Topic(name=name) for name in asked or ()],
            allow_auto_topic_creation=version < WITH_A_CHOICE
            or (self._settings.allow_auto_create_topics and asked is not None),
        )

    def _answered(self, call: OutgoingCall) -> None:
        if call.failure is not None:
            self.failure = call.unsupported or self.failure
            self._again()
            return
        answer: MetadataResponse = call.answer
        if not answer.brokers:  # a broker that has only just started knows nobody
            self._again()
            return
        self.update(answer)
        self._known_for, self.knows_all = frozenset(self._asked_for or ()), self._asked_for is None
        incomplete = any(
            topic.error_code not in (0, *FATAL) or any(p.leader_id < 0 for p in topic.partitions)
            for topic in answer.topics
        )
        if incomplete:
            self._again()
        else:
            self._failures = 0
        if self.pattern is None and (self.wanted | self.aside) - self._known_for:
            self._due = self._time.now

    def _again(self) -> None:
        self._due = min(self._due, self._time.now + self._backoff.after(self._failures))
        self._failures += 1

    def update(self, answer: MetadataResponse) -> None:
        """What an answer says. An older leader epoch than the one known is from a broker that lags, and passed over."""
        self._network.brokers_are({b.node_id: (b.host, b.port) for b in answer.brokers})
        self.racks = {broker.node_id: broker.rack for broker in answer.brokers}
        before, self.topics, self.errors = self.topics, {}, {}
        for told in answer.topics:
            if told.name is None:
                continue
            old = before.get(told.name)
            if told.error_code:
                if told.error_code in FATAL:
                    self.errors[told.name] = told.error_code
                elif old and told.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self.topics[told.name] = old
                continue
            same = old if old and old.topic_id == told.topic_id else None
            numbered = {partition.partition_index: partition for partition in told.partitions}
            leaders = []
            for number in range(len(numbered)):
                if number not in numbered:
                    break  # numbers have no gaps: an answer that has one is not believed beyond it
                partition = numbered[number]
                leader = Leader(partition.leader_id, partition.leader_epoch, list(partition.replica_nodes))
                known = same.partitions[number] if same and number < len(same.partitions) else None
                leaders.append(known if known and -1 < leader.epoch < known.epoch else leader)
            self.topics[told.name] = Topic(told.topic_id, leaders, told.is_internal)
        self.names = {t.topic_id: name for name, t in self.topics.items() if t.topic_id != NO_ID}
        self.version += 1


class TopicInquiry:
    """How many partitions a topic has. ``found``: once ``done``, 0 if there is no such topic."""

    def __init__(self, topic: str, metadata: Metadata) -> None:
        self.topics = {topic}
        self._topic, self._metadata, self._since = topic, metadata, metadata.version
        self.found = 0
        self.error: ConsumerError | None = None
        self.done = False
        metadata.refresh()

    def due(self) -> float:
        return float("inf")  # what it waits for is the metadata's

    def ask_if_due(self) -> None:
        """Answer the question from metadata that is newer than it; metadata is what asks."""
        metadata = self._metadata
        if self.done or metadata.version == self._since or not metadata.covers(self.topics):
            return
        self.done = True
        if code := metadata.errors.get(self._topic):
            self.error = broker_error(code, f"topic {self._topic}")
        elif known := metadata.topics.get(self._topic):
            self.found = len(known.partitions)

"""The store of the draft protocol, a model of ZooKeeper: groups, offsets, topics, and watches on topics.

Writes are atomic. The store never fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.messages import Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The stored state of a group, written atomically.

    Attributes:
        generation: generation number.
        topics: subscribed topics of all members.
        strategy: name of the assignment strategy; None before the first generation.
        session_timeout: maximum session timeout of the members, seconds.
        hosts: consumer id -> host of the consumer.
        ownership: consumer id -> assigned partitions.
    """

    generation: int = 0
    topics: tuple[str, ...] = ()
    strategy: str | None = None
    session_timeout: float = 0.0
    hosts: Mapping[str, str] = field(default_factory=dict)
    ownership: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


class Store:
    """The model of ZooKeeper that all brokers of the draft protocol share.

    A broker sets a watch on a topic to be notified of changes of the topic. A watch stays set after a notification, as
    if the broker had set it again.

    Args:
        topics: topic name -> number of partitions at the start.

    Attributes:
        reads: number of reads of groups.
        writes: number of writes of groups and offsets.
        notifications: number of watch notifications.
    """

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.reads = self.writes = self.notifications = 0
        self._topics = dict(topics or {})
        self._groups: dict[str, GroupRecord] = {}
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._watches: dict[str, set[int]] = {}

    def groups(self) -> list[str]:
        """Return the groups that have members."""
        return [group for group, record in self._groups.items() if record.hosts]

    def read(self, group: str) -> GroupRecord:
        self.reads += 1
        return self._groups.get(group, GroupRecord())

    def write(self, group: str, record: GroupRecord) -> None:
        """Write the generation, members and partition ownership (``record``) of a group atomically."""
        self.writes += 1
        self._groups[group] = record

    def offsets(self, group: str) -> Offsets:
        return dict(self._offsets.get(group, {}))

    def commit(self, group: str, offsets: Offsets) -> None:
        self.writes += 1
        self._offsets.setdefault(group, {}).update(offsets)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, or 0 if the topic does not exist."""
        return self._topics.get(topic, 0)

    def set_topic(self, topic: str, partitions: int) -> list[int]:
        """Create a topic or set its number of partitions.

        Return the ids of the brokers that have a watch on the topic.
        """
        self._topics[topic] = partitions
        notified = sorted(self._watches.get(topic, ()))
        self.notifications += len(notified)
        return notified

    @property
    def watchers(self) -> set[int]:
        """The ids of the brokers with a watch on any topic."""
        return {node for nodes in self._watches.values() for node in nodes}

    def watch(self, topic: str, node: int) -> None:
        """Set a watch on a topic: the broker ``node`` is notified when the topic is created or gets more partitions."""
        self._watches.setdefault(topic, set()).add(node)

    def session_ends(self, node: int) -> None:
        """Remove the watches of a broker, because its session has ended. ``node``: broker id."""
        for nodes in self._watches.values():
            nodes.discard(node)

    def dump(self) -> dict[str, Any]:
        """Return the content of the store as a JSON object with the keys ``topics`` and ``groups``; see ``load``."""
        return {
            "topics": {
                topic: {
                    "partitions": partitions,
                    "groups": [group for group, record in self._groups.items() if topic in record.topics],
                }
                for topic, partitions in self._topics.items()
            },
            "groups": {
                group: {
                    "generation": record.generation,
                    "topics": list(record.topics),
                    "config": {"session_timeout": record.session_timeout, "strategy": record.strategy},
                    "members": [{"id": consumer_id, "host": host} for consumer_id, host in record.hosts.items()],
                    "offsets": _by_topic(self._offsets.get(group, {})),
                    "ownership": {
                        consumer_id: [list(partition) for partition in share]
                        for consumer_id, share in record.ownership.items()
                    },
                }
                for group, record in self._groups.items()
            },
        }

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> Store:
        """Return a store with the content of ``dumped``, a result of ``dump``."""
        store = cls({topic: content["partitions"] for topic, content in dumped["topics"].items()})
        for group, content in dumped["groups"].items():
            store._groups[group] = GroupRecord(
                generation=content["generation"],
                topics=tuple(content["topics"]),
                strategy=content["config"]["strategy"],
                session_timeout=content["config"]["session_timeout"],
                hosts={member["id"]: member["host"] for member in content["members"]},
                ownership={
                    consumer_id: tuple((topic, number) for topic, number in share)
                    for consumer_id, share in content["ownership"].items()
                },
            )
            store._offsets[group] = {
                (topic, int(number)): offset
                for topic, offsets in content["offsets"].items()
                for number, offset in offsets.items()
            }
        return store


def _by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(number)] = offset
    return by_topic

"""The part of ZooKeeper that the draft needs: groups, offsets, topics, and watches of coordinators on topics.

Every write is one piece: whoever reads finds all of it or nothing. It outlives every broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mockbroker.lab.history.draft.messages import Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """What is written of a group at once. ``hosts``: of the members, by consumer id; so is ``ownership``.

    ``session_timeout``: seconds, the longest that a member asked for.
    """

    generation: int = 0
    topics: tuple[str, ...] = ()
    strategy: str | None = None
    session_timeout: float = 0.0
    hosts: Mapping[str, str] = field(default_factory=dict)
    ownership: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


class Store:
    """``reads``, ``writes`` and ``notifications``: how often it was asked, told, and had to tell.

    A watch is taken as set again by whoever is told.
    """

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.reads = self.writes = self.notifications = 0
        self._topics = dict(topics or {})
        self._groups: dict[str, GroupRecord] = {}
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._watches: dict[str, set[int]] = {}

    def groups(self) -> list[str]:
        """Groups that have members."""
        return [group for group, record in self._groups.items() if record.hosts]

    def read(self, group: str) -> GroupRecord:
        self.reads += 1
        return self._groups.get(group, GroupRecord())

    def write(self, group: str, record: GroupRecord) -> None:
        """Generation, members and ownership: one write."""
        self.writes += 1
        self._groups[group] = record

    def offsets(self, group: str) -> Offsets:
        return dict(self._offsets.get(group, {}))

    def commit(self, group: str, offsets: Offsets) -> None:
        self.writes += 1
        self._offsets.setdefault(group, {}).update(offsets)

    def partitions(self, topic: str) -> int:
        """How many there are; 0 if the topic is not there yet."""
        return self._topics.get(topic, 0)

    def set_topic(self, topic: str, partitions: int) -> list[int]:
        """The topic is created, or has more partitions. Gives the brokers that are notified."""
        self._topics[topic] = partitions
        told = sorted(self._watches.get(topic, ()))
        self.notifications += len(told)
        return told

    @property
    def watchers(self) -> set[int]:
        """Brokers that are told of a topic."""
        return {node for nodes in self._watches.values() for node in nodes}

    def watch(self, topic: str, node: int) -> None:
        """``node`` is told when the topic appears or grows."""
        self._watches.setdefault(topic, set()).add(node)

    def session_ends(self, node: int) -> None:
        """A broker is gone, and its watches with it."""
        for nodes in self._watches.values():
            nodes.discard(node)

    def dump(self) -> dict[str, Any]:
        """Everything that is stored, by topic and by group, as JSON can hold it."""
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
        """A store that has what ``dump`` told."""
        store = cls({topic: told["partitions"] for topic, told in dumped["topics"].items()})
        for group, told in dumped["groups"].items():
            store._groups[group] = GroupRecord(
                generation=told["generation"],
                topics=tuple(told["topics"]),
                strategy=told["config"]["strategy"],
                session_timeout=told["config"]["session_timeout"],
                hosts={member["id"]: member["host"] for member in told["members"]},
                ownership={
                    consumer_id: tuple((topic, number) for topic, number in share)
                    for consumer_id, share in told["ownership"].items()
                },
            )
            store._offsets[group] = {
                (topic, int(number)): offset
                for topic, offsets in told["offsets"].items()
                for number, offset in offsets.items()
            }
        return store


def _by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in offsets.items():
        found.setdefault(topic, {})[str(number)] = offset
    return found

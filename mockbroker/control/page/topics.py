"""The topics in the document of the live page."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeAlias

from mockbroker.control.control import Control
from mockbroker.control.page.collection import SLICE, Allotment, Collection, Slices
from mockbroker.topics.model import Topic

TOPICS = 1_000  # maximum number of topics
PARTITIONS = 1_000  # of a topic
PARTITIONS_IN_ALL = 10_000
_Seen: TypeAlias = tuple[Any, ...]


class Topics(Collection):
    """The topics in the document of the live page. A refresh describes only topics that have changed since the last
    refresh.

    Args:
        control: the state of the control API.

    Attributes:
        changed: names of the topics that were changed or deleted. The reader of the set must clear it.
    """

    def __init__(self, control: Control) -> None:
        super().__init__()
        self.changed: set[str] = set()
        self._control = control
        self._seen: dict[str, _Seen] = {}

    def refresh(self, left_out: dict[str, int]) -> Slices:
        """Refresh the topics, and add changed and deleted topics to ``changed``.

        The generator yields between parts of the work, so that other tasks can run.

        ``left_out``: dictionary in which the method sets the entries ``topics`` and ``partitions``: how many of each
        the page does not show.
        """
        self.begin()
        topics = self._control.broker.cluster.topics
        first, allotment, seen = list(islice(topics.values(), TOPICS)), Allotment(PARTITIONS, PARTITIONS_IN_ALL), {}
        for number, topic in enumerate(first, 1):
            seen[topic.name] = now = _seen(topic, allotment.take(len(topic.partitions)))
            if self._seen.get(topic.name) != now:
                self.changed.add(topic.name)
                self.put(topic.name, _topic_json(topic, now))
            if number % SLICE == 0:
                yield
        self.keep(seen)
        self.changed |= self._seen.keys() - seen.keys()
        self._seen = seen
        left_out |= {"topics": max(len(topics) - TOPICS, 0), "partitions": allotment.left_out}


def _seen(topic: Topic, partitions: int) -> _Seen:
    """Return the values of a topic that the page shows, in a form that is fast to compare.

    ``partitions``: number of shown partitions.
    """
    shown = islice(topic.partitions, partitions)
    offsets = [(each.leader, each.log.start, each.log.end) for each in shown]
    return topic.topic_id, dict(topic.configs), topic.internal, offsets


def _topic_json(topic: Topic, seen: _Seen) -> dict[str, Any]:
    topic_id, configs, internal, offsets = seen
    return {
        "name": topic.name,
        "id": str(topic_id),
        "internal": internal,
        "partitions": {
            str(index): {"leader": leader, "start": start, "end": end}
            for index, (leader, start, end) in enumerate(offsets)
        },
        "config": {key: value for key, value in configs.items() if value is not None},
    }

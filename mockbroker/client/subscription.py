"""The subscription of a consumer: topics, a pattern of topics, or partitions that the user assigned.

Source: org.apache.kafka.clients.consumer.internals.SubscriptionState.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from mockbroker.client.errors import IllegalUse
from mockbroker.client.metadata import TopicPartition


class SubscriptionType(Enum):
    """The way in which a consumer gets its partitions: by subscribed topics, by a pattern, or by manual assignment."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    USER_ASSIGNED = "partitions"  # by the user, without rebalances


def checked_topics(topics: Iterable[str], expected: str) -> list[str]:
    """Return topic names as a list.

    Args:
        topics: The argument of the user.
        expected: Description of the expected value, such as ``a list of names``.

    Raises: TypeError if ``topics`` is a string, whose characters would be topic names, or if a name is not a str;
        ValueError for a name that cannot be encoded.
    """
    if isinstance(topics, str):
        raise TypeError(f"topics must be {expected}, got {topics!r}: use [{topics!r}]")
    return [checked_topic(topic) for topic in topics]


def checked_topic(topic: str) -> str:
    """Return a topic name. Raises: TypeError if it is not a str; ValueError if it cannot be encoded."""
    if not isinstance(topic, str):
        raise TypeError(f"the name of a topic must be a str, got {topic!r}")
    try:
        topic.encode()
    except UnicodeEncodeError:
        raise ValueError(f"topic {topic!r} cannot be encoded in UTF-8: use another name") from None
    return topic


def checked_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions as a list.

    Raises: TypeError for a partition that is not a pair of topic and number; ValueError for a topic that cannot be
    encoded, or a number that is out of range.
    """
    checked = list(partitions)
    for partition in checked:
        match partition:
            case (str(topic), int(number)) if isinstance(partition, tuple):
                checked_topic(topic)
                if not 0 <= number < 2**31:
                    raise ValueError(f"partition {number} of {topic} is out of range (0-{2**31 - 1})")
            case _:
                raise TypeError(f'a partition must be a topic and a number, such as ("orders", 0), got {partition!r}')
    return checked


class SubscriptionState:
    """The subscription of one consumer.

    Attributes:
        type: Source of the consumer's partitions.
        topics: Names of the subscribed topics, including topics that match the pattern.
        pattern: The subscribed pattern; None without a pattern.
        version: Number of changes of ``topics``.
    """

    def __init__(self) -> None:
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.version = 0

    @property
    def subscribed(self) -> bool:
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Subscribe to topics or a pattern. Raises: IllegalUse after ``assign``."""
        if self.type is SubscriptionType.USER_ASSIGNED:
            raise IllegalUse("subscribe() after assign(): call unsubscribe() first")
        if isinstance(topics, re.Pattern):
            self.type, self.pattern = SubscriptionType.AUTO_PATTERN, topics
        else:
            self.type, self.pattern = SubscriptionType.AUTO_TOPICS, None
            self.set_topics(topics)

    def assign(self) -> None:
        """Record that the user assigns partitions manually. Afterwards, ``subscribe`` raises IllegalUse.

        Raises: IllegalUse after ``subscribe``.
        """
        if self.subscribed:
            raise IllegalUse("assign() after subscribe(): call unsubscribe() first")
        self.type = SubscriptionType.USER_ASSIGNED

    def clear(self) -> None:
        """End the subscription: remove all subscribed topics and the pattern."""
        self.type, self.pattern = SubscriptionType.NONE, None
        self.set_topics(())

    def set_topics(self, topics: Iterable[str]) -> None:
        """Replace the subscribed topics. If they are different, increase ``version``."""
        topics = frozenset(topics)
        if topics != self.topics:
            self.topics = topics
            self.version += 1

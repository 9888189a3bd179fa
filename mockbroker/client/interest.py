"""What a consumer was told to read: topics, a pattern of topics, or partitions of the user's choice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from mockbroker.client.errors import IllegalUse


class Mode(Enum):
    """How partitions come to a consumer."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    PARTITIONS = "partitions"  # without a group


class Interest:
    """``topics``: what is subscribed to, found by the pattern if there is one. ``version`` grows when they change."""

    def __init__(self) -> None:
        self.mode = Mode.NOTHING
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.version = 0

    @property
    def subscribed(self) -> bool:
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Raises: IllegalUse after ``assign``."""
        if self.mode is Mode.PARTITIONS:
            raise IllegalUse("subscribe and assign exclude each other: unsubscribe first")
        if isinstance(topics, re.Pattern):
            self.mode, self.pattern = Mode.PATTERN, topics
        else:
            self.mode, self.pattern = Mode.TOPICS, None
            self.set_topics(topics)

    def assign(self) -> None:
        """Raises: IllegalUse after ``subscribe``."""
        if self.subscribed:
            raise IllegalUse("assign and subscribe exclude each other: unsubscribe first")
        self.mode = Mode.PARTITIONS

    def nothing(self) -> None:
        """Read nothing any more."""
        self.mode, self.pattern = Mode.NOTHING, None
        self.set_topics(())

    def set_topics(self, topics: Iterable[str]) -> None:
        """These are the topics now."""
        topics = frozenset(topics)
        if topics != self.topics:
            self.topics = topics
            self.version += 1

"""The statuses of a heartbeat response. Source: Kafka's StreamsGroupHeartbeatResponse.Status (4.2)."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The status of a member: the reason why it has no tasks, or the action that it has to take.

    The values are Kafka's numbers.

    Attributes:
        STALE_TOPOLOGY: the topology epoch of the member is older than the topology epoch of the group.
        MISSING_SOURCE_TOPICS: source topics of the topology do not exist.
        INCORRECTLY_PARTITIONED_TOPICS: topics of the topology have a wrong number of partitions.
        MISSING_INTERNAL_TOPICS: internal topics of the topology do not exist yet.
        SHUTDOWN_APPLICATION: a member has requested that all members of the application stop.
        ASSIGNMENT_DELAYED: the group waits for more members before the first assignment.
    """

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(Exception):
    """The error for topics that are missing or have wrong partition counts, so that no tasks can be assigned.

    Attributes:
        status: The status.
        detail: Text that explains the status.
    """

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

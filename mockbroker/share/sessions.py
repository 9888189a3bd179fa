"""Share sessions: the partitions that a member reads from a broker, and the epoch of its next request.

Source: Kafka's ShareSession and ShareSessionCache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.share_fetch import ShareFetchRequest

INITIAL_EPOCH = 0  # of a request that creates a session
FINAL_EPOCH = -1  # of a request that ends a session
LAST_EPOCH = 2**31 - 1

PartitionKey: TypeAlias = tuple[UUID, int]  # topic id and partition number


class SessionKey(NamedTuple):
    """The key of a share session at one broker: group id and member id."""

    group_id: str
    member_id: str


@dataclass(slots=True, eq=False)
class ShareSession:
    """A share session.

    Attributes:
        key: Group id and member id.
        connection: Number of the connection that created the session.
        epoch: Epoch of the next request.
        partitions: By partition, whether the next response must contain the partition even without records.
    """

    key: SessionKey
    connection: int
    epoch: int = 1
    partitions: dict[PartitionKey, bool] = field(default_factory=dict)

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """Change the partitions of the session.

        Args:
            added: partitions to add. The next response must contain a partition that was not in the session.
            forgotten: partitions to remove afterwards.
        """
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def next_request(self) -> None:
        """Increment the epoch, because a request with the current epoch was received."""
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def selects(self, partition: PartitionKey, *, records: bool, failed: bool) -> bool:
        """Return whether a response must contain a partition of the session.

        The response must contain a partition with records or an error, and a partition whose value in ``partitions`` is
        True. If the response contains the partition, the value becomes True after an error, so that the next response
        contains the partition too; else it becomes False.

        Args:
            partition: the partition. If it has records, it moves to the end of ``partitions``.
            records: whether the response has records of the partition.
            failed: whether the response has an error for the partition.
        """
        if partition not in self.partitions:  # forgotten while the request waited for records
            return records or failed
        selected = records or failed or self.partitions[partition]
        if records:
            del self.partitions[partition]
        if selected:
            self.partitions[partition] = failed
        return selected


class ShareSessions:
    """The share sessions of a broker. ``limit``: maximum number of sessions (``group.share.max.share.sessions``)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connections: dict[int, ShareSession] = {}  # the last session that a connection created

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        """Return the share session with a key, or None if there is no such session."""
        return self._sessions.get(key)

    def has_group(self, group_id: str) -> bool:
        """Return whether at least one member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def create(self, key: SessionKey, partitions: Collection[PartitionKey], connection: int) -> ShareSession | None:
        """Create and return a session, which replaces an earlier session of the same member.

        Return None and create nothing if the maximum number of sessions is reached.

        Args:
            key: group id and member id.
            partitions: partitions of the session.
            connection: number of the connection on which the request was received.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._limit:
            return None
        session = ShareSession(key, connection, partitions=dict.fromkeys(partitions, False))
        self._sessions[key] = self._of_connections[connection] = session
        return session

    def find(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """Return the session of a request.

        Args:
            key: Group id and member id.
            epoch: Share session epoch of the request. The final epoch (-1) matches any session.

        Returns:
            The session; SHARE_SESSION_NOT_FOUND without a session of the member; INVALID_SHARE_SESSION_EPOCH if the
            session has another epoch.
        """
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch not in (FINAL_EPOCH, session.epoch):
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        return session

    def partitions_of(self, request: ShareFetchRequest) -> list[PartitionKey] | None:
        """Return the partitions that a ShareFetch (``request``) in a session reads; None for a request that creates or
        ends a session, only renews acquisition locks, or has no session.

        The session is not changed.
        """
        if request.share_session_epoch in (INITIAL_EPOCH, FINAL_EPOCH) or request.is_renew_ack:
            return None
        session = self._sessions.get(SessionKey(request.group_id or "", request.member_id or ""))
        if session is None:
            return None
        named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        forgotten = {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
        return [key for key in dict.fromkeys((*session.partitions, *named)) if key not in forgotten]

    def remove(self, key: SessionKey) -> ShareSession | None:
        """Remove the share session with a key, and return the session. Return None if there is no such session."""
        return self._sessions.pop(key, None)

    def is_of(self, connection: int) -> bool:
        """Return whether a connection has created at least one session so far. The session may have ended.

        ``connection``: number of the connection.
        """
        return connection in self._of_connections

    def disconnect(self, connection: int) -> ShareSession | None:
        """Forget which session a closed connection has created, and return this session.

        If the connection has created several sessions, the last one is returned, even if it has ended. The result is
        None if the connection has created no session.

        ``connection``: number of the connection.
        """
        return self._of_connections.pop(connection, None)

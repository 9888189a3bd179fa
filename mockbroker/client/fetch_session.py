"""Incremental fetch sessions: the broker stores the fetched partitions, so that requests list only changes (KIP-227).

Source: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.client.metadata import TopicPartition

NO_SESSION, FIRST_EPOCH, FINAL_EPOCH = 0, 0, -1
MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """The fields of a partition in a Fetch request.

    Attributes:
        offset: Offset to fetch from.
        epoch: Current leader epoch of the partition, from metadata.
        fetched_epoch: Leader epoch of the last fetched record; -1 if unknown.
        topic_id: Topic id; NO_ID if unknown.
    """

    offset: int
    epoch: int
    fetched_epoch: int
    topic_id: UUID


class FetchSession:
    """The incremental fetch session with one broker (KIP-227).

    Attributes:
        session_id: Session id that the next Fetch request sends; NO_SESSION until the broker has created a session.
        epoch: Session epoch that the next Fetch request sends; FIRST_EPOCH requests a full fetch.
    """

    def __init__(self) -> None:
        self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        self._known: dict[TopicPartition, PartitionRequest] = {}
        self._next: dict[TopicPartition, PartitionRequest] = {}

    @property
    def full(self) -> bool:
        """Whether the next Fetch request has to list all partitions."""
        return self.epoch == FIRST_EPOCH

    def next_request(
        self, wanted: Mapping[TopicPartition, PartitionRequest]
    ) -> tuple[dict[TopicPartition, PartitionRequest], Sequence[tuple[TopicPartition, PartitionRequest]]]:
        """Return the content of the next Fetch request: the partitions to list, and the partitions to remove from the
        session.

        After the request, the session consists of the partitions in ``wanted``.

        Args:
            wanted: Partitions that the consumer wants to fetch from this broker.
        """
        self._next = dict(wanted)
        if self.full:
            return self._next, ()
        changed = {partition: request for partition, request in wanted.items() if self._known.get(partition) != request}
        forgotten = [
            (partition, known)
            for partition, known in self._known.items()
            if partition not in wanted or wanted[partition].topic_id != known.topic_id
        ]
        return changed, forgotten

    def accepts(self, answered: set[TopicPartition]) -> bool:
        """Return whether a response contains only partitions of the session and, after a full request, all of them.

        ``answered``: the partitions in the response.
        """
        if self.full:
            return answered == set(self._next)
        return answered <= set(self._next)

    def handle_response(self, session_id: int) -> None:
        """Advance the session epoch, because the broker accepted the request. If the broker has no session, call
        ``reset``.

        ``session_id``: the session id in the response.
        """
        if session_id == NO_SESSION:
            self.reset()
            return
        if self.full:
            self.session_id = session_id
        self._known = self._next
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Drop the session id, because the broker does not know the session. The next request is a full fetch."""
        self.session_id = NO_SESSION
        self.start_new()

    def start_new(self) -> None:
        """Make the next request a full fetch that starts a new session.

        If a session exists, the request contains its id, so that the broker closes the session.
        """
        self.epoch = FIRST_EPOCH

"""A fetch session: the broker keeps the partitions of a fetch, so that requests list only changes (KIP-227).

Source: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mockbroker.client.metadata import TopicPartition

NO_SESSION, FIRST_EPOCH, FINAL_EPOCH = 0, 0, -1
MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """A partition of a Fetch request. ``epoch``: leader epoch; ``fetched_epoch``: of the last fetched record."""

    offset: int
    epoch: int
    fetched_epoch: int
    topic_id: UUID


class FetchSession:
    """The fetch session with one broker. ``session_id``, ``epoch``: those of the next request."""

    def __init__(self) -> None:
        self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        self._known: dict[TopicPartition, PartitionRequest] = {}
        self._next: dict[TopicPartition, PartitionRequest] = {}

    @property
    def full(self) -> bool:
        """True if the next request has to list all partitions."""
        return self.epoch == FIRST_EPOCH

    def next_request(
        self, wanted: Mapping[TopicPartition, PartitionRequest]
    ) -> tuple[dict[TopicPartition, PartitionRequest], Sequence[tuple[TopicPartition, PartitionRequest]]]:
        """Return the partitions that the next request lists and those it forgets, to have a session of ``wanted``."""
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
        """Return whether a response has the right partitions: all of a full request, else only ones of the session."""
        if self.full:
            return answered == set(self._next)
        return answered <= set(self._next)

    def handle_response(self, session_id: int) -> None:
        """Record that the broker accepted the request; ``session_id``: of its response."""
        if session_id == NO_SESSION:
            self.reset()
            return
        if self.full:
            self.session_id = session_id
        self._known = self._next
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Start without a session: the broker does not know the current one."""
        self.session_id = NO_SESSION
        self.start_new()

    def start_new(self) -> None:
        """Start a new session with the next request, which names the current one so that the broker closes it."""
        self.epoch = FIRST_EPOCH
        self._known = {}

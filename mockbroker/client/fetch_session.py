"""What a broker remembers of what is fetched from it, so that it need not be told each time (KIP-227).

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
class Asked:
    """What is asked of one partition. ``epoch``: of the leader; ``fetched_epoch``: of the record before."""

    offset: int
    epoch: int
    fetched_epoch: int
    topic_id: UUID


class FetchSession:
    """With one node. ``session_id`` and ``epoch``: what the next request says."""

    def __init__(self) -> None:
        self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        self._known: dict[TopicPartition, Asked] = {}
        self._next: dict[TopicPartition, Asked] = {}

    @property
    def full(self) -> bool:
        """True if the next request has to name everything."""
        return self.epoch == FIRST_EPOCH

    def ask(
        self, wanted: Mapping[TopicPartition, Asked]
    ) -> tuple[dict[TopicPartition, Asked], Sequence[tuple[TopicPartition, Asked]]]:
        """What a request has to name of ``wanted``, and what it has to take back."""
        self._next = dict(wanted)
        if self.full:
            return self._next, ()
        told = {partition: asked for partition, asked in wanted.items() if self._known.get(partition) != asked}
        forgotten = [
            (partition, known)
            for partition, known in self._known.items()
            if partition not in wanted or wanted[partition].topic_id != known.topic_id
        ]
        return told, forgotten

    def accepts(self, answered: set[TopicPartition]) -> bool:
        """False for an answer that is not one to what was asked: a full one names all, another only what is known."""
        if self.full:
            return answered == set(self._next)
        return answered <= set(self._next)

    def answered(self, session_id: int) -> None:
        """The broker has taken the request."""
        if session_id == NO_SESSION:
            self.forget()
            return
        if self.full:
            self.session_id = session_id
        self._known = self._next
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def forget(self) -> None:
        """Begin anew: the broker does not have it."""
        self.session_id = NO_SESSION
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin another in its place: what the broker has of it is not known. The next request says which to end."""
        self.epoch = FIRST_EPOCH
        self._known = {}

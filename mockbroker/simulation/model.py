"""A small reference of committed offsets, made of what brokers said yes to, and of nothing that they hold.

Commits of transactions hold from the end of the transaction on; of two for one place the one asked for last holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kwire import ErrorCode
from mockbroker.calls import Call

Place = tuple[str, int]  # topic name and partition
OFFSET_COMMIT, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT, DELETE_GROUPS, OFFSET_DELETE = 8, 22, 26, 28, 42, 47


@dataclass(slots=True)
class Stored:
    """``order``: counts what was asked for; ``at``: when, in seconds."""

    offset: int
    order: int
    at: float


@dataclass(slots=True)
class Model:
    """``offsets``: by group and place; ``held``: by producer id, what its open transaction would store."""

    offsets: dict[str, dict[Place, Stored]] = field(default_factory=dict)
    held: dict[int, dict[tuple[str, Place], Stored]] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    order: int = 0

    def of(self, group: str) -> dict[Place, int]:
        return {place: stored.offset for place, stored in self.offsets.get(group, {}).items()}

    def unstable(self, group: str, place: Place) -> bool:
        return any((group, place) in held for held in self.held.values())

    def answered(self, call: Call[Any], response: Any, now: float) -> None:
        """What an answer means for the offsets."""
        request = call.request
        match call.ticket.api_key:
            case key if key == OFFSET_COMMIT:
                for place, offset in accepted(request, response):
                    self._store(request.group_id, place, self._next(offset, now))
            case key if key == TXN_OFFSET_COMMIT:
                held = self.held.setdefault(request.producer_id, {})
                for place, offset in accepted(request, response):
                    held[request.group_id, place] = self._next(offset, now)
            case key if key == END_TXN and not response.error_code:
                self._finish(request.producer_id, committed=request.committed)
            case key if key == INIT_PRODUCER_ID:
                self._finish(self.producers.get(request.transactional_id, -1), committed=False)
                if not response.error_code:
                    self.producers[request.transactional_id] = response.producer_id
            case key if key == DELETE_GROUPS:
                for result in response.results:
                    if not result.error_code:
                        self.delete(result.group_id)
            case key if key == OFFSET_DELETE and not response.error_code:
                for topic in response.topics:
                    for partition in topic.partitions:
                        if not partition.error_code:
                            self.forget(request.group_id, (topic.name, partition.partition_index))

    def delete(self, group: str) -> None:
        """The group is gone, with what transactions would store in it."""
        self.offsets.pop(group, None)
        for held in self.held.values():
            for key in [key for key in held if key[0] == group]:
                del held[key]

    def forget(self, group: str, place: Place) -> None:
        self.offsets.get(group, {}).pop(place, None)
        for held in self.held.values():
            held.pop((group, place), None)

    def aborted(self, producer_id: int) -> None:
        """A transaction took too long."""
        self._finish(producer_id, committed=False)

    def _next(self, offset: int, now: float) -> Stored:
        self.order += 1
        return Stored(offset, self.order, now)

    def _store(self, group: str, place: Place, stored: Stored) -> None:
        there = self.offsets.setdefault(group, {})
        if place not in there or there[place].order < stored.order:
            there[place] = stored

    def _finish(self, producer_id: int, *, committed: bool) -> None:
        for (group, place), stored in self.held.pop(producer_id, {}).items():
            if committed:
                self._store(group, place, stored)


def accepted(request: Any, response: Any) -> list[tuple[Place, int]]:
    """Places and offsets of a commit that were accepted."""
    asked = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in request.topics
        for partition in topic.partitions
    }
    return [
        ((topic.name, partition.partition_index), asked[topic.name, partition.partition_index])
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE
    ]

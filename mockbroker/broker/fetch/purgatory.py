"""Fetches that wait for records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kwire.messages.fetch import FetchRequest
from mockbroker.base.effects import Call, Ticket
from mockbroker.broker.fetch.sessions import Reading
from mockbroker.topics.model import Partition

Parked: TypeAlias = tuple[Call[FetchRequest], Reading]


@dataclass(slots=True)
class ParkedFetches:
    """Fetches that wait for records, and who waits for which partition."""

    calls: dict[Ticket, Parked] = field(default_factory=dict)
    by_partition: dict[tuple[str, int], dict[Ticket, None]] = field(default_factory=dict)
    wanted: dict[Ticket, set[tuple[str, int]]] = field(default_factory=dict)

    def park(self, call: Call[FetchRequest], reading: Reading, partitions: Iterable[tuple[str, int]]) -> None:
        """Wait for these partitions; a client may name one twice."""
        self.calls[call.ticket] = call, reading
        self.wanted[call.ticket] = set(partitions)
        for partition in self.wanted[call.ticket]:
            self.by_partition.setdefault(partition, {})[call.ticket] = None

    def remove(self, ticket: Ticket) -> Parked | None:
        """Stop waiting; None if it did not wait."""
        for partition in self.wanted.pop(ticket, ()):
            tickets = self.by_partition[partition]
            del tickets[ticket]
            if not tickets:
                del self.by_partition[partition]
        return self.calls.pop(ticket, None)

    def of(self, partitions: Iterable[Partition]) -> list[Parked]:
        """Calls that wait for one of these partitions, each once: by partition, then the oldest first."""
        found: dict[Ticket, None] = {}
        for partition in partitions:
            found.update(self.by_partition.get((partition.topic, partition.index), ()))
        return [self.calls[ticket] for ticket in found]

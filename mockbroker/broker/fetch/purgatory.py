"""The purgatory of Fetch requests that wait for records. Source: Kafka's DelayedOperationPurgatory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kwire.messages.fetch import FetchRequest
from mockbroker.base.effects import Call, Ticket
from mockbroker.broker.fetch.session_cache import FetchContext
from mockbroker.topics.model import Partition

DelayedFetch: TypeAlias = tuple[Call[FetchRequest], FetchContext]


@dataclass(slots=True)
class FetchPurgatory:
    """The pending Fetch requests, with the partitions that each of them waits for.

    Attributes:
        pending: The requests by ticket.
        watchers: Tickets of the waiting requests by partition (topic name and index), oldest request first.
        watched: Partitions that a request waits for, by ticket.
    """

    pending: dict[Ticket, DelayedFetch] = field(default_factory=dict)
    watchers: dict[tuple[str, int], dict[Ticket, None]] = field(default_factory=dict)
    watched: dict[Ticket, set[tuple[str, int]]] = field(default_factory=dict)

    def add(self, call: Call[FetchRequest], context: FetchContext, partitions: Iterable[tuple[str, int]]) -> None:
        """Add a request that watches these partitions, which may contain duplicates."""
        self.pending[call.ticket] = call, context
        self.watched[call.ticket] = set(partitions)
        for partition in self.watched[call.ticket]:
            self.watchers.setdefault(partition, {})[call.ticket] = None

    def remove(self, ticket: Ticket) -> DelayedFetch | None:
        """Remove and return a request; None if it is not pending."""
        for partition in self.watched.pop(ticket, ()):
            tickets = self.watchers[partition]
            del tickets[ticket]
            if not tickets:
                del self.watchers[partition]
        return self.pending.pop(ticket, None)

    def watching(self, partitions: Iterable[Partition]) -> list[DelayedFetch]:
        """Return the requests that watch these partitions, without duplicates; for each partition the oldest first."""
        tickets: dict[Ticket, None] = {}
        for partition in partitions:
            tickets.update(self.watchers.get((partition.topic, partition.index), ()))
        return [self.pending[ticket] for ticket in tickets]

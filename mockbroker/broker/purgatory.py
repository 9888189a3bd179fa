"""The purgatory of requests that wait for a change of partitions. Source: Kafka's DelayedOperationPurgatory."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import field
from typing import Generic, TypeVar

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Ticket

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


@dataclass(slots=True)
class Purgatory(Generic[K, R]):
    """The waiting requests of one API, each with the keys of the partitions that it watches.

    Attributes:
        pending: The waiting requests by ticket (the object that identifies a request).
        watchers: Key of a partition -> tickets of the requests that watch the partition, oldest request first.
        watched: Ticket of a request -> keys of the partitions that the request watches.
    """

    pending: dict[Ticket, R] = field(default_factory=dict)
    watchers: dict[K, dict[Ticket, None]] = field(default_factory=dict)
    watched: dict[Ticket, Collection[K]] = field(default_factory=dict)

    def add(self, ticket: Ticket, request: R, keys: Iterable[K]) -> None:
        """Add a request that watches partitions.

        Args:
            ticket: Ticket of the request.
            request: The request.
            keys: Keys of the watched partitions, which may contain duplicates.
        """
        self.pending[ticket] = request
        watched = self.watched[ticket] = dict.fromkeys(keys)
        watchers = self.watchers
        for key in watched:
            tickets = watchers.get(key)
            if tickets is None:
                watchers[key] = {ticket: None}
            else:
                tickets[ticket] = None

    def remove(self, ticket: Ticket) -> R | None:
        """Remove a request, and return it; return None if the request is not pending.

        ``ticket``: ticket of the request.
        """
        for key in self.watched.pop(ticket, ()):
            tickets = self.watchers[key]
            del tickets[ticket]
            if not tickets:
                del self.watchers[key]
        return self.pending.pop(ticket, None)

    def watching(self, keys: Iterable[K]) -> list[R]:
        """Return the requests that watch the partitions with the given keys.

        For each key, the oldest request comes first. No request occurs twice.
        """
        tickets: dict[Ticket, None] = {}
        for key in keys:
            tickets.update(self.watchers.get(key, ()))
        return [self.pending[ticket] for ticket in tickets]

"""The engine of a share consumer: all components, connected and advanced without sockets and clocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.coordinator import Coordinator
from mockbroker.client.metadata import Metadata
from mockbroker.client.network import Network
from mockbroker.client.share.fetching import ShareFetcher
from mockbroker.client.share.member import ShareMembership
from mockbroker.client.share.settings import ShareSettings


class ShareEngine:
    """The engine of one share consumer.

    Args:
        bootstrap: Hosts and ports of the bootstrap servers.
        group: Group id.
        settings: Settings of the consumer.
        jitter: Function that returns a random number from 0 to 1, for backoffs.
        member_id: Member id, which the client chooses.

    Attributes:
        clock: The clock, which the driver sets.
        network: The connections.
        metadata: The metadata.
        coordinator: The coordinator of the group.
        member: The membership.
        fetcher: The requests to the leaders of partitions.
        fetching: Whether a poll waits for records.
    """

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        group: str,
        settings: ShareSettings,
        *,
        jitter: Callable[[], float],
        member_id: str,
    ) -> None:
        self.settings = settings
        self.clock = Clock()
        backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max, jitter)
        reconnect = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, jitter)
        self.network = Network(bootstrap, settings, self.clock, reconnect)
        self.metadata = Metadata(self.network, settings, self.clock, backoff, creates_topics=False)
        self.coordinator = Coordinator(group, self.network, self.metadata, self.clock, backoff)
        self.member = ShareMembership(group, member_id, settings.client_rack, self.coordinator, self.clock, backoff)
        self.fetcher = ShareFetcher(group, self.member, settings, self.network, self.metadata, self.clock, backoff)
        self.network.on_disconnect = self.coordinator.handle_disconnect
        self.fetching = False  # whether a poll waits for records

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscribed topics."""
        self.metadata.require_topics(topics)
        self.member.subscribe(topics)

    def advance(self, *, polling: bool) -> None:
        """Run all due timers, and send all due requests.

        ``polling``: True during a call of ``poll``; then pending errors are raised.
        """
        self.network.tick()
        self.metadata.request_if_due()
        if self.member.topics:
            self.coordinator.find_if_due()
        self.member.send_due()
        self.fetcher.send_due(fetching=self.fetching)
        if polling:
            self._raise()

    def next_deadline(self) -> float:
        """Return the time of the next call of ``advance`` if no bytes arrive, in seconds on the engine's clock."""
        at = min(each.next_deadline() for each in (self.network, self.metadata, self.member, self.fetcher))
        return min(at, self.coordinator.next_deadline()) if self.member.topics else at

    def _raise(self) -> None:
        self.metadata.raise_errors()
        for component in (self.coordinator, self.member, self.fetcher):
            if component.failure is not None:
                failure, component.failure = component.failure, None
                raise failure

"""The engine of a consumer: all components, connected and advanced without sockets and clocks.

The driver sets ``clock.now``, passes received bytes to the links, calls ``advance``, opens the connections of
``network.to_open`` and calls the listener for ``listener_call``. The driver repeats these steps at ``next_deadline()``,
and each time that bytes arrive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from kwire.assignors import Assignor, assignor
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.classic.member import ClassicMembership
from mockbroker.client.committed_offsets import CommittedLookup
from mockbroker.client.committing import Commit, Committer
from mockbroker.client.components import Components
from mockbroker.client.consumer_member import ConsumerMembership
from mockbroker.client.coordinator import Coordinator
from mockbroker.client.errors import IllegalUse
from mockbroker.client.fetching import Fetcher
from mockbroker.client.flow import ListenerCall
from mockbroker.client.log_offsets import LogLookup
from mockbroker.client.membership import Membership
from mockbroker.client.metadata import Metadata, TopicLookup, TopicPartition
from mockbroker.client.network import Network
from mockbroker.client.position_resolver import Resolver
from mockbroker.client.positions import OffsetAndMetadata, Positions
from mockbroker.client.records import ConsumerRecord
from mockbroker.client.settings import CONSUMER, ConsumerSettings
from mockbroker.client.subscription import SubscriptionState, SubscriptionType

Lookup = CommittedLookup | LogLookup | TopicLookup


class Engine:
    """The engine of one consumer.

    Args:
        bootstrap: Hosts and ports of the bootstrap servers.
        group: Group id; None without a group.
        settings: Settings of the consumer.
        jitter: Function that returns a random number from 0 to 1, for backoffs.
        wall_clock_ms: Function that returns the current time in milliseconds since 1970.
        member_id: Member id for a consumer group (KIP-848); not used in a classic group.

    Attributes:
        clock: The engine's clock, which the driver sets.
        network: The known brokers and the connections to them.
        metadata: The metadata of the cluster.
        subscription: The subscription: topics, a pattern of topics, or manual assignment.
        positions: The positions of the assigned partitions.
        coordinator: The coordinator of the group; not used without a group.
        committer: The sender of offset commits.
        resolver: The resolver of missing positions.
        fetcher: The fetcher of records.
        member: The member of the group; None without a group.
    """

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        group: str | None,
        settings: ConsumerSettings,
        *,
        jitter: Callable[[], float],
        wall_clock_ms: Callable[[], int],
        member_id: str,
    ) -> None:
        self.group, self.settings = group, settings
        self.clock = Clock()
        backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max, jitter)
        reconnect = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, jitter)
        self.network = Network(bootstrap, settings, self.clock, reconnect)
        self.metadata = Metadata(
            self.network, settings, self.clock, backoff, creates_topics=settings.allow_auto_create_topics
        )
        self.subscription = SubscriptionState()
        self.positions = Positions()
        self.coordinator = Coordinator(group or "", self.network, self.metadata, self.clock, backoff)
        self.committer = Committer(group or "", self.coordinator, self.metadata, self.clock, backoff)
        self._components = components = Components(
            group,
            settings,
            self.clock,
            backoff,
            self.network,
            self.metadata,
            self.subscription,
            self.positions,
            self.coordinator,
            self.committer,
        )
        self.resolver = Resolver(components, wall_clock_ms)
        self.fetcher = Fetcher(components, self.resolver)
        self.member: Membership | None = None
        if group is not None:
            if settings.group_protocol == CONSUMER:
                self.member = ConsumerMembership(member_id, components)
            else:
                self.member = ClassicMembership(_assignors(settings.assignors), components)
            self.committer.member = self.member
        self.committer.on_commit = self._look_up_again
        self.network.on_disconnect = self.coordinator.handle_disconnect
        self._auto_commit_at = float("inf")
        self._lookups: list[Lookup] = []
        self._required_version = -1
        self._assigned_version = 0
        self._matched_version = -1  # the version of the metadata that the pattern was matched with

    # Calls of the user

    def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Subscribe to topics or a pattern. Raises: IllegalUse without a group, or after ``assign``."""
        if self.member is None:
            raise IllegalUse("subscribe() needs a group: open the consumer with group=..., or use assign()")
        self.subscription.subscribe(topics)
        self.metadata.require_matching_topics(self.subscription.pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the partitions that the user assigned. Raises: IllegalUse after ``subscribe``."""
        partitions = list(dict.fromkeys(partitions))
        if not partitions and self.subscription.type is SubscriptionType.NONE:
            return
        self.subscription.assign()
        self.fetcher.drop_partitions(set(self.positions) - set(partitions))
        self.positions.assign(partitions)
        self.metadata.require_topics({topic for topic, _ in partitions})
        if not partitions:
            self.subscription.clear()
        self._auto_commit_later()

    def unsubscribe(self) -> None:
        """Remove all subscribed topics and assigned partitions, with their buffered records; a member of a group leaves
        the group.
        """
        if member := self._active_member:
            member.leave("the consumer unsubscribed from all topics")
        self.subscription.clear()
        self.metadata.require_matching_topics(None)
        self.metadata.require_topics(())
        self.fetcher.drop_partitions(self.positions)
        self.positions.assign(())

    # Polls and time

    @property
    def _active_member(self) -> Membership | None:
        """The member of the group; None without a subscription."""
        return self.member if self.subscription.subscribed else None

    @property
    def listener_call(self) -> ListenerCall | None:
        """The next call of the user's rebalance listener; None if no call is pending. The rebalance waits for the call
        to return.
        """
        member = self._active_member
        return member.listener_call if member else None

    def listener_returned(self, error: Exception | None) -> None:
        """Continue the rebalance, because the listener has returned.

        ``error``: the exception that the listener raised; None without an exception.
        """
        assert self.member
        self.member.listener_returned(error)

    def record_poll(self, *, waiting: bool = False) -> None:
        """Restart the ``max_poll_interval`` timer, because the user has called ``poll``.

        ``waiting``: True to stop the timer instead, because the user waits inside a poll.
        """
        if member := self._active_member:
            member.record_poll(waiting=waiting)

    def auto_commit(self) -> None:
        """Commit all positions, without waiting for the result, if ``auto_commit_interval`` has passed."""
        now = self.clock.now
        if now < self._auto_commit_at or not self.auto_commits:
            return
        self._auto_commit_later()
        if offsets := self.positions.to_commit():
            self.committer.commit(
                offsets, self.settings.default_api_timeout, retried=False, on_done=self._auto_committed
            )

    @property
    def auto_commits(self) -> bool:
        return self.settings.enable_auto_commit and self.group is not None

    def _auto_commit_later(self) -> None:
        self._auto_commit_at = self.clock.now + self.settings.auto_commit_interval

    def _auto_committed(self, commit: Commit) -> None:
        if commit.error is not None:  # retry soon
            self._auto_commit_at = min(self._auto_commit_at, self.clock.now + self.settings.retry_backoff)

    def _look_up_again(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Look up the committed offsets again where no poll has used the position yet.

        After an assignment and in ``on_assigned``, a commit thus sets the position, as in Java, whose consumer looks up
        committed offsets in the next poll.

        ``offsets``: the offsets of a commit that has started or that is stored.
        """
        if discarded := self.positions.discard_unsettled(offsets):
            self.fetcher.drop_partitions(discarded)
            self.resolver.request_run()

    def advance(self, *, polling: bool) -> None:
        """Run all due timers, send all due requests, and continue rebalances.

        ``polling``: True during a call of ``poll``. Then errors for the user are raised, and the parts of a rebalance
        that wait for a poll run.
        """
        self.network.tick()
        if self.subscription.version != self._required_version and self.subscription.subscribed:
            self._required_version = self.subscription.version
            self.metadata.require_topics(self.subscription.topics)
        self.metadata.require_lookup_topics(topic for lookup in self._lookups for topic in lookup.topics)
        self.metadata.request_if_due()
        if self.subscription.type is SubscriptionType.AUTO_PATTERN and self.metadata.has_all_topics:
            self._match_pattern()
        if self._needs_coordinator:
            self.coordinator.find_if_due()
        if polling:
            self._raise()
        if member := self._active_member:
            member.maintain(polling=polling)
            if self._assigned_version != self.positions.version:
                self._assigned_version = self.positions.version
                self._auto_commit_later()
        self.committer.send_due()
        self.resolver.resolve_positions()
        for lookup in self._lookups:
            if isinstance(lookup, CommittedLookup) and self.coordinator.failure:
                lookup.fail(self.coordinator.failure)
            lookup.send_if_due()
        self._lookups = [lookup for lookup in self._lookups if not lookup.done]
        if polling:
            self._raise()
            if self.listener_call is None:
                self.positions.settle()

    @property
    def leaving(self) -> bool:
        """Whether the consumer still waits for a commit, or for the response to the request to leave the group."""
        return self.committer.busy or (self.member is not None and self.member.leaving)

    def _match_pattern(self) -> None:
        if self._matched_version != self.metadata.version:
            self._matched_version = self.metadata.version
            self.subscription.set_topics(self.metadata.matching())

    @property
    def _needs_coordinator(self) -> bool:
        return self.group is not None and (
            self.subscription.type is not SubscriptionType.NONE
            or self.committer.busy
            or any(isinstance(lookup, CommittedLookup) for lookup in self._lookups)
        )

    def _raise(self) -> None:
        self.metadata.raise_errors()
        for component in (self.coordinator, self.resolver, self.fetcher):
            if component.failure is not None:
                failure, component.failure = component.failure, None
                raise failure

    def next_deadline(self) -> float:
        """Return the time at which ``advance`` has to be called if no bytes arrive, in seconds on the engine's
        clock.
        """
        components = [self.network, self.metadata, self.committer, self.resolver, self.fetcher, *self._lookups]
        at = min(component.next_deadline() for component in components)
        if self._needs_coordinator:
            at = min(at, self.coordinator.next_deadline())
        if member := self._active_member:
            at = min(at, member.next_deadline())
        return at

    @property
    def auto_commit_at(self) -> float:
        return self._auto_commit_at if self.auto_commits and len(self.positions) else float("inf")

    def collect_records(self, max_records: int) -> list[ConsumerRecord]:
        """Return up to ``max_records`` buffered records, and advance the positions.

        Raises: ConsumerError if a fetch failed with an error that the application must handle, such as NoOffset.
        """
        return self.fetcher.collect_records(max_records)

    # Lookups: requests for information that the user waits for

    def look_up_committed(self, partitions: Iterable[TopicPartition]) -> CommittedLookup:
        """Start a lookup of the committed offsets of ``partitions``, and return the lookup. Raises: IllegalUse without
        a group.
        """
        if self.group is None:
            raise IllegalUse("committed() needs a group: open the consumer with group=...")
        lookup = CommittedLookup(partitions, self._components)
        self._lookups.append(lookup)
        return lookup

    def look_up_log(self, timestamps: Mapping[TopicPartition, int]) -> LogLookup:
        """Start a lookup of log offsets by timestamp, and return the lookup.

        Args:
            timestamps: Partition -> timestamp in milliseconds since 1970, or a negative value of Kafka (-1 latest, -2
                earliest).
        """
        lookup = self.resolver.log_lookup(timestamps)
        self._lookups.append(lookup)
        return lookup

    def look_up_topic(self, topic: str) -> TopicLookup:
        """Start a lookup of the number of partitions of a topic, and return the lookup."""
        lookup = TopicLookup(topic, self.metadata)
        self._lookups.append(lookup)
        return lookup

    def drop_lookup(self, lookup: Lookup) -> None:
        """Stop a lookup whose caller no longer waits for the result."""
        self._lookups = [one for one in self._lookups if one is not lookup]


def _assignors(assignors: Sequence[str | Assignor]) -> list[Assignor]:
    return [assignor(one) if isinstance(one, str) else one for one in assignors]


# host and port, with or without a security protocol, and brackets around an IPv6 address
ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]+)")


def addresses(bootstrap: str | Sequence[str]) -> list[tuple[str, int]]:
    """Return the hosts and ports of bootstrap addresses.

    Args:
        bootstrap: ``host:port`` addresses, separated by commas or as a list. A prefix such as ``PLAINTEXT://`` is
            ignored.

    Raises: ValueError if there is none, or one is not valid; TypeError if one is not a str.

    Source: org.apache.kafka.common.utils.Utils.HOST_PORT_PATTERN
    """
    given = [bootstrap] if isinstance(bootstrap, str) else bootstrap
    if not isinstance(given, Iterable) or not all(isinstance(each, str) for each in given):
        raise TypeError(f"bootstrap is {bootstrap!r}: use host:port, or a list of such addresses")
    hosts_and_ports = []
    for address in [one.strip() for addresses in given for one in addresses.split(",")]:
        match = ADDRESS.fullmatch(address)
        if not match:
            raise ValueError(f"invalid bootstrap address {address!r}: use host:port")
        host, port = match[1], int(match[2])
        if not 0 < port < 2**16:
            raise ValueError(f"invalid bootstrap address {address!r}: port {port} is out of range (1-65535)")
        hosts_and_ports.append((host, port))
    if not hosts_and_ports:
        raise ValueError("bootstrap is empty: give the host:port of at least one broker")
    return hosts_and_ports

"""A whole consumer without sockets and clock: the parts, put together, and the one step that moves them.

Whoever drives it sets ``time.now``, gives what came in, calls ``step``, does what ``network`` and ``tell`` ask for, and
comes back at ``due()`` or when something came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from kwire.assignors import Assignor, assignor
from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.classic.member import ClassicMembership
from mockbroker.client.committed import CommittedInquiry
from mockbroker.client.committing import Commit, Committer
from mockbroker.client.consumer_member import ConsumerMembership
from mockbroker.client.coordinator import Coordinator
from mockbroker.client.errors import IllegalUse
from mockbroker.client.fetching import Fetcher
from mockbroker.client.flow import ListenerCall
from mockbroker.client.interest import Interest, Mode
from mockbroker.client.log_offsets import LogInquiry
from mockbroker.client.membership import Membership
from mockbroker.client.metadata import Metadata, TopicInquiry, TopicPartition
from mockbroker.client.network import Network
from mockbroker.client.parts import Parts
from mockbroker.client.positions import Positions
from mockbroker.client.records import ConsumerRecord
from mockbroker.client.resolving import Resolver
from mockbroker.client.settings import CONSUMER, Settings

Inquiry = CommittedInquiry | LogInquiry | TopicInquiry


class Engine:
    """``chance``: numbers from 0 to 1; ``wall_ms``: the time of day; ``member_id``: for the consumer protocol."""

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        group: str | None,
        settings: Settings,
        *,
        chance: Callable[[], float],
        wall_ms: Callable[[], int],
        member_id: str,
    ) -> None:
        self.group, self.settings = group, settings
        self.time = Moment()
        backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max, chance)
        reconnect = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, chance)
        self.network = Network(bootstrap, settings, self.time, reconnect)
        self.metadata = Metadata(self.network, settings, self.time, backoff)
        self.interest = Interest()
        self.positions = Positions()
        self.coordinator = Coordinator(group or "", self.network, self.metadata, self.time, backoff)
        self.committer = Committer(group or "", self.coordinator, self.metadata, self.time, backoff)
        self._parts = parts = Parts(
            group,
            settings,
            self.time,
            backoff,
            self.network,
            self.metadata,
            self.interest,
            self.positions,
            self.coordinator,
            self.committer,
        )
        self.resolver = Resolver(parts, wall_ms)
        self.fetcher = Fetcher(parts, self.resolver)
        self.member: Membership | None = None
        if group is not None:
            if settings.group_protocol == CONSUMER:
                self.member = ConsumerMembership(member_id, parts)
            else:
                self.member = ClassicMembership(_made(settings.assignors), parts)
            self.committer.member = self.member
        self.network.node_lost = self.coordinator.lost
        self._auto_commit_at = float("inf")
        self._inquiries: list[Inquiry] = []
        self._wanted_version = -1
        self._assigned_version = 0
        self._matched = -1  # the version of the metadata that the pattern was held against

    # What the user wants

    def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Raises: IllegalUse without a group, or after ``assign``."""
        if self.member is None:
            raise IllegalUse("to subscribe takes a group; without one, assign partitions")
        self.interest.subscribe(topics)
        self.metadata.want_matching(self.interest.pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions of the user's choice. Raises: IllegalUse after ``subscribe``."""
        partitions = list(dict.fromkeys(partitions))
        if not partitions and self.interest.mode is Mode.NOTHING:
            return
        self.interest.assign()
        self.fetcher.forget(set(self.positions) - set(partitions))
        self.positions.assign(partitions)
        self.metadata.want({topic for topic, _ in partitions})
        if not partitions:
            self.interest.nothing()
        self._auto_commit_later()

    def unsubscribe(self) -> None:
        """Read nothing any more; a member leaves its group."""
        if self.member and self.interest.subscribed:
            self.member.leave("the consumer unsubscribed from all topics")
        self.interest.nothing()
        self.metadata.want_matching(None)
        self.metadata.want(())
        self.fetcher.forget(self.positions)
        self.positions.assign(())

    # What happens

    @property
    def listener_call(self) -> ListenerCall | None:
        """What the user's listener has to be told before anything else."""
        return self.member.listener_call if self.member and self.interest.subscribed else None

    def listener_returned(self, error: Exception | None) -> None:
        """The listener has been told; ``error``: what it raised."""
        assert self.member
        self.member.listener_returned(error)

    def polled(self, *, waits: bool = False) -> None:
        """The user polls; ``waits``: for something to come, and is not missed meanwhile."""
        if self.member and self.interest.subscribed:
            self.member.polled(waits=waits)

    def auto_commit(self) -> None:
        """Commit where everything is if it is time to; nobody waits for it."""
        now = self.time.now
        if now < self._auto_commit_at or not self.auto_commits:
            return
        self._auto_commit_later()
        if offsets := self.positions.to_commit():
            self.committer.commit(offsets, self.settings.default_api_timeout, retried=False, then=self._auto_committed)

    @property
    def auto_commits(self) -> bool:
        return self.settings.enable_auto_commit and self.group is not None

    def _auto_commit_later(self) -> None:
        self._auto_commit_at = self.time.now + self.settings.auto_commit_interval

    def _auto_committed(self, commit: Commit) -> None:
        if commit.error is not None:  # soon again
            self._auto_commit_at = min(self._auto_commit_at, self.time.now + self.settings.retry_backoff)

    def advance(self, *, polling: bool) -> None:
        """As far as it goes. Raises: what only the user can mend, if ``polling``."""
        self.network.tick()
        if self.interest.version != self._wanted_version and self.interest.subscribed:
            self._wanted_version = self.interest.version
            self.metadata.want(self.interest.topics)
        self.metadata.want_aside(topic for inquiry in self._inquiries for topic in inquiry.topics)
        self.metadata.request_if_due()
        if self.interest.mode is Mode.PATTERN and self.metadata.knows_all and self._matched != self.metadata.version:
            self._matched = self.metadata.version
            self.interest.set_topics(self.metadata.matching())
        if self.group is not None and (self.interest.subscribed or self.committer.busy or self._asks_coordinator()):
            self.coordinator.find_if_due()
        if polling:
            self._raise()
        if self.member and (self.interest.subscribed or self.member.leaving):
            self.member.maintain(polling=polling)
            if self._assigned_version != self.positions.version:
                self._assigned_version = self.positions.version
                self._auto_commit_later()
        self.committer.send_due()
        self.resolver.resolve_positions()
        for inquiry in self._inquiries:
            if isinstance(inquiry, CommittedInquiry) and self.coordinator.failure:
                inquiry.give_up(self.coordinator.failure)
            inquiry.ask_if_due()
        self._inquiries = [inquiry for inquiry in self._inquiries if not inquiry.done]
        if polling:
            self._raise()

    @property
    def leaving(self) -> bool:
        """True while somebody still has to hear something of this consumer."""
        return self.committer.busy or (self.member is not None and self.member.leaving)

    def _asks_coordinator(self) -> bool:
        return any(isinstance(inquiry, CommittedInquiry) for inquiry in self._inquiries) or (
            self.interest.mode is Mode.PARTITIONS
        )

    def _raise(self) -> None:
        self.metadata.raise_errors()
        for part in (self.coordinator, self.resolver, self.fetcher):
            if part.failure is not None:
                failure, part.failure = part.failure, None
                raise failure

    def due(self) -> float:
        """When ``advance`` has something to do though nothing came, in the time of ``time.now``."""
        parts = [self.network, self.metadata, self.committer, self.resolver, self.fetcher, *self._inquiries]
        at = min(part.due() for part in parts)
        if self.group is not None and (self.interest.subscribed or self.committer.busy or self._asks_coordinator()):
            at = min(at, self.coordinator.due())
        if self.member and self.interest.subscribed:
            at = min(at, self.member.due())
        return at

    @property
    def auto_commit_at(self) -> float:
        return self._auto_commit_at if self.auto_commits and len(self.positions) else float("inf")

    def take_records(self, most: int) -> list[ConsumerRecord]:
        """Records to hand out."""
        return self.fetcher.take_records(most)

    # Questions

    def ask_committed(self, partitions: Iterable[TopicPartition]) -> CommittedInquiry:
        """Raises: IllegalUse without a group."""
        if self.group is None:
            raise IllegalUse("there are no committed offsets without a group")
        inquiry = CommittedInquiry(partitions, self._parts)
        self._inquiries.append(inquiry)
        return inquiry

    def ask_log(self, wanted: Mapping[TopicPartition, int]) -> LogInquiry:
        """Offsets by timestamp in ms, or one of Kafka's questions below zero."""
        inquiry = self.resolver.inquire(wanted)
        self._inquiries.append(inquiry)
        return inquiry

    def ask_topic(self, topic: str) -> TopicInquiry:
        """How many partitions it has."""
        inquiry = TopicInquiry(topic, self.metadata)
        self._inquiries.append(inquiry)
        return inquiry

    def give_up(self, inquiry: Inquiry) -> None:
        """Nobody waits for it any more."""
        self._inquiries = [one for one in self._inquiries if one is not inquiry]


def _made(assignors: Sequence[str | Assignor]) -> list[Assignor]:
    return [assignor(one) if isinstance(one, str) else one for one in assignors]


def addresses(bootstrap: str | Sequence[str]) -> list[tuple[str, int]]:
    """``host:port``, several of them with commas or as a list. Raises: ValueError."""
    listed = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    found = []
    for one in listed:
        host, colon, port = one.strip().rpartition(":")
        if not colon or not host or not port.isdigit():
            raise ValueError(f"{one.strip()!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return found

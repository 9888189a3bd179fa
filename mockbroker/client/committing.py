"""Offset commits: synchronous commits, asynchronous commits and auto-commits.

Source: ConsumerCoordinator.sendOffsetCommitRequest and OffsetCommitResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import OutgoingCall
from mockbroker.client.coordinator import COORDINATOR_MOVED, Coordinator
from mockbroker.client.errors import (
    BrokerError,
    CommitFailed,
    ConsumerError,
    RebalanceInProgress,
    TimedOut,
    broker_error,
)
from mockbroker.client.metadata import NO_ID, Metadata, TopicPartition
from mockbroker.client.positions import OffsetAndMetadata

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
FIRST_TOPIC_ID_VERSION = 10
RETRIABLE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.STALE_MEMBER_EPOCH)
LOOK_UP_COORDINATOR = (*COORDINATOR_MOVED, ErrorCode.REQUEST_TIMED_OUT)
REBALANCING = "a rebalance is in progress: poll, then commit again"
NOT_A_MEMBER = (
    "this consumer is not a member of the group any more, and another member may read its uncommitted records again: "
    "poll to rejoin, and poll more often or raise max_poll_interval"
)
NEVER_A_MEMBER = (
    "the group has members, and this consumer, which assigns its partitions itself, is not one of them: "
    "open it with another group, or subscribe"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The membership fields of a request: generation, member id and instance id.

    Attributes:
        generation: Generation or member epoch; -1 without a membership.
        member_id: Member id; "" without a membership.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
    """

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class CommittingMember(Protocol):
    """The interface through which the committer uses a group member."""

    @property
    def identity(self) -> Identity: ...

    @property
    def min_commit_version(self) -> int:
        """The lowest version of OffsetCommit that the member can use."""
        ...

    @property
    def commit_blocked_by(self) -> ConsumerError | None:
        """The error for a commit while the member has no valid generation; None if commits are possible now."""
        ...

    def handle_commit_error(self, code: int) -> None:
        """Update the membership after an OffsetCommit failed with this error code."""


class NoMember:
    """The substitute for a group member in a consumer without a group."""

    identity = Identity()
    min_commit_version = 0
    commit_blocked_by = None

    def handle_commit_error(self, code: int) -> None:
        """Do nothing, because there is no membership to update."""


class Commit:
    """One offset commit of a consumer, with its state.

    Args:
        offsets: Offsets by topic and partition number.
        deadline: Time at which the commit times out, in seconds on the engine's clock.
        retried: Whether a failed request is retried until the deadline.
        on_done: Callback that is called with the commit once it is done; None for no callback.

    Attributes:
        error: The error of a failed commit; None while the commit is pending, and after success.
        last: The error in the latest response with an error; None without such a response.
        done: Whether the offsets are stored or the commit has failed.
        identity: The membership fields of the latest request.
        call: The request in flight, or None.
        retry_at: Earliest time of the next request, in seconds on the engine's clock.
        failures: Number of retries so far.
    """

    def __init__(
        self, offsets: Offsets, deadline: float, *, retried: bool, on_done: Callable[[Commit], None] | None = None
    ) -> None:
        self.offsets, self.deadline, self.retried, self.on_done = dict(offsets), deadline, retried, on_done
        self.error: ConsumerError | None = None
        self.last: BrokerError | None = None
        self.done = False
        self.identity = Identity()
        self.call: OutgoingCall | None = None
        self.retry_at = 0.0
        self.failures = 0


class Committer:
    """The sender of one consumer's offset commits. It sends the commits in the order in which they were started.

    Args:
        group: Group id; "" without a group.
        coordinator: The coordinator of the group.
        metadata: The metadata of the cluster.
        clock: The current time of the consumer.
        backoff: The delays after failed requests.

    Attributes:
        member: The member that commits; a NoMember without a group.
        on_commit: Callback that is called with the offsets of each commit when it starts, and when they are stored.
        finished: Commits without retries (``retried`` is False) that are done, and whose callbacks the consumer has not
            called yet.
    """

    def __init__(
        self, group: str, coordinator: Coordinator, metadata: Metadata, clock: Clock, backoff: Backoff
    ) -> None:
        self._group, self._coordinator, self._metadata = group, coordinator, metadata
        self._clock, self._backoff = clock, backoff
        self._unfinished: list[Commit] = []
        self.member: CommittingMember = NoMember()
        self.on_commit: Callable[[Offsets], None] = lambda _: None
        self.finished: deque[Commit] = deque()

    def commit(
        self, offsets: Offsets, timeout: float, *, retried: bool, on_done: Callable[[Commit], None] | None = None
    ) -> Commit:
        """Start a commit and return it. Without offsets, the commit is done at once.

        Args:
            offsets: Offsets by topic and partition number.
            timeout: Seconds until the commit times out.
            retried: Whether retriable errors are retried until the timeout, as in a synchronous commit; if False, the
                first error ends the commit.
            on_done: Callback that is called with the commit once it is done; None for no callback.
        """
        commit = Commit(offsets, self._clock.now + timeout, retried=retried, on_done=on_done)
        if offsets:
            self._unfinished.append(commit)
            self.on_commit(offsets)
        else:
            self._finish(commit, None)
        self.send_due()
        return commit

    @property
    def busy(self) -> bool:
        return bool(self._unfinished)

    def next_deadline(self) -> float:
        """Return the time of the next retry or timeout of a commit, in seconds on the engine's clock; inf without
        commits.
        """
        at = min((commit.deadline for commit in self._unfinished), default=float("inf"))
        return min([at, *(commit.retry_at for commit in self._unsent()[:1])])

    def send_due(self) -> None:
        """Send the commits that are due, and end the overdue commits with TimedOut. If the lookup of the coordinator
        has failed, end the commits that are not in flight with the error of the lookup.
        """
        now = self._clock.now
        for commit in list(self._unfinished):
            if commit.deadline <= now:
                text = "got no response" if commit.last is None else f"did not succeed ({commit.last})"
                self._finish(commit, TimedOut(f"the commit {text} within its timeout: commit again"))
        if failure := self._coordinator.failure:
            for commit in self._unsent():
                self._finish(commit, failure)
            return
        for commit in self._unsent():
            if commit.retry_at > now:
                break  # later commits wait too
            self._send(commit)
            if commit.retried and commit.call:
                break

    def _unsent(self) -> list[Commit]:
        """Return the commits that can be sent now, oldest first.

        The result is empty while a commit that may be retried is in flight: a retry could overwrite newer offsets with
        older offsets.
        """
        if any(commit.retried and commit.call for commit in self._unfinished):
            return []
        return [commit for commit in self._unfinished if commit.call is None]

    def abandon(self, commit: Commit) -> None:
        """Stop retrying a commit whose caller no longer waits for the result."""
        if commit in self._unfinished:
            self._unfinished.remove(commit)

    def _send(self, commit: Commit) -> None:
        if barred := self.member.commit_blocked_by:
            self._finish(commit, barred)
            return
        commit.identity = self.member.identity
        ids = all(self._metadata.topic_id(topic) != NO_ID for topic, _ in commit.offsets)
        lowest = 7 if commit.identity.instance_id is not None else self.member.min_commit_version
        call = self._coordinator.send_request(
            OFFSET_COMMIT.key,
            lambda _: self._request(commit),
            lambda call: self._handle_response(commit, call),
            versions=(lowest, FIRST_TOPIC_ID_VERSION if ids else FIRST_TOPIC_ID_VERSION - 1),
        )
        if call is None:
            commit.retry_at = self._clock.now + self._backoff.after(0)
        elif not call.done:
            commit.call = call

    def _request(self, commit: Commit) -> OffsetCommitRequest:
        """Return the request, with names and ids of the topics: each version sends one of them."""
        topics: dict[str, OffsetCommitRequest.Topic] = {}
        for (name, number), at in commit.offsets.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = OffsetCommitRequest.Topic(name=name, topic_id=self._metadata.topic_id(name))
            topic.partitions.append(
                OffsetCommitRequest.Topic.Partition(
                    partition_index=number,
                    committed_offset=at.offset,
                    committed_leader_epoch=at.leader_epoch,
                    committed_metadata=at.metadata,
                )
            )
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=commit.identity.generation,
            member_id=commit.identity.member_id,
            group_instance_id=commit.identity.instance_id,
            topics=list(topics.values()),
        )

    def _handle_response(self, commit: Commit, call: OutgoingCall) -> None:
        commit.call = None
        if commit.done:
            return
        if unsupported := call.unsupported:
            self._finish(commit, unsupported)
            return
        if call.failure is not None:
            self._coordinator.mark_unknown()
            self._retry(commit, TimedOut(f"the commit got no response: {call.reason}"))
            return
        error_codes = self._error_codes(call.response, call.version)
        for partition in commit.offsets:
            code = error_codes.get(partition)
            if code is None:  # an incomplete response
                self._retry(
                    commit, CommitFailed(f"the OffsetCommit response lacks {partition[0]}-{partition[1]}: commit again")
                )
                return
            if code:
                self._handle_error(commit, code, partition)
                return
        self._finish(commit, None)

    def _error_codes(self, response: OffsetCommitResponse, version: int) -> dict[TopicPartition, int]:
        error_codes = {}
        for topic in response.topics:
            name = self._metadata.topic_names.get(topic.topic_id) if version >= FIRST_TOPIC_ID_VERSION else topic.name
            for partition in topic.partitions:
                if name is not None:
                    error_codes[name, partition.partition_index] = partition.error_code
        return error_codes

    def _handle_error(self, commit: Commit, code: int, partition: TopicPartition) -> None:
        where = f"OffsetCommit of {partition[0]}-{partition[1]} failed"
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._metadata.refresh()
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._metadata.has_no_topic(partition[0]):
            self._finish(commit, broker_error(code, where))  # deleted: a retry would only delay the rebalance
        elif code in RETRIABLE:
            self._retry(commit, broker_error(code, where))
        elif code in LOOK_UP_COORDINATOR:
            self._coordinator.mark_unknown()
            self._retry(commit, broker_error(code, where))
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.member.handle_commit_error(code)
            self._finish(commit, RebalanceInProgress(REBALANCING))
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            if commit.identity != self.member.identity:  # the error is about an earlier generation
                self._finish(commit, RebalanceInProgress("the group rebalanced during the commit: commit again"))
                return
            self.member.handle_commit_error(code)
            fenced = code == ErrorCode.FENCED_INSTANCE_ID
            text = NOT_A_MEMBER if commit.identity.generation > 0 else NEVER_A_MEMBER
            self._finish(commit, broker_error(code, where) if fenced else CommitFailed(text))
        else:
            self._finish(commit, broker_error(code, where))

    def _retry(self, commit: Commit, error: ConsumerError) -> None:
        if not commit.retried:
            self._finish(commit, error)
            return
        if isinstance(error, BrokerError):
            commit.last = error
        commit.retry_at = self._clock.now + self._backoff.after(commit.failures)
        commit.failures += 1

    def _finish(self, commit: Commit, error: ConsumerError | None) -> None:
        commit.done, commit.error = True, error
        if error is None:
            self.on_commit(commit.offsets)
        if commit in self._unfinished:
            self._unfinished.remove(commit)
        if not commit.retried:
            self.finished.append(commit)
        if commit.on_done:
            commit.on_done(commit)

"""Positions into the group: commits that wait, commits that do not, and those that come by themselves.

Source: ConsumerCoordinator.sendOffsetCommitRequest and OffsetCommitResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kwire.errorcodes import ErrorCode
from kwire.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse
from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.call import OutgoingCall
from mockbroker.client.coordinator import ELSEWHERE, Coordinator
from mockbroker.client.errors import (
    CommitFailed,
    ConsumerError,
    RebalanceInProgress,
    TimedOut,
    broker_error,
)
from mockbroker.client.metadata import NO_ID, Metadata, TopicPartition
from mockbroker.client.positions import OffsetAndMetadata

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
WITH_TOPIC_IDS = 10
AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.STALE_MEMBER_EPOCH)
OFFSETS_ELSEWHERE = (*ELSEWHERE, ErrorCode.REQUEST_TIMED_OUT)
POLL_FIRST = "a rebalance is going on: poll, then commit again"
LATE = "the group has gone on: another member may read again what this one has read since its last commit"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits: a member of a generation (or epoch), or nobody (-1 and "")."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Committing(Protocol):
    """What a member has to know of its commits."""

    @property
    def identity(self) -> Identity: ...

    @property
    def lowest_commit(self) -> int:
        """The version of OffsetCommit that it takes at least."""
        ...

    @property
    def commit_barred(self) -> ConsumerError | None:
        """Why nothing can be committed now: who is no member, or in between two generations, speaks for nobody."""
        ...

    def commit_refused(self, code: int) -> None:
        """The coordinator says that it is not, or no longer, what it said to be."""


class Nobody:
    """Who commits without being a member."""

    identity = Identity()
    lowest_commit = 0
    commit_barred = None

    def commit_refused(self, code: int) -> None:
        """Nothing changes."""


class Commit:
    """One commit under way. ``error``: None when it is stored; ``then``: called once it is done."""

    def __init__(
        self, offsets: Offsets, deadline: float, *, retried: bool, then: Callable[[Commit], None] | None = None
    ) -> None:
        self.offsets, self.deadline, self.retried, self.then = dict(offsets), deadline, retried, then
        self.error: ConsumerError | None = None
        self.done = False
        self.identity = Identity()
        self.call: OutgoingCall | None = None
        self.not_before = 0.0
        self.failures = 0


class Committer:
    """``member``: on whose behalf. ``finished``: those that nobody waits for, in their order."""

    def __init__(
        self, group: str, coordinator: Coordinator, metadata: Metadata, time: Moment, backoff: Backoff
    ) -> None:
        self._group, self._coordinator, self._metadata = group, coordinator, metadata
        self._time, self._backoff = time, backoff
        self._open: list[Commit] = []
        self.member: Committing = Nobody()
        self.finished: deque[Commit] = deque()

    def commit(
        self, offsets: Offsets, timeout: float, *, retried: bool, then: Callable[[Commit], None] | None = None
    ) -> Commit:
        """Begin one. ``retried``: until ``timeout``, in seconds, is over; not where nobody waits for it."""
        made = Commit(offsets, self._time.now + timeout, retried=retried, then=then)
        if offsets:
            self._open.append(made)
        else:
            self._finish(made, None)
        self.send_due()
        return made

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def due(self) -> float:
        """When ``send_due`` has something to do."""
        at = min((commit.deadline for commit in self._open), default=float("inf"))
        return min([at, *(commit.not_before for commit in self._waiting()[:1])])

    def send_due(self) -> None:
        """Send what waits to be sent, give up what takes too long."""
        now = self._time.now
        for commit in list(self._open):
            if commit.deadline <= now:
                self._finish(commit, TimedOut("the commit was not answered in time"))
        for commit in self._waiting():
            if self._coordinator.failure:
                self._finish(commit, self._coordinator.failure)
                continue
            if commit.not_before > now:
                break  # who is behind it waits too
            self._send(commit)
            if commit.retried and commit.call:
                break

    def _waiting(self) -> list[Commit]:
        """In their order. None while one is under way that may be tried again: older offsets must not come last."""
        if any(commit.retried and commit.call for commit in self._open):
            return []
        return [commit for commit in self._open if commit.call is None]

    def give_up(self, commit: Commit) -> None:
        """Nobody waits for it any more: it is not tried again."""
        if commit in self._open:
            self._open.remove(commit)

    def _send(self, commit: Commit) -> None:
        if barred := self.member.commit_barred:
            self._finish(commit, barred)
            return
        commit.identity = self.member.identity
        ids = all(self._metadata.topic_id(topic) != NO_ID for topic, _ in commit.offsets)
        lowest = 7 if commit.identity.instance_id is not None else self.member.lowest_commit
        call = self._coordinator.ask(
            OFFSET_COMMIT.key,
            lambda version: self._request(commit, version),
            lambda call: self._answered(commit, call),
            versions=(lowest, WITH_TOPIC_IDS if ids else WITH_TOPIC_IDS - 1),
        )
        if call is None:
            commit.not_before = self._time.now + self._backoff.after(0)
        elif not call.done:
            commit.call = call

    def _request(self, commit: Commit, version: int) -> OffsetCommitRequest:
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
        if version == WITH_TOPIC_IDS:
            for topic in topics.values():
                topic.name = ""
        else:
            for topic in topics.values():
                topic.topic_id = NO_ID
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=commit.identity.generation,
            member_id=commit.identity.member_id,
            group_instance_id=commit.identity.instance_id,
            topics=list(topics.values()),
        )

    def _answered(self, commit: Commit, call: OutgoingCall) -> None:
        commit.call = None
        if commit.done:
            return
        if unsupported := call.unsupported:
            self._finish(commit, unsupported)
            return
        if call.failure is not None:
            self._coordinator.unknown()
            self._again(commit, TimedOut(f"the commit was not answered: {call.reason}"))
            return
        told = self._told(call.answer, call.version)
        for partition in commit.offsets:
            code = told.get(partition)
            if code is None:  # an answer to something else proves nothing
                self._again(commit, CommitFailed(f"the answer does not have {partition[0]}-{partition[1]}"))
                return
            if code:
                self._refused(commit, code, partition)
                return
        self._finish(commit, None)

    def _told(self, answer: OffsetCommitResponse, version: int) -> dict[TopicPartition, int]:
        found = {}
        for topic in answer.topics:
            name = self._metadata.names.get(topic.topic_id) if version >= WITH_TOPIC_IDS else topic.name
            for partition in topic.partitions:
                if name is not None:
                    found[name, partition.partition_index] = partition.error_code
        return found

    def _refused(self, commit: Commit, code: int, partition: TopicPartition) -> None:
        where = f"commit of {partition[0]}-{partition[1]}"
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._metadata.refresh()
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._metadata.lacks(partition[0]):
            self._finish(commit, broker_error(code, where))  # deleted: a rebalance would wait for it in vain
        elif code in AGAIN:
            self._again(commit, broker_error(code, where))
        elif code in OFFSETS_ELSEWHERE:
            self._coordinator.unknown()
            self._again(commit, broker_error(code, where))
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.member.commit_refused(code)
            self._finish(commit, RebalanceInProgress(POLL_FIRST))
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            if commit.identity != self.member.identity:  # it was said of a member that is no more
                self._finish(commit, RebalanceInProgress("the group rebalanced while this was committed: commit again"))
                return
            self.member.commit_refused(code)
            fenced = code == ErrorCode.FENCED_INSTANCE_ID
            self._finish(commit, broker_error(code, where) if fenced else CommitFailed(LATE))
        else:
            self._finish(commit, broker_error(code, where))

    def _again(self, commit: Commit, error: ConsumerError) -> None:
        if not commit.retried:
            self._finish(commit, error)
            return
        commit.not_before = self._time.now + self._backoff.after(commit.failures)
        commit.failures += 1

    def _finish(self, commit: Commit, error: ConsumerError | None) -> None:
        commit.done, commit.error = True, error
        if commit in self._open:
            self._open.remove(commit)
        if not commit.retried:
            self.finished.append(commit)
        if commit.then:
            commit.then(commit)

"""Requests for a group's committed offsets.

Source: ConsumerCoordinator.OffsetFetchResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse
from mockbroker.client.call import OutgoingCall
from mockbroker.client.committing import LOOK_UP_COORDINATOR
from mockbroker.client.components import Components
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.positions import OffsetAndMetadata

FIRST_BATCHED_VERSION, FIRST_MEMBER_EPOCH_VERSION, FIRST_TOPIC_ID_VERSION = 8, 9, 10
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,  # the next heartbeat fences the member; until then OffsetFetch fails
    ErrorCode.UNKNOWN_TOPIC_ID,
)

FetchedOffsets = dict[TopicPartition, tuple[OffsetAndMetadata | None, int]]


class CommittedLookup:
    """A lookup of the committed offsets of partitions (OffsetFetch).

    The request is retried until it succeeds or fails with an error that is not retriable.

    Args:
        partitions: Topics and partition numbers.
        components: The components of the consumer.

    Attributes:
        partitions: Topics and partition numbers, sorted.
        topics: Names of the topics whose metadata the lookup needs; always empty, because the coordinator knows the
            offsets.
        result: Committed offset by partition; None for a partition without a committed offset. Valid once ``done`` is
            True and ``error`` is None.
        error: The error of a failed lookup; None before a failure.
        done: Whether the result or the error is known.
    """

    def __init__(self, partitions: Iterable[TopicPartition], components: Components) -> None:
        self.partitions = sorted(set(partitions))
        self.topics: set[str] = set()  # no metadata is needed: the request can use names
        self._group, self._coordinator, self._metadata = (
            components.group_id,
            components.coordinator,
            components.metadata,
        )
        self._committer, self._clock, self._backoff = components.committer, components.clock, components.backoff
        self.result: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.error: ConsumerError | None = None
        self.done = not self.partitions
        self._call: OutgoingCall | None = None
        self._retry_at = 0.0
        self._failures = 0
        self._coordinator_was_unknown = False  # when the last request was due

    def next_deadline(self) -> float:
        return float("inf") if self.done or self._call else self._retry_at

    def send_if_due(self) -> None:
        """Send OffsetFetch if no request is in flight, and the backoff has ended or the coordinator has become
        known.
        """
        coordinator_found = self._coordinator_was_unknown and self._coordinator.node is not None
        if self.done or self._call or (self._retry_at > self._clock.now and not coordinator_found):
            return
        self._coordinator_was_unknown = self._coordinator.node is None
        member = self._committer.member
        by_member = member.min_commit_version >= FIRST_MEMBER_EPOCH_VERSION and member.identity.member_id != ""
        ids = all(self._metadata.topic_id(topic) != NO_ID for topic, _ in self.partitions)
        call = self._coordinator.send_request(
            OFFSET_FETCH.key,
            lambda version: self._request(version, by_member=by_member),
            self._handle_response,
            versions=(
                FIRST_MEMBER_EPOCH_VERSION if by_member else 0,
                FIRST_TOPIC_ID_VERSION if ids else FIRST_TOPIC_ID_VERSION - 1,
            ),
        )
        if call is None:
            self._retry_at = self._clock.now + self._backoff.after(0)
        elif not call.done:
            self._call = call

    def _request(self, version: int, *, by_member: bool) -> OffsetFetchRequest:
        topics: dict[str, list[int]] = {}
        for topic, number in self.partitions:
            topics.setdefault(topic, []).append(number)
        if version < FIRST_BATCHED_VERSION:
            named = [OffsetFetchRequest.Topic(name=name, partition_indexes=ns) for name, ns in topics.items()]
            return OffsetFetchRequest(
                group_id=self._group, topics=named, require_stable=version == FIRST_BATCHED_VERSION - 1
            )
        group_topics: list[OffsetFetchRequest.Group.Topic] = []
        group = OffsetFetchRequest.Group(group_id=self._group, topics=group_topics)
        for name, numbers in topics.items():
            group_topic = OffsetFetchRequest.Group.Topic(partition_indexes=numbers)
            if version >= FIRST_TOPIC_ID_VERSION:
                group_topic.topic_id = self._metadata.topic_id(name)
            else:
                group_topic.name = name
            group_topics.append(group_topic)
        if by_member:
            identity = self._committer.member.identity
            group.member_id, group.member_epoch = identity.member_id, identity.generation
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _handle_response(self, call: OutgoingCall) -> None:
        self._call = None
        if unsupported := call.unsupported:
            self.fail(unsupported)
            return
        if call.failure is not None:
            self._coordinator.mark_unknown()
            self._retry()
            return
        fetched, code = self._fetched_offsets(call.response, call.version)
        missing = [partition for partition in self.partitions if partition not in fetched]
        codes = [code] if code else [fetched[p][1] for p in self.partitions if p in fetched and fetched[p][1]]
        if not codes and missing:  # an incomplete response
            self._retry()
            return
        for one in codes:
            if one in LOOK_UP_COORDINATOR:
                self._coordinator.mark_unknown()
            if one == ErrorCode.UNKNOWN_TOPIC_ID:
                self._metadata.refresh()
            if one not in RETRIABLE and one not in LOOK_UP_COORDINATOR:
                self.fail(broker_error(one, f"OffsetFetch of group {self._group} failed"))
                return
        if codes:
            self._retry()
            return
        self.result = {partition: fetched[partition][0] for partition in self.partitions}
        self.done = True

    def _fetched_offsets(self, response: OffsetFetchResponse, version: int) -> tuple[FetchedOffsets, int]:
        offsets: FetchedOffsets = {}
        if version < FIRST_BATCHED_VERSION:
            topics: Iterable[OffsetFetchResponse.Topic | OffsetFetchResponse.Group.Topic] = response.topics
            code = response.error_code
        else:
            mine = [group for group in response.groups if group.group_id == self._group]
            if not mine:
                return offsets, 0
            topics, code = mine[0].topics, mine[0].error_code
        for topic in topics:
            name = self._name(topic, version)
            for data in topic.partitions:
                at = None
                if data.committed_offset >= 0:
                    at = OffsetAndMetadata(data.committed_offset, data.metadata or "", data.committed_leader_epoch)
                if name is not None:
                    offsets[name, data.partition_index] = at, data.error_code
        return offsets, code

    def _name(self, topic: OffsetFetchResponse.Topic | OffsetFetchResponse.Group.Topic, version: int) -> str | None:
        if version < FIRST_TOPIC_ID_VERSION:
            return topic.name
        topic_id: UUID = getattr(topic, "topic_id", NO_ID)
        return self._metadata.topic_names.get(topic_id)

    def fail(self, error: ConsumerError) -> None:
        """End the lookup with an error, which the caller of the lookup raises."""
        self.done, self.error = True, error

    def _retry(self) -> None:
        self._retry_at = self._clock.now + self._backoff.after(self._failures)
        self._failures += 1

"""Offsets that the group has committed, as the coordinator tells them.

Source: ConsumerCoordinator.OffsetFetchResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse
from mockbroker.client.call import OutgoingCall
from mockbroker.client.committing import OFFSETS_ELSEWHERE
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.parts import Parts
from mockbroker.client.positions import OffsetAndMetadata

MANY_GROUPS, MEMBER_EPOCHS, TOPIC_IDS = 8, 9, 10  # what versions brought
AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,  # the next heartbeat tells the member; until then it asks in vain
    ErrorCode.UNKNOWN_TOPIC_ID,
)

Told = dict[TopicPartition, tuple[OffsetAndMetadata | None, int]]


class CommittedInquiry:
    """``found``: once ``done``, what is committed; None for what is not. ``error``: why it will not be known."""

    def __init__(self, partitions: Iterable[TopicPartition], parts: Parts) -> None:
        self.partitions = sorted(set(partitions))
        self.topics: set[str] = set()  # that metadata is needed of: names do
        self._group, self._coordinator, self._metadata = parts.group or "", parts.coordinator, parts.metadata
        self._committer, self._time, self._backoff = parts.committer, parts.time, parts.backoff
        self.found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.error: ConsumerError | None = None
        self.done = not self.partitions
        self._call: OutgoingCall | None = None
        self._not_before = 0.0
        self._failures = 0
        self._nobody_known = False  # who could be asked, when it was due

    def due(self) -> float:
        return float("inf") if self.done or self._call else self._not_before

    def ask_if_due(self) -> None:
        """Ask, if that is what comes next."""
        found = self._nobody_known and self._coordinator.node is not None
        if self.done or self._call or (self._not_before > self._time.now and not found):
            return
        self._nobody_known = self._coordinator.node is None
        member = self._committer.member
        by_member = member.lowest_commit >= MEMBER_EPOCHS and member.identity.member_id != ""
        ids = all(self._metadata.topic_id(topic) != NO_ID for topic, _ in self.partitions)
        call = self._coordinator.ask(
            OFFSET_FETCH.key,
            lambda version: self._request(version, by_member=by_member),
            self._answered,
            versions=(MEMBER_EPOCHS if by_member else 0, TOPIC_IDS if ids else TOPIC_IDS - 1),
        )
        if call is None:
            self._not_before = self._time.now + self._backoff.after(0)
        elif not call.done:
            self._call = call

    def _request(self, version: int, *, by_member: bool) -> OffsetFetchRequest:
        topics: dict[str, list[int]] = {}
        for topic, number in self.partitions:
            topics.setdefault(topic, []).append(number)
        if version < MANY_GROUPS:
            named = [OffsetFetchRequest.Topic(name=name, partition_indexes=ns) for name, ns in topics.items()]
            return OffsetFetchRequest(group_id=self._group, topics=named, require_stable=version == MANY_GROUPS - 1)
        listed: list[OffsetFetchRequest.Group.Topic] = []
        group = OffsetFetchRequest.Group(group_id=self._group, topics=listed)
        for name, numbers in topics.items():
            asked = OffsetFetchRequest.Group.Topic(partition_indexes=numbers)
            if version >= TOPIC_IDS:
                asked.topic_id = self._metadata.topic_id(name)
            else:
                asked.name = name
            listed.append(asked)
        if by_member:
            identity = self._committer.member.identity
            group.member_id, group.member_epoch = identity.member_id, identity.generation
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _answered(self, call: OutgoingCall) -> None:
        self._call = None
        if unsupported := call.unsupported:
            self.give_up(unsupported)
            return
        if call.failure is not None:
            self._coordinator.unknown()
            self._again()
            return
        told, code = self._told(call.answer, call.version)
        missing = [partition for partition in self.partitions if partition not in told]
        codes = [code] if code else [told[p][1] for p in self.partitions if p in told and told[p][1]]
        if not codes and missing:  # an answer to something else proves nothing
            self._again()
            return
        for one in codes:
            if one in OFFSETS_ELSEWHERE:
                self._coordinator.unknown()
            if one == ErrorCode.UNKNOWN_TOPIC_ID:
                self._metadata.refresh()
            if one not in AGAIN and one not in OFFSETS_ELSEWHERE:
                self.give_up(broker_error(one, f"committed offsets of {self._group}"))
                return
        if codes:
            self._again()
            return
        self.found = {partition: told[partition][0] for partition in self.partitions}
        self.done = True

    def _told(self, answer: OffsetFetchResponse, version: int) -> tuple[Told, int]:
        found: Told = {}
        if version < MANY_GROUPS:
            topics: Iterable[OffsetFetchResponse.Topic | OffsetFetchResponse.Group.Topic] = answer.topics
            code = answer.error_code
        else:
            mine = [group for group in answer.groups if group.group_id == self._group]
            if not mine:
                return found, 0
            topics, code = mine[0].topics, mine[0].error_code
        for topic in topics:
            name = self._name(topic, version)
            for line in topic.partitions:
                at = None
                if line.committed_offset >= 0:
                    at = OffsetAndMetadata(line.committed_offset, line.metadata or "", line.committed_leader_epoch)
                if name is not None:
                    found[name, line.partition_index] = at, line.error_code
        return found, code

    def _name(self, topic: OffsetFetchResponse.Topic | OffsetFetchResponse.Group.Topic, version: int) -> str | None:
        if version < TOPIC_IDS:
            return topic.name
        topic_id: UUID = getattr(topic, "topic_id", NO_ID)
        return self._metadata.names.get(topic_id)

    def give_up(self, error: ConsumerError) -> None:
        """It will not be known."""
        self.done, self.error = True, error

    def _again(self) -> None:
        self._not_before = self._time.now + self._backoff.after(self._failures)
        self._failures += 1

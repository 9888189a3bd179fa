"""A member of a share group, whose only request to the coordinator is ShareGroupHeartbeat.

Source: ShareMembershipManager and ShareHeartbeatRequestManager of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.share_group_heartbeat import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import OutgoingCall
from mockbroker.client.coordinator import COORDINATOR_MOVED, Coordinator
from mockbroker.client.errors import broker_error

JOIN, LEAVE = 0, -1  # special member epochs
STABLE_VERSIONS = (1, None)  # v0 was early access
FIRST_INTERVAL = 5.0  # seconds between heartbeats before the first response
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ShareMembership:
    """A member of a share group.

    Args:
        group: Group id.
        member_id: Member id, which is unique and never changes.
        rack: Rack of the client; "" for none.
        coordinator: The coordinator of the group.
        clock: The engine's clock.
        backoff: Backoff of failed heartbeats.

    Attributes:
        epoch: Member epoch; JOIN before the member has joined.
        topics: The subscribed topics.
        assigned: The assigned partitions, by topic id and number.
        failure: The error that the next poll raises, or None.
    """

    def __init__(
        self, group: str, member_id: str, rack: str, coordinator: Coordinator, clock: Clock, backoff: Backoff
    ) -> None:
        self._group, self.member_id, self._rack = group, member_id, rack
        self._coordinator, self._clock, self._backoff = coordinator, clock, backoff
        self.epoch = JOIN
        self.topics: frozenset[str] = frozenset()
        self.assigned: frozenset[tuple[UUID, int]] = frozenset()
        self.failure: Exception | None = None
        self._interval = FIRST_INTERVAL
        self._sent_topics: frozenset[str] | None = None  # of the last heartbeat with a response
        self._next_heartbeat = 0.0
        self._in_flight = False
        self._failures = 0
        self._leave_call: OutgoingCall | None = None

    @property
    def leaving(self) -> bool:
        """Whether the request to leave the group has no response yet."""
        return self._leave_call is not None and not self._leave_call.done

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscribed topics; the next heartbeat reports them."""
        self.topics = frozenset(topics)
        self._next_heartbeat = 0.0

    def next_deadline(self) -> float:
        """Return the time of the next heartbeat, in seconds on the engine's clock; infinity if no heartbeat can be sent
        now.
        """
        sends = self.topics and not self._in_flight and self._coordinator.node is not None
        return self._next_heartbeat if sends else float("inf")

    def send_due(self) -> None:
        """Send a heartbeat if a heartbeat is due."""
        if not self.topics or self._in_flight or self._next_heartbeat > self._clock.now:
            return
        topics, joining = self.topics, self.epoch == JOIN
        request = ShareGroupHeartbeatRequest(group_id=self._group, member_id=self.member_id, member_epoch=self.epoch)
        if joining or self._sent_topics != topics:
            request.subscribed_topic_names = sorted(topics)
        if joining:
            request.rack_id = self._rack or None

        def answered(call: OutgoingCall) -> None:
            self._handle_response(call, topics)

        call = self._coordinator.send_request(
            SHARE_GROUP_HEARTBEAT.key, lambda _: request, answered, versions=STABLE_VERSIONS
        )
        if call is None:
            self._next_heartbeat = self._clock.now + self._backoff.after(0)
        elif not call.done:
            self._in_flight = True

    def leave(self) -> None:
        """Leave the group, without waiting for the response."""
        if self.epoch > JOIN:
            request = ShareGroupHeartbeatRequest(group_id=self._group, member_id=self.member_id, member_epoch=LEAVE)
            self._leave_call = self._coordinator.send_request(
                SHARE_GROUP_HEARTBEAT.key, lambda _: request, versions=STABLE_VERSIONS
            )
        self.topics, self.assigned, self.epoch = frozenset(), frozenset(), JOIN

    def _handle_response(self, call: OutgoingCall, topics: frozenset[str]) -> None:
        self._in_flight = False
        if not self.topics:  # the member has left meanwhile
            return
        if call.failure is not None:
            self.failure = call.unsupported or self.failure
            self._coordinator.mark_unknown()
            self._retry()
            return
        response: ShareGroupHeartbeatResponse = call.response
        if response.error_code:
            self._handle_error(response)
            return
        self._failures = 0
        self._sent_topics = topics
        self.epoch = response.member_epoch
        self._interval = response.heartbeat_interval_ms / 1000 or self._interval
        self._next_heartbeat = self._clock.now + (self._interval if topics == self.topics else 0)
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            self.assigned = frozenset((topic.topic_id, number) for topic in assigned for number in topic.partitions)

    def _handle_error(self, response: ShareGroupHeartbeatResponse) -> None:
        code = response.error_code
        if code in FENCED:
            self.epoch, self._sent_topics, self.assigned = JOIN, None, frozenset()
            self._next_heartbeat = self._clock.now
        elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._retry()
        elif code in COORDINATOR_MOVED:
            self._coordinator.mark_unknown()
            self._retry()
        else:
            detail = f": {response.error_message}" if response.error_message else ""
            self.failure = broker_error(code, f"ShareGroupHeartbeat of {self._group}{detail}")
            self._retry()

    def _retry(self) -> None:
        self._next_heartbeat = self._clock.now + self._backoff.after(self._failures)
        self._failures += 1

"""A member of a consumer group (KIP-848), whose only request to the coordinator is ConsumerGroupHeartbeat.

The coordinator sends a target assignment. The member reconciles its assignment with the target: it revokes and adds
partitions during polls of the user, and reports the new assignment in the next heartbeat. Source:
ConsumerMembershipManager, AbstractMembershipManager and ConsumerHeartbeatRequestManager of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mockbroker.client.call import OutgoingCall
from mockbroker.client.committing import NOT_A_MEMBER, Identity
from mockbroker.client.components import Components
from mockbroker.client.coordinator import COORDINATOR_MOVED
from mockbroker.client.errors import CommitFailed, ConsumerError, broker_error
from mockbroker.client.flow import POLL, WAIT, Flow, ListenerCall, Steps
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.subscription import SubscriptionType

JOIN, LEAVE, STATIC_LEAVE = 0, -1, -2  # special member epochs
Ids = frozenset[tuple[UUID, int]]
Request = ConsumerGroupHeartbeatRequest

UNRESOLVED = 5.0  # seconds after which a target assignment with unknown topic ids is requested again
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerState(Enum):
    """The state of a consumer group member (KIP-848), as the member itself knows it.

    Source: MemberState of kafka-clients.
    """

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"  # or the member left because the user did not poll; the member rejoins with the next poll


class ConsumerMembership:
    """A member of a consumer group (KIP-848), which sends ConsumerGroupHeartbeat.

    Args:
        member_id: Member id.
        components: The components of the consumer.

    Attributes:
        state: State of the member.
        member_id: Member id, which is unique and never changes.
        epoch: Member epoch; JOIN (0) outside of a group.
        failure: The error that the next poll raises, or None.
        interval: Heartbeat interval in seconds, from the latest response; before the first response, from the settings.
    """

    min_commit_version = 9

    def __init__(self, member_id: str, components: Components) -> None:
        settings = components.settings
        self._group, self._settings, self._subscription = components.group_id, settings, components.subscription
        self._coordinator, self._metadata, self._positions = (
            components.coordinator,
            components.metadata,
            components.positions,
        )
        self._committer, self._clock, self._backoff = components.committer, components.clock, components.backoff
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = JOIN
        self.failure: Exception | None = None
        self.interval = settings.heartbeat_interval
        self._target: Ids = frozenset()
        self._target_topics: frozenset[UUID] = frozenset()
        self._next_request_of_target = 0.0
        self._reconciled_with: tuple[Ids, int, int] | None = None  # target, metadata and positions in agreement
        self._flow: Flow | None = None
        self._next_heartbeat = 0.0
        self._poll_deadline = float("inf")  # the end of max_poll_interval
        self._in_flight = False
        self._failures = 0
        self._sent_fields: Mapping[str, object] = {}  # of the last heartbeat with a response
        self._reported: tuple[TopicPartition, ...] = ()  # the assignment that heartbeats report
        self._send_all_fields = False  # in the next heartbeat, not only changes
        self._incarnation = 0  # responses to an earlier one are ignored
        self._leave_call: OutgoingCall | None = None

    # Membership

    @property
    def identity(self) -> Identity:
        if self.epoch <= 0:
            return Identity()
        return Identity(self.epoch, self.member_id, self._settings.group_instance_id)

    @property
    def listener_call(self) -> ListenerCall | None:
        return self._flow.listener_call if self._flow else None

    @property
    def stable(self) -> bool:
        return self.state is ConsumerState.STABLE

    @property
    def leaving(self) -> bool:
        return self._leave_call is not None and not self._leave_call.done

    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def record_poll(self, *, waiting: bool = False) -> None:
        self._poll_deadline = float("inf") if waiting else self._clock.now + self._settings.max_poll_interval

    def listener_returned(self, error: Exception | None) -> None:
        assert self._flow
        self._flow.listener_returned(error)

    def rejoin(self, reason: str) -> None:  # noqa: ARG002 - the protocol has no reason
        """Make the next ``maintain`` send a heartbeat with all fields. ``reason`` is ignored."""
        self._send_all_fields, self._next_heartbeat = True, 0.0

    @property
    def commit_blocked_by(self) -> ConsumerError | None:
        return CommitFailed(NOT_A_MEMBER) if self._subscription.subscribed and self.epoch <= 0 else None

    def handle_commit_error(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._become_fenced()

    def maintain(self, *, polling: bool) -> None:
        """Continue the reconciliation of the assignment, and send a due heartbeat.

        ``polling``: True during a poll of the user. Then the parts of the reconciliation that wait for a poll run too.

        Raises: ConsumerError, exceptions of the listener.
        """
        if polling and self.failure:
            failure, self.failure = self.failure, None
            raise failure
        self._hasten_if_subscription_changed()
        if self._subscription.subscribed and polling and self.state is ConsumerState.UNSUBSCRIBED:
            self._start_joining()
        if self.state is not ConsumerState.UNSUBSCRIBED and self._poll_deadline <= self._clock.now:
            self._poll_deadline = float("inf")
            if self.state is not ConsumerState.FENCED:
                self._leave_call = self._send_leave()
                self._become_fenced()
        if self._flow is None:
            if self.state is ConsumerState.FENCED:
                self._flow = Flow(self._lose_partitions())
            elif self.state in (ConsumerState.RECONCILING, ConsumerState.STABLE) and self._target_differs():
                self.state = ConsumerState.RECONCILING
                self._flow = Flow(self._reconcile())
        if self._flow:
            self._flow.advance(polling=polling)
            if self._flow and self._flow.done:
                self._flow = None
        self._heartbeat()

    def next_deadline(self) -> float:
        if self.state is ConsumerState.UNSUBSCRIBED:
            return float("inf")
        sending = self.state is not ConsumerState.FENCED and not self._in_flight and not self._awaits_pattern_topics
        return min(
            self._poll_deadline,
            max(self._next_heartbeat, self._clock.now) if sending and self._coordinator.node else float("inf"),
        )

    def leave(self, reason: str) -> None:  # noqa: ARG002 - the protocol has no reason
        if self.state not in (ConsumerState.UNSUBSCRIBED, ConsumerState.FENCED):
            self._leave_call = self._send_leave()
        self.failure = None
        self._reset(ConsumerState.UNSUBSCRIBED)

    # State

    def _start_joining(self) -> None:
        self.state, self.epoch, self._sent_fields, self._next_heartbeat = ConsumerState.JOINING, JOIN, {}, 0.0

    def _reset(self, state: ConsumerState) -> None:
        if self._flow:
            self._flow.close()
            self._flow = None
        self.state, self.epoch, self._sent_fields = state, JOIN, {}
        self._target, self._target_topics = frozenset(), frozenset()
        self._reported = ()
        self._incarnation += 1
        self._in_flight = False

    def _become_fenced(self) -> None:
        self._reset(ConsumerState.FENCED)

    @property
    def _awaits_pattern_topics(self) -> bool:
        """Whether the member must wait before it joins, because metadata does not contain the topics that match the
        pattern yet.
        """
        return (
            self.epoch == JOIN
            and self._subscription.type is SubscriptionType.AUTO_PATTERN
            and not self._metadata.has_all_topics
        )

    def _hasten_if_subscription_changed(self) -> None:
        fields = self._sent_fields.get("subscribed_topic_names")
        if fields is not None and fields != sorted(self._subscription.topics):
            self._next_heartbeat = 0.0

    # Reconciliation

    def _resolved_target(self) -> set[TopicPartition]:
        """Return the partitions of the target assignment. If a topic id is unknown, request metadata.

        The result does not contain partitions of unknown topic ids.
        """
        partitions = set()
        for topic_id, number in self._target:
            name = self._metadata.topic_names.get(topic_id)
            if name is None:
                self._metadata.retry_later()
            else:
                partitions.add((name, number))
        return partitions

    def _target_differs(self) -> bool:
        current = self._target, self._metadata.version, self._positions.version
        if current != self._reconciled_with:
            if self._resolved_target() != set(self._positions):
                return True
            self._reconciled_with = current
        return False

    def _reconcile(self) -> Steps:
        yield POLL  # until the poll, the user may still process returned records
        self._positions.keep_only(self._resolved_target())  # no record is returned after the commit
        if self._settings.enable_auto_commit:
            commit = self._committer.commit(self._positions.to_commit(), self._settings.max_poll_interval, retried=True)
            while not commit.done:
                yield WAIT
        yield POLL
        target, owned = self._resolved_target(), self.owned()
        revoked = tuple(p for p in owned if p not in target)
        added = tuple(sorted(target - set(owned)))
        self._positions.keep_only(target)
        first: Exception | None = None
        if revoked:
            first = yield ListenerCall("revoked", revoked)
        kept = [p for p in owned if p in target]
        self._positions.assign([*kept, *added])
        error: Exception | None = None
        if added:
            error = yield ListenerCall("assigned", added)
        self._reported = self.owned()
        self.state = ConsumerState.ACKNOWLEDGING
        self._next_heartbeat = 0.0
        if first or error:
            raise first or error  # type: ignore[misc]

    def _lose_partitions(self) -> Steps:
        yield POLL
        error: Exception | None = None
        if owned := self.owned():
            self._positions.keep_only(())
            error = yield ListenerCall("lost", owned)
            self._positions.assign(())
        if self._subscription.subscribed:
            self._start_joining()
        if error:
            raise error

    # Heartbeats

    def _heartbeat(self) -> None:
        now = self._clock.now
        outside = self.state in (ConsumerState.UNSUBSCRIBED, ConsumerState.FENCED)
        if (
            outside
            or self._in_flight
            or self._awaits_pattern_topics
            or self._next_heartbeat > now
            or self._coordinator.node is None
        ):
            return
        if self._requests_target_again(now):
            self._send_all_fields = True
        fields = self._all_fields()
        full = self.epoch == JOIN or not self._sent_fields or self._send_all_fields
        changed = (
            fields if full else {name: value for name, value in fields.items() if self._sent_fields.get(name) != value}
        )
        incarnation = self._incarnation
        acknowledged = self.state is ConsumerState.ACKNOWLEDGING

        def answered(call: OutgoingCall) -> None:
            if incarnation == self._incarnation:
                self._handle_heartbeat_response(call, fields, acknowledged=acknowledged)

        call = self._coordinator.send_request(
            CONSUMER_GROUP_HEARTBEAT.key, lambda _: self._request(self.epoch, changed, full=full), answered
        )
        if call is None:
            self._next_heartbeat = now + self._backoff.after(0)
        elif not call.done:
            self._in_flight, self._send_all_fields = True, False

    def _requests_target_again(self, now: float) -> bool:
        """Return whether the next heartbeat must be full, so that the coordinator sends the target assignment again.

        The result is True if the target has contained unknown topic ids for UNRESOLVED seconds: the topics were
        deleted, or the assignment was wrong.

        ``now``: seconds on the engine's clock.
        """
        if self._target_topics <= self._metadata.topic_names.keys() or now < self._next_request_of_target:
            return False
        self._next_request_of_target = now + UNRESOLVED
        return True

    def _all_fields(self) -> Mapping[str, object]:
        ids: dict[UUID, list[int]] = {}
        for topic, number in sorted(self._reported):
            ids.setdefault(self._metadata.topic_id(topic), []).append(number)
        return {
            "subscribed_topic_names": sorted(self._subscription.topics),
            "topic_partitions": [Request.TopicPartition(topic_id=id_, partitions=ps) for id_, ps in ids.items()],
        }

    def _request(self, epoch: int, changed: Mapping[str, object], *, full: bool) -> Request:
        settings = self._settings
        request = Request(
            group_id=self._group, member_id=self.member_id, member_epoch=epoch, instance_id=settings.group_instance_id
        )
        if full:
            request.rack_id = settings.client_rack or None
            request.rebalance_timeout_ms = round(settings.max_poll_interval * 1000)
            request.server_assignor = settings.group_remote_assignor
        for name, value in changed.items():
            setattr(request, name, value)
        if epoch == JOIN:
            request.topic_partitions = []
        return request

    def _handle_heartbeat_response(
        self, call: OutgoingCall, fields: Mapping[str, object], *, acknowledged: bool
    ) -> None:
        now = self._clock.now
        self._in_flight = False
        if unsupported := call.unsupported:
            self._fail(unsupported)
            return
        if call.failure is not None:
            self._coordinator.mark_unknown()
            self._retry()
            return
        response: ConsumerGroupHeartbeatResponse = call.response
        code = response.error_code
        if code:
            self._handle_error(code, response.error_message)
            return
        self._failures = 0
        self._sent_fields = fields
        self.epoch = response.member_epoch
        self.interval = response.heartbeat_interval_ms / 1000 or self.interval
        reconciled_meanwhile = self.state is ConsumerState.ACKNOWLEDGING and not acknowledged
        self._next_heartbeat = now if self._send_all_fields or reconciled_meanwhile else now + self.interval
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            self._target = frozenset((topic.topic_id, number) for topic in assigned for number in topic.partitions)
            self._target_topics = frozenset(topic.topic_id for topic in assigned)
            self._next_request_of_target = now + UNRESOLVED
        if acknowledged or self.state is ConsumerState.JOINING:
            self.state = ConsumerState.STABLE
        if self.state is ConsumerState.STABLE and self._target_differs():
            self.state = ConsumerState.RECONCILING

    def _handle_error(self, code: int, message: str | None) -> None:
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._retry()
        elif code in COORDINATOR_MOVED:
            self._coordinator.mark_unknown()
            self._retry()
        elif code in FENCED:
            self._become_fenced()
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.failure = broker_error(code, f"ConsumerGroupHeartbeat of group {self._group} failed")
            self._retry()
        else:
            detail = f": {message}" if message else ""
            self._fail(broker_error(code, f"ConsumerGroupHeartbeat of group {self._group} failed{detail}"))

    def _retry(self) -> None:
        self._sent_fields = {}
        self._next_heartbeat = self._clock.now + self._backoff.after(self._failures)
        self._failures += 1

    def _fail(self, error: ConsumerError) -> None:
        self.failure = error
        self._become_fenced()

    def _send_leave(self) -> OutgoingCall | None:
        epoch = LEAVE if self._settings.group_instance_id is None else STATIC_LEAVE
        request = self._request(epoch, {}, full=False)
        return self._coordinator.send_request(CONSUMER_GROUP_HEARTBEAT.key, lambda _: request)

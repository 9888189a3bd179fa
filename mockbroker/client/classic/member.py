"""The member of a classic group, with its rebalances, heartbeats and commits.

Calls of the rebalance listener wait for a poll of the user; JoinGroup and SyncGroup do not.
Source: AbstractCoordinator and ConsumerCoordinator of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kwire.assignors import Assignor
from kwire.errorcodes import ErrorCode
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.heartbeat import Heartbeat, HeartbeatAction
from mockbroker.client.classic.heartbeat_requests import HeartbeatRequests
from mockbroker.client.classic.leave import send_leave
from mockbroker.client.classic.rebalance import Rebalance
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.committing import NOT_A_MEMBER, REBALANCING, Identity
from mockbroker.client.components import Components
from mockbroker.client.errors import CommitFailed, ConsumerError, FencedInstance, RebalanceInProgress
from mockbroker.client.flow import Flow, ListenerCall
from mockbroker.client.metadata import TopicPartition


class ClassicMembership:
    """A member of a classic group, which sends JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

    Args:
        assignors: Supported assignors in order of preference.
        components: The components of the consumer.

    Attributes:
        status: State, member id and generation.
        heartbeat: Heartbeat, session and poll timers.
    """

    min_commit_version = 0

    def __init__(self, assignors: Sequence[Assignor], components: Components) -> None:
        self._components = components
        self.status = MemberStatus(components.settings.group_instance_id)
        self.heartbeat = Heartbeat(components.settings, components.backoff)
        self._heartbeats = HeartbeatRequests(components, self.status, self.heartbeat)
        self._rebalance = Rebalance(components, self.status, self.heartbeat, list(assignors))
        self._flow: Flow | None = None
        self._leave_call: OutgoingCall | None = None
        components.coordinator.on_found = lambda: self.heartbeat.renew(components.clock.now)

    @property
    def state(self) -> ClassicState:
        return self.status.state

    @property
    def member_id(self) -> str:
        return self.status.member_id

    @property
    def generation(self) -> int:
        return self.status.generation

    @property
    def identity(self) -> Identity:
        return self.status.identity

    @property
    def failure(self) -> Exception | None:
        return self.status.failure

    @property
    def listener_call(self) -> ListenerCall | None:
        return self._flow.listener_call if self._flow else None

    @property
    def stable(self) -> bool:
        return self._flow is None and self.state is ClassicState.STABLE and self.status.rejoin_reason is None

    @property
    def leading(self) -> bool:
        """Whether the member is the leader that assigned the partitions of this generation."""
        return self.status.assignment_snapshot is not None

    @property
    def leaving(self) -> bool:
        return self._leave_call is not None and not self._leave_call.done

    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._components.positions)

    def record_poll(self, *, waiting: bool = False) -> None:
        self.heartbeat.record_poll(self._components.clock.now, waiting=waiting)

    def rejoin(self, reason: str) -> None:
        self.status.rejoin(reason)

    # Commits

    @property
    def commit_blocked_by(self) -> ConsumerError | None:
        status = self.status
        applied = status.state is ClassicState.STABLE and status.assignment is None
        if applied or not self._components.subscription.subscribed:
            return None
        return CommitFailed(NOT_A_MEMBER) if status.state is ClassicState.UNJOINED else RebalanceInProgress(REBALANCING)

    def handle_commit_error(self, code: int) -> None:
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.status.leave_generation(code, "OffsetCommit")
        elif self.state is ClassicState.STABLE:  # else the member is already rejoining
            self.rejoin("a commit failed with REBALANCE_IN_PROGRESS")

    # Driving

    def maintain(self, *, polling: bool) -> None:
        """Send a due heartbeat, and start or continue a rebalance if one is necessary.

        Args:
            polling: True during a poll of the user. Then the parts of a rebalance that wait for a poll run too.

        Raises: only if ``polling`` is True: ConsumerError, AssignorError, exceptions of a listener or an assignor.
        """
        self._check_heartbeat()
        self._rejoin_if_changed()
        status = self.status
        if polling and (failure := status.failure):
            if not isinstance(failure, FencedInstance):  # a fenced member does not rejoin: it would fence the other
                status.failure = None
            raise failure
        if self._flow is None and polling and status.rejoin_reason is not None:
            self._flow = Flow(self._rebalance.run())
        if flow := self._flow:
            self._resume(flow, lambda: flow.advance(polling=polling), polling=polling)

    def listener_returned(self, error: Exception | None) -> None:
        flow = self._flow
        assert flow
        self._resume(flow, lambda: flow.listener_returned(error), polling=True)

    def _resume(self, flow: Flow, resume: Callable[[], None], *, polling: bool) -> None:
        try:
            resume()
        except Exception as error:  # also one of the user's assignor; only a poll can raise it
            if self.state is not ClassicState.STABLE:
                self.rejoin("the rebalance failed")
            if polling:
                raise
            self.status.failure = error
        finally:
            if flow.done:
                self._flow = None

    def next_deadline(self) -> float:
        backoff_until, now = self._rebalance.backoff_until, self._components.clock.now
        rested = backoff_until if backoff_until > now else float("inf")
        return min(
            rested,
            self.heartbeat.next_deadline(self.state, coordinator_known=self._components.coordinator.node is not None),
        )

    def leave(self, reason: str) -> None:
        status = self.status
        if self._flow:
            self._flow.close()
            self._flow = None
        self._leave_call = send_leave(self._components, status, reason)
        status.revoked = False
        status.assignment = status.failure = None
        status.rejoin_reason = "a new member"

    def _check_heartbeat(self) -> None:
        coordinator = self._components.coordinator
        match self.heartbeat.next_action(
            self._components.clock.now, self.state, coordinator_known=coordinator.node is not None
        ):
            case HeartbeatAction.SESSION_EXPIRED:
                coordinator.disconnect()
            case HeartbeatAction.LEAVE:
                reason = "no poll for max_poll_interval"
                self._leave_call = send_leave(self._components, self.status, reason)
                self.rejoin("no poll for max_poll_interval")
            case HeartbeatAction.SEND:
                self._heartbeats.send()

    def _rejoin_if_changed(self) -> None:
        """Request a rebalance if the subscription has changed or, for the leader, the group's topics have changed."""
        if self.state is not ClassicState.STABLE:
            return
        if self.status.subscription_version != self._components.subscription.version:
            self.rejoin("the subscription has changed")
        self._rebalance.leading.rejoin_if_topics_changed()

"""A member of a classic group, as the rest of the consumer sees it.

What only the user's polls may do (calls of the rebalance listener) waits for them; joining and syncing go on without.
Source: AbstractCoordinator and ConsumerCoordinator of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kwire.assignors import Assignor
from kwire.errorcodes import ErrorCode
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.heartbeat import Beat, Heartbeat
from mockbroker.client.classic.heartbeat_requests import HeartbeatRequests
from mockbroker.client.classic.leave import send_leave
from mockbroker.client.classic.rebalance import Rebalance
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.committing import LATE, POLL_FIRST, Identity
from mockbroker.client.errors import CommitFailed, ConsumerError, FencedInstance, RebalanceInProgress
from mockbroker.client.flow import Flow, ListenerCall
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.parts import Parts


class ClassicMembership:
    """Membership by JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

    assignors: those that the member offers, in order of preference.
    status: state, id and generation.
    beat: deadlines of heartbeats and polls.
    """

    lowest_commit = 0

    def __init__(self, assignors: Sequence[Assignor], parts: Parts) -> None:
        self._parts = parts
        self.status = MemberStatus(parts.settings.group_instance_id)
        self.beat = Heartbeat(parts.settings, parts.backoff)
        self._heartbeats = HeartbeatRequests(parts, self.status, self.beat)
        self._rebalance = Rebalance(parts, self.status, self.beat, list(assignors))
        self._flow: Flow | None = None
        self._left: OutgoingCall | None = None
        parts.coordinator.found = lambda: self.beat.renew(parts.time.now)

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
    def settled(self) -> bool:
        return self._flow is None and self.state is ClassicState.STABLE and self.status.rejoin_reason is None

    @property
    def leading(self) -> bool:
        """True for the member that assigned the partitions of this generation."""
        return self.status.watched is not None

    @property
    def leaving(self) -> bool:
        return self._left is not None and not self._left.done

    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._parts.positions)

    def polled(self, *, waits: bool = False) -> None:
        self.beat.polled(self._parts.time.now, waits=waits)

    def rejoin(self, reason: str) -> None:
        self.status.rejoin(reason)

    # Commits

    @property
    def commit_barred(self) -> ConsumerError | None:
        status = self.status
        applied = status.state is ClassicState.STABLE and status.assignment is None
        if applied or not self._parts.interest.subscribed:
            return None
        return CommitFailed(LATE) if status.state is ClassicState.UNJOINED else RebalanceInProgress(POLL_FIRST)

    def commit_refused(self, code: int) -> None:
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.status.reset(code, "OffsetCommit")
        elif self.state is ClassicState.STABLE:  # else it is joining already
            self.rejoin("a commit met a rebalance")

    # What is due

    def maintain(self, *, polling: bool) -> None:
        """Raises: ConsumerError, AssignorError, what a listener or an assignor raises."""
        self._heartbeat()
        self._rejoin_if_changed()
        status = self.status
        if polling and (failure := status.failure):
            if not isinstance(failure, FencedInstance):  # a fenced member does not rejoin: it would fence the other
                status.failure = None
            raise failure
        if self._flow is None and polling and status.rejoin_reason is not None and self._parts.interest.subscribed:
            self._flow = Flow(self._rebalance.run())
        if flow := self._flow:
            self._resume(lambda: flow.advance(polling=polling), polling=polling)

    def listener_returned(self, error: Exception | None) -> None:
        flow = self._flow
        assert flow
        self._resume(lambda: flow.listener_returned(error), polling=True)

    def _resume(self, resume: Callable[[], None], *, polling: bool) -> None:
        try:
            resume()
        except Exception as error:  # also of the user's assignor; only a poll can raise it
            if self.state is not ClassicState.STABLE:
                self.rejoin("the rebalance failed")
            if polling:
                raise
            self.status.failure = error
        finally:
            if self._flow and self._flow.done:
                self._flow = None

    def due(self) -> float:
        resting_until, now = self._rebalance.resting_until, self._parts.time.now
        rested = resting_until if resting_until > now else float("inf")
        return min(rested, self.beat.due(self.state, coordinator_known=self._parts.coordinator.node is not None))

    def leave(self, reason: str) -> None:
        status = self.status
        if self._flow:
            self._flow.close()
            self._flow = None
        self._left = send_leave(self._parts, status, reason)
        status.revoked = False
        status.assignment = status.failure = None
        status.rejoin_reason = "a new member"

    def _heartbeat(self) -> None:
        coordinator = self._parts.coordinator
        match self.beat.verdict(self._parts.time.now, self.state, coordinator_known=coordinator.node is not None):
            case Beat.SESSION_EXPIRED:
                coordinator.hang_up()
            case Beat.LEAVE:
                reason = "the user has not polled for max.poll.interval"
                self._left = send_leave(self._parts, self.status, reason)
                self.rejoin("polls were too far apart")
            case Beat.SEND:
                self._heartbeats.send()

    def _rejoin_if_changed(self) -> None:
        """Begin a rebalance if the subscription changed, or for the leader the topics."""
        if self.state is not ClassicState.STABLE:
            return
        if self.status.subscription_version != self._parts.interest.version:
            self.rejoin("the subscription has changed")
        self._rebalance.leading.rejoin_if_topics_changed()

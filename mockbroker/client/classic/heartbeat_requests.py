"""Heartbeat: sent when its deadline has passed, and what each response does to the member.

Source: AbstractCoordinator.HeartbeatResponseHandler of kafka-clients.
"""

from __future__ import annotations

from kwire.errorcodes import ErrorCode
from kwire.messages.heartbeat import HEARTBEAT, HeartbeatRequest
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.heartbeat import Heartbeat
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.committing import Identity
from mockbroker.client.coordinator import ELSEWHERE
from mockbroker.client.parts import Parts

STATIC_SINCE = 3


class HeartbeatRequests:
    """Heartbeats of one member, one under way at a time."""

    def __init__(self, parts: Parts, status: MemberStatus, beat: Heartbeat) -> None:
        self._parts, self._status, self._beat = parts, status, beat

    def send(self) -> None:
        """Send a heartbeat, or set the time of the next try."""
        now, sent = self._parts.time.now, self._status.identity
        request = HeartbeatRequest(
            group_id=self._parts.group or "",
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
        )
        call = self._parts.coordinator.ask(
            HEARTBEAT.key,
            lambda _: request,
            lambda call: self._answered(call, sent),
            versions=(0 if sent.instance_id is None else STATIC_SINCE, None),
        )
        if call is None:
            self._beat.failed(now)
        elif not call.done:
            self._beat.sent(now)

    def _answered(self, call: OutgoingCall, sent: Identity) -> None:
        now, beat, status = self._parts.time.now, self._beat, self._status
        beat.in_flight = False
        if call.failure is not None:
            beat.failed(now)
            self._parts.coordinator.unknown()
            return
        if sent != status.identity:  # a response to an earlier generation
            return
        code = call.answer.error_code
        match code:
            case ErrorCode.NONE:
                beat.renew(now)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                beat.renew(now)
                if status.state is ClassicState.STABLE:
                    status.rejoin("the group rebalances")
            case _ if code in ELSEWHERE:
                beat.failed(now)
                self._parts.coordinator.unknown()
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                status.reset(code, "Heartbeat")
            case _:
                beat.failed(now)

"""The heartbeat requests of a classic member, and the handling of the responses.

Source: AbstractCoordinator.HeartbeatResponseHandler of kafka-clients.
"""

from __future__ import annotations

from kwire.errorcodes import ErrorCode
from kwire.messages.heartbeat import HEARTBEAT, HeartbeatRequest
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.heartbeat import Heartbeat
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.committing import Identity
from mockbroker.client.components import Components
from mockbroker.client.coordinator import COORDINATOR_MOVED

FIRST_STATIC_VERSION = 3


class HeartbeatRequests:
    """The sender of the heartbeats of one member. At most one heartbeat is in flight.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        heartbeat: The timers of the member.
    """

    def __init__(self, components: Components, status: MemberStatus, heartbeat: Heartbeat) -> None:
        self._components, self._status, self._heartbeat = components, status, heartbeat

    def send(self) -> None:
        """Send a heartbeat, or schedule a retry if the coordinator is unavailable."""
        now, sent = self._components.clock.now, self._status.identity
        request = HeartbeatRequest(
            group_id=self._components.group_id,
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
        )
        call = self._components.coordinator.send_request(
            HEARTBEAT.key,
            lambda _: request,
            lambda call: self._handle_response(call, sent),
            versions=(0 if sent.instance_id is None else FIRST_STATIC_VERSION, None),
        )
        if call is None:
            self._heartbeat.failed(now)
        elif not call.done:
            self._heartbeat.sent(now)

    def _handle_response(self, call: OutgoingCall, sent: Identity) -> None:
        now, heartbeat, status = self._components.clock.now, self._heartbeat, self._status
        heartbeat.in_flight = False
        if call.failure is not None:
            heartbeat.failed(now)
            self._components.coordinator.mark_unknown()
            return
        if sent != status.identity:  # a response to an earlier generation
            return
        code = call.response.error_code
        match code:
            case ErrorCode.NONE:
                heartbeat.renew(now)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                heartbeat.renew(now)
                if status.state is ClassicState.STABLE:
                    status.rejoin("the group is rebalancing")
            case _ if code in COORDINATOR_MOVED:
                heartbeat.failed(now)
                self._components.coordinator.mark_unknown()
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                status.leave_generation(code, "Heartbeat")
            case _:
                heartbeat.failed(now)

"""The JoinGroup phase of a rebalance, in which a consumer becomes a member of the next generation.

Source: AbstractCoordinator.JoinGroupResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors import COOPERATIVE, Assignor
from kwire.errorcodes import ErrorCode
from kwire.messages.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from mockbroker.client.classic.assignments import offered_protocols
from mockbroker.client.classic.heartbeat import Heartbeat
from mockbroker.client.classic.requests import PROTOCOL_TYPE, Retry, call_coordinator
from mockbroker.client.classic.status import NO_GENERATION, ClassicState, MemberStatus
from mockbroker.client.components import Components
from mockbroker.client.coordinator import COORDINATOR_MOVED
from mockbroker.client.errors import InconsistentGroupProtocol, UnjoinedGroup, UnsupportedVersion, broker_error
from mockbroker.client.flow import Waiting

LONGER_THAN_REBALANCE = 5.0  # seconds that a JoinGroup may take beyond the rebalance timeout
FIRST_STATIC_VERSION = 5
RETRIES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Retry.AFTER_BACKOFF,
    **dict.fromkeys(COORDINATOR_MOVED, Retry.AFTER_BACKOFF),
    ErrorCode.MEMBER_ID_REQUIRED: Retry.AT_ONCE,
    ErrorCode.UNKNOWN_MEMBER_ID: Retry.AT_ONCE,
    ErrorCode.REBALANCE_IN_PROGRESS: Retry.AT_ONCE,
}


class Joining:
    """The JoinGroup phase of one member.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        heartbeat: Heartbeat timers, which a successful join starts.
        assignors: Supported assignors by name, in order of preference.
        protocol: Rebalance protocol that all assignors support, eager or cooperative.
    """

    def __init__(
        self,
        components: Components,
        status: MemberStatus,
        heartbeat: Heartbeat,
        assignors: Mapping[str, Assignor],
        protocol: str,
    ) -> None:
        self._components, self._status, self._heartbeat = components, status, heartbeat
        self._assignors, self._protocol = assignors, protocol
        self._where = f"JoinGroup of group {components.group}"

    def join(self, reason: str) -> Waiting[JoinGroupResponse | Retry]:
        """Send JoinGroup, and wait for the response.

        The response changes the status of the member. A successful response starts the heartbeat timers.

        The generator yields the condition under which it is resumed (see flow.py).

        ``reason``: why the member joins; sent to the coordinator.

        Returns: the response that begins a generation, or a Retry after a retriable error.

        Raises: UnjoinedGroup if the member left the group before the response; ConsumerError after an error that is not
        retriable.
        """
        components, status = self._components, self._status
        status.state = ClassicState.PREPARING_REBALANCE
        status.assignment_snapshot = status.assignment = None
        call = yield from call_coordinator(
            components,
            JOIN_GROUP.key,
            lambda _: self._request(reason),
            first_static_version=FIRST_STATIC_VERSION,
            timeout=max(
                components.settings.request_timeout, components.settings.max_poll_interval + LONGER_THAN_REBALANCE
            ),
        )
        if call is None:
            return Retry.AFTER_BACKOFF
        response: JoinGroupResponse = call.response
        if response.error_code:
            return self._handle_error(response)
        if status.state is not ClassicState.PREPARING_REBALANCE:
            raise UnjoinedGroup("the member left the group before its JoinGroup was answered")
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise InconsistentGroupProtocol(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{self._where}: the protocol type of the group is {response.protocol_type!r}, "
                f"but a consumer needs {PROTOCOL_TYPE!r}",
            )
        status.state = ClassicState.COMPLETING_REBALANCE
        status.member_id, status.generation = response.member_id, response.generation_id
        status.protocol_name = response.protocol_name
        self._heartbeat.enable(components.clock.now)
        return response

    def _request(self, reason: str) -> JoinGroupRequest:
        components, settings, status = self._components, self._components.settings, self._status
        owned = tuple(components.positions) if self._protocol == COOPERATIVE else ()
        topics, rack = sorted(components.subscription.topics), settings.client_rack
        return JoinGroupRequest(
            group_id=components.group_id,
            session_timeout_ms=round(settings.session_timeout * 1000),
            rebalance_timeout_ms=round(settings.max_poll_interval * 1000),
            member_id=status.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=offered_protocols(self._assignors.values(), topics, owned, status.generation, rack),
            reason=reason,
        )

    def _handle_error(self, response: JoinGroupResponse) -> Retry:
        code, status = response.error_code, self._status
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise status.fence("JoinGroup")
        if code == ErrorCode.UNSUPPORTED_VERSION:
            raise UnsupportedVersion(
                f"{self._where}: the broker does not support group_instance_id: open the consumer without it"
            )
        if code not in RETRIES:
            raise broker_error(code, f"{self._where} failed")
        if code in COORDINATOR_MOVED:
            self._components.coordinator.mark_unknown()
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            status.member_id, status.generation = response.member_id, NO_GENERATION
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            status.member_id, status.generation = "", NO_GENERATION
        return RETRIES[ErrorCode(code)]

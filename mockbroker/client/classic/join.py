"""JoinGroup: become a member of the next generation. Source: AbstractCoordinator.JoinGroupResponseHandler."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors import COOPERATIVE, Assignor
from kwire.errorcodes import ErrorCode
from kwire.messages.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from mockbroker.client.classic.assignments import offered_protocols
from mockbroker.client.classic.heartbeat import Heartbeat
from mockbroker.client.classic.requests import PROTOCOL_TYPE, Retry, call_coordinator
from mockbroker.client.classic.status import NO_GENERATION, ClassicState, MemberStatus
from mockbroker.client.coordinator import ELSEWHERE
from mockbroker.client.errors import InconsistentGroupProtocol, UnjoinedGroup, UnsupportedVersion, broker_error
from mockbroker.client.flow import Waiting
from mockbroker.client.parts import Parts

LONGER_THAN_REBALANCE = 5.0  # seconds that a JoinGroup may take beyond the rebalance timeout
STATIC_SINCE = 5
RETRIES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Retry.AFTER_BACKOFF,
    **dict.fromkeys(ELSEWHERE, Retry.AFTER_BACKOFF),
    ErrorCode.MEMBER_ID_REQUIRED: Retry.AT_ONCE,
    ErrorCode.UNKNOWN_MEMBER_ID: Retry.AT_ONCE,
    ErrorCode.REBALANCE_IN_PROGRESS: Retry.AT_ONCE,
}


class Joining:
    """JoinGroup of one member.

    assignors: those that the member offers, by name, in order of preference.
    protocol: eager or cooperative, whichever all assignors support.
    """

    def __init__(
        self, parts: Parts, status: MemberStatus, beat: Heartbeat, assignors: Mapping[str, Assignor], protocol: str
    ) -> None:
        self._parts, self._status, self._beat = parts, status, beat
        self._assignors, self._protocol = assignors, protocol
        self._where = f"JoinGroup of {parts.group}"

    def join(self, reason: str) -> Waiting[JoinGroupResponse | Retry]:
        """Return the response that begins a generation, or when to retry.

        Raises: UnjoinedGroup when the member left the group meanwhile; ConsumerError.
        """
        parts, status = self._parts, self._status
        status.state = ClassicState.PREPARING_REBALANCE
        status.watched = status.assignment = None
        call = yield from call_coordinator(
            parts,
            JOIN_GROUP.key,
            lambda version: self._request(reason, version),
            static_since=STATIC_SINCE,
            timeout=max(parts.settings.request_timeout, parts.settings.max_poll_interval + LONGER_THAN_REBALANCE),
        )
        if call is None:
            return Retry.AFTER_BACKOFF
        response: JoinGroupResponse = call.answer
        if response.error_code:
            return self._refused(response)
        if status.state is not ClassicState.PREPARING_REBALANCE:
            raise UnjoinedGroup("the member was out of the group before it had joined")
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise InconsistentGroupProtocol(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group is of type {response.protocol_type!r}"
            )
        status.state = ClassicState.COMPLETING_REBALANCE
        status.member_id, status.generation = response.member_id, response.generation_id
        status.protocol_name = response.protocol_name
        self._beat.enable(parts.time.now)
        return response

    def _request(self, reason: str, version: int) -> JoinGroupRequest:
        parts, settings, status = self._parts, self._parts.settings, self._status
        owned = tuple(parts.positions) if self._protocol == COOPERATIVE else ()
        topics, rack = sorted(parts.interest.topics), settings.client_rack
        return JoinGroupRequest(
            group_id=parts.group or "",
            session_timeout_ms=round(settings.session_timeout * 1000),
            rebalance_timeout_ms=round(settings.max_poll_interval * 1000) if version else -1,
            member_id=status.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=offered_protocols(self._assignors.values(), topics, owned, status.generation, rack),
            reason=reason,
        )

    def _refused(self, response: JoinGroupResponse) -> Retry:
        code, status = response.error_code, self._status
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise status.fence("JoinGroup")
        if code == ErrorCode.UNSUPPORTED_VERSION:
            raise UnsupportedVersion(f"{self._where}: the broker is too old for a group instance id; leave it out")
        if code not in RETRIES:
            raise broker_error(code, self._where)
        if code in ELSEWHERE:
            self._parts.coordinator.unknown()
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            status.member_id, status.generation = response.member_id, NO_GENERATION
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            status.member_id, status.generation = "", NO_GENERATION
        return RETRIES[ErrorCode(code)]

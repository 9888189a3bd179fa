"""The SyncGroup phase of a rebalance: the leader sends all assignments, and each member receives its assignment.

Source: AbstractCoordinator.SyncGroupResponseHandler of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors import Assignment
from kwire.errorcodes import ErrorCode
from kwire.messages.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupResponse
from mockbroker.client.classic.assignments import encoded_assignments
from mockbroker.client.classic.requests import PROTOCOL_TYPE, Retry, call_coordinator
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.components import Components
from mockbroker.client.coordinator import COORDINATOR_MOVED
from mockbroker.client.errors import InconsistentGroupProtocol, broker_error
from mockbroker.client.flow import Waiting

FIRST_STATIC_VERSION = 3
RETRIES = {
    **dict.fromkeys(COORDINATOR_MOVED, Retry.AFTER_BACKOFF),
    ErrorCode.REBALANCE_IN_PROGRESS: Retry.AT_ONCE,
    ErrorCode.ILLEGAL_GENERATION: Retry.AT_ONCE,
    ErrorCode.UNKNOWN_MEMBER_ID: Retry.AT_ONCE,
}
OUT_OF_GENERATION = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class Syncing:
    """The SyncGroup phase of one member.

    Args:
        components: The components of the consumer.
        status: Status of the member.
    """

    def __init__(self, components: Components, status: MemberStatus) -> None:
        self._components, self._status = components, status

    def sync(self, assignments: Mapping[str, Assignment]) -> Waiting[Retry | None]:
        """Send SyncGroup, and wait for the response. The member is STABLE after an assignment was received.

        The generator yields the condition under which it is resumed (see flow.py).

        Args:
            assignments: leader: the assignments by member id. Member that is not the leader: empty.

        Returns: None if the member is STABLE, else a Retry.

        Raises: ConsumerError after an error that is not retriable.
        """
        status = self._status
        if status.state is not ClassicState.COMPLETING_REBALANCE:
            return Retry.AT_ONCE  # a heartbeat ended the generation while the leader waited for metadata
        sent = status.identity
        request = SyncGroupRequest(
            group_id=self._components.group_id,
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=status.protocol_name,
            assignments=encoded_assignments(assignments),
        )
        call = yield from call_coordinator(
            self._components, SYNC_GROUP.key, lambda _: request, first_static_version=FIRST_STATIC_VERSION
        )
        if call is None:
            return Retry.AFTER_BACKOFF
        response: SyncGroupResponse = call.response
        if response.error_code:
            return self._handle_error(response.error_code)
        if sent != status.identity:
            return Retry.AT_ONCE  # a heartbeat ended the generation meanwhile
        self._check_protocol(response)
        status.state = ClassicState.STABLE
        status.revoked = False
        status.assignment = response.assignment
        return None

    def _check_protocol(self, response: SyncGroupResponse) -> None:
        name, chosen = response.protocol_name, self._status.protocol_name
        if response.protocol_type not in (None, PROTOCOL_TYPE) or name not in (None, chosen):
            raise InconsistentGroupProtocol(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"SyncGroup returned protocol {name!r} of type {response.protocol_type!r}, expected {chosen!r}",
            )

    def _handle_error(self, code: int) -> Retry:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise self._status.fence("SyncGroup")
        if code not in RETRIES:
            raise broker_error(code, f"SyncGroup of group {self._components.group} failed")
        if code in COORDINATOR_MOVED:
            self._components.coordinator.mark_unknown()
        if code in OUT_OF_GENERATION:
            self._status.leave_generation(code, "SyncGroup")
        return RETRIES[ErrorCode(code)]

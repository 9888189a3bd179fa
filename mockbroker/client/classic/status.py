"""The status of a member of a classic group: state, member id, generation, and the reason to rejoin.

Source: AbstractCoordinator.Generation and MemberState of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kwire.errorcodes import ErrorCode
from mockbroker.client.committing import Identity
from mockbroker.client.errors import broker_error

NO_GENERATION = -1


class ClassicState(Enum):
    """The state of a member of a classic group, as the member itself knows it."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class MemberStatus:
    """The status of one member, shared by the objects that carry out its rebalances and heartbeats.

    Args:
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.

    Attributes:
        state: State of the member; UNJOINED until the first JoinGroup is sent.
        member_id: Member id that the coordinator assigned; "" outside of a group.
        generation: Generation; NO_GENERATION outside of a group.
        protocol_name: Name of the assignor that the group chose; None before the first generation.
        rejoin_reason: Reason why the member must rejoin; None if no rejoin is necessary.
        failure: The error that the next poll raises, or None.
        revoked: Whether the revocation of this rebalance is complete (see revoke.py).
        assignment: Encoded assignment in the latest SyncGroup response. None before the first response, and after a
            poll has applied the assignment.
        subscription_version: Version of the subscription in the latest JoinGroup; -1 before the first one.
        assignment_snapshot: Leader: partition counts and racks by topic at the time of the assignment. None for a
            member that is not the leader.
    """

    def __init__(self, instance_id: str | None) -> None:
        self._instance_id = instance_id
        self.state = ClassicState.UNJOINED
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol_name: str | None = None
        self.rejoin_reason: str | None = "a new member"
        self.failure: Exception | None = None
        self.revoked = False
        self.assignment: bytes | None = None
        self.subscription_version = -1
        self.assignment_snapshot: Mapping[str, object] | None = None

    @property
    def identity(self) -> Identity:
        """The membership fields (generation, member id, instance id) of the member's requests."""
        return Identity(self.generation, self.member_id, self._instance_id)

    def rejoin(self, reason: str) -> None:
        """Request a rebalance with the next poll.

        ``reason``: why the member rejoins; ignored if a rebalance is already requested.
        """
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def reset_generation(self) -> None:
        """Set the state to UNJOINED, and clear member id, generation and ``assignment_snapshot``: the member is then
        not the leader.
        """
        self.state, self.generation, self.member_id = ClassicState.UNJOINED, NO_GENERATION, ""
        self.assignment_snapshot = None

    def leave_generation(self, code: int, request: str) -> None:
        """Leave the generation, because the coordinator rejected the membership, and request a rebalance.

        After FENCED_INSTANCE_ID, no rebalance is requested: the next poll raises the error. After ILLEGAL_GENERATION,
        the member keeps its member id.

        Args:
            code: error code: FENCED_INSTANCE_ID, ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID.
            request: name of the rejected request.
        """
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fence(request)
            return
        member_id = self.member_id if code == ErrorCode.ILLEGAL_GENERATION else ""
        self.reset_generation()
        self.member_id = member_id
        self.rejoin(f"{request} failed with {ErrorCode(code).name}")

    def fence(self, request: str) -> Exception:
        """Leave the group, because another member with the same instance id has replaced this member.

        Return the error, which the next poll raises.

        Args:
            request: name of the rejected request, for the message.
        """
        self.failure = broker_error(ErrorCode.FENCED_INSTANCE_ID, request)
        self.reset_generation()
        return self.failure

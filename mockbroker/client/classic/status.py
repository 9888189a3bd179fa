"""The status of a member of a classic group: state, id, generation, and why it has to rejoin.

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
    """State of a member of a classic group, as the member itself knows it."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class MemberStatus:
    """Status of one member, which the responses of the coordinator change.

    state: UNJOINED until the first JoinGroup is sent.
    member_id, generation: set by the coordinator; "" and NO_GENERATION outside of a group.
    protocol_name: the assignor that the group chose.
    rejoin_reason: why the member has to rejoin; None while there is no reason.
    failure: an error that the next poll raises.
    revoked: whether this rebalance has revoked partitions.
    assignment: the bytes of the latest SyncGroup response, until a poll applies them.
    subscription_version: of the subscription in the latest JoinGroup.
    assignment_snapshot: for the leader, the partitions and racks that it assigned; None for other members.
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
        """The identity that requests carry."""
        return Identity(self.generation, self.member_id, self._instance_id)

    def rejoin(self, reason: str) -> None:
        """Request a rebalance with the next poll; an earlier reason is kept."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def reset_generation(self) -> None:
        """Become UNJOINED, without id and generation."""
        self.state, self.generation, self.member_id = ClassicState.UNJOINED, NO_GENERATION, ""
        self.assignment_snapshot = None

    def leave_generation(self, code: int, request: str) -> None:
        """Leave the generation: the coordinator rejected the membership in a response to ``request``."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fence(request)
            return
        member_id = self.member_id if code == ErrorCode.ILLEGAL_GENERATION else ""
        self.reset_generation()
        self.member_id = member_id
        self.rejoin(f"{request} failed with {ErrorCode(code).name}")

    def fence(self, request: str) -> Exception:
        """Leave the group: another member with the same instance id has replaced this one. Return the error."""
        self.failure = broker_error(ErrorCode.FENCED_INSTANCE_ID, request)
        self.reset_generation()
        return self.failure

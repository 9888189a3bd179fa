"""What a member of a classic group knows of itself: state, id, generation, and why it has to join again.

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
    """State of a member of a classic group, as it sees itself."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class MemberStatus:
    """Status of one member; every response that concerns the member changes it.

    state: UNJOINED until the first JoinGroup is sent.
    member_id, generation: as the coordinator gave them; "" and NO_GENERATION outside of a group.
    protocol_name: the assignor that the group chose.
    rejoin_reason: why a rebalance is to begin; None while there is no reason.
    failure: an error that the next poll raises.
    revoked: whether this rebalance has asked the user to give up partitions.
    assignment: bytes of the latest SyncGroup, until a poll applies them.
    subscription_version: version of the interest that was joined with.
    watched: for the leader, what it assigned by; None for other members.
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
        self.watched: Mapping[str, object] | None = None

    @property
    def identity(self) -> Identity:
        """Return what requests name the member by."""
        return Identity(self.generation, self.member_id, self._instance_id)

    def rejoin(self, reason: str) -> None:
        """Begin a rebalance with the next poll; the first reason is kept."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def forget(self) -> None:
        """Become UNJOINED, without id and generation."""
        self.state, self.generation, self.member_id = ClassicState.UNJOINED, NO_GENERATION, ""
        self.watched = None

    def reset(self, code: int, request: str) -> None:
        """Leave the generation: a response to ``request`` says that the coordinator has no such member in it."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fence(request)
            return
        member_id = self.member_id if code == ErrorCode.ILLEGAL_GENERATION else ""
        self.forget()
        self.member_id = member_id
        self.rejoin(f"{request} was answered {ErrorCode(code).name}")

    def fence(self, request: str) -> Exception:
        """Return the error of a static member that another one with its instance id has replaced."""
        self.failure = broker_error(ErrorCode.FENCED_INSTANCE_ID, request)
        self.forget()
        return self.failure

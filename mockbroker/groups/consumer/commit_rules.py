"""The checks of OffsetCommit, TxnOffsetCommit and OffsetFetch in a consumer group (KIP-848)."""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember
from mockbroker.groups.events import Commit


def commit_error(group: ConsumerGroup, event: Commit) -> ErrorCode:
    """Return the error of an OffsetCommit.

    Source: Kafka's ConsumerGroup.validateOffsetCommit.

    Args:
        group: the group.
        event: the request.

    Returns:
        NONE if the request is valid. An empty group accepts commits of clients that are not members. UNKNOWN_MEMBER_ID
        if the group does not have the member. UNSUPPORTED_VERSION if the version of the request does not support member
        epochs, and the member uses the consumer protocol. For a wrong epoch, STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION
        if the member uses the classic protocol.
    """
    if event.generation < 0 and group.empty:
        return ErrorCode.NONE
    member = group.members.get(event.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not event.supports_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _epoch_error(member, event.generation)


def transactional_commit_error(group: ConsumerGroup, event: Commit) -> ErrorCode:
    """Return the error of a TxnOffsetCommit, or NONE if the request is valid.

    A request without member id and epoch is valid. The errors are those of ``commit_error``, but ILLEGAL_GENERATION
    is returned instead of STALE_MEMBER_EPOCH, which TxnOffsetCommit does not support.

    Args:
        group: the group.
        event: the request.
    """
    error = commit_error(group, event) if event.has_member_identity else ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of an OffsetFetch.

    Args:
        group: the group.
        member_id: member id in the request; None if the request has no member id.
        epoch: member epoch in the request; negative if the request has no member epoch.

    Returns:
        NONE if the request is valid; a request without member id and epoch is valid. UNKNOWN_MEMBER_ID if the group
        does not have the member. For a wrong epoch, STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION if the member uses the
        classic protocol. UNKNOWN_SERVER_ERROR for an epoch without a member id.

    Source: Kafka's ConsumerGroup.validateOffsetFetch.
    """
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails to look up null
    member = group.members.get(member_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _epoch_error(member, epoch)


def _epoch_error(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

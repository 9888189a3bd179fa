"""The checks of OffsetCommit, TxnOffsetCommit and OffsetFetch in a consumer group (KIP-848)."""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
)
from mockbroker.groups.events import Commit


def commit_error(group: ConsumerGroup, event: Commit) -> ErrorCode:
    """Return the error of an OffsetCommit, or NONE if the request is valid.

    Source: Kafka's ConsumerGroup.validateOffsetCommit.

    Args:
        group: The group.
        event: The request.
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
    """Return the error of a TxnOffsetCommit, or NONE.

    ILLEGAL_GENERATION is returned instead of STALE_MEMBER_EPOCH, which TxnOffsetCommit does not support.

    Args:
        group: The group.
        event: The request.
    """
    error = commit_error(group, event) if event.has_member_identity else ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of an OffsetFetch, or NONE if the request is valid.

    Args:
        group: the group.
        member_id: member id in the request; None if the request has no member id.
        epoch: member epoch in the request; negative if the request has no member epoch.

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

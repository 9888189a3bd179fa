"""The checks of OffsetCommit, TxnOffsetCommit and OffsetFetch in a streams group."""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.groups.events import Commit
from mockbroker.groups.streams.state import StreamsGroup, StreamsMember


def commit_error(group: StreamsGroup, event: Commit) -> ErrorCode:
    """Return the error of an OffsetCommit.

    Source: Kafka's StreamsGroup.validateOffsetCommit.

    Args:
        group: the group.
        event: the request.

    Returns:
        NONE if the request is valid. An empty group accepts commits of clients that are not members. UNKNOWN_MEMBER_ID
        if the group does not have the member. UNSUPPORTED_VERSION if the version of the request does not support member
        epochs. STALE_MEMBER_EPOCH for a wrong epoch; an older epoch is valid if the member still has the tasks.
    """
    if event.generation < 0 and group.empty:
        return ErrorCode.NONE
    member = group.members.get(event.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not event.supports_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    if event.generation == member.epoch or _had_the_tasks(group, member, event):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH


def transactional_commit_error(group: StreamsGroup, event: Commit) -> ErrorCode:
    """Return the error of a TxnOffsetCommit, or NONE if the request is valid.

    A request without member id and epoch is valid. The errors are those of ``commit_error``, but ILLEGAL_GENERATION
    is returned instead of STALE_MEMBER_EPOCH, which TxnOffsetCommit does not support.

    Args:
        group: the group.
        event: the request.
    """
    error = commit_error(group, event) if event.has_member_identity else ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of an OffsetFetch. Source: Kafka's StreamsGroup.validateOffsetFetch.

    Args:
        group: the group.
        member_id: member id in the request; None if the request has no member id.
        epoch: member epoch in the request; negative if the request has no member epoch.

    Returns:
        NONE if the request is valid; a request without member id and epoch is valid. UNKNOWN_MEMBER_ID if the group
        does not have the member. STALE_MEMBER_EPOCH for a wrong epoch. UNKNOWN_SERVER_ERROR for an epoch without a
        member id.
    """
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails to look up null
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def _had_the_tasks(group: StreamsGroup, member: StreamsMember, event: Commit) -> bool:
    """Return whether a commit with an older member epoch is valid.

    It is valid if every committed partition belongs to a task that was assigned to the member in the epoch of the
    commit or earlier, and that the member still has. Source: Kafka's StreamsGroup.createAssignmentEpochValidator.

    Args:
        group: the group.
        member: the member that commits.
        event: the commit.
    """
    if event.generation > member.epoch or group.topology is None:
        return False
    for topic, partition in event.partitions:
        task = group.topology.subtopology_of.get(topic, ""), partition
        since = member.assigned.active.get(task)
        since = member.pending_revocation.active.get(task) if since is None else since
        if since is None or event.generation < since:
            return False
    return True

"""The exceptions of the consumer."""

from __future__ import annotations

from typing import Any

from kwire.errorcodes import ErrorCode


class ConsumerError(Exception):
    """The base class of the consumer's exceptions."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copy and pickle restore the error: without its constructor, whose arguments are not kept."""
        return Exception.__new__, (type(self), *self.args), vars(self)


class BrokerError(ConsumerError):
    """The error for an error code from a broker that the consumer does not retry.

    Args:
        code: Kafka's error code.
        where: The request that failed, for the message.
    """

    def __init__(self, code: int, where: str) -> None:
        self.code = code
        super().__init__(f"{where}: {name(code)}")


class AuthorizationFailed(BrokerError):
    """The error for TOPIC_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED from a broker."""


class FencedInstance(BrokerError):
    """The error for FENCED_INSTANCE_ID: another member with the same ``group_instance_id`` has replaced this member."""


class InconsistentGroupProtocol(BrokerError):
    """The error for a group that this member cannot join: the members have no common assignor, or the group has a
    different protocol type.
    """


class UnsupportedVersion(ConsumerError):
    """The error for a request that cannot be sent in any version that both broker and consumer support."""


class NoOffset(ConsumerError):
    """The error for a partition without a valid position, if ``auto_offset_reset`` is ``"none"``.

    The reason is one of three: the group has committed no offset, the offset is out of range, or the topic was deleted
    and created again.

    Attributes:
        partitions: Affected partition -> its last offset; None for a partition without a committed offset.
    """

    def __init__(self, partitions: dict[tuple[str, int], int | None], reason: str | None = None) -> None:
        self.partitions = partitions
        listed = ", ".join(f"{t}-{n}" + ("" if at is None else f" at {at}") for (t, n), at in partitions.items())
        out_of_range = any(at is not None for at in partitions.values())
        problem = reason or ("offset out of range" if out_of_range else "no committed offset")
        super().__init__(f"{problem}: {listed}; call seek(), or set auto_offset_reset to earliest or latest")


class LogTruncated(ConsumerError):
    """The error for a new leader whose log does not contain all records that the consumer has read.

    The error is raised only if ``auto_offset_reset`` is ``"none"``.

    Attributes:
        partition: Topic and partition number.
        position: Offset of the next record to read.
        end: End offset of the leader's log for the leader epoch of the position; -1 if the leader does not know the
            epoch.
    """

    def __init__(self, partition: tuple[str, int], position: int, end: int) -> None:
        self.partition, self.position, self.end = partition, position, end
        super().__init__(
            f"{partition[0]}-{partition[1]} was truncated: the position is {position}, the log ends at {end}: "
            "call seek()"
        )


class CorruptRecord(ConsumerError):
    """The error for bytes from a broker that are not valid records.

    The position does not change; call ``seek`` to skip the bytes.

    Attributes:
        partition: Topic and partition number.
        offset: Offset of the next record to read.
    """

    def __init__(self, partition: tuple[str, int], offset: int, reason: str) -> None:
        self.partition, self.offset = partition, offset
        super().__init__(f"{partition[0]}-{partition[1]} at offset {offset}: {reason}")


class CommitFailed(ConsumerError):
    """The error for a commit of a consumer that is not a member of the group any more.

    Records whose offsets are not committed may be read again by the members that get the partitions.
    """


class RebalanceInProgress(ConsumerError):
    """The error for a commit during a rebalance. Call ``poll``, then commit again."""


class UnjoinedGroup(ConsumerError):
    """The error for a member that left the group before the response to its JoinGroup. The consumer joins again by
    itself.
    """


class UnknownAssignor(ConsumerError):
    """The error for a group that chose an assignor which this member does not have."""


class TimedOut(ConsumerError):
    """The error for a call that did not complete within its timeout."""


class Wakeup(ConsumerError):
    """The error that ends a call because ``wakeup`` was called during or before it."""


class ConcurrentUse(ConsumerError):
    """The error for two tasks that use one consumer at the same time."""


class NotAssigned(ConsumerError):
    """The error for a partition that is not assigned to this consumer."""


class IllegalUse(ConsumerError):
    """The error for a call that the state of the consumer does not allow, such as ``assign`` after ``subscribe``."""


def name(code: int) -> str:
    """Return Kafka's name of an error code, or ``error N`` for an unknown code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def broker_error(code: int, where: str) -> BrokerError:
    """Return the exception for an error code.

    Args:
        code: Kafka's error code.
        where: The request that failed, for the message.
    """
    match code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return AuthorizationFailed(code, where)
        case ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstance(code, where)
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return InconsistentGroupProtocol(code, where)
        case _:
            return BrokerError(code, where)

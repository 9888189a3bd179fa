"""Exceptions of the consumer."""

from __future__ import annotations

from kwire.errorcodes import ErrorCode


class ConsumerError(Exception):
    """Base class of the consumer's exceptions."""


class BrokerError(ConsumerError):
    """A broker returned an error that the consumer does not retry. ``code``: Kafka's error code."""

    def __init__(self, code: int, where: str) -> None:
        self.code = code
        super().__init__(f"{where}: {name(code)}")


class AuthorizationFailed(BrokerError):
    """TOPIC_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED."""


class FencedInstance(BrokerError):
    """FENCED_INSTANCE_ID: another member with the same ``group_instance_id`` has replaced this one."""


class InconsistentGroupProtocol(BrokerError):
    """The members of the group have no assignor in common, or the group has another protocol type."""


class UnsupportedVersion(ConsumerError):
    """The broker and the consumer have no version of an API in common that can carry the request."""


class NoOffset(ConsumerError):
    """A partition has no valid position, and ``auto_offset_reset`` is ``"none"``.

    No offset is committed, the offset is out of range, or the topic was deleted and created again.

    partitions: the affected partitions with their offsets; None where no offset is committed.
    """

    def __init__(self, partitions: dict[tuple[str, int], int | None], reason: str | None = None) -> None:
        self.partitions = partitions
        listed = ", ".join(f"{t}-{n}" + ("" if at is None else f" at {at}") for (t, n), at in partitions.items())
        out_of_range = any(at is not None for at in partitions.values())
        problem = reason or ("offset out of range" if out_of_range else "no committed offset")
        super().__init__(f"{problem}: {listed}; call seek(), or set auto_offset_reset to earliest or latest")


class LogTruncated(ConsumerError):
    """The new leader's log lacks records that were read, and ``auto_offset_reset`` is ``"none"``.

    position: offset of the next record to read.
    end: end offset of the log for the leader epoch of the position.
    """

    def __init__(self, partition: tuple[str, int], position: int, end: int) -> None:
        self.partition, self.position, self.end = partition, position, end
        super().__init__(
            f"{partition[0]}-{partition[1]} was truncated: the position is {position}, the log ends at {end}: "
            "call seek()"
        )


class CorruptRecord(ConsumerError):
    """A broker sent bytes that are not valid records. The position does not move; seek to skip them."""

    def __init__(self, partition: tuple[str, int], offset: int, reason: str) -> None:
        self.partition, self.offset = partition, offset
        super().__init__(f"{partition[0]}-{partition[1]} at offset {offset}: {reason}")


class CommitFailed(ConsumerError):
    """The commit was rejected: this consumer is no member any more, and its records may be read again by others."""


class RebalanceInProgress(ConsumerError):
    """The commit was rejected because a rebalance is in progress; poll, then commit again."""


class UnjoinedGroup(ConsumerError):
    """The member left the group before its JoinGroup was answered. The consumer joins again by itself."""


class UnknownAssignor(ConsumerError):
    """The group chose an assignor that this member does not have."""


class TimedOut(ConsumerError):
    """A call did not complete within its timeout."""


class Wakeup(ConsumerError):
    """``wakeup`` was called during or before this call."""


class ConcurrentUse(ConsumerError):
    """Two tasks use one consumer at the same time."""


class NotAssigned(ConsumerError):
    """The partition is not assigned to this consumer."""


class IllegalUse(ConsumerError):
    """The call is not allowed in this state of the consumer, such as ``assign`` after ``subscribe``."""


def name(code: int) -> str:
    """Return Kafka's name of an error code, or ``error N``."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def broker_error(code: int, where: str) -> BrokerError:
    """Return the exception for an error code; ``where``: the request that failed."""
    match code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return AuthorizationFailed(code, where)
        case ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstance(code, where)
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return InconsistentGroupProtocol(code, where)
        case _:
            return BrokerError(code, where)

"""What a consumer raises."""

from __future__ import annotations

from kwire.errorcodes import ErrorCode


class ConsumerError(Exception):
    """Something that the user of a consumer has to know."""


class BrokerError(ConsumerError):
    """A broker answered with an error that trying again does not mend. ``code``: Kafka's."""

    def __init__(self, code: int, where: str) -> None:
        self.code = code
        super().__init__(f"{where}: {name(code)}")


class AuthorizationFailed(BrokerError):
    """TOPIC_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED."""


class FencedInstance(BrokerError):
    """Another member has this member's group instance id."""


class InconsistentGroupProtocol(BrokerError):
    """No assignor that all members of the group have, or another protocol type."""


class UnsupportedVersion(ConsumerError):
    """The broker and the consumer have no version of an API in common that can carry what is to be said."""


class NoOffset(ConsumerError):
    """A partition without a committed offset, or with a position out of range, and the reset policy is ``none``.

    Also an offset of a topic that has been deleted and created again.
    """

    def __init__(self, partitions: dict[tuple[str, int], int | None], why: str | None = None) -> None:
        self.partitions = partitions
        told = ", ".join(f"{t}-{n}" + ("" if at is None else f" at {at}") for (t, n), at in partitions.items())
        outside = any(at is not None for at in partitions.values())
        what = why or ("offsets out of range" if outside else "no committed offset")
        super().__init__(f"{what} and no reset policy: {told}")


class LogTruncated(ConsumerError):
    """The log no longer has what was read, and the reset policy is ``none``. ``end``: where it ends."""

    def __init__(self, partition: tuple[str, int], position: int, end: int) -> None:
        self.partition, self.position, self.end = partition, position, end
        super().__init__(f"{partition[0]}-{partition[1]} was read up to {position}; the log now ends at {end}")


class CorruptRecord(ConsumerError):
    """Bytes that are no records. The position stays; seek to pass over them."""

    def __init__(self, partition: tuple[str, int], offset: int, why: str) -> None:
        self.partition, self.offset = partition, offset
        super().__init__(f"{partition[0]}-{partition[1]} at offset {offset}: {why}")


class CommitFailed(ConsumerError):
    """The group has gone on without this member: what it committed may be read again by another."""


class RebalanceInProgress(ConsumerError):
    """Not committed because a rebalance is going on; poll, and commit again."""


class UnjoinedGroup(ConsumerError):
    """The member was out of the group before it had joined; it joins again by itself, with this as the reason."""


class UnknownAssignor(ConsumerError):
    """The group chose an assignor that this member does not have."""


class TimedOut(ConsumerError):
    """It took longer than it was allowed to."""


class Wakeup(ConsumerError):
    """``wakeup`` was called."""


class ConcurrentUse(ConsumerError):
    """Two tasks used one consumer at the same time."""


class NotAssigned(ConsumerError):
    """A partition that this consumer does not have."""


class IllegalUse(ConsumerError):
    """What was asked for does not go with what the consumer does, as ``assign`` after ``subscribe``."""


def name(code: int) -> str:
    """Kafka's name of an error code, or its number."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def broker_error(code: int, where: str) -> BrokerError:
    """The exception for an error code."""
    match code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return AuthorizationFailed(code, where)
        case ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstance(code, where)
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return InconsistentGroupProtocol(code, where)
        case _:
            return BrokerError(code, where)

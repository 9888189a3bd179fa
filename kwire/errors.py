"""The exceptions that kwire raises, as one tree.

An exception means that the bytes or the arguments are wrong. A Kafka error code inside a message is an ordinary value
and never causes an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from json import JSONDecodeError


class WireError(ValueError):
    """Base class of all errors of kwire."""


class SchemaError(WireError):
    """The error for an invalid message declaration, an unsuitable class, or a version that the message does not have.

    A declaration is invalid if it breaks Kafka's rules. A class is unsuitable if it is not a message of the required
    kind.
    """


class EngineError(WireError):
    """The error for an engine of the codec that is unknown or not installed."""


class _LocatedError(WireError):
    """The base class of errors that name a field of a message.

    Attributes:
        reason: the problem, without message and field.
        path: path of the field, such as ``protocols[0].metadata``; "" if the field is unknown.
        message: name of the message class; "" if unknown.
        version: version of the message; None if unknown.
    """

    def __init__(self, reason: str, *, path: str = "", message: str = "", version: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.message = message
        self.version = version

    def _where(self) -> str:
        return self.message if self.version is None else f"{self.message} v{self.version}"

    def __str__(self) -> str:
        return ": ".join(part for part in (", ".join(p for p in (self._where(), self.path) if p), self.reason) if part)


class EncodeError(_LocatedError):
    """The error for a value or field that this version of the message cannot carry, or a value of the wrong type."""


class DecodeError(_LocatedError):
    """The error for bytes that are not a valid encoding of the message.

    Attributes:
        path: path of the field, such as ``protocols[0].metadata``.
        offset: offset of the first byte of the field, or of its invalid part. It counts from the start of the data that
            the caller has passed.
    """

    def __init__(
        self, reason: str, *, path: str = "", offset: int = 0, message: str = "", version: int | None = None
    ) -> None:
        super().__init__(reason, path=path, message=message, version=version)
        self.offset = offset

    def _where(self) -> str:
        return f"{super()._where()} at byte {self.offset}".lstrip()


class Truncated(DecodeError):
    """The error for data that ends before the end of a field."""


class LimitError(DecodeError):
    """The error for data that exceeds a limit.

    A length or count may exceed the limit of the field or the remaining bytes. Decoded or decompressed data may exceed
    its memory limit.
    """


class CrcError(DecodeError):
    """The error for a record batch or message whose CRC does not match its data."""


class UnknownApi(DecodeError):
    """The error for an API key, or a version of an API, that kwire does not declare."""


class UnknownRecordType(UnknownApi):
    """The error for a record type in a coordinator's topic, such as __consumer_offsets, that kwire does not declare.

    A reader of the topic may report the record and skip it.

    Attributes:
        record_type: the type, an int16 at the start of the record's key.
    """

    def __init__(self, reason: str, record_type: int, *, message: str = "") -> None:
        super().__init__(reason, message=message)
        self.record_type = record_type
        self.args = (reason, record_type)  # pickle passes them to __init__


class FrameError(WireError):
    """The error for a length prefix that is negative or above the maximum size of a frame."""


class ProtocolError(WireError):
    """The base class of errors for a violation of the protocol on a connection. Only the two subclasses are raised."""


class LocalProtocolError(ProtocolError):
    """The error for a violation of the protocol by this side, such as a response without a request."""


class RemoteProtocolError(ProtocolError):
    """The error for a violation of the protocol by the peer, such as a response out of order."""


def invalid_json(error: JSONDecodeError) -> str:
    """Return the reason why a text is not JSON, with its position, for messages."""
    return f"invalid JSON: {error.msg.removesuffix(' starting at')} at character {error.pos}"

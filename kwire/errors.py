"""The exceptions that kwire raises, as one tree.

An exception means that the bytes or the arguments are wrong. A Kafka error code inside a message is an ordinary value
and never raises.
"""

from __future__ import annotations


class WireError(ValueError):
    """Base class of all errors of kwire."""


class SchemaError(WireError):
    """A message declaration that breaks Kafka's rules, or a version that the message does not have."""


class _LocatedError(WireError):
    """Base class of errors at a field of a message.

    Attributes:
        reason: what is wrong, without the place.
        path: the field, as in ``protocols[0].metadata``; empty if no field is known.
        message: name of the message class; empty if not known.
        version: version of the message; None if not known.
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
    """A value that cannot be written in this version of the message."""


class DecodeError(_LocatedError):
    """Bytes that are not a valid encoding of the message.

    Attributes:
        path: the field, as in ``protocols[0].metadata``.
        offset: offset of the first byte of the field, or of its invalid part; counted from the start of the data passed
            in.
    """

    def __init__(
        self, reason: str, *, path: str = "", offset: int = 0, message: str = "", version: int | None = None
    ) -> None:
        super().__init__(reason, path=path, message=message, version=version)
        self.offset = offset

    def _where(self) -> str:
        return f"{super()._where()} at byte {self.offset}".lstrip()


class Truncated(DecodeError):
    """Data that ends before the field does."""


class LimitError(DecodeError):
    """A length or count above the maximum of the field, or above what the remaining bytes can contain."""


class CrcError(DecodeError):
    """A record batch whose checksum does not match its bytes."""


class UnknownApi(DecodeError):
    """An API key, or a version of an API, that kwire has no declaration for."""


class UnknownRecordType(UnknownApi):
    """A record type of a coordinator's topic that kwire has no declaration for; a log reader may report the record and
    skip it.

    Attributes:
        record_type: the type, an int16 at the start of the record's key.
    """

    def __init__(self, reason: str, record_type: int, *, message: str = "") -> None:
        super().__init__(reason, message=message)
        self.record_type = record_type


class FrameError(WireError):
    """A length prefix that is negative or above the maximum size of a frame."""


class ProtocolError(WireError):
    """Base class of violations of the order of requests and responses; only its two subclasses are raised."""


class LocalProtocolError(ProtocolError):
    """A violation of the protocol by this side, such as a response without a request."""


class RemoteProtocolError(ProtocolError):
    """A violation of the protocol by the peer, such as a response out of order."""

"""Every error that kwire raises, as one tree.

An exception means that the bytes or the caller are wrong. A Kafka error code inside a message is an ordinary value
and is never raised.
"""

from __future__ import annotations


class WireError(ValueError):
    """Root of all errors of this package."""


class SchemaError(WireError):
    """A message declaration breaks Kafka's own rules, or a version is asked for that the message does not have."""


class _LocatedError(WireError):
    """An error at a field of a message: ``message`` is the class name, ``version`` None until it is known."""

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
    """A value cannot be written in this version. ``path`` names the field, as in ``protocols[0].metadata``."""


class DecodeError(_LocatedError):
    """Bytes are not the message they should be.

    ``path`` names the field, ``offset`` the byte (counted from the start of what was given) where that field, or the
    part of it that is wrong, begins.
    """

    def __init__(
        self, reason: str, *, path: str = "", offset: int = 0, message: str = "", version: int | None = None
    ) -> None:
        super().__init__(reason, path=path, message=message, version=version)
        self.offset = offset

    def _where(self) -> str:
        return f"{super()._where()} at byte {self.offset}".lstrip()


class Truncated(DecodeError):
    """The bytes end before the field does."""


class LimitError(DecodeError):
    """A length or count is beyond what a field may have, or what the bytes left could hold."""


class CrcError(DecodeError):
    """The checksum of a record batch does not match its bytes."""


class UnknownApi(DecodeError):
    """No declaration for this API key, or not for this version of it."""


class UnknownRecordType(UnknownApi):
    """No declaration for records of this type, in a topic of coordinators. A reader of a log may report and skip it."""

    def __init__(self, reason: str, record_type: int, *, message: str = "") -> None:
        super().__init__(reason, message=message)
        self.record_type = record_type


class FrameError(WireError):
    """A length prefix that cannot begin a Kafka frame."""


class ProtocolError(WireError):
    """The order of a conversation was broken. Never raised itself, only its two children."""


class LocalProtocolError(ProtocolError):
    """Our side broke the rules."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the rules."""

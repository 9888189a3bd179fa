"""Replacement of names in messages that are stored in bytes fields of group requests and responses.

These messages are subscriptions and assignments of consumers, Connect and Streams. If the bytes of a field cannot be
decoded as such a message, they are replaced by a pseudonym of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire import codec
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.blobs import BLOBS, body_offset, readable_version, stored_version
from kwire.blobs.fields import CONSUMER, INSIDE
from kwire.blobs.sticky import CooperativeStickyUserData, decode_user_data
from kwire.errors import WireError
from kwire.lazy_dataclass import dataclass

CONNECT = "connect"
SUBSCRIPTION, ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"
OF_CONNECT = {SUBSCRIPTION: "ConnectWorkerState", ASSIGNMENT: "ConnectAssignment"}
OF_STREAMS = {SUBSCRIPTION: "SubscriptionInfoData", ASSIGNMENT: "AssignmentInfo"}
STREAMS_ASSIGNOR, STICKY, COOPERATIVE_STICKY = "stream", "sticky", "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class Context:
    """The properties of a group that determine which class of message the bytes fields of its requests contain.

    Attributes:
        protocol_type: protocol type of the group; None if unknown.
        assignor: name of the group's assignor; None if unknown.
    """

    protocol_type: str | None = None
    assignor: str | None = None


class Stored:
    """A converter that replaces strings and bytes in messages that are stored in bytes fields.

    Args:
        names: pseudonyms of bytes.
        replace: function that replaces the contents of a decoded message in place. Its arguments are the message, the
            version and the Context.
    """

    def __init__(self, names: Pseudonyms, replace: Callable[[Any, int, Context], None]) -> None:
        self._names = names
        self._replace = replace

    def inside(self, field: str, data: bytes, context: Context) -> bytes:
        """Return the content of a bytes field with a subscription or an assignment, with replaced strings and bytes.

        Args:
            field: qualified name of the field, a key of ``INSIDE``.
            data: content of the field.
            context: protocol type and assignor of the group.
        """
        blob = INSIDE[field]
        if context.protocol_type in (None, CONSUMER) and (new := self._message(blob, data, context)) is not None:
            return new
        if context.protocol_type in (None, CONNECT) and (new := self._message(OF_CONNECT[blob], data, context)):
            return new
        return self._names.data(data)

    def allocation(self, data: bytes) -> bytes:
        """Return the assignment that a Connect worker sends in its metadata, with replaced strings and bytes."""
        new = self._message("ConnectAssignment", data, Context(CONNECT))
        return self._names.data(data) if new is None else new

    def user_data(self, owner: type, data: bytes, context: Context) -> bytes:
        """Return the user data of a subscription or an assignment, with replaced strings and bytes.

        Strings and bytes are replaced in the user data of Kafka Streams, and in that of subscriptions with the sticky
        and cooperative-sticky assignors. Other user data, and user data that cannot be decoded, is replaced by a
        pseudonym of all its bytes.

        Args:
            owner: class of the subscription or assignment.
            data: content of the field ``user_data``.
            context: protocol type and assignor of the group.
        """
        new: bytes | None = None
        if context.assignor == STREAMS_ASSIGNOR:
            new = self._message(OF_STREAMS[owner.__name__], data, context)
        elif owner.__name__ == SUBSCRIPTION and context.assignor in (STICKY, COOPERATIVE_STICKY):
            new = self._sticky(data, context)
        return self._names.data(data) if new is None else new

    def _message(self, name: str, data: bytes, context: Context) -> bytes | None:
        """Return a stored message with replaced strings and bytes.

        The result is None if the bytes are not valid, or if bytes follow the message.

        Args:
            name: name of the message, a key of ``BLOBS``.
            data: bytes that are stored: version or record type, then the message.
            context: protocol type and assignor of the group.
        """
        blob = BLOBS[name]
        value: Any
        try:
            version = readable_version(blob, stored_version(blob, data))
            offset = body_offset(blob)
            value, end = codec.decode_at(blob, data, offset, version)
            if end != len(data):
                return None
            self._replace(value, version, context)
            return data[:offset] + codec.encode(value, version)
        except WireError:
            return None

    def _sticky(self, data: bytes, context: Context) -> bytes | None:
        value: Any
        try:
            if context.assignor == COOPERATIVE_STICKY:
                codec.decode(CooperativeStickyUserData, data, 0, strict=True)
                return data  # only a number
            value, version, end = decode_user_data(data)
            if end != len(data):
                return None
            self._replace(value, version, context)
            return codec.encode(value, version)
        except WireError:
            return None

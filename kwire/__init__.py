"""Every Kafka wire message, in every version, from one declaration each.

``decode_request`` and ``decode_response`` read frames (without the length prefix), ``encode_request`` and
``encode_response`` write them; ``decode`` and ``encode`` do bodies alone. ``APIS[key]`` has the message classes.
"""

from kwire.codec import decode, encode, struct
from kwire.connection import ClientSide, ServerSide
from kwire.envelope import Request, Response, decode_request, decode_response, encode_request, encode_response
from kwire.errorcodes import ErrorCode
from kwire.errors import (
    CrcError,
    DecodeError,
    EncodeError,
    FrameError,
    LimitError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    SchemaError,
    Truncated,
    UnknownApi,
    UnknownRecordType,
    WireError,
)
from kwire.frames import FrameBuffer
from kwire.layout import resolve
from kwire.messages import APIS
from kwire.schema import unknown_tags

__version__ = "0.1.0"

__all__ = [
    "APIS",
    "ClientSide",
    "CrcError",
    "DecodeError",
    "EncodeError",
    "ErrorCode",
    "FrameBuffer",
    "FrameError",
    "LimitError",
    "LocalProtocolError",
    "ProtocolError",
    "RemoteProtocolError",
    "Request",
    "Response",
    "SchemaError",
    "ServerSide",
    "Truncated",
    "UnknownApi",
    "UnknownRecordType",
    "WireError",
    "decode",
    "decode_request",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "resolve",
    "struct",
    "unknown_tags",
]

"""Kafka's wire protocol: every message in every version, from one declaration each.

``decode_request`` and ``decode_response`` decode frames (without the length prefix), ``encode_request`` and
``encode_response`` encode them; ``decode`` and ``encode`` handle bodies alone. ``APIS`` maps each API key to its
``Api``, which contains the message classes.
"""

TYPE_CHECKING = False  # type checkers take it as true; importing typing would take longer than this whole module
if TYPE_CHECKING:
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
else:  # loaded on first access: importing one name does not load construct, compression and every message
    from kwire.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "codec": ("decode", "encode", "struct"),
            "connection": ("ClientSide", "ServerSide"),
            "envelope": (
                "Request",
                "Response",
                "decode_request",
                "decode_response",
                "encode_request",
                "encode_response",
            ),
            "errorcodes": ("ErrorCode",),
            "errors": (
                "CrcError",
                "DecodeError",
                "EncodeError",
                "FrameError",
                "LimitError",
                "LocalProtocolError",
                "ProtocolError",
                "RemoteProtocolError",
                "SchemaError",
                "Truncated",
                "UnknownApi",
                "UnknownRecordType",
                "WireError",
            ),
            "frames": ("FrameBuffer",),
            "layout": ("resolve",),
            "messages": ("APIS",),
            "schema": ("unknown_tags",),
        },
    )


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

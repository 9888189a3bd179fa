"""The public names of kwire. Type checkers read this file; ``__init__.py`` imports each name on first use."""

from kwire.codec import decode as decode
from kwire.codec import encode as encode
from kwire.codec import struct as struct
from kwire.connection import ClientSide as ClientSide
from kwire.connection import ServerSide as ServerSide
from kwire.envelope import Request as Request
from kwire.envelope import Response as Response
from kwire.envelope import decode_request as decode_request
from kwire.envelope import decode_response as decode_response
from kwire.envelope import encode_request as encode_request
from kwire.envelope import encode_response as encode_response
from kwire.errorcodes import ErrorCode as ErrorCode
from kwire.errors import CrcError as CrcError
from kwire.errors import DecodeError as DecodeError
from kwire.errors import EncodeError as EncodeError
from kwire.errors import EngineError as EngineError
from kwire.errors import FrameError as FrameError
from kwire.errors import LimitError as LimitError
from kwire.errors import LocalProtocolError as LocalProtocolError
from kwire.errors import ProtocolError as ProtocolError
from kwire.errors import RemoteProtocolError as RemoteProtocolError
from kwire.errors import SchemaError as SchemaError
from kwire.errors import Truncated as Truncated
from kwire.errors import UnknownApi as UnknownApi
from kwire.errors import UnknownRecordType as UnknownRecordType
from kwire.errors import WireError as WireError
from kwire.frames import FrameBuffer as FrameBuffer
from kwire.layout import resolve as resolve
from kwire.messages import APIS as APIS
from kwire.schema import unknown_tags as unknown_tags

__version__: str

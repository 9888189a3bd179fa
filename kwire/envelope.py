"""Frames with their headers: what stands behind a length prefix on a Kafka connection."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from kwire import codec
from kwire.apikeys import ApiKey
from kwire.codec import Engine
from kwire.errors import DecodeError, SchemaError, Truncated, UnknownApi
from kwire.frames import PREFIX, pack
from kwire.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kwire.messages import APIS
from kwire.schema import Api, schema_of

UNSUPPORTED_VERSION = 35


@dataclass(slots=True, kw_only=True)
class Request:
    """A decoded request. ``trailing``: bytes behind the body, which Kafka ignores."""

    api: Api
    version: int
    header: RequestHeader
    body: object
    trailing: bytes = b""


@dataclass(slots=True, kw_only=True)
class Response:
    """A decoded response. ``version`` is that of the body: 0 when ApiVersions was asked for one too new."""

    api: Api
    version: int
    header: ResponseHeader
    body: object
    trailing: bytes = b""


def peek_request(frame: bytes) -> tuple[int, int]:
    """API key and version of a request, before anything else is looked at. Raises: Truncated."""
    if len(frame) < 4:
        raise Truncated(f"expected 4 bytes of API key and version, found {len(frame)}", message="RequestHeader")
    key, version = struct.unpack_from(">hh", frame)
    return key, version


def find_api(key: int, version: int) -> Api:
    """The API, if it has that version. Raises: UnknownApi."""
    if key not in APIS:
        raise UnknownApi(f"API key {key} is not known", path="request_api_key", message="RequestHeader")
    api = APIS[key]
    if version not in api.versions:
        raise UnknownApi(
            f"{api.name} has versions {api.versions}, not {version}",
            path="request_api_version",
            offset=2,
            message="RequestHeader",
        )
    return api


def request_form(frame: bytes) -> tuple[Api, int, int]:
    """API, version, and version of the header, of a request.

    An ApiVersions request in a version that does not exist still has a header that can be read.
    Raises: Truncated, UnknownApi.
    """
    key, version = peek_request(frame)
    api = APIS[key] if key == ApiKey.API_VERSIONS else find_api(key, version)
    return api, version, request_header_version(api, version)


def decode_request_header(frame: bytes, *, engine: Engine = "compiled") -> tuple[Api, RequestHeader, int]:
    """API, header, and where the body begins. Raises: DecodeError."""
    api, _, header_version = request_form(frame)
    header, at = codec.decode_at(RequestHeader, frame, 0, header_version, engine=engine)
    return api, header, at


def decode_request(frame: bytes, *, engine: Engine = "compiled", strict: bool = False) -> Request:
    """A request frame without its length prefix. ``strict`` as in ``decode``, for header and body.

    Raises: DecodeError; byte offsets count from the start of the frame.
    """
    api, header, at = decode_request_header(frame, engine=engine)
    version = header.request_api_version
    find_api(api.key, version)
    body, end = codec.decode_at(api.request, frame, at, version, engine=engine)
    if strict:
        codec.check_strict(header, frame[:at], 0, at, request_header_version(api, version), engine=engine)
        codec.check_strict(body, frame, at, end, version, engine=engine)
    return Request(api=api, version=version, header=header, body=body, trailing=frame[end:])


def response_api(api_key: int, api_version: int) -> tuple[Api, int]:
    """The API of a response, and the version that its body may have at most. Raises: UnknownApi."""
    if api_key == ApiKey.API_VERSIONS and api_version not in APIS[ApiKey.API_VERSIONS].versions:
        api_version = 0
    return find_api(api_key, api_version), api_version


def answers_unsupported(api: Api, frame: bytes, at: int) -> bool:
    """True if the body that begins at ``at`` says that ApiVersions was asked for in a version too new."""
    return api.key == ApiKey.API_VERSIONS and frame[at : at + 2] == struct.pack(">h", UNSUPPORTED_VERSION)


def decode_response(
    frame: bytes, api_key: int, api_version: int, *, engine: Engine = "compiled", strict: bool = False
) -> Response:
    """A response frame without its length prefix, to a request of this API and version.

    Raises: DecodeError; byte offsets count from the start of the frame.
    """
    api, api_version = response_api(api_key, api_version)
    header_version = response_header_version(api, api_version)
    header, at = codec.decode_at(ResponseHeader, frame, 0, header_version, engine=engine)
    try:
        body, end = codec.decode_at(api.response, frame, at, api_version, engine=engine)
    except DecodeError:
        if not answers_unsupported(api, frame, at):
            raise
        api_version = 0  # a broker that does not have the version asked for answers in this one
        body, end = codec.decode_at(api.response, frame, at, api_version, engine=engine)
    if strict:
        codec.check_strict(header, frame[:at], 0, at, header_version, engine=engine)
        codec.check_strict(body, frame, at, end, api_version, engine=engine)
    return Response(api=api, version=api_version, header=header, body=body, trailing=frame[end:])


def encode_request(
    body: object,
    version: int,
    *,
    correlation_id: int,
    client_id: str | None = None,
    header: RequestHeader | None = None,
    engine: Engine = "compiled",
) -> bytes:
    """A request frame without its length prefix; ``header`` instead of the two ids keeps unknown tags.

    Raises: EncodeError, SchemaError.
    """
    api = _api_of(type(body), "request")
    if header is None:
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
    elif (header.request_api_key, header.request_api_version) != (api.key, version):
        said = f"API key {header.request_api_key} v{header.request_api_version}"
        raise SchemaError(f"the header says {said}, the body is {api.name} v{version}")
    encoded = codec.encode(header, request_header_version(api, version), engine=engine)
    return encoded + codec.encode(body, version, engine=engine)


def encode_response(
    body: object,
    version: int,
    *,
    correlation_id: int,
    header: ResponseHeader | None = None,
    engine: Engine = "compiled",
) -> bytes:
    """A response frame without its length prefix. Raises: EncodeError, SchemaError."""
    if header is None:
        encoded = codec.encode(body, version, engine=engine)
        return pack_response(encoded, body.__class__, version, correlation_id)[PREFIX.size :]
    header_version = response_header_version(_api_of(type(body), "response"), version)
    return codec.encode(header, header_version, engine=engine) + codec.encode(body, version, engine=engine)


def pack_response(encoded: bytes, message: type, version: int, correlation_id: int) -> bytes:
    """A response frame behind its length, ready to be sent, of a body that is encoded already and of this class.

    Raises: EncodeError, SchemaError.
    """
    try:
        write_head, size = _response_head(message, version)
        return write_head(size + len(encoded), correlation_id) + encoded
    except struct.error:
        header_version = response_header_version(_api_of(message, "response"), version)
        header = codec.encode(ResponseHeader(correlation_id=correlation_id), header_version)  # says what is wrong
        return pack(header + encoded)


@cache
def _response_head(message: type, version: int) -> tuple[Callable[[int, int], bytes], int]:
    """What writes a length and a response header without tagged fields, of which v1 says so; the header's size."""
    tagged = response_header_version(_api_of(message, "response"), version) >= 1
    head = struct.Struct(">iix" if tagged else ">ii")
    return head.pack, head.size - PREFIX.size


def _api_of(message: type, side: str) -> Api:
    api = schema_of(message).api
    if api is None or getattr(api, side) is not message:
        raise SchemaError(f"{message.__name__} is not a {side}")
    return api

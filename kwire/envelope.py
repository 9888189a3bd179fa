"""Requests and responses as frames: a header followed by a body, without the length prefix."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, overload

from kwire import codec
from kwire.apikeys import ApiKey
from kwire.engines.chosen import Engine
from kwire.errors import DecodeError, SchemaError, Truncated, UnknownApi
from kwire.frames import PREFIX, pack
from kwire.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from kwire.schema import Api, schema_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Any)  # Request is Request
else:
    from typing import TypeVar

    M = TypeVar("M")

UNSUPPORTED_VERSION = 35


@dataclass(slots=True, kw_only=True)
class Request(Generic[M]):
    """A decoded request frame: its API, version, header and body.

    Attributes:
        api: API of the request.
        version: version of the request.
        header: decoded header.
        body: the message, such as a ``JoinGroupRequest``.
        trailing: bytes after the body, which Kafka ignores.
    """

    api: Api
    version: int
    header: RequestHeader
    body: M
    trailing: bytes = b""


@dataclass(slots=True, kw_only=True)
class Response(Generic[M]):
    """A decoded response frame: its API, version, header and body.

    Attributes:
        api: API of the response.
        version: version of the body; 0 if the broker answered ApiVersions with UNSUPPORTED_VERSION.
        header: decoded header.
        body: the message, such as a ``JoinGroupResponse``.
        trailing: bytes after the body, which Kafka ignores.
    """

    api: Api
    version: int
    header: ResponseHeader
    body: M
    trailing: bytes = b""


def peek_request(frame: bytes) -> tuple[int, int]:
    """Return API key and version of a request without decoding the rest.

    Raises: Truncated if the bytes end too early.
    """
    if len(frame) < 4:
        raise Truncated(f"expected 4 bytes of API key and version, found {len(frame)}", message="RequestHeader")
    key, version = struct.unpack_from(">hh", frame)
    return key, version


def find_api(key: int, version: int) -> Api:
    """Return the API with key ``key``. Raises: UnknownApi if kwire has no such API, or the API has no version
    ``version``.
    """
    if key not in APIS:
        raise UnknownApi(f"unknown API key {key}", path="request_api_key", message="RequestHeader")
    api = APIS[key]
    if version not in api.versions:
        raise UnknownApi(
            f"{api.name} has no version {version}: its versions are {api.versions}",
            path="request_api_version",
            offset=2,
            message="RequestHeader",
        )
    return api


def request_form(frame: bytes) -> tuple[Api, int, int]:
    """Return API, version and header version of a request.

    A request of ApiVersions may have any version, also a version that kwire does not know: its header can always be
    decoded.

    Raises: Truncated if the bytes end too early; UnknownApi for an API key that kwire does not declare, or for an
    unknown version of an API that is not ApiVersions.
    """
    key, version = peek_request(frame)
    api = APIS[key] if key == ApiKey.API_VERSIONS else find_api(key, version)
    return api, version, request_header_version(api, version)


def decode_request_header(frame: bytes, *, engine: Engine | None = None) -> tuple[Api, RequestHeader, int]:
    """Decode the header of a request; return the API, the header and the offset of the body.

    Raises: DecodeError if the bytes are not valid.
    """
    api, _, header_version = request_form(frame)
    header, at = codec.decode_at(RequestHeader, frame, 0, header_version, engine=engine)
    return api, header, at


@overload
def decode_request(
    frame: bytes, message: type[M], *, engine: Engine | None = None, strict: bool = False
) -> Request[M]: ...
@overload
def decode_request(
    frame: bytes, message: None = None, *, engine: Engine | None = None, strict: bool = False
) -> Request: ...
def decode_request(
    frame: bytes, message: type[Any] | None = None, *, engine: Engine | None = None, strict: bool = False
) -> Request:
    """Decode a request frame, without its length prefix.

    Args:
        frame: header and body of the request.
        message: the expected class of the body, such as ``JoinGroupRequest``; type checkers then know the type of
            ``body``. None for any request.
        engine: "native", "compiled" or "reference"; None for the default.
        strict: True to accept only the canonical encoding of header and body, see ``kwire.decode``.

    Raises:
        DecodeError: the frame is invalid, or it is not a ``message``; the offset counts from the start of the frame.
    """
    api, header, at = decode_request_header(frame, engine=engine)
    version = header.request_api_version
    find_api(api.key, version)
    _check_expected(message, api.request, version)
    body, end = codec.decode_at(api.request, frame, at, version, engine=engine)
    if strict:
        codec.check_strict(header, frame[:at], 0, at, request_header_version(api, version), engine=engine)
        codec.check_strict(body, frame, at, end, version, engine=engine)
    return Request(api=api, version=version, header=header, body=body, trailing=frame[end:])


def decode_request_in_slices(frame: bytes, size: int) -> Generator[None, None, Request]:
    """Decode a request frame; yield after every ``size`` array elements, so that the caller can do other work.

    The generator finally returns the result of ``decode_request``. Raises: DecodeError if the frame is invalid.

    Args:
        frame: header and body of the request, without a length prefix.
        size: number of array elements between two yields.
    """
    api, header, at = decode_request_header(frame)
    version = header.request_api_version
    find_api(api.key, version)
    body, end = yield from codec.decode_in_slices(api.request, frame, at, version, size)
    return Request(api=api, version=version, header=header, body=body, trailing=frame[end:])


def string_length(data: bytes, at: int, *, compact: bool) -> tuple[int, int]:
    """Return the encoded length of a string, and the offset after the length. The length is negative for a null string.

    Args:
        data: the frame.
        at: offset of the length.
        compact: True for an unsigned varint of length + 1, False for an int16.

    Raises: struct.error or IndexError if the bytes end too early; IndexError also for a varint of more than five bytes.
    """
    if not compact:
        return struct.unpack_from(">h", data, at)[0], at + 2
    size = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size - 1, at
    raise IndexError


def produce_acks(frame: bytes, at: int, version: int) -> int | None:
    """Return ``acks`` of a Produce request; None if the bytes that contain it are missing.

    Args:
        frame: the request.
        at: offset of the body.
        version: API version.
    """
    try:
        if version >= 3:
            size, at = string_length(frame, at, compact=version >= 9)
            at += max(size, 0)
        acks: int = struct.unpack_from(">h", frame, at)[0]
    except (struct.error, IndexError):
        return None
    return acks


def response_api(api_key: int, api_version: int) -> tuple[Api, int]:
    """Return the API of a response and the version of its body.

    The version is 0 for an ApiVersions request in a version that kwire does not know, because brokers then answer in
    version 0.

    Raises: UnknownApi for an API key that kwire does not declare, or for an unknown version of an API that is not
    ApiVersions.
    """
    if api_key == ApiKey.API_VERSIONS and api_version not in APIS[ApiKey.API_VERSIONS].versions:
        api_version = 0
    try:
        return find_api(api_key, api_version), api_version
    except UnknownApi as error:  # the frame contains neither key nor version
        raise UnknownApi(error.reason, message="ResponseHeader") from error


def answers_unsupported(api: Api, frame: bytes, at: int) -> bool:
    """Return True if the body of a response frame is an ApiVersions response with the error UNSUPPORTED_VERSION.

    Args:
        api: API of the response.
        frame: the response frame.
        at: offset of the body in the frame.
    """
    return api.key == ApiKey.API_VERSIONS and frame[at : at + 2] == struct.pack(">h", UNSUPPORTED_VERSION)


@overload
def decode_response(
    frame: bytes,
    api_key: int,
    api_version: int,
    message: type[M],
    *,
    engine: Engine | None = None,
    strict: bool = False,
) -> Response[M]: ...
@overload
def decode_response(
    frame: bytes,
    api_key: int,
    api_version: int,
    message: None = None,
    *,
    engine: Engine | None = None,
    strict: bool = False,
) -> Response: ...
def decode_response(
    frame: bytes,
    api_key: int,
    api_version: int,
    message: type[Any] | None = None,
    *,
    engine: Engine | None = None,
    strict: bool = False,
) -> Response:
    """Decode a response frame, without its length prefix.

    Args:
        frame: header and body of the response.
        api_key: API key of the request.
        api_version: version of the request.
        message: the expected class of the body, such as ``JoinGroupResponse``; type checkers then know the type of
            ``body``. None for any response.
        engine: "native", "compiled" or "reference"; None for the default.
        strict: True to accept only the canonical encoding of header and body, see ``kwire.decode``.

    Raises:
        DecodeError: the frame is invalid, or it is not a ``message``; the offset counts from the start of the frame.
    """
    api, api_version = response_api(api_key, api_version)
    _check_expected(message, api.response, api_version)
    header_version = response_header_version(api, api_version)
    header, at = codec.decode_at(ResponseHeader, frame, 0, header_version, engine=engine)
    try:
        body, end = codec.decode_at(api.response, frame, at, api_version, engine=engine)
    except DecodeError:
        if not answers_unsupported(api, frame, at):
            raise
        api_version = 0  # a broker that does not support the requested version answers in version 0
        body, end = codec.decode_at(api.response, frame, at, api_version, engine=engine)
    if strict:
        codec.check_strict(header, frame[:at], 0, at, header_version, engine=engine)
        codec.check_strict(body, frame, at, end, api_version, engine=engine)
    return Response(api=api, version=api_version, header=header, body=body, trailing=frame[end:])


def _check_expected(expected: type | None, found: type, version: int) -> None:
    """Raise DecodeError if a frame contains a different message from the one that the caller expects."""
    if expected is not None and expected is not found:
        raise DecodeError(f"the frame contains {found.__name__} v{version} instead", message=expected.__name__)


def decode_response_in_slices(
    frame: bytes, api_key: int, api_version: int, size: int
) -> Generator[None, None, Response]:
    """Decode a response frame; yield after every ``size`` array elements, so that the caller can do other work.

    The generator finally returns the result of ``decode_response``. Raises: DecodeError if the frame is invalid.

    Args:
        frame: header and body of the response, without a length prefix.
        api_key: API key of the request.
        api_version: version of the request.
        size: number of array elements between two yields.
    """
    api, version = response_api(api_key, api_version)
    header, at = codec.decode_at(ResponseHeader, frame, 0, response_header_version(api, version))
    try:
        body, end = yield from codec.decode_in_slices(api.response, frame, at, version, size)
    except DecodeError:  # it may be in version 0
        return decode_response(frame, api_key, api_version)
    return Response(api=api, version=version, header=header, body=body, trailing=frame[end:])


def encode_request(
    body: object,
    version: int,
    *,
    correlation_id: int,
    client_id: str | None = None,
    header: RequestHeader | None = None,
    engine: Engine | None = None,
) -> bytes:
    """Return a request frame, without its length prefix.

    Args:
        body: the request.
        version: version of the request.
        correlation_id: number of the request; the response contains the same number.
        client_id: client id in the header; None for null.
        header: complete header of the same API and version, used instead of ``correlation_id`` and ``client_id``; its
            unknown tagged fields are written too.
        engine: "native", "compiled" or "reference"; None for the default.

    Raises: EncodeError if a value cannot be encoded; SchemaError if the message does not have this version, if ``body``
    is not a request, or if ``header`` is for a different API or version.
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
        other = f"API key {header.request_api_key} v{header.request_api_version}"
        raise SchemaError(
            f"the header is for {other}, but the body is {api.name} v{version}: use the same API and version"
        )
    encoded = codec.encode(header, request_header_version(api, version), engine=engine)
    return encoded + codec.encode(body, version, engine=engine)


def encode_response(
    body: object,
    version: int,
    *,
    correlation_id: int,
    header: ResponseHeader | None = None,
    engine: Engine | None = None,
) -> bytes:
    """Return a response frame, without its length prefix.

    Args:
        body: the response.
        version: version of the request.
        correlation_id: correlation id of the request.
        header: complete header, used instead of ``correlation_id``; its unknown tagged fields are written too.
        engine: "native", "compiled" or "reference"; None for the default.

    Raises: EncodeError if a value cannot be encoded; SchemaError if the message does not have this version, or if
    ``body`` is not a response.
    """
    api = _api_of(type(body), "response")
    if header is None:
        encoded = codec.encode(body, version, engine=engine)
        return pack_response(encoded, api.key, version, correlation_id)[PREFIX.size :]
    header_version = response_header_version(api, version)
    return codec.encode(header, header_version, engine=engine) + codec.encode(body, version, engine=engine)


def pack_response(encoded: bytes, api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the bytes to send for an encoded response body: length prefix, header and body.

    Args:
        encoded: the encoded body.
        api_key: API key of the request.
        version: version of the request, and of the body.
        correlation_id: correlation id of the request.

    Raises: EncodeError if a value cannot be encoded.
    """
    try:
        write_head, size = _response_head(api_key, version)
        return write_head(size + len(encoded), correlation_id) + encoded
    except struct.error:
        header_version = response_header_version(APIS[api_key], version)
        header = codec.encode(
            ResponseHeader(correlation_id=correlation_id), header_version
        )  # raises the error with the field
        return pack(header + encoded)


@cache
def _response_head(api_key: int, version: int) -> tuple[Callable[[int, int], bytes], int]:
    """Return a function that packs the length prefix and the header of a response, and the size of this header in
    bytes.

    The function gets the length and the correlation id. The header has no tagged fields.
    """
    tagged = response_header_version(APIS[api_key], version) >= 1
    head = struct.Struct(">iix" if tagged else ">ii")
    return head.pack, head.size - PREFIX.size


def _api_of(message: type, side: str) -> Api:
    api = schema_of(message).api
    if api is None or getattr(api, side) is not message:
        raise SchemaError(f"{message.__name__} is not a {side}")
    return api

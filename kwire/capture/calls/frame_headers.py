"""Decoding of frame headers in captures (API, version, start of the body), and checks whether bytes can be a header."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from kwire import codec
from kwire.apikeys import ApiKey
from kwire.engines.chosen import readers
from kwire.engines.compiled import REFUSALS
from kwire.envelope import string_length
from kwire.errors import DecodeError
from kwire.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kwire.layout import Text, resolve
from kwire.limits import UNWEIGHED
from kwire.messages import APIS

HEADER = struct.Struct(">hhih").unpack_from  # api key, version, correlation id, length of the client id
INT32 = struct.Struct(">i").unpack_from
new = tuple.__new__  # creates a named tuple without its slower constructor
LEAST_REQUEST = 10  # bytes; only ControlledShutdown v0, which clients do not send, is shorter
LEAST_RESPONSE = 4
MAX_KEY, MAX_VERSION = 10_000, 1_000  # for future APIs; above these it is another protocol


class Form(NamedTuple):
    """The header versions and message classes of one API version.

    Attributes:
        name: name of the API.
        version: version of the API.
        request: class of the request.
        response: class of the response.
        request_header: header version of the request.
        response_header: header version of the response.
    """

    name: str
    version: int
    request: type
    response: type
    request_header: int
    response_header: int


@cache
def form_of(key: int, version: int) -> Form | None:
    """Return the header versions and classes for one version of an API; None if the API or the version is unknown.

    Args:
        key: API key.
        version: API version.
    """
    if key not in APIS or version not in APIS[key].versions:
        return None
    api = APIS[key]
    headers = request_header_version(api, version), response_header_version(api, version)
    return Form(api.name, version, api.request, api.response, *headers)


def body_at(message: type, data: bytes, at: int, version: int) -> tuple[Any, int]:
    """Decode the message that begins at an offset; return the message and the offset after it.

    The result is the same as from ``codec.decode_at``; for small messages this function is faster.

    Args:
        message: class of the message.
        data: bytes that contain the message.
        at: offset of the message.
        version: version of the message.

    Raises: DecodeError if the message is not valid.
    """
    if len(data) - at <= UNWEIGHED:
        try:
            return readers[message][version](data, at)
        except REFUSALS:
            pass
    return codec.decode_at(message, data, at, version)


class Header(NamedTuple):
    """The decoded header of a request.

    Attributes:
        key: API key.
        version: API version.
        correlation_id: correlation id.
        client_id: client id, as encoded; None for null.
        body: offset of the request's body in the data.
        form: header versions and classes of the API version; None for an unknown API or version.
    """

    key: int
    version: int
    correlation_id: int
    client_id: bytes | None
    body: int
    form: Form | None


def read_header(data: bytes, at: int) -> Header:
    """Decode a request header. Raises: DecodeError or struct.error if the header is invalid or incomplete.

    Args:
        data: bytes of the request.
        at: offset of the header.
    """
    key, version, correlation_id, size = HEADER(data, at)
    body = at + 10
    client_id = None
    if size >= 0:
        client_id = data[body : body + size]
        body += size
    if body > len(data):
        raise DecodeError("the client id is longer than the data")
    form = form_of(key, version)
    if form.request_header == 2 if form else key == ApiKey.API_VERSIONS:
        if data[body : body + 1] == b"\0":
            body += 1
        else:
            _, body = codec.decode_at(RequestHeader, data, at, 2)
    return new(Header, (key, version, correlation_id, client_id, body, form))


def cut_header(data: bytes, at: int, known: bytes | None) -> Header | None:
    """Decode the captured part of a truncated request header; return None if the correlation id is missing.

    In the result, ``body`` is the offset of the end of the data.

    Args:
        data: bytes of the request.
        at: offset of the header.
        known: client id of the connection, as encoded; None if unknown. If the client id in the header is truncated,
            ``known`` is used instead, provided that its length and its first bytes are equal to those in the header.
    """
    if len(data) < at + 8:
        return None
    key, version, correlation_id = struct.unpack_from(">hhi", data, at)
    client_id = None
    if known is not None and data[at + 8 : at + 10] == len(known).to_bytes(2, "big"):
        client_id = known if known.startswith(data[at + 10 :]) else None
    return Header(key, version, correlation_id, client_id, len(data), form_of(key, version))


def is_plausible(header: Header) -> bool:
    """Return whether a Kafka client could send this header, although the API or the version is unknown."""
    if not (0 <= header.key < MAX_KEY and 0 <= header.version < MAX_VERSION):
        return False
    try:
        return (header.client_id or b"").decode().isprintable()
    except UnicodeDecodeError:
        return False


def response_body(form: Form, data: bytes, at: int) -> int:
    """Return the offset of the body in a response. Raises: DecodeError if the bytes are not valid.

    Args:
        form: header versions and classes of the request's API version.
        data: the response.
        at: offset of the header.
    """
    if form.response_header == 0:
        return at + 4
    if data[at + 4 : at + 5] == b"\0":
        return at + 5
    return codec.decode_at(ResponseHeader, data, at, 1)[1]


def leading_group(form: Form, data: bytes, at: int) -> str | None:
    """Return the group id of a request without decoding the body, of which only the first bytes have to be present.

    The result is None if a field that is not a string precedes the group id, if the request has no group id, or if the
    bytes of the group id are missing.

    Args:
        form: header versions and classes of the request's API version.
        data: the request.
        at: offset of the body.
    """
    for slot in resolve(form.request, form.version).slots:
        if not isinstance(slot.node, Text):
            return None
        try:
            size, at = string_length(data, at, compact=slot.node.compact)
        except (struct.error, IndexError):
            return None
        end = at + max(size, 0)
        if slot.name == "group_id":
            return data[at:end].decode("utf-8", "replace") if end <= len(data) else None
        at = end
    return None


def is_tls(data: bytes) -> bool:
    """Return whether data begins with a TLS record.

    Such data cannot be Kafka: the first four bytes as a length prefix exceed the maximum frame size.
    """
    return len(data) >= 3 and 20 <= data[0] <= 23 and data[1] == 3 and data[2] <= 4


def hello_sender(data: bytes) -> bool | None:
    """Return True for a TLS record with a ClientHello, False for a ServerHello, None for any other bytes."""
    return {b"\x01": True, b"\x02": False}.get(data[5:6]) if data[:1] == b"\x16" else None


def server_name(hello: bytes) -> str | None:
    """Return the server name (SNI) in a TLS ClientHello; None if the first TLS record contains no server name."""
    try:
        at = 5 + 4 + 2 + 32
        if hello[0] != 22 or hello[5] != 1:
            return None
        at += 1 + hello[at]
        at += 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 1 + hello[at]
        end = at + 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 2
        while at + 4 <= min(end, len(hello)):
            kind, size = struct.unpack_from(">HH", hello, at)
            if kind == 0:
                (length,) = struct.unpack_from(">H", hello, at + 7)
                name = hello[at + 9 : at + 9 + length].decode("ascii")
                return name if name.isprintable() else None
            at += 4 + size
    except (IndexError, struct.error, UnicodeDecodeError):
        pass
    return None

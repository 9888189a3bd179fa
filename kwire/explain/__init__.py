"""Explanation of a frame, field by field: bytes, name, wire type, value and meaning of each field.

An Explanation is a tree of Pieces; a Piece describes a range of bytes. The leaves of the tree are in frame order and
cover each byte once. They include headers, counts, markers and tagged sections, and trailing or undecodable bytes at
the end.

>>> explanation = explain_request(bytes.fromhex("0012000000000007ffff"))
>>> explanation.name
'ApiVersionsRequest v0'
>>> [(leaf.offset, leaf.path, leaf.value, leaf.note) for leaf in explanation.leaves()][0]
(0, 'header.request_api_key', 18, 'ApiVersions')
"""

from __future__ import annotations

from kwire import codec, envelope
from kwire.errors import DecodeError
from kwire.explain.meanings import api_name
from kwire.explain.pieces import STRUCT, UNREAD, Explanation, Piece
from kwire.explain.walk import Walk, explain_stored
from kwire.headers import RequestHeader, ResponseHeader, response_header_version
from kwire.schema import schema_of

__all__ = ["UNREAD", "Explanation", "Piece", "explain_blob", "explain_request", "explain_response"]

HEADER = "header"  # path of the struct that holds the header


def explain_request(frame: bytes) -> Explanation:
    """Return the explanation of a request frame without its length prefix.

    Invalid bytes never raise an exception; they are part of the result.
    """
    walk = _FrameWalk(frame, "request")
    try:
        walk.request()
    except DecodeError as error:
        return walk.give_up(error)
    return walk.done()


def explain_response(frame: bytes, api_key: int, api_version: int) -> Explanation:
    """Return the explanation of a response frame without its length prefix.

    Invalid bytes never raise an exception; they are part of the result.

    Args:
        frame: the response, from its correlation id on.
        api_key: API key of the request.
        api_version: version of the request.
    """
    walk = _FrameWalk(frame, "response")
    try:
        walk.response(api_key, api_version)
    except DecodeError as error:
        return walk.give_up(error)
    return walk.done()


def explain_blob(blob: type, data: bytes) -> Explanation:
    """Return the explanation of a stored message, such as a record of __consumer_offsets.

    Invalid bytes never raise an exception; they are part of the result.

    Args:
        blob: class of the message, a value of ``kwire.blobs.STORED``.
        data: the bytes that are stored: version or record type, and the message.
    """
    return explain_stored(blob, data, 0, "", {})


class _FrameWalk:
    """The decoder of one frame: it decodes header and body, and collects a Piece for each field.

    Attributes:
        name: name and version of the message; a description such as the API key until both are decoded.
    """

    def __init__(self, frame: bytes, name: str) -> None:
        self.frame = frame
        self.name = name
        self.walk = Walk(frame)

    def request(self) -> None:
        key, version = envelope.peek_request(self.frame)
        self.name = f"request of API {key} v{version}"
        tree = self.walk.tree
        tree.open(0, HEADER, STRUCT)
        tree.prefix = f"{HEADER}."
        try:
            api, version, header_version = envelope.request_form(self.frame)
        except DecodeError:
            tree.leaf(0, 2, "request_api_key", "int16", key, note=api_name(key))
            raise
        self.name = f"{schema_of(api.request).name} v{version}"
        self.walk.message(RequestHeader, header_version)
        envelope.find_api(key, version)
        self._body(api.request, version)

    def response(self, key: int, version: int) -> None:
        api, version = envelope.response_api(key, version)
        self.name = f"{schema_of(api.response).name} v{version}"
        tree = self.walk.tree
        tree.open(0, HEADER, STRUCT)
        tree.prefix = f"{HEADER}."
        self.walk.message(ResponseHeader, response_header_version(api, version))
        if version and envelope.answers_unsupported(api, self.frame, at := self.walk.at):
            try:
                codec.decode_at(api.response, self.frame, at, version)
            except DecodeError:
                version = 0
                self.name = f"{schema_of(api.response).name} v0"
        self._body(api.response, version)

    def _body(self, message: type, version: int) -> None:
        self.walk.tree.close(self.walk.at)
        self.walk.tree.prefix = ""
        self.walk.message(message, version)
        self.walk.trailing()

    def done(self) -> Explanation:
        return Explanation(self.name, self.frame, self.walk.tree.done())

    def give_up(self, error: DecodeError) -> Explanation:
        return Explanation(self.name, self.frame, self.walk.tree.give_up(error, len(self.frame)), error)

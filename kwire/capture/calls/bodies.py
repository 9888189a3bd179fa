"""Decoding of request and response bodies. Options decide which bodies are decoded, kept as bytes, or redacted.

Decoding can also be deferred: then a call contains its undecoded frames, and any process can decode them later.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from kwire.apikeys import ApiKey
from kwire.capture.calls.frame_headers import Form, body_at, form_of, leading_group, response_body
from kwire.capture.calls.model import UNKNOWN_VERSION, UNREADABLE, Call, Connection
from kwire.engines.runtime import NativeRefused
from kwire.envelope import answers_unsupported
from kwire.errors import DecodeError
from kwire.json import native
from kwire.limits import weight_limit
from kwire.messages import APIS
from kwire.redact import redact

# APIs whose frames may contain secrets.
SECRET_APIS = (
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
# APIs whose bodies are always decoded: those with secrets, and those that the reading itself uses.
NEEDED_REQUESTS = frozenset({*SECRET_APIS, ApiKey.API_VERSIONS})
NEEDED_RESPONSES = frozenset({*SECRET_APIS, ApiKey.SASL_HANDSHAKE})


def encoded_body(message: type, frame: bytes, at: int, version: int) -> Any:
    """Return a body that stays encoded; the native engine can write its JSON without decoding it to Python objects.

    The result is None if the native engine cannot do this for the message version, or if the body is not valid: the
    caller then decodes the body.

    Args:
        message: class of the body.
        frame: frame that contains the body.
        at: offset of the body in the frame.
        version: version of the body.
    """
    form = native.form_of(message, version)
    if form is None:
        return None
    try:
        return form.body(frame, at, weight_limit(len(frame) - at))
    except NativeRefused:
        return None  # decoding explains why, if the body is not valid


def decoded(call: Call, is_response: bool) -> Any:
    """Return the body of a frame, and decode it if the call contains the body in encoded form (see
    ``BodyReader.as_json``).

    The result is None if the call contains no body.

    Args:
        call: call of the frame.
        is_response: True for the response of the call, False for its request.
    """
    body, version = (call.response, call.response_version) if is_response else (call.request, call.api_version)
    if body is None or not native.is_body(body.__class__):
        return body
    form = form_of(call.api_key or 0, version or 0)
    assert form is not None
    return body_at(form.response if is_response else form.request, body.data, body.offset, version or 0)[0]


AT_ONCE = NEEDED_REQUESTS | NEEDED_RESPONSES  # APIs whose frames are never deferred
Undecoded = tuple[bytes, int]  # a frame with its length prefix, and the offset of the body in it


class BodyReader:
    """The body decoder of one connection. Frames include their length prefix of four bytes.

    Attributes:
        connection: the connection.
        wanted: API keys whose bodies are decoded; None for all.
        raw: True to store every frame in its call also as bytes.
        redacted: True to redact secrets; frames that may contain secrets are then not stored as bytes.
        as_json: True if the calls are only printed as JSON. A body then stays encoded where the native engine can write
            its JSON from the encoded bytes (``kwire.json.native``).
        deferred: True to store frames in new calls without decoding them (as ``Undecoded``); ``decode`` decodes them
            later.
    """

    __slots__ = ("as_json", "connection", "deferred", "raw", "redacted", "wanted")

    def __init__(
        self, connection: Connection, wanted: frozenset[int] | None, raw: bool, redacted: bool, as_json: bool = False
    ) -> None:
        self.connection, self.wanted, self.raw, self.redacted = connection, wanted, raw, redacted
        self.as_json = as_json
        self.deferred = False

    def kept(self, frame: bytes, key: int | None) -> bytes | None:
        """Return a frame without its length prefix, to be stored in a call.

        The result is None if ``redacted`` is set and the frame may contain secrets.

        Args:
            frame: the frame, with its length prefix of four bytes.
            key: API key of the frame; None if unknown.
        """
        return None if self.redacted and key in SECRET_APIS else frame[4:]

    def read_request(self, call: Call, form: Form | None, frame: bytes, at: int) -> None:
        """Decode the body of a request, and store it in the call.

        The frame is stored undecoded if decoding is deferred. The body is not decoded if its API is not in ``wanted``.
        An unknown version or an invalid body sets ``reason`` of the call. An ApiVersions request sets the client
        software of the connection.

        Args:
            call: call to complete.
            form: header format and classes of the version; None for an unknown version.
            frame: the request, with its length prefix.
            at: offset of the body in the frame.
        """
        if form is None:
            call.reason, call.request_raw = UNKNOWN_VERSION, self.kept(frame, call.api_key)
        elif self.deferred and call.api_key not in AT_ONCE:
            call.request = frame, at
        elif self.wanted is None or call.api_key in self.wanted:
            self._decode_request(call, form, frame, at)
        if self.raw:
            call.request_raw = self.kept(frame, call.api_key)

    def _decode_request(self, call: Call, form: Form, frame: bytes, at: int) -> None:
        if self.as_json and call.api_key not in NEEDED_REQUESTS:
            call.request = encoded_body(form.request, frame, at, form.version)
            if call.request is not None:
                return
        try:
            call.request, _ = body_at(form.request, frame, at, form.version)
        except DecodeError as error:
            call.reason, call.error = UNREADABLE, str(error)
            call.request_raw = self.kept(frame, call.api_key)
            call.group_id = leading_group(form, frame, at)
            return
        if self.redacted and call.api_key in SECRET_APIS:
            redact(call.request)
        if call.api_key == ApiKey.API_VERSIONS and form.version >= 3:
            self.connection.software_name = call.request.client_software_name
            self.connection.software_version = call.request.client_software_version

    def read_response(self, call: Call, frame: bytes) -> None:
        """Decode a response, and store its body and version in the call.

        The frame is stored undecoded if the decoding of the request is deferred. The body is not decoded if its API is
        not in ``wanted``, or if the API version is unknown. An invalid response sets ``reason`` and ``error`` of the
        call.

        Args:
            call: call to complete.
            frame: the response, with its length prefix.
        """
        assert call.api_key is not None
        if is_undecoded(call.request):
            call.response = frame, 0
            return
        form = form_of(call.api_key, call.api_version or 0)
        if form is None and call.api_key in APIS and answers_unsupported(APIS[call.api_key], frame, 8):
            form = form_of(ApiKey.API_VERSIONS, 0)
        if form is None:
            call.response_raw = self.kept(frame, call.api_key)
        elif self.wanted is None or call.api_key in self.wanted or call.api_key == ApiKey.SASL_HANDSHAKE:
            self._decode_response(call, form, frame)
        if self.raw:
            call.response_raw = self.kept(frame, call.api_key)

    def _decode_response(self, call: Call, form: Form, frame: bytes) -> None:
        try:
            at = response_body(form, frame, 4)
            version = form.version
            if self.as_json and call.api_key not in NEEDED_RESPONSES:
                call.response, call.response_version = encoded_body(form.response, frame, at, version), version
                if call.response is not None:
                    return
                call.response_version = None
            try:
                call.response, _ = body_at(form.response, frame, at, version)
            except DecodeError:
                if not answers_unsupported(APIS[call.api_key or 0], frame, at):
                    raise
                version = 0
                call.response, _ = body_at(form.response, frame, at, version)
        except DecodeError as error:
            call.reason, call.error = UNREADABLE, str(error)
            call.response_raw = self.kept(frame, call.api_key)
            return
        call.response_version = version
        if self.redacted and call.api_key in SECRET_APIS:
            redact(call.response)

    def decode(self, call: Call) -> None:
        """Decode the frames in a call whose decoding was deferred, and store the bodies in the call.

        The call is then equal to a call whose frames were decoded immediately. The method does nothing if the frames of
        the call are already decoded.
        """
        request, response = call.request, call.response
        if not is_undecoded(request):
            return
        call.request = call.response = None
        self.read_request(call, form_of(call.api_key or 0, call.api_version or 0), *request)
        if is_undecoded(response):
            self.read_response(call, response[0])


def is_undecoded(body: Any) -> TypeGuard[Undecoded]:
    """Return whether the request or response of a call is a frame whose decoding is deferred."""
    return isinstance(body, tuple)

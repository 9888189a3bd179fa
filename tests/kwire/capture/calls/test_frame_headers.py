"""The contents of the first bytes of frames."""

from __future__ import annotations

import struct

import pytest

import kwire
from kwire.capture.calls.frame_headers import form_of, is_tls, read_header, response_body, server_name
from kwire.envelope import produce_acks
from kwire.errors import DecodeError
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.produce import ProduceRequest


@pytest.mark.parametrize("key", APIS)
def test_headers_as_the_envelope_reads_them(key: int) -> None:
    api = APIS[key]
    for version in range(api.versions.first, (api.versions.last or 0) + 1):
        if (key, version) == (7, 0):
            continue  # the one header without a client id
        frame = kwire.encode_request(api.request(), version, correlation_id=7, client_id="me")
        header = read_header(frame, 0)
        assert (header.key, header.version, header.correlation_id, header.client_id) == (key, version, 7, b"me")
        _, _, body = kwire.envelope.decode_request_header(frame)
        assert header.body == body
        form = form_of(key, version)
        assert form is not None
        answer = kwire.encode_response(api.response(), version, correlation_id=7)
        assert response_body(form, answer, 0) == 4 + form.response_header


def test_headers_that_end_too_early() -> None:
    frame = kwire.encode_request(HeartbeatRequest(), 4, correlation_id=7, client_id="me")
    for size in range(12):
        with pytest.raises((DecodeError, struct.error)):
            read_header(frame[:size], 0)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize("name", [None, "", "t" * 300])
def test_acks(version: int, name: str | None) -> None:
    for acks in (-1, 0, 1):
        frame = kwire.encode_request(
            ProduceRequest(acks=acks, transactional_id=name), version, correlation_id=1, client_id="x"
        )
        at = read_header(frame, 0).body
        assert produce_acks(frame, at, version) == acks
        assert produce_acks(frame[: at + 1], at, version) is None


def test_tls() -> None:
    assert is_tls(b"\x16\3\1\0\5")
    assert not is_tls(b"\0\0\0\x20")
    assert server_name(b"\x16\3\1\0\5\1") is None
    assert server_name(b"") is None

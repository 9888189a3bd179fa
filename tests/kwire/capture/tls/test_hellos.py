"""The hellos of real OpenSSL endpoints, whole and cut, and other bytes in their place."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tools.tls_talk import TlsTalk

from kwire.capture.tls.hellos import RETRY, HelloError, client_random, server_choice


@pytest.fixture
def hellos(tmp_path: Path) -> tuple[bytes, bytes]:
    """Return ClientHello and ServerHello of a TLS 1.3 connection."""
    talk = TlsTalk(tmp_path / "keys", ssl.TLSVersion.TLSv1_3)
    segments = talk.handshake()
    flights = [
        b"".join(each.payload for each in segments if (each.source == talk.talk.client) is is_client)
        for is_client in (True, False)
    ]
    client, server = (flight[5 : 5 + int.from_bytes(flight[3:5], "big")] for flight in flights)
    return client, server


def test_hellos_of_tls_1_3(hellos: tuple[bytes, bytes], tmp_path: Path) -> None:
    client, server = hellos
    known = client_random(client)
    assert known is not None
    assert known.hex() in (tmp_path / "keys").read_text()
    choice = server_choice(server)
    assert choice is not None
    assert (choice.version, choice.is_retry, len(choice.server_random)) == (0x0304, False, 32)
    assert choice.suite in (0x1301, 0x1302, 0x1303)
    retry = server_choice(server.replace(choice.server_random, RETRY))
    assert retry is not None
    assert retry.is_retry


def test_incomplete_hellos_wait_for_more(hellos: tuple[bytes, bytes]) -> None:
    client, server = hellos
    assert {client_random(client[:size]) for size in range(len(client))} == {None}
    assert {server_choice(server[:size]) for size in range(len(server))} == {None}


def test_other_messages_are_refused(hellos: tuple[bytes, bytes]) -> None:
    client, server = hellos
    for data in (server, b"\x01\0\0\x02\3\3", b"\x10\0\0\0"):
        with pytest.raises(HelloError, match="does not begin with a valid ClientHello and ServerHello"):
            client_random(data)
    for data in (client, b"\x02\0\0\x22" + bytes(34)):
        with pytest.raises(HelloError):
            server_choice(data)

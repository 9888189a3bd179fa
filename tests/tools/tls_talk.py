"""A captured TLS connection: both sides are real OpenSSL endpoints, which write a key log."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

import trustme
from tools.pcap import Segment, Talk


@cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("broker.example").configure_cert(server)
    authority.configure_trust(client)
    return server, client


class TlsTalk:
    """A TLS connection whose packets are those of ``talk``.

    Args:
        keylog: file that gets the secrets.
        version: protocol version.
        ciphers: OpenSSL's names of cipher suites of TLS 1.2.
        talk: the TCP connection.
    """

    def __init__(
        self, keylog: Path, version: ssl.TLSVersion, ciphers: str = "DEFAULT", talk: Talk | None = None
    ) -> None:
        self.talk = talk or Talk()
        server, client = _contexts()
        client.minimum_version = client.maximum_version = version
        client.set_ciphers(ciphers)
        client.keylog_filename = str(keylog)
        self._read = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}  # received bytes of the broker and of the client
        write = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}  # sent bytes of the client and of the broker
        self._write = write
        self._ends = {
            True: client.wrap_bio(self._read[False], write[True], server_hostname="broker.example"),
            False: server.wrap_bio(self._read[True], write[False], server_side=True),
        }

    def handshake(self) -> list[Segment]:
        """Return the packets that open the connection, with the handshake."""
        segments = self.talk.open()
        pending = {True, False}
        while pending:
            for is_client in sorted(pending, reverse=True):
                try:
                    self._ends[is_client].do_handshake()
                    pending.discard(is_client)
                except ssl.SSLWantReadError:
                    pass
                segments += self._sent(is_client)
        for is_client in (True, False):  # session tickets
            segments += self._received(is_client)
        return segments

    def say(self, to_broker: bool, data: bytes) -> list[Segment]:
        """Return the packets with bytes of one side, encrypted."""
        self._ends[to_broker].write(data)
        segments = self._sent(to_broker)
        self._received(not to_broker)
        return segments

    def _sent(self, is_client: bool) -> list[Segment]:
        data = self._write[is_client].read()
        self._read[is_client].write(data)
        return self.talk.say(is_client, data) if data else []

    def _received(self, is_client: bool) -> list[Segment]:
        try:
            while self._ends[is_client].read(65_536):
                pass
        except ssl.SSLWantReadError:
            pass
        return self._sent(is_client)

"""The TLS handshakes of cases, with OpenSSL as the client."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsRequest
from mockbroker.api.thread import BrokerThread
from mockbroker.lab.torture.case import Case
from mockbroker.lab.torture.cases.handshakes import CASES
from mockbroker.lab.torture.handshakes import HostileHandshakes
from mockbroker.lab.torture.security import Security

QUIET = 0.3  # seconds without a byte after which a broker is regarded as silent
PATIENT = 30.0
HARMLESS = {"tls-many-names"}


@pytest.fixture(scope="module")
def thread() -> Iterator[BrokerThread]:
    thread = BrokerThread(brokers=1, topics={}, config={}, **Security("SSL").cluster_options())
    yield thread
    thread.close()


def answer(thread: BrokerThread, seconds: float) -> bytes:
    """Return the first bytes of a response through TLS; b"" if there is none within ``seconds``. Raises:
    ssl.SSLError."""
    handle = thread.handle()
    host, _, port = handle.bootstrap_servers.rpartition(":")
    context = ssl.create_default_context(cafile=str(handle.tls.ca))
    request = pack(encode_request(ApiVersionsRequest(), 4, correlation_id=7, client_id="client"))
    with (
        suppress(TimeoutError),
        socket.create_connection((host, int(port)), timeout=seconds) as plain,
        context.wrap_socket(plain, server_hostname=host) as sock,
    ):
        sock.sendall(request)
        return sock.recv(8)[4:]
    return b""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_client_notices_until_the_broker_behaves(thread: BrokerThread, case: Case) -> None:
    handshakes = thread.call(lambda cluster: HostileHandshakes(case, 1, cluster._tls))
    if case.name in HARMLESS:
        assert answer(thread, PATIENT) == b"\0\0\0\x07"
    else:
        with suppress(ssl.SSLError):
            assert answer(thread, QUIET) == b""
    assert handshakes.changed == 1
    handshakes.on = False
    assert answer(thread, PATIENT) == b"\0\0\0\x07"
    assert handshakes.changed == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tls-other-authority", "unable to get local issuer certificate"),
        ("tls-other-host", "IP address mismatch"),
        ("tls-expired", "certificate has expired"),
        ("tls-not-yet-valid", "certificate is not yet valid"),
    ],
)
def test_certificates_are_refused_for_their_own_reason(thread: BrokerThread, name: str, reason: str) -> None:
    case = next(case for case in CASES if case.name == name)
    handshakes = thread.call(lambda cluster: HostileHandshakes(case, 1, cluster._tls))
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        answer(thread, PATIENT)
    handshakes.on = False

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire import decode_response, encode_request
from kwire.client_properties import MECHANISMS, Credentials
from kwire.errors import RemoteProtocolError
from kwire.frames import pack
from kwire.messages.metadata import MetadataRequest
from mockbroker import ThreadCluster, run_cluster
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.upstream import Upstream
from mockbroker.recording.topic_connections import BrokerConnection

PASSWORD = "alice-secret"
REQUEST = pack(encode_request(MetadataRequest(topics=None), 4, correlation_id=7))


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    listeners = ["SASL_SSL", "SASL_PLAINTEXT", "SSL"]
    with run_cluster(topics={"frames": 1}, listeners=listeners, users={"alice": PASSWORD}) as cluster:
        yield cluster


def address(cluster: ThreadCluster, listener: str) -> Address:
    host, _, port = cluster.listeners[listener].rpartition(":")
    return Address(host, int(port))


def tls(cluster: ThreadCluster) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cluster.tls.ca))


def credentials(mechanism: str, folder: Path) -> Credentials:
    token = folder / "token"
    token.write_text("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6NDA3MDkwODgwMH0.")
    return Credentials(mechanism, "alice", PASSWORD, token)


def topics(connection: BrokerConnection) -> list[str]:
    body = decode_response(connection.exchange([REQUEST[:5], REQUEST[5:]]), 3, 4).body
    return [topic.name for topic in body.topics if not topic.is_internal]


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_logs_in(cluster: ThreadCluster, mechanism: str, listener: str, tmp_path: Path) -> None:
    context = tls(cluster) if listener.endswith("SSL") else None
    connection = BrokerConnection(address(cluster, listener), Upstream([], context, credentials(mechanism, tmp_path)))
    assert topics(connection) == topics(connection) == ["frames"]
    connection.close()


@pytest.mark.parametrize(
    ("listener", "given", "reason"),
    [
        ("SSL", Credentials("PLAIN", "alice", PASSWORD), "cannot log in .*: ILLEGAL_SASL_STATE: check that its listener"),
        ("SASL_SSL", Credentials("PLAIN", "alice", "x"), "cannot log in .*: Authentication failed: Invalid username"),
        ("SASL_SSL", Credentials("OAUTHBEARER", token_file=Path("/none")), "cannot log in .*: cannot read the token file"),
        ("SASL_PLAINTEXT", None, "wrong version number|record layer failure|unexpected eof"),
    ],
    ids=["no SASL", "password", "no token", "no TLS"],
)  # fmt: skip
def test_the_reason_of_a_failure_is_raised(
    cluster: ThreadCluster, listener: str, given: Credentials | None, reason: str
) -> None:
    with pytest.raises(OSError, match=f"(?i){reason}".replace(" ", "[ _]")):
        BrokerConnection(address(cluster, listener), Upstream([], tls(cluster), given))


def test_an_exchange_in_another_thread_is_ended(cluster: ThreadCluster) -> None:
    connection = BrokerConnection(address(cluster, "SSL"), Upstream([], tls(cluster)))
    errors: list[BaseException] = []

    def exchange() -> None:
        try:
            connection.exchange([REQUEST[:-1]])  # the broker waits for the last byte of the request
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=exchange)
    thread.start()
    connection.shut_down()
    thread.join(20)
    assert len(errors) == 1
    connection.close()


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (bytes.fromhex("0000000b"), "the broker sent a frame of 11 bytes"),
        (bytes.fromhex("15030300020246"), "the broker sent a TLS alert: its listener uses TLS"),
    ],
    ids=["size", "TLS"],
)
def test_a_response_that_is_not_valid_is_refused(received: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = BrokerConnection(Address("127.0.0.1", server.getsockname()[1]), Upstream([]))
        peer, _ = server.accept()
        with peer:
            peer.sendall(received)
            with pytest.raises(RemoteProtocolError, match=reason):
                connection.exchange([REQUEST], 10)
        connection.close()

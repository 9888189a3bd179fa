"""SASL and TLS on real sockets: fixtures/bad_inputs.md, under "SASL and TLS", and listeners of every kind at the same
time.

Each row is a conversation on a separate connection. Whatever its result is, the broker serves a healthy connection
before and after it. broker/test_authentication.py has more tests of the order of requests.
"""

from __future__ import annotations

import hashlib
import logging
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from bad_inputs import inputs
from plain_client import RawConnection
from tools.keystores import keystore_pem
from tools.served_broker import serving
from trio.testing import MockClock

import mockbroker
from kwire import ErrorCode as E
from kwire import encode_request
from kwire.frames import pack
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest as Alter
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest as Describe
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from kwire.records import Record, build_batch
from mockbroker.base.settings import Settings
from mockbroker.net.listeners import PROTOCOLS
from mockbroker.net.sockets import FRAME_TIMEOUT
from mockbroker.net.tls import Tls
from mockbroker.security.identity import ANONYMOUS
from mockbroker.security.users import Users

USERS = {"alice": "alice-secret"}
PLAIN, SASL, SSL = "PLAINTEXT", "SASL_PLAINTEXT", "SSL"
SSL_SPOKEN_PLAIN = "SSL spoken to in plaintext"
CLOSED, OPEN = "closed", "open"
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
VERSIONS = ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3
METADATA = MetadataRequest(topics=[]), 9
VERSIONS_99 = pack(struct.pack(">hhihb", 18, 99, 1, -1, 0) + b"\2a\2b\0")
TOO_NEW = bytes.fromhex("00000001002300000001001200000004")
TOKEN = pack(b"\0alice\0alice-secret")
GSSAPI = pack(bytes.fromhex("6082025f06092a864886f71201020201"))
OK, ILLEGAL, FAILED = E.NONE, E.ILLEGAL_SASL_STATE, E.SASL_AUTHENTICATION_FAILED
HEARD = E.UNKNOWN_MEMBER_ID  # error of BEAT once the client is authenticated


def shake(mechanism: str = "PLAIN", version: int = 1) -> tuple[Any, int]:
    return SaslHandshakeRequest(mechanism=mechanism), version


def token(data: bytes = b"\0alice\0alice-secret") -> tuple[Any, int]:
    return SaslAuthenticateRequest(auth_bytes=data), 2


KNOWN = [(shake(), OK), (token(), OK)]
ROWS = [  # name in the table, test, listener, requests and results; None: only read what follows
    ("plaintext on a TLS port", "plaintext on a port with TLS", SSL_SPOKEN_PLAIN, [(METADATA, CLOSED)]),
    ("plaintext on a TLS port", "HTTP on a port with TLS", SSL_SPOKEN_PLAIN, [(b"GET / HTTP/1.1\r\n\r\n", CLOSED)]),
    ("Metadata before authentication", "Metadata first", SASL, [(METADATA, CLOSED)]),
    ("ApiVersions before the handshake", "ApiVersions first", SASL, [(VERSIONS, OK), *KNOWN, (BEAT, HEARD)]),
    (
        "ApiVersions v99, then a served version",
        "ApiVersions v99, then v3",
        SASL,
        [(VERSIONS_99, TOO_NEW), (VERSIONS, OK), *KNOWN],
    ),
    ("ApiVersions twice before the handshake", "ApiVersions twice", SASL, [(VERSIONS, OK), (VERSIONS, CLOSED)]),
    (
        "ApiVersions after the handshake",
        "ApiVersions after the handshake",
        SASL,
        [(shake(), OK), (VERSIONS, ILLEGAL), (None, CLOSED)],
    ),
    ("unknown mechanism", "unknown mechanism", SASL, [(shake("NOPE"), E.UNSUPPORTED_SASL_MECHANISM), (None, CLOSED)]),
    (
        "unknown mechanism",
        "unknown mechanism, v0",
        SASL,
        [(shake("NOPE", 0), E.UNSUPPORTED_SASL_MECHANISM), (None, CLOSED)],
    ),
    (
        "handshake twice, or on a port without SASL",
        "handshake twice",
        SASL,
        [(shake(), OK), (shake(), ILLEGAL), (None, CLOSED)],
    ),
    (
        "handshake twice, or on a port without SASL",
        "handshake on PLAINTEXT",
        PLAIN,
        [(shake(), ILLEGAL), (BEAT, HEARD)],
    ),
    ("handshake twice, or on a port without SASL", "handshake on SSL", SSL, [(shake(), ILLEGAL), (BEAT, HEARD)]),
    ("SaslAuthenticate before the handshake", "SaslAuthenticate first", SASL, [(token(), CLOSED)]),
    (
        "SaslAuthenticate on a port without SASL",
        "SaslAuthenticate on PLAINTEXT",
        PLAIN,
        [(token(), ILLEGAL), (BEAT, HEARD)],
    ),
    ("wrong credentials", "wrong password", SASL, [(shake(), OK), (token(b"\0alice\0x"), FAILED), (None, CLOSED)]),
    ("wrong credentials", "empty token", SASL, [(shake(), OK), (token(b""), FAILED), (None, CLOSED)]),
    ("wrong credentials", "no NULs", SASL, [(shake(), OK), (token(b"alice"), FAILED), (None, CLOSED)]),
    (
        "wrong credentials",
        "other authorization id",
        SASL,
        [(shake(), OK), (token(b"bob\0alice\0alice-secret"), FAILED), (None, CLOSED)],
    ),
    ("wrong credentials", "wrong password, bare", SASL, [(shake(version=0), OK), (pack(b"\0alice\0x"), CLOSED)]),
    (
        "handshake v0, then a bare token",
        "handshake v0, bare token",
        SASL,
        [(shake(version=0), OK), (TOKEN, b""), (BEAT, HEARD)],
    ),
    (
        "token in the form of the other handshake version",
        "handshake v0, SaslAuthenticate",
        SASL,
        [(shake(version=0), OK), (token(), CLOSED)],
    ),
    (
        "token in the form of the other handshake version",
        "handshake v1, bare token",
        SASL,
        [(shake(), OK), (TOKEN, CLOSED)],
    ),
    ("GSSAPI token first", "GSSAPI token first", SASL, [(GSSAPI, CLOSED)]),
    ("600 KB before authentication", "600 KB before", SASL, [(pack(bytes(600 * 1024)), CLOSED)]),
    ("600 KB before authentication", "512 KiB announced before", SASL, [(struct.pack(">i", 512 * 1024), OPEN)]),
    (
        "600 KB before authentication",
        "a byte more announced before",
        SASL,
        [(struct.pack(">i", 512 * 1024 + 1), CLOSED)],
    ),
    ("600 KB before authentication", "600 KB announced after", SASL, [*KNOWN, (struct.pack(">i", 600 * 1024), OPEN)]),
    (
        "SCRAM garbage, SCRAM of an unknown user",
        "SCRAM garbage",
        SASL,
        [(shake("SCRAM-SHA-256"), OK), (token(b"garbage"), FAILED), (None, CLOSED)],
    ),
    (
        "SCRAM garbage, SCRAM of an unknown user",
        "SCRAM nobody",
        SASL,
        [(shake("SCRAM-SHA-256"), OK), (token(b"n,,n=nobody,r=a"), FAILED), (None, CLOSED)],
    ),
    (
        "handshake after success",
        "again after success",
        SASL,
        [*KNOWN, (shake(), ILLEGAL), (token(), ILLEGAL), (BEAT, HEARD)],
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[mockbroker.ThreadCluster]:
    config = {"connection.failed.authentication.delay.ms": 20, "offsets.topic.num.partitions": 1}
    with mockbroker.run_cluster(brokers=2, topics={"t": 1}, config=config, listeners=PROTOCOLS, users=USERS) as found:
        yield found


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.05)


class SecureConnection(RawConnection):
    """A client on a raw socket, without a client library, for one listener."""

    def authenticate(self) -> Any:
        """Authenticate on a listener with SASL."""
        assert self.ask(*shake()).error_code == self.ask(*token()).error_code == OK
        return self


def context_of(cluster: mockbroker.ThreadCluster, *, client: Path | None = None) -> ssl.SSLContext:
    assert cluster.tls.ca is not None
    result = ssl.create_default_context(cafile=cluster.tls.ca)
    if client is not None:
        result.load_cert_chain(client)
    return result


@pytest.fixture(scope="module")
def healthy(cluster: Any) -> Iterator[list[SecureConnection]]:
    """Yield connections that exist before the test: a plaintext connection, and one with SASL and TLS."""
    with (
        SecureConnection(cluster.listeners[PLAIN]) as plain,
        SecureConnection(cluster.listeners["SASL_SSL"], context_of(cluster)) as secure,
    ):
        yield [plain, secure.authenticate()]


@pytest.mark.parametrize(("name", "what", "listener", "said"), ROWS, ids=[row[1] for row in ROWS])
def test_connection_before_authentication(cluster, healthy, caplog, name, what, listener, said):
    caplog.set_level(logging.WARNING, logger="mockbroker")
    context = context_of(cluster) if listener == SSL else None
    with SecureConnection(cluster.listeners[SSL if listener == SSL_SPOKEN_PLAIN else listener], context) as talk:
        port = talk.sock.getsockname()[1]
        for request, becomes in said:
            if isinstance(becomes, E):
                assert talk.ask(*request).error_code == becomes
                continue
            if isinstance(request, bytes):
                talk.send_bytes(request)
            elif request is not None:
                talk.send(*request)
            if becomes == OPEN:
                assert all(other.ask(*BEAT).error_code == HEARD for other in healthy)  # the request was read before
                talk.sock.setblocking(False)
                with pytest.raises(BlockingIOError):
                    talk.sock.recv(1)
            else:
                result = talk.read_frame()
                alert = listener == SSL_SPOKEN_PLAIN and result is not None
                assert result is None or alert if becomes == CLOSED else result[: len(becomes)] == becomes
    assert all(other.ask(*BEAT).error_code == HEARD for other in healthy)
    of_earlier_test = re.compile(rf"connection from 127\.0\.0\.1:(?!{port} )\d+ closed: ")
    records = [record for record in caplog.records if not of_earlier_test.match(record.getMessage())]
    lines = [record.getMessage() for record in records]
    assert len(lines) == (said[-1][1] == CLOSED), lines
    assert all(re.match(rf"connection from 127\.0\.0\.1:{port} closed: .", line) for line in lines)
    assert all(record.exc_info is None for record in records), "a rejected connection is not an internal error"


BELOW = {"re-authentication too late", "no client certificate, an unknown authority, an expired one"}


def test_every_bad_input_has_a_test():
    assert {name for name, *_ in ROWS} - {"plaintext on a TLS port"} | BELOW == set(inputs("SASL and TLS"))


async def test_late_reauthentication_closes_the_connection(clock):
    async with serving(users=Users(USERS), config={"connections.max.reauth.ms": 60_000}) as place:
        late, punctual = await place.connect(), await place.connect()
        for peer in (late, punctual):
            await peer.ask(*shake())
            assert (await peer.ask(*token())).session_lifetime_ms == 60_000
            assert (await peer.ask(*BEAT)).error_code == HEARD
        await trio.sleep(59.9)
        await punctual.ask(*shake())
        assert (await punctual.ask(*token())).error_code == OK
        assert (await late.ask(*BEAT)).error_code == HEARD
        await trio.sleep(0.2)
        assert (await punctual.ask(*BEAT)).error_code == HEARD
        await late.send(BEAT)
        assert await late.closed() == b""


async def test_failed_authentication_is_answered_after_the_delay(clock):
    """Only this answer is delayed, and the next request of the client that waits for it is not served."""
    async with serving(users=Users(USERS), config={"connection.failed.authentication.delay.ms": 5_000}) as place:
        wrong, right = await place.connect(), await place.connect()
        await wrong.ask(*shake())
        begin = trio.current_time()
        await wrong.send(token(b"\0alice\0x"), token())
        await right.ask(*shake())
        assert (await right.ask(*token())).error_code == OK
        assert trio.current_time() == begin
        assert (await wrong.receive()).error_code == FAILED
        assert trio.current_time() - begin == pytest.approx(5)
        assert await wrong.closed() == b""


async def test_client_that_leaves_before_the_delayed_answer(clock):
    async with serving(users=Users(USERS), config={"connection.failed.authentication.delay.ms": 5_000}) as place:
        peer = await place.connect()
        await peer.ask(*shake())
        await peer.send(token(b"\0alice\0x"))
        await peer.stream.aclose()
        await place.until(lambda: not place.server.connections)
        assert len(place.broker.deadlines) == 0


# --- certificates of clients ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict() -> Iterator[mockbroker.ThreadCluster]:
    with mockbroker.run_cluster(listeners=[SSL], config={"ssl.client.auth": "required"}) as found:
        yield found


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | None]:
    folder = tmp_path_factory.mktemp("strangers")
    results: dict[str, Path | None] = {"no certificate": None}
    for name in ("wrong authority", "of another time"):
        results[name] = folder / f"{name}.pem"
        over = datetime.now(UTC) - timedelta(days=1) if name == "of another time" else None
        trustme.CA().issue_cert("x@y", not_after=over).private_key_and_cert_chain_pem.write_to_path(str(results[name]))
    return results


def is_heard(cluster: Any, context: ssl.SSLContext) -> bool:
    """Return whether a request is answered; False if the connection ends during the TLS handshake or after it."""
    try:
        with SecureConnection(cluster.listeners[SSL], context) as talk:
            talk.send(*BEAT)
            return talk.read_frame() is not None
    except OSError:
        return False


@pytest.mark.parametrize("who", ["no certificate", "wrong authority", "of another time"])
def test_untrusted_client_certificate_is_refused(strict, strangers, caplog, who):
    caplog.set_level(logging.WARNING, logger="mockbroker")
    with SecureConnection(strict.listeners[SSL], context_of(strict, client=strict.tls.client)) as healthy:
        assert healthy.ask(*BEAT).error_code == HEARD
        assert not is_heard(strict, context_of(strict, client=strangers[who]))
        assert healthy.ask(*BEAT).error_code == HEARD
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"connection from 127\.0\.0\.1:\d+ closed: TLS: .*certificate", line)


def test_expired_client_certificate_is_refused(tmp_path, caplog):
    """The certificate is from the right authority; the broker uses given files instead of generated certificates."""
    caplog.set_level(logging.WARNING, logger="mockbroker")
    authority = trustme.CA()
    key, trust = tmp_path / "key.pem", tmp_path / "trust.pem"
    key.write_bytes(keystore_pem(authority.issue_cert("127.0.0.1")))
    authority.cert_pem.write_to_path(str(trust))
    files = {"ssl.keystore.location": str(key), "ssl.truststore.location": str(trust)}
    with mockbroker.run_cluster(listeners=[SSL], config=files | {"ssl.client.auth": "required"}) as cluster:
        assert cluster.tls == mockbroker.TlsFiles(None, None)
        for days, welcome in ((1, True), (-1, False)):
            mine, over = tmp_path / "mine.pem", datetime.now(UTC) + timedelta(days=days)
            authority.issue_cert("x@y", not_after=over).private_key_and_cert_chain_pem.write_to_path(str(mine))
            context = ssl.create_default_context(cafile=trust)
            context.load_cert_chain(mine)
            assert is_heard(cluster, context) == welcome
    (line,) = [record.getMessage() for record in caplog.records]
    assert "certificate has expired" in line


@pytest.mark.parametrize("with_certificate", [False, True])
def test_requested_is_not_required(with_certificate):
    with mockbroker.run_cluster(listeners=[SSL], config={"ssl.client.auth": "requested"}) as cluster:
        context = context_of(cluster, client=cluster.tls.client if with_certificate else None)
        with SecureConnection(cluster.listeners[SSL], context) as talk:
            assert talk.ask(*BEAT).error_code == HEARD


RULES = [  # rules, principal of the generated client certificate
    ("RULE:^CN=(.*?),.*$/$1/", "User:client"),
    ("RULE:^OU=.*$/x/,RULE:^CN=(.*?),.*$/$1@host/U", "User:CLIENT@HOST"),
    ("DEFAULT", "User:CN=client,"),
]


@pytest.mark.parametrize(("rules", "principal"), RULES)
def test_certificate_names_the_principal(rules: str, principal: str) -> None:
    config = {"ssl.client.auth": "requested", "ssl.principal.mapping.rules": rules}
    with mockbroker.run_cluster(listeners=[SSL], config=config) as cluster:
        for certificate, expected in ((cluster.tls.client, principal), (None, ANONYMOUS)):
            with SecureConnection(cluster.listeners[SSL], context_of(cluster, client=certificate)) as talk:
                talk.ask(*BEAT)
                (connection,) = cluster.connections().values()
                assert connection.principal.startswith(expected)


def test_certificate_without_a_rule_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    config = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^OU=.*$/x/"}
    with mockbroker.run_cluster(listeners=[SSL], config=config) as cluster:
        assert not is_heard(cluster, context_of(cluster, client=cluster.tls.client))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "no rule of ssl.principal.mapping.rules matches 'CN=client," in line


def test_acl_of_a_certificate() -> None:
    """READ on the group is allowed to the principal of the certificate only."""
    config = {
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:client",
    }
    with mockbroker.run_cluster(listeners=[SSL], config=config) as cluster:
        for certificate, error in ((cluster.tls.client, HEARD), (None, E.GROUP_AUTHORIZATION_FAILED)):
            with SecureConnection(cluster.listeners[SSL], context_of(cluster, client=certificate)) as talk:
                assert talk.ask(*BEAT).error_code == error


# --- TLS beside everything else ------------------------------------------------------------------------------------


def test_large_requests_and_answers(cluster):
    """They are sent in many TLS records, in both directions."""
    value = bytes(range(256)) * 3_000
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=value)]))
    produce = ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[data])]), 9
    leader = MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9
    context = context_of(cluster)
    for servers in cluster.listeners[SSL].split(","):
        with SecureConnection(servers, context) as talk:
            if talk.ask(*leader).topics[0].partitions[0].leader_id == cluster.listeners[SSL].split(",").index(servers):
                assert talk.ask(*produce).responses[0].partition_responses[0].error_code == OK
    assert cluster.records("t")[-1].value == value
    names = [MetadataRequest.Topic(name=f"{n:05}" * 20) for n in range(5_000)]
    with SecureConnection(cluster.listeners[SSL], context) as talk:
        answer = talk.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        assert len(answer.topics) == 5_000
        assert talk.ask(*BEAT).error_code == HEARD


async def test_slow_handshakes_delay_no_other_client(clock):
    """One handshake arrives byte by byte, another never begins: a client that does not finish is disconnected, an idle
    client stays connected."""
    tls = Tls(Settings(), "127.0.0.1")
    assert tls.files.ca is not None
    context = ssl.create_default_context(cafile=tls.files.ca)
    async with serving(tls=tls.context) as place:
        silent, slow, other = [await place.connect() for _ in range(3)]
        idle = trio.SSLStream((await place.connect()).stream, context, server_hostname="127.0.0.1")
        await idle.do_handshake()
        await slow.stream.send_all(b"\x16\x03\x01\x02\x00\x01")
        healthy = trio.SSLStream(other.stream, context, server_hostname="127.0.0.1")
        await healthy.send_all(pack(encode_request(*BEAT, correlation_id=1)))
        assert len(await healthy.receive_some(65_536)) > 4
        await trio.sleep(FRAME_TIMEOUT + 6)
        assert await silent.closed() == await slow.closed() == b""
        await idle.send_all(pack(encode_request(*BEAT, correlation_id=1)))
        assert len(await idle.receive_some(65_536)) > 4
    tls.close()


def test_many_half_handshakes(cluster, healthy):
    """Each client has sent a part of its ClientHello, and needs no more memory than an ordinary connection."""
    half = []
    before = resident_kib()
    try:
        for _ in range(300):
            half.append(socket.create_connection(("127.0.0.1", port_of(cluster, SSL)), timeout=30))
            half[-1].sendall(b"\x16\x03\x01\x40\x00\x01")
        assert all(other.ask(*BEAT).error_code == HEARD for other in healthy)
        assert resident_kib() - before < 300 * 150
    finally:
        for sock in half:
            sock.close()


def port_of(cluster: Any, name: str) -> int:
    return int(cluster.listeners[name].split(",")[0].rpartition(":")[2])


def resident_kib() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc to read memory from")
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())[0])


# --- listeners -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_metadata_has_the_ports_of_the_clients_listener(cluster, listener):
    context = context_of(cluster) if listener.endswith("SSL") else None
    ports = [int(server.rpartition(":")[2]) for server in cluster.listeners[listener].split(",")]
    with SecureConnection(cluster.listeners[listener], context) as talk:
        if listener.startswith("SASL"):
            talk.authenticate()
        for _ in range(2):  # the second response is a cached one
            assert [broker.port for broker in talk.ask(*METADATA).brokers] == ports
        assert [broker.port for broker in talk.ask(DescribeClusterRequest(), 1).brokers] == ports
        for version in (2, 4):
            request = FindCoordinatorRequest(key="g", coordinator_keys=["g"] if version == 4 else [])
            request.key = "" if version == 4 else "g"
            answer = talk.ask(request, version)
            result = answer.coordinators[0] if version == 4 else answer
            assert result.port == ports[result.node_id]
    assert len(set(ports)) == 2
    assert cluster.bootstrap_servers == cluster.listeners[PLAIN]


def test_request_log_redacts_passwords(cluster):
    with SecureConnection(cluster.listeners[SASL]) as talk:
        talk.authenticate()
    requested = [request.body for request in cluster.requests("SaslAuthenticate")]
    assert requested[-1] == token(b"[redacted]")[0]


def test_files_go_with_the_cluster():
    with mockbroker.run_cluster(listeners=[SSL]) as cluster:
        ca = cluster.tls.ca
        assert ca is not None
        assert ca.exists()
    assert not ca.parent.exists()


def test_certificates_that_are_not_there(tmp_path):
    (tmp_path / "nonsense.pem").write_text("-----BEGIN nonsense-----")
    for config in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "none.pem")},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "nonsense.pem")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "none.pem")},
    ):
        with pytest.raises(mockbroker.SettingsError, match=r"ssl\.(key|trust)store\.location: .*pem"):
            mockbroker.run_cluster(listeners=[SSL], config=config).__enter__()


def test_reset_gives_back_the_credentials(cluster):
    """The original users exist again; connections are closed, listeners stay open."""
    with mockbroker.run_cluster(listeners=[SASL, PLAIN], users=USERS) as mine:
        gone = Alter(deletions=[Alter.Deletion(name="alice", mechanism=1)], upsertions=[])
        for expected in ([2], [1, 2]):
            with SecureConnection(mine.listeners[PLAIN]) as talk:
                if expected == [2]:
                    assert [one.error_code for one in talk.ask(gone, 0).results] == [OK]
                (alice,) = talk.ask(Describe(users=None), 0).results
                assert sorted(info.mechanism for info in alice.credential_infos) == expected
            mine.reset()


# --- what survives a restart ---------------------------------------------------------------------------------------


def test_acls_and_altered_users_survive_a_restart(tmp_path: Path) -> None:
    salted = hashlib.pbkdf2_hmac("sha256", b"new-secret", b"0123456789abcdef", 4_096)
    changed = Alter.Upsertion(
        name="alice", mechanism=1, iterations=4_096, salt=b"0123456789abcdef", salted_password=salted
    )
    creation = CreateAclsRequest.Creation(
        resource_type=3, resource_name="g", principal="User:ANONYMOUS", host="*", operation=3, permission_type=3
    )
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    options: dict[str, Any] = {"listeners": [PLAIN, SASL], "users": USERS, "data_dir": tmp_path}
    with (
        mockbroker.run_cluster(config=config | {"super.users": ANONYMOUS}, **options) as cluster,
        SecureConnection(cluster.listeners[PLAIN]) as talk,
    ):
        assert talk.ask(CreateAclsRequest(creations=[creation]), 3).results[0].error_code == E.NONE
        assert talk.ask(Alter(upsertions=[changed]), 0).results[0].error_code == E.NONE
    with (
        mockbroker.run_cluster(config=config, **options) as cluster,
        SecureConnection(cluster.listeners[PLAIN]) as talk,
    ):
        assert talk.ask(*BEAT).error_code == HEARD
        other = HeartbeatRequest(group_id="other", generation_id=1, member_id="m")
        assert talk.ask(other, 4).error_code == E.GROUP_AUTHORIZATION_FAILED
        users = cluster._perform(lambda served: served._router.broker.users)
        assert users.scram["alice", "SCRAM-SHA-256"].salt == b"0123456789abcdef"

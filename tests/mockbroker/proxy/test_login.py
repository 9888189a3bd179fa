"""The login of the proxy to the cluster: each mechanism against the brokers of mockbroker, and failures."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from pathlib import Path

import pytest
import trio
from tools.served_broker import PATIENCE, Peer

from kwire import ErrorCode, decode_request, encode_response
from kwire.client_properties import Credentials
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeResponse
from mockbroker import open_cluster
from mockbroker.broker.sasl.mechanism import Authenticated, Challenge
from mockbroker.broker.sasl.scram import Scram256Or512
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.login import LoginError, login
from mockbroker.proxy.observer import Exchange, Observer
from mockbroker.proxy.relay import Proxy
from mockbroker.proxy.upstream import Upstream
from mockbroker.security.users import ScramCredential, Users

MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
PASSWORD = "p,=ä secret"


def token(user: str, expires: int = 4_000_000_000) -> str:
    """Return an unsecured token (RFC 7515, alg none)."""
    parts = [{"alg": "none"}, {"sub": user, "iat": 1, "exp": expires}]
    encoded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts]
    return ".".join([*encoded, ""])


def credentials(mechanism: str, folder: Path, password: str = PASSWORD, user: str = "alice") -> Credentials:
    properties = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    if mechanism == "OAUTHBEARER":
        file = folder / "token"
        file.write_text(token(user) + "\n" if password == PASSWORD else "no token")
        properties = {"sasl.mechanism": mechanism, "sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    return Credentials.parse(properties)


@pytest.mark.parametrize("mechanism", MECHANISMS.split(","))
async def test_proxy_logs_in_for_clients_without_credentials(
    mechanism: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_cluster(
        topics={"t": 1},
        listeners=["SASL_PLAINTEXT"],
        users={"alice": PASSWORD},
        config={"sasl.enabled.mechanisms": MECHANISMS},
    ) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        real = [Address(host, int(port))]
        for password in (PASSWORD, "wrong"):
            proxy = Proxy(Upstream(real, None, credentials(mechanism, tmp_path, password)))
            async with trio.open_nursery() as nursery:
                await nursery.start(proxy.run)
                peer = Peer(await trio.open_tcp_stream(*proxy.bootstrap))
                await peer.send((MetadataRequest(topics=None), 12))
                with trio.fail_after(PATIENCE):
                    if password == PASSWORD:
                        assert "t" in [each.name for each in (await peer.receive()).topics]
                    else:
                        assert await peer.closed() == b""
                peer.stream.socket.close()
                nursery.cancel_scope.cancel()
    assert f"cannot log in to the cluster at {real[0]}" in caplog.text
    assert PASSWORD not in caplog.text
    assert token("alice") not in caplog.text


class Secrets(Observer):
    """An observer that records all frames, in which there must be no secrets."""

    def __init__(self) -> None:
        self.frames = b""

    def answered(self, exchange: Exchange) -> None:
        self.frames += exchange.request + (exchange.response or b"")


@pytest.mark.parametrize("mechanism", MECHANISMS.split(","))
async def test_a_client_logs_in_through_the_proxy(mechanism: str, tmp_path: Path) -> None:
    given, seen = credentials(mechanism, tmp_path), Secrets()
    async with open_cluster(
        listeners=["SASL_PLAINTEXT"],
        users={"alice": PASSWORD},
        config={"sasl.enabled.mechanisms": MECHANISMS},
    ) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        proxy = Proxy(Upstream([Address(host, int(port))]), observers=[seen])
        async with trio.open_nursery() as nursery:
            await nursery.start(proxy.run)
            connected = await Upstream([], None, given).connect([proxy.bootstrap])
            assert connected is not None
            stream, _ = connected
            peer = Peer(stream)  # type: ignore[arg-type]
            assert (await peer.ask(MetadataRequest(topics=[]), 12)).brokers
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()
    assert seen.frames.count(mechanism.encode()) >= 1
    assert PASSWORD.encode() not in seen.frames
    assert token("alice").encode() not in seen.frames
    assert b"n=alice" not in seen.frames


def handshake(error: int = 0) -> bytes:
    return encode_response(SaslHandshakeResponse(error_code=error, mechanisms=["GSSAPI"]), 1, correlation_id=1)


def authenticated(data: bytes = b"", error: int = 0, message: str | None = None) -> bytes:
    response = SaslAuthenticateResponse(error_code=error, error_message=message, auth_bytes=data)
    return encode_response(response, 1, correlation_id=2)


def outcome(mechanism: str, responses: list[bytes], folder: Path) -> str:
    """Return the error of a login that receives these responses."""
    steps = login(credentials(mechanism, folder), b"token")
    next(steps)
    for response in responses[:-1]:
        steps.send(response)
    with pytest.raises(LoginError) as problem:
        steps.send(responses[-1])
    return str(problem.value)


@pytest.mark.parametrize("password", ["m²", "🙂"], ids=["square", "emoji"])
def test_a_scram_password_is_hashed_as_by_kafka_clients(password: str, tmp_path: Path) -> None:
    """SASLprep would change the first password, and reject the second one."""
    salt, mechanism = b"0123456789abcdef", "SCRAM-SHA-256"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4096)
    credential = ScramCredential.from_salted_password(mechanism, salted, salt, 4096)
    broker = Scram256Or512(mechanism, Users(scram={("alice", mechanism): credential}), lambda: "broker")
    steps = login(credentials(mechanism, tmp_path, password))
    next(steps)
    request = steps.send(handshake())
    challenge = broker.evaluate(decode_request(request).body.auth_bytes, 0)
    assert isinstance(challenge, Challenge)
    request = steps.send(authenticated(challenge.token))
    verdict = broker.evaluate(decode_request(request).body.auth_bytes, 0)
    assert isinstance(verdict, Authenticated)
    with pytest.raises(StopIteration):
        steps.send(authenticated(verdict.token))


@pytest.mark.parametrize(
    ("mechanism", "responses", "problem"),
    [
        ("PLAIN", [b"\0\0"], "cannot decode the response to SaslHandshake"),
        (
            "PLAIN",
            [handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM)],
            "the cluster does not enable the SASL mechanism PLAIN (enabled: GSSAPI)",
        ),
        (
            "PLAIN",
            [handshake(ErrorCode.ILLEGAL_SASL_STATE)],
            "ILLEGAL_SASL_STATE: check that its listener uses SASL",
        ),
        ("PLAIN", [handshake(), authenticated(error=58, message="no such user")], "no such user"),
        ("PLAIN", [handshake(), authenticated(error=58)], "SASL_AUTHENTICATION_FAILED"),
        ("OAUTHBEARER", [handshake(), authenticated(b'{"status":"invalid_token"}')], "invalid_token"),
        ("SCRAM-SHA-256", [handshake(), authenticated(b"\xff")], "invalid SCRAM-SHA-256 message"),
        ("SCRAM-SHA-256", [handshake(), authenticated(b"r=other,s=MTIz,i=4096")], "invalid SCRAM-SHA-256 message"),
    ],
)
def test_logins_that_fail_have_a_reason(mechanism: str, responses: list[bytes], problem: str, tmp_path: Path) -> None:
    assert problem in outcome(mechanism, responses, tmp_path)


def test_a_scram_login_limits_the_iterations(tmp_path: Path) -> None:
    steps = login(credentials("SCRAM-SHA-256", tmp_path))
    next(steps)
    first = steps.send(handshake())
    nonce = first.rpartition(b"r=")[2]
    with pytest.raises(LoginError, match="2000000000 SCRAM iterations, above the limit of 1000000"):
        steps.send(authenticated(b"r=" + nonce + b"x,s=MTIz,i=2000000000"))


def test_a_wrong_signature_of_the_cluster_is_refused(tmp_path: Path) -> None:
    steps = login(credentials("SCRAM-SHA-256", tmp_path))
    next(steps)
    nonce = steps.send(handshake()).rpartition(b"r=")[2]
    steps.send(authenticated(b"r=" + nonce + b"x,s=MTIzNDU2Nzg5MDEyMw==,i=4096"))
    with pytest.raises(LoginError, match="invalid SCRAM-SHA-256 message"):
        steps.send(authenticated(b"v=" + base64.b64encode(bytes(32))))


async def test_a_missing_token_file_ends_the_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = credentials("OAUTHBEARER", tmp_path)
    (tmp_path / "token").unlink()
    async with open_cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        assert await Upstream([], None, given).connect([Address(host, int(port))]) is None
    assert f"cannot read the token file {tmp_path / 'token'}: No such file" in caplog.text

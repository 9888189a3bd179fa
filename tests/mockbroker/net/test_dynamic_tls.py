"""Keystores and truststores that AlterConfigs replaces, on the sockets of a listener with TLS."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
from tools.keystores import keystore_pem, part_of, write_keystores
from tools.served_broker import Peer
from trustme import CA

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kwire.messages.metadata import MetadataRequest
from mockbroker import open_cluster
from mockbroker.api.cluster import Cluster

BROKER, SET, DELETE = 4, 0, 1
STATIC_KEYSTORE, STATIC_TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"
KEYSTORE, TRUSTSTORE = f"listener.name.ssl.{STATIC_KEYSTORE}", f"listener.name.ssl.{STATIC_TRUSTSTORE}"
FOLDER = "FOLDER"  # placeholder of the folder in the recorded messages
RECORDED = json.loads((Path(__file__).parents[3] / "fixtures" / "keystores.json").read_text())


async def alter(
    cluster: Cluster, configs: dict[str, str | None], *, check: bool = False
) -> IncrementalAlterConfigsResponse.Resource:
    kind = IncrementalAlterConfigsRequest.Resource
    changes = [
        kind.Config(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in configs.items()
    ]
    resource = kind(resource_type=BROKER, resource_name="0", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)
    return (await cluster.connect().ask(request, 1)).responses[0]


async def connect(cluster: Cluster, client: Path | None = None) -> trio.SSLStream[trio.SocketStream]:
    """Connect a client and exchange a request."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(client)
    host, _, port = cluster.listeners["SSL"].rpartition(":")
    stream = await trio.open_ssl_over_tcp_stream(host, int(port), ssl_context=context)
    try:
        await Peer(stream).ask(MetadataRequest(topics=[]), 12)  # type: ignore[arg-type]
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def certificate(cluster: Cluster, listener: str = "SSL") -> bytes:
    """Return the certificate that a new connection gets."""
    stream = await shake_hands(cluster, listener)
    found: bytes = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    return found


async def serves_anonymous(cluster: Cluster, listener: str = "SSL") -> bool:
    """Report whether the listener serves a client without a certificate."""
    try:
        stream = await shake_hands(
            cluster, listener, ssl.TLSVersion.TLSv1_2
        )  # with TLS 1.2 the handshake fails at the client too
    except trio.BrokenResourceError:
        return False
    await trio.aclose_forcefully(stream)
    return True


async def shake_hands(
    cluster: Cluster, listener: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> trio.SSLStream[trio.SocketStream]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, version
    host, _, port = cluster.listeners[listener].rpartition(":")
    stream = await trio.open_ssl_over_tcp_stream(host, int(port), ssl_context=context)
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def in_folder(folder: Path, name: str, value: str | None) -> str | None:
    """Return the value of a setting: the path of a file, its key or its certificate, or the text itself."""
    if value and name.endswith("location"):
        return str(folder / value)
    part, _, file = (value or "").partition(":")
    return part_of((folder / file).read_text(), part) if file else value


@pytest.mark.parametrize("scenario", RECORDED["scenarios"], ids=lambda each: each["doc"])
async def test_files_are_accepted_and_refused_as_recorded(scenario: dict[str, Any], tmp_path: Path) -> None:
    certificates = write_keystores(tmp_path, RECORDED["files"])
    given = {name: in_folder(tmp_path, name, value) for name, value in scenario["config"].items()}
    config = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", **given}
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        own = await certificate(cluster)
        for step in scenario["steps"]:
            if "copy" in step:
                source, target = step["copy"]
                (tmp_path / target).unlink()
                if source:
                    (tmp_path / target).write_bytes((tmp_path / source).read_bytes())
                certificates[target] = certificates[source] if source else b""
                continue
            configs = {name: in_folder(tmp_path, name, value) for name, value in step["set"].items()}
            result = await alter(cluster, configs, check=step.get("validate_only", False))
            text = result.error_message and result.error_message.replace(str(tmp_path), FOLDER)
            assert (result.error_code, text) == (step["error_code"], step["error_message"]), step
            found = await certificate(cluster)
            assert not given or await serves_anonymous(cluster) is step.get("anonymous", True), step
            known = next((name for name, each in certificates.items() if each == found), "an older one")
            assert (None if found == own and not given else known) == step["certificate"], step


async def test_open_connections_keep_their_certificate(tmp_path: Path) -> None:
    write_keystores(tmp_path, RECORDED["files"])
    config = {STATIC_KEYSTORE: str(tmp_path / "first")}
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        old = await connect(cluster)
        assert not (await alter(cluster, {KEYSTORE: str(tmp_path / "renewed")})).error_code
        assert await certificate(cluster) != old.getpeercert(binary_form=True)
        assert (await Peer(old).ask(MetadataRequest(topics=[]), 12)).brokers  # type: ignore[arg-type]
        await trio.aclose_forcefully(old)


async def test_a_reset_restores_the_first_certificate(tmp_path: Path) -> None:
    write_keystores(tmp_path, RECORDED["files"])
    config = {STATIC_KEYSTORE: str(tmp_path / "first")}
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        before = await certificate(cluster)
        assert not (await alter(cluster, {KEYSTORE: str(tmp_path / "more-names")})).error_code
        assert await certificate(cluster) != before
        cluster.reset()
        assert await certificate(cluster) == before


async def test_stored_files_are_used_after_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = write_keystores(tmp_path, RECORDED["files"])
    given: dict[str, Any] = {"listeners": ["PLAINTEXT", "SSL"], "data_dir": tmp_path / "data"}
    config = {STATIC_KEYSTORE: str(tmp_path / "first")}
    async with open_cluster(**given, config=config) as cluster:
        assert not (await alter(cluster, {KEYSTORE: str(tmp_path / "renewed")})).error_code
    async with open_cluster(**given, config=config) as cluster:
        assert await certificate(cluster) == certificates["renewed"]
    (tmp_path / "renewed").unlink()
    async with open_cluster(**given, config=config) as cluster:
        assert await certificate(cluster) == certificates["first"]
    assert (
        "listener SSL of broker 0 keeps its current certificates: org.apache.kafka.common.errors.Invalid" in caplog.text
    )


async def test_new_connections_are_checked_with_the_new_truststore(tmp_path: Path) -> None:
    authorities = {"one": CA(), "two": CA()}
    for name, authority in authorities.items():
        issued = authority.issue_cert("127.0.0.1", common_name="client")
        (tmp_path / name).write_bytes(keystore_pem(issued))
        authority.cert_pem.write_to_path(str(tmp_path / f"ca-{name}"))
    config = {
        STATIC_KEYSTORE: str(tmp_path / "one"),
        STATIC_TRUSTSTORE: str(tmp_path / "ca-one"),
        "ssl.client.auth": "required",
    }
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        for trusted, refused in (("one", "two"), ("two", "one")):
            assert not (await alter(cluster, {TRUSTSTORE: str(tmp_path / f"ca-{trusted}")})).error_code
            await trio.aclose_forcefully(await connect(cluster, tmp_path / trusted))
            with pytest.raises((trio.BrokenResourceError, AssertionError)):
                await connect(cluster, tmp_path / refused)


async def test_listeners_have_their_own_client_authentication() -> None:
    """Both use the generated certificates. Only the listener OPEN serves a client without a certificate."""
    config = {
        "listener.security.protocol.map": "SSL:SSL,OPEN:SSL",
        "ssl.client.auth": "required",
        "listener.name.open.ssl.client.auth": "none",
    }
    async with open_cluster(listeners=["SSL", "OPEN"], config=config) as cluster:
        assert not await serves_anonymous(cluster)
        assert await serves_anonymous(cluster, "OPEN")
        assert await certificate(cluster) == await certificate(cluster, "OPEN")
        await trio.aclose_forcefully(await connect(cluster, cluster.tls.client))


async def test_listener_with_a_keystore_of_its_own(tmp_path: Path) -> None:
    certificates = write_keystores(tmp_path, {"store": {"names": "localhost", "parts": "pkcs12"}})
    prefix = "listener.name.own.ssl.keystore"
    config = {
        "listener.security.protocol.map": "SSL:SSL,OWN:SSL",
        f"{prefix}.location": str(tmp_path / "store"),
        f"{prefix}.password": "changeit",
    }
    async with open_cluster(listeners=["SSL", "OWN"], config=config) as cluster:
        assert await certificate(cluster, "OWN") == certificates["store"]
        assert await certificate(cluster) != certificates["store"]
        assert cluster.tls.ca is not None

"""Certificates that AlterConfigs replaces, on the sockets of a listener with TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
from tools.served_broker import Peer
from trustme import CA

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import open_cluster
from mockbroker.api.cluster import Cluster

BROKER, SET, DELETE = 4, 0, 1
KEYSTORE, TRUSTSTORE = "listener.name.ssl.ssl.keystore.location", "listener.name.ssl.ssl.truststore.location"


def write_certificate(path: Path, authority: CA) -> str:
    authority.issue_cert("127.0.0.1", common_name="broker").private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


async def alter(cluster: Cluster, name: str, value: str | None) -> None:
    resource = IncrementalAlterConfigsRequest.Resource
    config = resource.Config(name=name, config_operation=DELETE if value is None else SET, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=BROKER, resource_name="0", configs=[config])]
    )
    response = await cluster.connect().ask(request, 1)
    assert [each.error_code for each in response.responses] == [0]


async def connect(cluster: Cluster, client: Path | None = None) -> trio.SSLStream[trio.SocketStream]:
    """A connection of a client that has exchanged a request."""
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


async def certificate(cluster: Cluster) -> bytes:
    """The certificate that a new connection gets."""
    stream = await connect(cluster)
    found: bytes = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    return found


def in_file(path: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert("-----BEGIN CERT" + Path(path).read_text().split("-----BEGIN CERT")[1])


async def test_new_connections_get_the_new_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = (write_certificate(tmp_path / name, CA()) for name in ("first", "second"))
    config = {"ssl.keystore.location": first}
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        old = await connect(cluster)
        await alter(cluster, KEYSTORE, second)
        assert await certificate(cluster) == in_file(second) != in_file(first)
        assert (await Peer(old).ask(MetadataRequest(topics=[]), 12)).brokers  # type: ignore[arg-type]
        await trio.aclose_forcefully(old)
        before = in_file(write_certificate(Path(second), CA()))
        assert await certificate(cluster) != before, "a file that is only rewritten is not read"
        await alter(cluster, KEYSTORE, second)
        assert await certificate(cluster) == before
        await alter(cluster, KEYSTORE, str(tmp_path / "none"))
        for _ in range(2):
            assert await certificate(cluster) == before
        await alter(cluster, KEYSTORE, None)
        assert await certificate(cluster) == in_file(first)
    assert caplog.text.count("listener SSL of broker 0 keeps its certificates: ssl.keystore.location: cannot load") == 1


async def test_new_connections_are_checked_with_the_new_truststore(tmp_path: Path) -> None:
    authorities = {"one": CA(), "two": CA()}
    for name, authority in authorities.items():
        write_certificate(tmp_path / name, authority)
        authority.cert_pem.write_to_path(str(tmp_path / f"ca-{name}"))
    config = {
        "ssl.keystore.location": str(tmp_path / "one"),
        "ssl.truststore.location": str(tmp_path / "ca-one"),
        "ssl.client.auth": "required",
    }
    async with open_cluster(listeners=["PLAINTEXT", "SSL"], config=config) as cluster:
        for trusted, refused in (("one", "two"), ("two", "one")):
            await alter(cluster, TRUSTSTORE, str(tmp_path / f"ca-{trusted}"))
            await trio.aclose_forcefully(await connect(cluster, tmp_path / trusted))
            with pytest.raises((trio.BrokenResourceError, AssertionError)):
                await connect(cluster, tmp_path / refused)


async def test_a_truststore_alone_has_no_effect_on_generated_ones(caplog: pytest.LogCaptureFixture) -> None:
    async with open_cluster(listeners=["PLAINTEXT", "SSL"]) as cluster:
        before = await certificate(cluster)
        await alter(cluster, TRUSTSTORE, "any")
        assert await certificate(cluster) == before
    assert f"{TRUSTSTORE} has no effect on generated certificates: set ssl.keystore.location too" in caplog.text

"""The proxy on sockets: the addresses that clients get, brokers that move or are missing, and ends of connections."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
from tools.served_broker import PATIENCE, Peer
from trio.testing import MockClock

from kwire import encode_request, encode_response
from kwire.apikeys import ApiKey
from kwire.capture import Call, read
from kwire.frames import pack
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from kwire.recording import WRITERS
from mockbroker import open_cluster
from mockbroker.base.settings import Settings
from mockbroker.net.bound_listeners import listen
from mockbroker.net.tls import Tls
from mockbroker.proxy import relay
from mockbroker.proxy.addresses import Address, Advertised
from mockbroker.proxy.observer import Connection, Exchange, Moment, Observer
from mockbroker.proxy.relay import RESERVED_FILES, Proxy
from mockbroker.proxy.session import HANDSHAKE_FAILURE
from mockbroker.proxy.splicing import SplicePipe
from mockbroker.proxy.upstream import CHECK_INTERVAL, Upstream
from mockbroker.recording.files import RecordingFiles
from mockbroker.recording.rotation import Limits


@asynccontextmanager
async def proxied(
    *bootstrap: Address,
    observers: Sequence[Observer] = (),
    tls: ssl.SSLContext | None = None,
    tls_to: ssl.SSLContext | None = None,
    open_files: int | None = None,
    advertised: Advertised | None = None,
) -> AsyncIterator[Proxy]:
    proxy = Proxy(
        Upstream(bootstrap, tls_to), advertised=advertised, observers=observers, tls=tls, open_files=open_files
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.run)
        try:
            yield proxy
        finally:
            while PEERS:
                PEERS.pop().stream.socket.close()
        nursery.cancel_scope.cancel()


PEERS: list[Peer] = []  # ``proxied`` closes them


async def connect(address: Address) -> Peer:
    PEERS.append(Peer(await trio.open_tcp_stream(*address)))
    return PEERS[-1]


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


async def test_every_broker_has_an_address_of_the_proxy() -> None:
    async with open_cluster(brokers=3, topics={"t": 1}) as cluster:
        real = [address_of(each) for each in cluster.bootstrap_servers.split(",")]
        async with proxied(*real) as proxy:
            peer = await connect(proxy.bootstrap)
            metadata = await peer.ask(MetadataRequest(topics=None), 12)
            own = {broker.node_id: Address(broker.host, broker.port) for broker in metadata.brokers}
            assert own == proxy.own
            assert len({proxy.bootstrap, *own.values(), *real}) == 7
            described = await peer.ask(DescribeClusterRequest(), 1)
            assert {each.broker_id: Address(each.host, each.port) for each in described.brokers} == own
            response = await peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            (coordinator,) = response.coordinators
            assert Address(coordinator.host, coordinator.port) == own[coordinator.node_id]
            for node, address in own.items():
                through = await connect(address)
                again = await through.ask(MetadataRequest(topics=None), 12)
                assert {broker.port for broker in again.brokers} == {each.port for each in own.values()}
                request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
                error = (await through.ask(request, 4)).error_code
                assert (error == 16) == (node != coordinator.node_id)  # NOT_COORDINATOR


def free_ports(number: int) -> list[int]:
    reserved = [listen("127.0.0.1", 0) for _ in range(number)]
    ports = [each.getsockname()[1] for each in reserved]
    for each in reserved:
        each.close()
    return ports


async def test_clients_get_the_mapped_addresses() -> None:
    first, second = free_ports(2)
    mapped = {0: Address("outside", 31_001), 1: Address("localhost", second)}
    advertised = Advertised("outside", Address("outside", 31_000), mapped, {0: first})
    async with open_cluster(brokers=2) as cluster:
        real = [address_of(each) for each in cluster.bootstrap_servers.split(",")]
        async with proxied(*real, advertised=advertised) as proxy:
            assert proxy.bootstrap == Address("outside", 31_000)
            proxy.update(dict(enumerate(real)))
            for node, port in enumerate((first, second)):  # one advertised port differs, the other does not
                peer = await connect(Address("127.0.0.1", port))
                metadata = await peer.ask(MetadataRequest(topics=[]), 12)
                assert {each.node_id: Address(each.host, each.port) for each in metadata.brokers} == mapped
                (seen,) = cluster.requests("Metadata")[node:]
                assert seen.node == node


async def test_a_broker_without_an_advertised_address_is_named(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    advertised = Advertised("outside", None, {0: Address("outside", 31_001)}, {0: port})
    async with open_cluster(brokers=2) as cluster:
        real = [address_of(each) for each in cluster.bootstrap_servers.split(",")]
        async with proxied(*real, advertised=advertised) as proxy:
            with caplog.at_level(logging.WARNING, "mockbroker"):
                for _ in range(2):
                    proxy.update(dict(enumerate(real)))
            own = proxy.own[1]
    assert own.host == "outside"
    assert caplog.messages == [
        f"no option --advertise has an address for broker 1 of the cluster: clients get its address {own}: add "
        "--advertise 1=HOST:PORT"
    ]


async def test_a_port_of_a_broker_that_is_in_use_is_named(caplog: pytest.LogCaptureFixture) -> None:
    taken = listen("127.0.0.1", 0)
    port = taken.getsockname()[1]
    async with proxied(Address("real", 1), advertised=Advertised("127.0.0.1", ports={4: port})) as proxy:
        with caplog.at_level(logging.WARNING, "mockbroker"), pytest.raises(OSError, match="in use"):
            proxy.update({4: Address("real", 9)})
    taken.close()
    assert f"cannot open a listener on 127.0.0.1:{port} for broker 4 of the cluster (Address already" in caplog.text


async def test_a_broker_keeps_its_port_when_it_moves() -> None:
    async with open_cluster() as first, open_cluster() as second:
        one, two = address_of(first.bootstrap_servers), address_of(second.bootstrap_servers)
        async with proxied(one) as proxy:
            peer = await connect(proxy.bootstrap)
            await peer.ask(MetadataRequest(topics=[]), 12)
            own = dict(proxy.own)
            proxy.update({0: two})
            assert proxy.own == own
            through = await connect(own[0])
            await through.ask(MetadataRequest(topics=[]), 12)
            assert [len(each.requests("Metadata")) for each in (first, second)] == [1, 1]


async def test_a_missing_cluster_ends_the_connection_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    reserved = listen("127.0.0.1", 0)
    missing = Address(*reserved.getsockname())
    reserved.close()
    async with proxied(missing) as proxy:
        peer = await connect(proxy.bootstrap)
        with caplog.at_level(logging.WARNING, "mockbroker"):
            assert await peer.closed() == b""
    assert f"cannot connect to the cluster at {missing} (Connection refused): closing the" in caplog.text


async def test_reconnecting_clients_do_not_repeat_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    reserved = listen("127.0.0.1", 0)
    missing = Address(*reserved.getsockname())
    reserved.close()
    async with proxied(missing) as proxy:
        with caplog.at_level(logging.WARNING, "mockbroker"):
            for _ in range(20):
                assert await (await connect(proxy.bootstrap)).closed() == b""
    assert len([message for message in caplog.messages if "closing the client's" in message]) == 1


async def test_a_side_that_uses_tls_is_named(caplog: pytest.LogCaptureFixture) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    real = Address("127.0.0.1", listener.socket.getsockname()[1])

    async def serve(stream: trio.SocketStream) -> None:
        if (await stream.receive_some()).startswith(b"\0"):
            await stream.send_all(HANDSHAKE_FAILURE)  # the answer of a TLS listener

    async with trio.open_nursery() as nursery, proxied(real) as proxy:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        with caplog.at_level(logging.WARNING, "mockbroker"):
            peer = await connect(proxy.bootstrap)
            await peer.send((MetadataRequest(topics=[]), 12))
            await peer.closed()
            stream = (await connect(proxy.bootstrap)).stream
            with pytest.raises(trio.BrokenResourceError):
                await trio.SSLStream(stream, ssl.create_default_context(), server_hostname="x").do_handshake()
        nursery.cancel_scope.cancel()
    assert caplog.messages == [
        f"connection closed: the listener of the broker at {real} uses TLS: start the proxy with --tls-to",
        "connection closed: the client uses TLS: start the proxy with --tls",
    ]


async def test_the_start_of_a_missing_cluster_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    autojump_clock.autojump_threshold = 0.1  # real seconds, for the sockets
    reserved = listen("127.0.0.1", 0)
    missing = Address(*reserved.getsockname())
    reserved.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Upstream([missing]).wait_reachable)
        await trio.sleep(10 * CHECK_INTERVAL)
        (line,) = caplog.messages
        refused = f"cannot connect to the cluster at {missing} (Connection refused)"
        assert line == f"{refused}: trying again every 5 s; clients are refused until it succeeds"
        with socket.create_server(missing):
            await trio.sleep(CHECK_INTERVAL)
    assert caplog.messages[1:] == [f"the cluster at {missing} now accepts connections: clients are served"]


async def test_a_host_name_that_is_not_valid_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = Upstream([Address("kafka..local", 9092)])
    with trio.move_on_after(CHECK_INTERVAL / 2):
        await upstream.wait_reachable()
    assert await upstream.connect(upstream.bootstrap) is None
    refused = "cannot connect to the cluster at kafka..local:9092 (label empty or too long)"
    assert [line[: len(refused)] for line in caplog.messages] == [refused, refused]


async def test_clients_wait_if_the_limit_of_open_files_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    files = RESERVED_FILES + 1 + 2 * 3  # for the process, the listener of broker 0, and three connections
    async with open_cluster() as cluster, proxied(address_of(cluster.bootstrap_servers), open_files=files) as proxy:
        peers = [await connect(proxy.bootstrap) for _ in range(5)]
        for peer in peers[:3]:
            assert (await peer.ask(MetadataRequest(topics=[]), 12)).brokers
        await peers[3].send((MetadataRequest(topics=[]), 12))
        with trio.move_on_after(0.2) as waiting:
            await peers[3].receive()
        assert waiting.cancelled_caught
        assert proxy.connections == 3
        assert caplog.messages == [
            "3 connections are open: new connections wait: the limit of 57 open files is reached: "
            "raise the limit with ulimit -n"
        ]
        await peers[0].stream.aclose()
        with trio.fail_after(PATIENCE):
            assert (await peers[3].receive()).brokers


async def test_a_listener_that_cannot_be_opened_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_files(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async with (
        open_cluster(brokers=2) as cluster,
        proxied(address_of(cluster.bootstrap_servers.split(",")[0])) as proxy,
    ):
        with monkeypatch.context() as files:
            files.setattr(relay, "listen", out_of_files)
            for _ in range(3):
                peer = await connect(proxy.bootstrap)
                await peer.send((MetadataRequest(topics=[]), 12))
                assert await peer.closed() == b""
        assert caplog.messages == [
            "cannot open a listener on 127.0.0.1 for broker 0 of the cluster (Too many open files): "
            "closing the client's connection: raise the limit with ulimit -n"
        ]
        assert (proxy.own, proxy.brokers) == ({}, {})
        peer = await connect(proxy.bootstrap)
        assert len((await peer.ask(MetadataRequest(topics=[]), 12)).brokers) == len(proxy.own) == 2


async def test_another_bootstrap_address_is_used_if_one_is_missing() -> None:
    reserved = listen("127.0.0.1", 0)
    missing = Address(*reserved.getsockname())
    reserved.close()
    async with open_cluster() as cluster, proxied(missing, address_of(cluster.bootstrap_servers)) as proxy:
        peer = await connect(proxy.bootstrap)
        assert (await peer.ask(MetadataRequest(topics=[]), 12)).brokers


async def test_responses_arrive_after_the_client_has_ended_its_side() -> None:
    async with open_cluster() as cluster, proxied(address_of(cluster.bootstrap_servers)) as proxy:
        peer = await connect(proxy.bootstrap)
        await peer.send(*[(MetadataRequest(topics=[]), 12)] * 3)
        await peer.stream.send_eof()
        for _ in range(3):
            assert (await peer.receive()).brokers
        assert await peer.closed() == b""
        with trio.fail_after(PATIENCE):
            while proxy.connections:
                await trio.sleep(0.01)


async def test_the_end_of_the_broker_ends_the_connection() -> None:
    async with open_cluster() as cluster, proxied(address_of(cluster.bootstrap_servers)) as proxy:
        peer = await connect(proxy.bootstrap)
        await peer.ask(MetadataRequest(topics=[]), 12)
        cluster.stop_broker(0)
        assert await peer.closed() == b""


async def test_an_invalid_frame_ends_only_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with open_cluster() as cluster, proxied(address_of(cluster.bootstrap_servers)) as proxy:
        healthy, hostile = await connect(proxy.bootstrap), await connect(proxy.bootstrap)
        await hostile.stream.send_all(b"\x7f\xff\xff\xff" + bytes(100))
        assert await hostile.closed() == b""
        assert (await healthy.ask(MetadataRequest(topics=[]), 12)).brokers
    assert "connection closed: frame size 2147483647 is out of range" in caplog.text


async def test_observers_see_connections_and_their_frames() -> None:
    seen: list[tuple[str, Connection]] = []

    class Recorder(Observer):
        def opened(self, connection: Connection, at: Moment) -> None:
            assert at.wall > 0
            seen.append(("opened", connection))

        def requested(self, exchange: Exchange) -> None:
            seen.append(("requested", exchange.connection))

        def answered(self, exchange: Exchange) -> None:
            seen.append(("answered", exchange.connection))

        def closed(self, connection: Connection, at: Moment) -> None:
            assert at.wall > 0
            seen.append(("closed", connection))

    async with open_cluster() as cluster:
        real = address_of(cluster.bootstrap_servers)
        async with proxied(real, observers=[Recorder()]) as proxy:
            peer = await connect(proxy.bootstrap)
            await peer.ask(MetadataRequest(topics=[]), 12)
            client = Address(*peer.stream.socket.getsockname())
            await peer.stream.aclose()
            with trio.fail_after(PATIENCE):
                while proxy.connections:
                    await trio.sleep(0.01)
            expected = Connection(1, client, -1, real, proxy.bootstrap)
    assert seen == [(what, expected) for what in ("opened", "requested", "answered", "closed")]


async def test_tokens_without_headers_pass_and_are_not_observed() -> None:
    seen: list[Exchange] = []

    class Recorder(Observer):
        def answered(self, exchange: Exchange) -> None:
            seen.append(exchange)

    async with (
        open_cluster(listeners=["SASL_PLAINTEXT"], users={"7up": "hidden"}) as cluster,
        proxied(address_of(cluster.bootstrap_servers), observers=[Recorder()]) as proxy,
    ):
        peer = await connect(proxy.bootstrap)
        assert (await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)).error_code == 0
        await peer.stream.send_all(pack(b"\0007up\0hidden"))
        with trio.fail_after(PATIENCE):
            assert await peer.stream.receive_some(100) == pack(b"")
        assert (await peer.ask(MetadataRequest(topics=[]), 12)).brokers
    assert [each.api_key for each in seen] == [17, 3]
    assert not any(b"hidden" in each.request for each in seen)


async def test_clients_use_tls(caplog: pytest.LogCaptureFixture) -> None:
    certificates = Tls(Settings.parse({}), "127.0.0.1")
    try:
        async with (
            open_cluster() as cluster,
            proxied(address_of(cluster.bootstrap_servers), tls=certificates.context) as proxy,
        ):
            for _ in range(2):  # the client tries again
                plain = await connect(proxy.bootstrap)
                await plain.send((MetadataRequest(topics=[]), 12))
                await plain.closed()
            context = ssl.create_default_context(cafile=str(certificates.files.ca))
            for _ in range(2):
                stream = await trio.open_ssl_over_tcp_stream(*proxy.bootstrap, ssl_context=context)
                peer = Peer(stream)  # type: ignore[arg-type]
                (broker,) = (await peer.ask(MetadataRequest(topics=[]), 12)).brokers
                await trio.aclose_forcefully(stream)
                assert Address(broker.host, broker.port) == proxy.own[0]
    finally:
        certificates.close()
    (message,) = caplog.messages
    assert message.startswith("connection from 127.0.0.1 closed: TLS: ")
    assert message.endswith("; the client does not use TLS")


async def test_the_cluster_is_reached_by_tls_and_verified(caplog: pytest.LogCaptureFixture) -> None:
    async with open_cluster(listeners=["SSL"], config={"ssl.client.auth": "required"}) as cluster:
        trusting = ssl.create_default_context(cafile=str(cluster.tls.ca))
        trusting.load_cert_chain(str(cluster.tls.client))
        real = address_of(cluster.bootstrap_servers)
        async with proxied(real, tls_to=trusting) as proxy:
            (broker,) = (await (await connect(proxy.bootstrap)).ask(MetadataRequest(topics=[]), 12)).brokers
            assert Address(broker.host, broker.port) == proxy.own[0]
        async with proxied(real, tls_to=ssl.create_default_context()) as proxy:
            assert await (await connect(proxy.bootstrap)).closed() == b""
    assert "(TLS: unable to get local issuer certificate)" in caplog.text or "(TLS: self" in caplog.text


@pytest.mark.parametrize("response", [b"", b"\0\0\0\x04\0\0\0\0"], ids=["end", "frame"])
async def test_a_listener_without_tls_is_named(response: bytes, caplog: pytest.LogCaptureFixture) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(response)
        await stream.aclose()

    real = Address("127.0.0.1", listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery, proxied(real, tls_to=ssl.create_default_context()) as proxy:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        assert await (await connect(proxy.bootstrap)).closed() == b""
        nursery.cancel_scope.cancel()
    (message,) = caplog.messages
    assert message.endswith("; check that its listener uses TLS): closing the client's connection")


async def brokers_by_tls(address: Address, context: ssl.SSLContext) -> int:
    """Return the number of brokers that a new client learns from Metadata. Raises: BrokenResourceError if the proxy
    refuses the client."""
    stream = await trio.open_ssl_over_tcp_stream(*address, ssl_context=context)
    try:
        with trio.fail_after(PATIENCE):
            return len((await Peer(stream).ask(MetadataRequest(topics=[]), 12)).brokers)  # type: ignore[arg-type]
    finally:
        await trio.aclose_forcefully(stream)


async def test_clients_without_a_certificate_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    of_clients = Tls(Settings.parse({}), "127.0.0.1")
    required = {"ssl.truststore.location": str(of_clients.files.ca), "ssl.client.auth": "required"}
    certificates = Tls(Settings.parse(required), "127.0.0.1")
    try:
        async with (
            open_cluster() as cluster,
            proxied(address_of(cluster.bootstrap_servers), tls=certificates.context) as proxy,
        ):
            context = ssl.create_default_context(cafile=str(certificates.files.ca))
            with pytest.raises((trio.BrokenResourceError, AssertionError)):
                await brokers_by_tls(proxy.bootstrap, context)
            context.load_cert_chain(str(of_clients.files.client))
            assert await brokers_by_tls(proxy.bootstrap, context) == 1
    finally:
        certificates.close()
        of_clients.close()
    assert "closed: TLS: peer did not return a certificate" in caplog.text


class Failing(Observer):
    """An observer with a bug: it raises an exception for each Heartbeat."""

    def needs(self, api_key: int, version: int) -> bool:
        return api_key == ApiKey.HEARTBEAT

    def requested(self, exchange: Exchange) -> None:
        raise ArithmeticError(f"Heartbeat v{exchange.version}")


async def test_internal_error_ends_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        open_cluster(topics={"t": 1}) as cluster,
        proxied(address_of(cluster.bootstrap_servers), observers=[Failing()]) as proxy,
    ):
        first, second = await connect(proxy.bootstrap), await connect(proxy.bootstrap)
        await second.ask(MetadataRequest(topics=[]), 12)
        await first.send((HeartbeatRequest(group_id="g", member_id="m"), 4))
        with trio.fail_after(PATIENCE):
            assert await first.stream.receive_some() == b""
        await second.ask(MetadataRequest(topics=[]), 12)
        [message] = [each.getMessage() for each in caplog.records if each.exc_info]
        assert message.startswith("connection from 127.0.0.1:")
        assert message.endswith(" closed: internal error")


@pytest.mark.parametrize(
    ("way", "suffix", "limits"),
    [
        ("spliced", ".pcapng", Limits()),
        ("spliced", ".pcapng", Limits(size=1_000_000)),
        ("spliced", ".jsonl", Limits()),
        ("copied", ".pcapng", Limits()),
        ("copied", ".jsonl", Limits()),
        ("TLS", ".pcapng", Limits()),
    ],
    ids=["spliced pcapng", "spliced files", "spliced jsonl", "copied pcapng", "copied jsonl", "TLS"],
)
async def test_large_frames_are_forwarded_and_recorded(
    way: str, suffix: str, limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client and broker read slowly, so the proxy can forward only a part of the bytes that it has received."""
    is_encrypted, moved = way == "TLS", []
    move = SplicePipe.move

    def move_if_possible(pipe: SplicePipe, source: int, target: int, size: int) -> tuple[int, bytes]:
        if way == "copied":
            pipe.is_usable = False
            return 0, b""
        moved.append(size)
        return move(pipe, source, target, size)

    monkeypatch.setattr(SplicePipe, "move", move_if_possible)
    random, path = Random(1), tmp_path / f"out{suffix}"
    numbers = range(3)
    batches = [random.randbytes(1_500_000 + number) for number in numbers]
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    arrived: dict[int, bytes] = {}

    async def serve(stream: trio.SocketStream) -> None:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
        expected = {pack(requests(batch)[0]): batch for batch in batches}
        size = max(map(len, expected))
        data = await read_slowly(stream, min(map(len, expected)))
        while data not in expected and len(data) < size:
            data += await read_slowly(stream, 1)
        batch = expected[data]
        arrived[batches.index(batch)] = data
        response, fetch = map(pack, answers(batch))
        await stream.send_all(response)
        await read_slowly(stream, len(pack(requests(batch)[1])))
        await stream.send_all(fetch)

    async def play(number: int, address: Address, context: ssl.SSLContext | None) -> None:
        stream: trio.abc.Stream = await trio.open_tcp_stream(*address)
        if context is not None:
            stream = trio.SSLStream(stream, context, server_hostname=address.host)
        produce, fetch = map(pack, requests(batches[number]))
        response, large = map(pack, answers(batches[number]))
        await stream.send_all(produce)
        assert await read_slowly(stream, len(response)) == response
        await stream.send_all(fetch)
        assert await read_slowly(stream, len(large)) == large
        await trio.aclose_forcefully(stream)

    certificates = Tls(Settings.parse({}), "127.0.0.1")
    recording = RecordingFiles(path, WRITERS[suffix](), limits)
    try:
        with trio.fail_after(PATIENCE):
            async with (
                recording.running(),
                trio.open_nursery() as nursery,
                proxied(
                    Address("127.0.0.1", listener.socket.getsockname()[1]),
                    observers=[recording.recorder],
                    tls=certificates.context if is_encrypted else None,
                ) as proxy,
            ):
                nursery.start_soon(trio.serve_listeners, serve, [listener])
                context = ssl.create_default_context(cafile=str(certificates.files.ca)) if is_encrypted else None
                async with trio.open_nursery() as clients:
                    for number in numbers:
                        clients.start_soon(play, number, proxy.bootstrap, context)
                nursery.cancel_scope.cancel()
    finally:
        certificates.close()
    assert len(arrived) == len(numbers)
    assert (len(list(tmp_path.iterdir())) > 1) == (limits != Limits())
    calls = [item for item in read(tmp_path) if isinstance(item, Call)]
    produced = [call.request.topic_data[0].partition_data[0].records for call in calls if call.api_key == 0]
    fetched = [call.response.responses[0].partitions[0].records for call in calls if call.api_key == 1]
    assert sorted(produced) == sorted(fetched) == sorted(batches)
    assert bool(moved) == (way == "spliced" and SplicePipe().is_usable)


def requests(batch: bytes) -> tuple[bytes, bytes]:
    """Return a Produce request with a batch, and a Fetch request."""
    partition = ProduceRequest.Topic.Partition(index=0, records=batch)
    produce = ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])])
    return encode_request(produce, 9, correlation_id=1), encode_request(FetchRequest(), 11, correlation_id=2)


def answers(batch: bytes) -> tuple[bytes, bytes]:
    """Return the responses to both requests; the second contains the batch."""
    partition = FetchResponse.Topic.Partition(partition_index=0, records=batch)
    fetched = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition])])
    return encode_response(ProduceResponse(), 9, correlation_id=1), encode_response(fetched, 11, correlation_id=2)


async def read_slowly(stream: trio.abc.Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = await stream.receive_some(min(30_000, size - len(data)))
        assert received
        data += received
        await trio.sleep(0)
    return bytes(data)

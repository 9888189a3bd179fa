"""Fault rules on real sockets, in plaintext and with TLS: resets, cut responses, pace, and new connections."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from plain_client import RawConnection
from tools.served_broker import serving
from trio.testing import MockClock

from kwire import ErrorCode as E
from kwire import encode_request
from kwire.frames import pack
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import ThreadCluster, run_cluster
from mockbroker.base.settings import Settings
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.parsing import parse_rule
from mockbroker.net.sockets import FRAME_TIMEOUT
from mockbroker.net.tls import Tls

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3
BEAT_RESPONSE = bytes.fromhex("0000000a 00000001 00000000 0019")  # correlation id, throttle time, UNKNOWN_MEMBER_ID
METADATA = MetadataRequest(topics=None), 9
PARTITION = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
COMMIT = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name="t", partitions=[PARTITION])]), 7
PLAIN, TLS = "PLAINTEXT", "SSL"


@contextmanager
def running(protocol: str = PLAIN, **how: Any) -> Iterator[ThreadCluster]:
    """Run a cluster with one listener and a stopped clock."""
    with run_cluster(topics={"t": 1}, listeners=[protocol], clock="manual", **how) as cluster:
        yield cluster


def connected(cluster: ThreadCluster) -> RawConnection:
    context = None
    if TLS in cluster.listeners:
        context = ssl.create_default_context(cafile=str(cluster.tls.ca))
    connection = RawConnection(cluster.bootstrap_servers, context)
    if isinstance(connection.sock, ssl.SSLSocket):
        connection.sock.suppress_ragged_eofs = False  # a connection that ends without close_notify is an error
    return connection


def rest_of(connection: RawConnection) -> tuple[bytes, str]:
    """Return the bytes that arrive until the end of the connection, and how it ends."""
    data = b""
    try:
        while part := connection.sock.recv(65_536):
            data += part
    except (ConnectionResetError, ssl.SSLEOFError):
        return data, "reset"
    return data, "end"


ENDS = {"end": False, "reset": True}


@pytest.mark.parametrize("protocol", [PLAIN, TLS])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("point", ["before", "after"])
def test_disconnect_sends_nothing(point: Any, end: str, protocol: str) -> None:
    with running(protocol) as cluster:
        fault = cluster.faults.disconnect("OffsetCommit", point, reset=ENDS[end])
        with connected(cluster) as connection:
            connection.send(*COMMIT)
            assert rest_of(connection) == (b"", end)
        assert fault.applied == 1
        assert cluster.committed("g") == ({} if point == "before" else {("t", 0): 5})


@pytest.mark.parametrize("protocol", [PLAIN, TLS])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("sent", "expected"), [(0, 0), (6, 6), (None, 7), (1_000, 14)])
def test_mid_response_sends_the_first_bytes(sent: int | None, expected: int, end: str, protocol: str) -> None:
    with running(protocol) as cluster:
        how: Any = {} if sent is None else {"bytes": sent}
        cluster.faults.disconnect("Heartbeat", "mid-response", reset=ENDS[end], **how)
        with connected(cluster) as connection:
            connection.send(*BEAT)
            assert rest_of(connection) == (BEAT_RESPONSE[:expected], end)


@pytest.mark.parametrize("end", ENDS)
def test_mid_response_of_a_durable_commit(end: str, tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as cluster:
        cluster.faults.disconnect("OffsetCommit", "mid-response", bytes=6, reset=ENDS[end])  # type: ignore[call-arg]
        with connected(cluster) as connection:
            connection.send(*COMMIT)
            assert rest_of(connection) == (bytes.fromhex("00000019 0000"), end)
        assert cluster.committed("g") == {("t", 0): 5}


def test_answers_before_a_reset_arrive() -> None:
    with running() as cluster:
        cluster.faults.disconnect("Heartbeat", "before", reset=True, skip=2)
        with connected(cluster) as connection:
            request, version = BEAT
            frame = pack(encode_request(request, version, correlation_id=1, client_id=None))
            connection.send_bytes(frame * 4)  # all at once: a later request could arrive after the reset
            assert rest_of(connection) == (BEAT_RESPONSE * 2, "reset")


@pytest.mark.parametrize("protocol", [PLAIN, TLS])
def test_paced_response_arrives_in_parts_and_then_the_next(protocol: str) -> None:
    with running(protocol) as cluster:
        fault = cluster.faults.add(api="Heartbeat", bytes_per_second=10)
        with connected(cluster) as connection:
            connection.send(*BEAT)
            connection.send(*BEAT)
            fault.wait_applied()
            received = b""
            while len(received) < 4:
                cluster.clock.advance(0.1)
                received += connection.sock.recv(65_536)
            assert len(received) == 4
            cluster.clock.advance(2.5)
            while len(received) < 28:
                received += connection.sock.recv(65_536)
            assert received == BEAT_RESPONSE * 2


def test_several_paced_responses_keep_their_order() -> None:
    with running() as cluster:
        fault = cluster.faults.add(api="Heartbeat", bytes_per_second=10, times="always")
        with connected(cluster) as connection:
            for _ in range(3):
                connection.send(*BEAT)
            fault.wait_applied(count=3)
            cluster.clock.advance(10)
            assert [connection.answer().error_code for _ in range(3)] == [E.UNKNOWN_MEMBER_ID] * 3
        fault.remove()
        assert waits_for_nothing(cluster)


@pytest.mark.parametrize("protocol", [PLAIN, TLS])
def test_removal_of_the_rule_sends_the_rest_at_once(protocol: str) -> None:
    value = random.Random(5).randbytes(10_000_000)  # more than the buffers of a socket
    with running(protocol, config={"message.max.bytes": len(value) + 1_000}) as cluster:
        cluster.produce("t", [value], partition=0)
        fault = cluster.faults.add(api="Fetch", bytes_per_second=1)
        with connected(cluster) as connection:
            partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=2 * len(value))
            topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
            connection.send(FetchRequest(max_bytes=2 * len(value), session_epoch=-1, topics=topics), 12)
            connection.send(*BEAT)
            fault.wait_applied()
            fault.remove()
            response = connection.answer()
            assert len(response.responses[0].partitions[0].records) > len(value)
            assert connection.answer().error_code == E.UNKNOWN_MEMBER_ID


def waits_for_nothing(cluster: ThreadCluster) -> bool:
    """Report whether no request is affected by a rule any more, once all due timers have run."""
    cluster.clock.advance(1)
    return bool(cluster._perform(lambda served: served._router.outer_stages == {}))


def test_paced_response_is_forgotten_with_its_connection() -> None:
    with running() as cluster:
        fault = cluster.faults.add(api="Metadata", bytes_per_second=1)
        with connected(cluster) as connection:
            connection.send(*METADATA)
            fault.wait_applied()
        fault.remove()
        cluster.disconnect(client_id="*")
        assert waits_for_nothing(cluster)


@pytest.mark.parametrize("protocol", [PLAIN, TLS])
@pytest.mark.parametrize("action", ["hold", "delay"])
def test_new_connection_is_served_later(action: str, protocol: str) -> None:
    with running(protocol) as cluster:
        how: Any = {"hold": True} if action == "hold" else {"delay_ms": 1_000}
        fault = cluster.faults.add(on="connect", **how)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port))) as early:
            fault.wait_applied()
            early.settimeout(0.05)
            early.sendall(b"\0")  # neither a ClientHello nor a request gets a response
            with pytest.raises(TimeoutError):
                early.recv(1)
            with connected(cluster) as other:  # the rule is exhausted
                assert other.ask(*BEAT).error_code == E.UNKNOWN_MEMBER_ID
            if action == "hold":
                assert (fault.holding, fault.release()) == (1, 1)
            else:
                cluster.clock.advance(1)
            early.settimeout(5)
            with suppress(ConnectionResetError):
                early.sendall(b"\0" * 64)  # neither a request nor TLS: the connection is closed
                assert not early.recv(64)


def test_delay_of_a_tls_connection_ends_by_itself() -> None:
    with run_cluster(topics={}, listeners=[TLS]) as cluster:
        cluster.faults.add(on="connect", delay_ms=10)
        with connected(cluster) as connection:
            assert connection.ask(*BEAT).error_code == E.UNKNOWN_MEMBER_ID


def test_held_connection_whose_client_leaves_is_forgotten() -> None:
    with running() as cluster:
        fault = cluster.faults.add(on="connect", hold=True)
        with connected(cluster):
            fault.wait_holding()
        cluster.clock.advance(0)  # all bytes that have arrived are read
        assert (fault.holding, fault.release(), cluster.connections()) == (0, 0, {})


def test_silent_connection_whose_client_leaves_is_forgotten() -> None:
    with running() as cluster:
        fault = cluster.faults.add(on="connect", no_response=True)
        with connected(cluster) as connection:
            connection.send(*BEAT)
            fault.wait_applied()
        fault.remove()
        assert waits_for_nothing(cluster)
        assert cluster.connections() == {}


@pytest.mark.parametrize("end", ENDS)
def test_new_connection_is_refused(end: str) -> None:
    with running() as cluster:
        fault = cluster.faults.add(on="connect", disconnect="before", reset=ENDS[end])
        try:
            with connected(cluster) as connection:
                assert rest_of(connection) == (b"", end)
        except ConnectionResetError:  # the reset may arrive before ``connect`` has returned
            assert end == "reset"
        assert fault.applied == 1


@pytest.mark.parametrize("delay", [{}, {"delay_ms": 1}], ids=["at once", "delayed"])
def test_failed_handshake_is_an_alert(delay: Any) -> None:
    with run_cluster(topics={}, listeners=[TLS]) as cluster:
        cluster.faults.add(on="connect", fail_tls=True, **delay)
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            connected(cluster)
        with connected(cluster) as connection:
            assert connection.ask(*BEAT).error_code == E.UNKNOWN_MEMBER_ID


async def test_held_tls_connection_is_no_slow_handshake(autojump_clock: MockClock) -> None:
    tls = Tls(Settings(), "127.0.0.1")
    try:
        async with serving(tls=tls.context) as place:
            faults = place.server.faults
            faults.add(parse_rule({"name": "held", "match": {"on": "connect"}, "action": {"hold": True}}, HANDLERS))
            peer = await place.connect()
            await place.until(lambda: faults.holding("held") == 1)
            await trio.sleep(3 * FRAME_TIMEOUT)
            assert len(place.server.connections) == 1
            assert await peer.silent(1)
    finally:
        tls.close()

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kwire import encode_request, encode_response
from kwire.client_properties import Credentials
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mockbroker import ThreadCluster, run_cluster
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.proxy.upstream import Upstream
from mockbroker.recording import recorder as recorder_module
from mockbroker.recording import topic as module
from mockbroker.recording.topic import RecordingTopic

AT = Moment(1.0, 1_700_000_000.5)
REQUEST = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1)
RESPONSE = encode_response(HeartbeatResponse(), 4, correlation_id=1)
PATIENCE = 20.0
CONNECTION = Connection(1, Address("127.0.0.1", 1), 0, Address("real", 9), Address("127.0.0.1", 7))


def upstream(servers: str, **options: Any) -> Upstream:
    found = [Address.parse(each) for each in servers.split(",")]
    return Upstream([each for each in found if each is not None], **options)


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"frames": 3}) as cluster:
        yield cluster


def record_heartbeats(recording: RecordingTopic) -> None:
    """Record two connections with one heartbeat each."""
    for number in (1, 2):
        connection = Connection(number, Address("127.0.0.1", number), 0, Address("real", 9), Address("127.0.0.1", 7))
        recording.recorder.opened(connection, AT)
        exchange = Exchange(connection, 12, 4, 1, AT, REQUEST, REQUEST, AT, RESPONSE, RESPONSE)
        recording.recorder.requested(exchange)
        recording.recorder.answered(exchange)
        recording.recorder.closed(connection, AT)


def test_each_frame_is_a_record_with_headers(cluster: ThreadCluster) -> None:
    recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")

    async def record() -> None:
        async with recording.running():
            record_heartbeats(recording)

    trio.run(record)
    records = [record for number in range(3) for record in cluster.records("frames", number)]
    time_ms = 1_700_000_000_500
    assert sorted((record.key or b"", record.offset, record.value, record.timestamp) for record in records) == [
        (b"run-1", 0, REQUEST, time_ms),
        (b"run-1", 1, RESPONSE, time_ms),
        (b"run-2", 0, REQUEST, time_ms),
        (b"run-2", 1, RESPONSE, time_ms),
    ]
    headers = dict(next(record for record in records if record.value == RESPONSE).headers)
    assert (headers["direction"], headers["api_key"], headers["api_version"]) == (b"response", b"12", b"4")


def pass_requests(recording: RecordingTopic, *sizes: int) -> list[bytes]:
    """Pass requests with these extra sizes on one connection to the recorder; return the frames."""
    frames = [REQUEST + bytes(size) for size in sizes]
    recording.recorder.opened(CONNECTION, AT)
    for frame in frames:
        recording.recorder.passed(CONNECTION, True, pack(frame), AT, ends_frame=True)
    return frames


def values(cluster: ThreadCluster) -> list[bytes | None]:
    return [record.value for number in range(3) for record in cluster.records("frames", number)]


async def wait_written(recording: RecordingTopic) -> None:
    with trio.fail_after(PATIENCE):
        while recording.recorder.waiting:
            await trio.sleep(0.01)


async def test_frames_that_are_too_large_are_lost(cluster: ThreadCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The other frames of their batch are written."""
    recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")
    async with recording.running():
        small, _, last = pass_requests(recording, 10, 1_100_000, 20)
        await wait_written(recording)
        assert await trio.to_thread.run_sync(values, cluster) == [small, last]
    assert caplog.messages == [
        "the recording in topic frames was not written: MESSAGE_TOO_LARGE",
        "the recording is incomplete: 1 records were not written, 0 connections are incomplete",
    ]


async def test_a_smaller_limit_of_the_topic_divides_batches(caplog: pytest.LogCaptureFixture) -> None:
    with run_cluster(topics={"frames": 3}, config={"message.max.bytes": 40_000}) as cluster:
        recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")
        async with recording.running():
            frames = pass_requests(recording, *[9_000] * 30)
            await wait_written(recording)
            assert await trio.to_thread.run_sync(values, cluster) == frames
    assert caplog.messages == []


async def test_a_cluster_may_be_missing_for_a_time(cluster: ThreadCluster, caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")
    await trio.to_thread.run_sync(cluster.kill_broker, 0)
    async with recording.running():
        frames = pass_requests(recording, 10, 20)
        with trio.fail_after(PATIENCE):
            while not caplog.messages:
                await trio.sleep(0.01)
        await trio.to_thread.run_sync(cluster.start_broker, 0)
        await wait_written(recording)
        assert await trio.to_thread.run_sync(values, cluster) == frames
    assert caplog.messages == ["the recording in topic frames was not written: Connection refused"]


ALICE = Credentials("SCRAM-SHA-512", "alice", "alice-secret")
BOB = Credentials("PLAIN", "bob", "wrong")
REASONS: list[tuple[dict[str, Any], str]] = [
    ({"credentials": ALICE}, "TLS: self.signed certificate in certificate chain"),
    ({"tls": None, "credentials": ALICE}, "cannot log in to the cluster at .*: the broker closed the connection "),
    ({"credentials": BOB, "tls": ssl.CERT_NONE}, "cannot log in to the cluster at .*: Authentication failed"),
]


@pytest.fixture(scope="module")
def secured() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"frames": 3}, listeners=["SASL_SSL"], users={"alice": "alice-secret"}) as cluster:
        yield cluster


def context(cluster: ThreadCluster, mode: ssl.VerifyMode = ssl.CERT_REQUIRED) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cluster.tls.ca) if mode else None)
    context.check_hostname, context.verify_mode = bool(mode), mode
    return context


async def test_tls_and_sasl_are_used(secured: ThreadCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster = upstream(secured.bootstrap_servers, tls=context(secured), credentials=ALICE)
    recording = RecordingTopic(cluster, "frames", "run")
    async with recording.running():
        frames = pass_requests(recording, 10, 20, 600_000)
        await wait_written(recording)
        assert await trio.to_thread.run_sync(values, secured) == frames
    assert caplog.messages == []


@pytest.mark.parametrize(("options", "reason"), REASONS, ids=["certificate", "no TLS", "password"])
async def test_the_reason_of_a_refused_connection_is_logged(
    secured: ThreadCluster, options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "FLUSH", 0.1)
    mode = options.get("tls", ssl.create_default_context())
    tls = context(secured, mode) if isinstance(mode, ssl.VerifyMode) else mode
    recording = RecordingTopic(upstream(secured.bootstrap_servers, **options | {"tls": tls}), "frames", "run")
    async with recording.running():
        pass_requests(recording, 10)
        with trio.fail_after(PATIENCE):
            while not (own := [text for text in caplog.messages if text.startswith("the recording")]):
                await trio.sleep(0.01)
    assert re.match(f"the recording in topic frames was not written: {reason}", own[0])


async def test_what_a_missing_cluster_loses_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH", 0.1)
    recording = RecordingTopic(upstream("127.0.0.1:1"), "frames", "run")
    async with recording.running():
        pass_requests(recording, 10, 20, 30)
    assert caplog.messages[-1] == (
        "the recording is incomplete: 3 records were not written, 0 connections are incomplete"
    )


async def test_what_a_silent_cluster_loses_is_counted(
    cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH", 0.1)
    recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")
    async with recording.running():
        (first,) = pass_requests(recording, 10)
        await wait_written(recording)
        await trio.to_thread.run_sync(lambda: cluster.faults.add(api="Produce", no_response=True, times="always"))
        recording.recorder.passed(CONNECTION, True, pack(REQUEST), AT, ends_frame=True)
    assert caplog.messages == ["the recording is incomplete: 1 records were not written, 0 connections are incomplete"]
    assert values(cluster)[:1] == [first]


async def test_a_slow_cluster_does_not_take_memory(
    cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Above the limit, connections are not recorded any more. Pending frames are written when the cluster answers."""
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 100_000)
    recording = RecordingTopic(upstream(cluster.bootstrap_servers), "frames", "run")
    hold = await trio.to_thread.run_sync(lambda: cluster.faults.add(api="Produce", hold=True, times="always"))
    async with recording.running():
        frames = pass_requests(recording, *[9_000] * 30)
        await trio.to_thread.run_sync(hold.wait_holding, PATIENCE)
        assert 80_000 < recording.recorder.waiting <= 110_000
        await trio.to_thread.run_sync(hold.remove)
        await wait_written(recording)
        written = await trio.to_thread.run_sync(values, cluster)
    assert written == frames[: len(written)]
    assert len(written) == 10
    assert caplog.messages == ["the recording is incomplete: 0 records were not written, 1 connections are incomplete"]

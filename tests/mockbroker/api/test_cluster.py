"""Clusters from Python: open_cluster in trio, run_cluster anywhere else."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from open_files import open_files, opened_since
from plain_client import PlainClient
from tools.served_broker import Peer

import mockbroker
from kwire import ErrorCode as E
from kwire.frames import pack
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record as WireRecord
from kwire.records.batch import build_batch, read_batch
from mockbroker import (
    Cluster,
    ClusterClosedError,
    DataDirError,
    PortInUseError,
    SettingsError,
    UnknownBrokerError,
    open_cluster,
    run_cluster,
)
from mockbroker.api import open_listeners
from mockbroker.api.plan import Plan
from mockbroker.net.bound_listeners import listen
from mockbroker.net.timekeeper import Timekeeper
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.real_disk import RealDisk
from mockbroker.topics.model import INTERNAL

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
)
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


async def connect(cluster: Cluster, node: int = 0) -> Peer:
    where = cluster.nodes[node]
    return Peer(await trio.open_tcp_stream(where.host, where.port))


# --- open_cluster ------------------------------------------------------------------------------------------------


FIRST_NODES = [  # settings, ids of two brokers
    ({"node.id": 1}, [1, 2]),
    ({"broker.id": 7}, [7, 8]),
    ({"node.id": 3, "broker.id": 3}, [3, 4]),
    ({"broker.id": -1}, [0, 1]),
    ({"node.id": 2**31 - 1}, [2**31 - 3, 2**31 - 2]),
]


@pytest.mark.parametrize(("config", "ids"), FIRST_NODES)
async def test_the_first_broker_has_the_id_of_the_setting(config, ids):
    async with open_cluster(brokers=2, config=config) as cluster:
        assert [node.node_id for node in cluster.nodes] == ids


async def test_brokers_and_topics():
    async with open_cluster(brokers=3, topics={"t": 6}, config={"default.replication.factor": 2}) as cluster:
        assert [node.node_id for node in cluster.nodes] == [0, 1, 2]
        assert cluster.bootstrap_servers == ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        for number in range(3):
            peer = await connect(cluster, number)
            answer = await peer.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9)
            assert [(each.node_id, each.port) for each in answer.brokers] == [
                (n.node_id, n.port) for n in cluster.nodes
            ]
            (topic,) = answer.topics
            assert {len(partition.replica_nodes) for partition in topic.partitions} == {2}
            assert {partition.leader_id for partition in topic.partitions} == {0, 1, 2}
            await peer.stream.aclose()


async def test_events():
    async with open_cluster(config=NO_DELAY) as cluster:
        assert cluster.events() == []
        peer = await connect(cluster)
        await peer.ask(JOIN, 3)
        assert [event.event for event in cluster.events()] == ["join", "rebalance", "generation"]
        assert cluster.events() is not cluster.journal.events
        await peer.stream.aclose()


async def test_two_clusters_side_by_side():
    async with open_cluster() as one, open_cluster() as other:
        assert one.nodes != other.nodes
        for cluster in (one, other):
            peer = await connect(cluster)
            assert (await peer.ask(ApiVersionsRequest(), 0)).error_code == E.NONE
            await peer.stream.aclose()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda cluster: cluster.produce("orders", ["tea"]), id="produce"),
        pytest.param(lambda cluster: cluster.connect(), id="connect"),
        pytest.param(lambda cluster: cluster.kill_broker(0), id="kill_broker"),
        pytest.param(lambda cluster: cluster.faults.hold("Fetch"), id="faults"),
        pytest.param(lambda cluster: cluster.wait_group("g"), id="wait_group"),
        pytest.param(lambda cluster: cluster.clock.advance(1.0), id="advance"),
    ],
)
async def test_a_closed_cluster_raises_cluster_closed_error(call):
    async with open_cluster(topics={"orders": 1}) as cluster:
        pass
    with pytest.raises(ClusterClosedError, match="the cluster is closed"):
        await call(cluster)


async def test_the_end_of_the_block_ends_a_wait():
    async def wait(cluster: Cluster) -> None:
        with pytest.raises(ClusterClosedError, match="the cluster is closed"):
            await cluster.wait_group("g", timeout=60)

    async with trio.open_nursery() as nursery, open_cluster() as cluster:
        nursery.start_soon(wait, cluster)
        await trio.testing.wait_all_tasks_blocked()


async def test_the_end_closes_everything():
    before = open_files()
    async with open_cluster(brokers=2) as cluster:
        peer = await connect(cluster)
    assert await peer.closed() == b""
    await peer.stream.aclose()
    with pytest.raises(OSError, match="connect"):
        await connect(cluster)
    assert not opened_since(before)


class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine("x"), KeyboardInterrupt(), ExceptionGroup("g", [Mine("x")]), SystemExit(3)])
async def test_exception_of_the_body_is_not_wrapped(error):
    before = open_files()
    with pytest.raises(type(error)) as caught:
        async with open_cluster():
            raise error
    assert caught.value is error
    assert not opened_since(before)


async def test_a_return_out_of_the_body():
    async def inside() -> int:
        async with open_cluster():
            return 5

    assert await inside() == 5


async def test_the_body_can_be_cancelled_from_outside():
    with trio.move_on_after(5) as scope:
        async with open_cluster():
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_in_the_nursery_of_a_caller():
    ready = trio.Event()
    results: list[Cluster] = []

    async def keep() -> None:
        async with open_cluster() as cluster:
            results.append(cluster)
            ready.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep)
        await ready.wait()
        peer = await connect(results[0])
        assert (await peer.ask(ApiVersionsRequest(), 0)).error_code == E.NONE
        await peer.stream.aclose()
        nursery.cancel_scope.cancel()


async def test_exception_of_the_server_is_raised(monkeypatch):
    async def broken(self) -> None:
        raise Mine("the timer")

    monkeypatch.setattr(Timekeeper, "run", broken)
    with pytest.RaisesGroup(Mine, flatten_subgroups=True):
        async with open_cluster():
            await trio.sleep_forever()


REFUSED = [
    ({"brokers": 0}, "brokers is 0: a cluster needs at least 1"),
    (
        {"brokers": 1, "config": {"default.replication.factor": 2}},
        "default.replication.factor is 2, but the cluster has only 1 broker: start with 2",
    ),
    ({"config": {"num.partition": 1}}, "did you mean num.partitions?"),
    (
        {"config": {"log.segment.bytes": 65_536}},
        "log.segment.bytes (Kafka 4.2): 65536 is not between 1048576 and 2147483647",
    ),
    ({"config": {"log.segment.bytes": 13}, "as_version": "3.9"}, "log.segment.bytes: 13 is not between 1048576"),
    ({"topics": {"a/b": 1}}, "topic 'a/b': not a legal topic name"),
    ({"topics": {"a.b": 1, "a_b": 1}}, "topic a_b collides with topic a.b"),
    ({"topics": {"__consumer.offsets": 1}}, "topic __consumer.offsets collides with topic __consumer_offsets"),
    ({"topics": {"t": 0}}, "topic t: the number of partitions, 0, is out of range (1-100000)"),
    ({"topics": {5: 1}}, "topic 5: not a legal topic name"),
    ({"config": {5: 1}}, "config: the name 5 is not a str"),
    ({"config": ["group.max.size=2"]}, "config is ['group.max.size=2']: expected a dict, such as"),
    ({"users": {"alice": 5}}, "users: the value of alice is not a str"),
    ({"users": {5: "secret"}}, "users: the name 5 is not a str"),
    ({"users": "alice:secret"}, "users is 'alice:secret': expected a dict, such as"),
    ({"listeners": [9092]}, "listeners: 9092 is not a str"),
    ({"host": None}, "host is None: expected a host name or an address"),
    ({"topics": {"t": 100_001}}, "topic t: the number of partitions, 100001, is out of range (1-100000)"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED)
async def test_refused(given, text):
    before = open_files()
    with pytest.raises(SettingsError) as caught:
        async with open_cluster(**given):
            pass
    assert text in str(caught.value)
    assert not opened_since(before)


async def test_start_over_during_an_advance() -> None:
    async with open_cluster(clock="manual") as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(cluster.clock.advance, 1)
        await trio.lowlevel.checkpoint()
        cluster.start_over({}, {})


@pytest.fixture
def taken() -> Iterator[Any]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


async def test_a_port_in_use(taken):
    before = open_files()
    with pytest.raises(PortInUseError) as caught:
        async with open_cluster(port=taken):
            pass
    assert f"127.0.0.1:{taken}" in str(caught.value)
    assert "--port" in str(caught.value)
    assert "Address already in use" in str(caught.value)
    assert not opened_since(before)


async def test_a_port_in_use_of_the_second_broker_closes_the_first(monkeypatch):
    opened: list[int] = []

    def second_is_taken(host: str, port: int) -> socket.socket:
        opened.append(port)
        if len(opened) == 2:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return listen(host, 0)

    monkeypatch.setattr(open_listeners, "listen", second_is_taken)
    before = open_files()
    with pytest.raises(PortInUseError, match=r"127\.0\.0\.1:5001: Address already in use"):
        async with open_cluster(port=5_000, brokers=3):
            pass
    assert opened == [5_000, 5_001]
    assert not opened_since(before)


async def test_port_of_a_stopped_broker_stays_reserved():
    async with open_cluster(brokers=2) as cluster:
        at = cluster.nodes[1].host, cluster.nodes[1].port
        cluster.kill_broker(1)
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(at)
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(at)  # as the operating system does for an outgoing connection
        cluster.start_broker(1)
        await (await trio.open_tcp_stream(*at)).aclose()


async def test_broker_cannot_restart_on_a_port_in_use():
    async with open_cluster(brokers=2) as cluster:
        at = cluster.nodes[1].host, cluster.nodes[1].port
        cluster.stop_broker(1)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(at)
            other.listen()
            with pytest.raises(PortInUseError, match="broker 1 cannot restart"):
                cluster.start_broker(1)
        cluster.start_broker(1)
        await (await trio.open_tcp_stream(*at)).aclose()


@pytest.mark.parametrize(("port", "brokers"), [(65_535, 2), (70_000, 1), (-1, 1)])
async def test_ports_out_of_range_are_refused(port, brokers):
    before = open_files()
    with pytest.raises(SettingsError, match="port"):
        async with open_cluster(port=port, brokers=brokers):
            pass
    assert not opened_since(before)


async def test_host_of_another_machine_is_refused():
    with pytest.raises(PortInUseError, match=r"192\.0\.2\.1"):
        async with open_cluster(host="192.0.2.1"):
            pass


async def test_wildcard_host_advertises_a_usable_address():
    async with open_cluster(host="0.0.0.0") as cluster:
        assert cluster.nodes[0].host not in ("0.0.0.0", "")
        peer = await connect(cluster)
        await peer.stream.aclose()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_ipv6():
    async with open_cluster(host="::1") as cluster:
        assert cluster.bootstrap_servers == f"[::1]:{cluster.nodes[0].port}"
        peer = await connect(cluster)
        assert (await peer.ask(ApiVersionsRequest(), 0)).error_code == E.NONE
        await peer.stream.aclose()


# --- run_cluster -------------------------------------------------------------------------------------------------

HELLO = pack(bytes.fromhex("0012 0000 00000001 ffff"))


def ask(cluster: Cluster) -> bytes:
    with socket.create_connection((cluster.nodes[0].host, cluster.nodes[0].port), timeout=30) as sock:
        sock.sendall(HELLO)
        return sock.recv(100)


def new_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    """Return the threads that have started since ``before``. Idle threads of trio's cache may end at any time."""
    return set(threading.enumerate()) - before


def test_from_a_plain_thread():
    threads, before = set(threading.enumerate()), open_files()
    with run_cluster(topics={"t": 1}) as cluster:
        assert ask(cluster)[4:10] == b"\0\0\0\1\0\0"
        assert len(new_threads(threads)) == 1
    assert not new_threads(threads)
    assert not opened_since(before)


def test_several_times_and_nested():
    for _ in range(3):
        with run_cluster() as one, run_cluster() as other:
            assert ask(one)
            assert ask(other)


@pytest.mark.parametrize("error", [Mine("x"), KeyboardInterrupt()])
def test_exception_of_the_body_of_run_cluster_is_not_wrapped(error):
    threads = set(threading.enumerate())
    with pytest.raises(type(error)) as caught, run_cluster():
        raise error
    assert caught.value is error
    assert not new_threads(threads)


@pytest.mark.parametrize(
    ("given", "kind"),
    [({"brokers": 0}, SettingsError), ({"config": {"x": 1}}, SettingsError), ({"host": "192.0.2.1"}, PortInUseError)],
)
def test_refused_by_run_cluster(given, kind):
    threads = set(threading.enumerate())
    with pytest.raises(kind), run_cluster(**given):
        pass
    assert not new_threads(threads)


def test_failed_server_raises_at_exit(monkeypatch):
    failed = threading.Event()

    async def broken(self) -> None:
        await trio.lowlevel.checkpoint()
        failed.set()
        raise Mine("the timer")

    monkeypatch.setattr(Timekeeper, "run", broken)
    threads = set(threading.enumerate())
    with pytest.RaisesGroup(Mine, flatten_subgroups=True), run_cluster():
        failed.wait(30)
        thread = next(each for each in threading.enumerate() if each.name == "mockbroker")
        thread.join(30)
    assert not new_threads(threads)


def test_public_names():
    assert all(hasattr(mockbroker, name) for name in mockbroker.__all__)
    assert issubclass(PortInUseError, OSError)
    assert issubclass(SettingsError, ValueError)


# --- a data directory ----------------------------------------------------------------------------------------------


def test_cluster_in_a_data_directory_survives_a_restart(tmp_path):
    with run_cluster(brokers=2, topics={"t": 3}, data_dir=tmp_path) as cluster:
        cluster.produce("t", [f"{number}" for number in range(10)])
        cluster.create_topic("later")
        before = cluster.records("t")
    with run_cluster(brokers=2, topics={"t": 3}, data_dir=str(tmp_path)) as cluster:
        assert cluster.records("t") == before
        assert cluster.records("later") == []
        assert cluster.produce("t", ["more"], partition=0) == [4]


async def test_create_topic_checks_configs_as_kafka_does():
    async with open_cluster() as cluster:
        cluster.create_topic("t", 1, config={"cleanup.policy": "compact", "preallocate": True})
        for config in ({"cleanup.policy": "nonsense"}, {"retention.ms": -5}, {"no.such.config": 1}):
            with pytest.raises(SettingsError, match="topic u has an invalid configuration: "):
                cluster.create_topic("u", 1, config=config)


async def test_metadata_of_an_unknown_broker_is_not_frozen():
    async with open_cluster(brokers=2) as cluster:
        for call in cluster.freeze_metadata, cluster.thaw_metadata:
            with pytest.raises(UnknownBrokerError, match=r"broker 7 does not exist \(broker ids: 0, 1\)"):
                call(0, 7)
        assert not cluster.router.broker.frozen_metadata


async def test_changes_without_a_request_are_written_to_disk(tmp_path):
    async with open_cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("t")
        with trio.fail_after(30):
            while not (tmp_path / "t-0").exists():
                await trio.sleep(0.001)


async def test_reading_a_directory_keeps_the_wall_clock(tmp_path, monkeypatch):
    read = DataDir.open

    def read_slowly(self: DataDir, *arguments: Any) -> Any:
        time.sleep(0.2)
        return read(self, *arguments)

    monkeypatch.setattr(DataDir, "open", read_slowly)
    async with open_cluster(data_dir=tmp_path) as cluster:
        assert cluster.clock.wall() < time.time() + 0.1


async def test_cluster_with_data_directory_cannot_be_reset(tmp_path):
    async with open_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster:
        cluster.produce("t", ["kept"])
        for start_over in (cluster.reset, lambda: cluster.start_over({}, {})):
            with pytest.raises(SettingsError, match="cannot be reset"):
                start_over()
        assert len(cluster.records("t")) == 1


async def test_data_directory_is_locked(tmp_path):
    before = open_files()
    async with open_cluster(data_dir=tmp_path):
        with pytest.raises(DataDirError, match="in use by another cluster"):
            async with open_cluster(data_dir=tmp_path):
                pass
    assert not opened_since(before)


def test_a_directory_that_cannot_be_used_leaves_nothing_open(tmp_path):
    before = open_files()
    (tmp_path / "mockbroker.json").write_text("?")
    with pytest.raises(DataDirError, match="damaged"), run_cluster(data_dir=tmp_path):
        pass
    assert not opened_since(before)


async def test_a_disk_that_fails_ends_the_block(tmp_path, monkeypatch):
    def fail(self, file: Any, data: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), file)

    async def use() -> None:
        async with open_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster:
            monkeypatch.setattr(RealDisk, "append", fail)
            cluster.produce("t", ["lost"])
            await trio.sleep(20)

    with pytest.raises(DataDirError, match=r"cannot write file t-0/0{20}\.log: Input/output error"):
        await use()


def test_open_transactions_continue_after_a_restart(tmp_path):
    batch = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    with run_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster, PlainClient(cluster.bootstrap_servers) as client:
        client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 3)
        added = AddedTopic(name="t", partitions=[0])
        client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=0,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[added],
            ),
            3,
        )
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch([WireRecord(value=b"v")], **batch))
        topic = ProduceRequest.Topic(name="t", partition_data=[data])
        answer = client.ask(ProduceRequest(transactional_id="x", acks=-1, topic_data=[topic]), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0
        cluster.produce("t", ["behind it"])
        assert cluster.records("t", committed=True) == []
    with run_cluster(data_dir=tmp_path) as cluster, PlainClient(cluster.bootstrap_servers) as client:
        assert cluster.records("t", committed=True) == []
        ended = client.ask(EndTxnRequest(transactional_id="x", producer_id=0, producer_epoch=0, committed=True), 3)
        assert ended.error_code == E.NONE
        assert [record.value for record in cluster.records("t", committed=True)] == [b"v", b"behind it"]
    with run_cluster(data_dir=tmp_path) as cluster:
        assert [record.value for record in cluster.records("t", committed=True)] == [b"v", b"behind it"]


def test_transactions_without_an_owner_are_aborted(tmp_path):
    """This is the state after a power cut that lost the coordinator's log, but not the records of the transaction."""
    with run_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster:
        batch = build_batch(
            [WireRecord(value=b"v")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        )
        cluster._perform(lambda inner: inner._router.broker.cluster.partition("t", 0).append(read_batch(batch)))
        cluster.produce("t", ["behind it"])
        assert cluster.records("t", committed=True) == []
    with run_cluster(data_dir=tmp_path) as cluster:
        assert [record.value for record in cluster.records("t", committed=True)] == [b"behind it"]


async def test_metadata_has_the_advertised_listeners():
    """Metadata, FindCoordinator and DescribeCluster return the addresses of the listener that the client uses."""
    config = {
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "INSIDE://kafka:9092,OUTSIDE://localhost:29092",
    }
    async with open_cluster(brokers=2, config=config, listeners=["INSIDE", "OUTSIDE"]) as cluster:
        assert cluster.bootstrap_servers == "kafka:9092,kafka:9093"
        assert cluster.listeners == {"INSIDE": "kafka:9092,kafka:9093", "OUTSIDE": "localhost:29092,localhost:29093"}
        line = cluster.connect()
        response = await line.ask(MetadataRequest(topics=[]), 12)
        assert [(broker.host, broker.port) for broker in response.brokers] == [("kafka", 9092), ("kafka", 9093)]
        cluster.reset()
        assert cluster.bootstrap_servers == "kafka:9092,kafka:9093"


def factors(cluster: Any) -> dict[Any, Any]:
    return {topic: len(cluster._router.broker.cluster.topics[topic].partitions[0].replicas) for topic in INTERNAL}


@pytest.mark.parametrize(("given", "replicas"), [(None, 3), (1, 1), (2, 2), (4, 3)])
async def test_replicas_of_the_internal_topics(given, replicas, caplog):
    names = [
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "share.coordinator.state.topic.replication.factor",
    ]
    config = {} if given is None else dict.fromkeys(names, given)
    async with open_cluster(brokers=3, config=config) as cluster:
        cluster._router.broker.transaction_coordinator("t")
        cluster._router.broker.share_state_topic()
        assert factors(cluster) == dict.fromkeys(INTERNAL, replicas)
    assert (names[0] in caplog.text) is (given == 4), "it asks for more brokers than there are"


async def test_settings_without_effect_are_one_line(caplog):
    config = {"background.threads": 3, "num.io.threads": 2, "num.partitions": 3}
    async with open_cluster(config=config) as cluster:
        assert caplog.messages == ["settings without effect in mockbroker: background.threads, num.io.threads"]
        cluster.start_over({}, config)
        assert len(caplog.messages) == 1, "the same once"
        cluster.start_over({}, {"background.threads": 3})
        assert caplog.messages[1:] == ["settings without effect in mockbroker: background.threads"]


def test_no_password_in_the_text_of_a_plan():
    plan = Plan.checked(1, {}, {"mockbroker.users": "bob:geheim"}, "4.2", ["SASL_SSL"], {"al": "geheim"}, "real")
    assert "geheim" not in repr(plan)
    assert plan.users == {"al": "geheim", "bob": "geheim"}

"""The handles of a running cluster: what they return, do and wait for, from threads, asyncio and trio."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from plain_client import PlainClient

from kwire.messages.fetch import FetchRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import (
    ClusterClosedError,
    Event,
    Record,
    SettingsError,
    ThreadCluster,
    UnknownTopicError,
    WaitTimeoutError,
    open_cluster,
    run_cluster,
)
from mockbroker.api.thread import BrokerThread
from mockbroker.net.tls import TlsFiles

CONFIG = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"orders": 3}, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: ThreadCluster) -> Iterator[PlainClient]:
    with PlainClient(cluster.bootstrap_servers, "me") as client:
        yield client


def fetch(offset: int = 0) -> FetchRequest:
    """Return a Fetch that waits up to 10 s for a record of partition 0."""
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=10_000, min_bytes=1, topics=[FetchRequest.Topic(topic="orders", partitions=[wanted])]
    )


def test_records_are_appended_and_read_back(cluster: ThreadCluster) -> None:
    assert cluster.produce("orders", ["a", b"b", None, "d"]) == [0, 0, 0, 1]
    whole = Record(key=b"k", value=b"v", headers=(("h", b"1"), ("h", None)), timestamp=5, partition=2)
    assert cluster.produce("orders", [whole]) == [1]
    result = cluster.records("orders")
    assert [(record.partition, record.offset, record.value) for record in result] == [
        (0, 0, b"a"),
        (0, 1, b"d"),
        (1, 0, b"b"),
        (2, 0, None),
        (2, 1, b"v"),
    ]
    assert result[-1] == Record(
        key=b"k", value=b"v", headers=(("h", b"1"), ("h", None)), timestamp=5, topic="orders", partition=2, offset=1
    )
    assert [record.value for record in cluster.records("orders", 1)] == [b"b"]


HASHES = [  # key, its Utils.murmur2 hash. Source: Kafka's UtilsTest.testMurmur2
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "value"), HASHES)
def test_keys_go_where_the_producer_of_kafka_puts_them(cluster: ThreadCluster, key: bytes, value: int) -> None:
    cluster.create_topic("wide", 100)
    cluster.produce("wide", ["v"], key=key)
    assert [record.partition for record in cluster.records("wide")] == [(value & 0x7FFFFFFF) % 100]


def test_many_records_are_several_batches(cluster: ThreadCluster) -> None:
    assert cluster.produce("orders", map(str, range(1_200)), partition=0) == list(range(1_200))
    assert [record.value for record in cluster.records("orders", 0)] == [str(n).encode() for n in range(1_200)]


def test_pending_fetch_gets_produced_records(cluster: ThreadCluster, client: PlainClient) -> None:
    client.send(fetch(), 11)
    cluster.produce("orders", ["late"], partition=0)
    answer = client.answer()
    assert b"late" in answer.responses[0].partitions[0].records


def test_produce_to_an_unknown_topic_appends_nothing(cluster: ThreadCluster) -> None:
    with pytest.raises(UnknownTopicError, match="topic 'order' does not exist; existing topics: orders"):
        cluster.produce("order", ["a"])
    with pytest.raises(UnknownTopicError, match="topic orders has no partition 3; its partitions are 0 to 2"):
        cluster.produce("orders", [Record(value=b"a", partition=0), Record(value=b"b", partition=3)])
    with pytest.raises(UnknownTopicError, match="no partition -1"):
        cluster.records("orders", -1)
    with pytest.raises(SettingsError, match="topic orders already exists"):
        cluster.create_topic("orders")
    assert cluster.records("orders") == []


def test_groups_and_committed_offsets_are_returned(cluster: ThreadCluster, client: PlainClient) -> None:
    assert cluster.groups() == {}
    assert cluster.committed("g") == {}
    client.join("g")
    client.lead("g", "orders", [0, 1, 2])
    client.commit("g", "orders", 1, 7)
    group = cluster.groups()["g"]
    assert (group.state, group.generation, group.protocol, group.leader) == ("Stable", 1, "range", client.member_id)
    (member,) = group.members
    assert (member.client_id, member.client_host, member.instance_id) == ("me", "127.0.0.1", None)
    assert member.assignment == {"orders": [0, 1, 2]}
    assert cluster.committed("g") == {("orders", 1): 7}
    assert [event.event for event in cluster.events()][-2:] == ["assign", "commit"]


def test_request_log_is_decoded(cluster: ThreadCluster, client: PlainClient) -> None:
    client.ask(MetadataRequest(topics=None), 9)
    client.join("g")
    assert [(request.api, request.version) for request in cluster.requests()] == [("Metadata", 9), ("JoinGroup", 3)]
    (request,) = cluster.requests("JoinGroup")
    assert (request.client_id, request.node, request.host, request.body.group_id) == ("me", 0, "127.0.0.1", "g")
    assert 0 <= request.time_ms < 60_000
    with pytest.raises(ValueError, match="unknown API 'Joingroup'; did you mean JoinGroup"):
        cluster.requests("Joingroup")


def test_reset_is_the_start_again(cluster: ThreadCluster, client: PlainClient) -> None:
    client.join("g")
    cluster.create_topic("more")
    cluster.produce("orders", ["a"])
    cluster.reset()
    with pytest.raises(ConnectionError):
        client.ask(fetch(), 11)
    assert (cluster.groups(), cluster.events(), cluster.requests(), cluster.records("orders")) == ({}, [], [], [])
    with pytest.raises(UnknownTopicError):
        cluster.records("more")
    with PlainClient(cluster.bootstrap_servers) as again:
        assert again.join("g").generation_id == 1


def test_parked_requests_end_with_a_reset(cluster: ThreadCluster, client: PlainClient) -> None:
    with PlainClient(cluster.bootstrap_servers) as other:
        client.join("g")
        other.send_join("g")  # the JoinGroup waits until the first member rejoins
        cluster.wait_group("g", state="PreparingRebalance", members=2)
        cluster.reset()
        with pytest.raises(ConnectionError):
            other.answer()
    assert cluster.groups() == {}


def in_background(client: PlainClient) -> threading.Thread:
    """Join the group and lead it in another thread. Return the thread."""

    def run() -> None:
        client.join("g")
        client.lead("g", "orders", [0, 1, 2])

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_wait_group_in_a_thread(cluster: ThreadCluster, client: PlainClient) -> None:
    thread = in_background(client)
    group = cluster.wait_group("g", state="Stable", members=1)
    thread.join()
    assert [member.assignment for member in group.members] == [{"orders": [0, 1, 2]}]
    assert cluster.wait_group("g", state=None).state == "Stable"
    assert cluster.wait_group("other", state="Dead").members == ()


def test_wait_group_in_asyncio(cluster: ThreadCluster, client: PlainClient) -> None:
    async def main() -> None:
        thread = in_background(client)
        assert (await cluster.wait_group_async("g", members=1)).state == "Stable"
        thread.join()
        with pytest.raises(WaitTimeoutError):
            await cluster.wait_group_async("g", members=2, timeout=0.01)
        waiting = asyncio.create_task(cluster.wait_group_async("g", members=2, timeout=60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    gc.collect()  # an exception that is never retrieved would be a warning, which fails the test


async def test_wait_group_in_trio(cluster: ThreadCluster, client: PlainClient) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, lambda: in_background(client).join())
        assert (await cluster.wait_group_async("g", members=1)).state == "Stable"
    assert cluster.produce("orders", ["a"]) == [0]  # synchronous calls work in the event loop as well
    with pytest.raises(WaitTimeoutError):
        await cluster.wait_group_async("g", members=2, timeout=0.01)
    with trio.move_on_after(0.01) as scope:
        await cluster.wait_group_async("g", members=2, timeout=60)
    assert scope.cancelled_caught


async def test_wait_group_of_the_trio_handle(autojump_clock: trio.testing.MockClock) -> None:
    async with open_cluster(topics={"orders": 1}) as cluster:
        began = trio.current_time()
        with pytest.raises(
            WaitTimeoutError, match="timed out after 10 s waiting for group 'g' to be Stable with 3 members"
        ):
            await cluster.wait_group("g", members=3)
        assert trio.current_time() == began + 10


def test_wait_timeout_error_shows_group_and_events(cluster: ThreadCluster, client: PlainClient) -> None:
    client.join("g")
    client.lead("g", "orders", [0, 1, 2])
    with pytest.raises(WaitTimeoutError) as caught:
        cluster.wait_group("g", members=2, timeout=0.01)
    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        "timed out after 0.01 s waiting for group 'g' to be Stable with 2 members",
        "the group is Stable: generation 1, protocol range, 1 member",
        f'  {client.member_id}, leader: {{"orders": [0, 1, 2]}}',
        "events:",
    ]
    assert [line.split()[2] for line in lines[4:]] == ["join", "rebalance", "generation", "sync", "assign"]
    with pytest.raises(WaitTimeoutError, match=r"the group does not exist \(Dead\); existing groups: g"):
        cluster.wait_group("other", timeout=0.01)
    with pytest.raises(ValueError, match="state 'stable' is unknown: expected one of Empty, "):
        cluster.wait_group("g", state="stable")


@pytest.mark.parametrize(
    "records",
    ["tea", b"tea", Record(value=b"tea"), [Record(value=b"tea", partition=0), Record(value="tea", partition=1)]],
)
def test_records_of_a_wrong_type_append_nothing(cluster: ThreadCluster, records: Any) -> None:
    with pytest.raises(TypeError):
        cluster.produce("orders", records)
    assert cluster.records("orders") == []


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(lambda cluster: cluster.wait_group("g", timeout=None), id="wait_group"),
        pytest.param(lambda cluster: cluster.compact(["orders"]), id="compact"),
        pytest.param(lambda cluster: cluster.clock.advance("45"), id="advance"),
        pytest.param(lambda cluster: cluster.faults.hold("Fetch").wait_holding("1"), id="wait_holding"),
        pytest.param(lambda cluster: asyncio.run(cluster.wait_group_async("g", timeout="1")), id="wait_group_async"),
    ],
)
def test_an_argument_of_a_wrong_type_does_not_end_the_cluster(
    cluster: ThreadCluster, wait: Callable[[ThreadCluster], object]
) -> None:
    with pytest.raises(TypeError):
        wait(cluster)
    assert cluster.produce("orders", ["tea"]) == [0]


def test_closed_cluster_raises_cluster_closed_error() -> None:
    with run_cluster() as cluster:
        pass
    with pytest.raises(ClusterClosedError, match="the cluster is closed"):
        cluster.events()
    with pytest.raises(ClusterClosedError, match="the cluster is closed"):
        cluster.wait_group("g")


FORKED = """
import asyncio, os, sys
from mockbroker import ClusterClosedError, run_cluster

with run_cluster(topics={"orders": 1}) as cluster:
    child = os.fork()
    if child == 0:
        calls = [
            cluster.groups, lambda: cluster.wait_group("g"), lambda: asyncio.run(cluster.wait_group_async("g")),
            lambda: cluster.produce("orders", ["tea"]), cluster.clock.now, lambda: cluster.clock.advance(1.0), cluster.reset,
        ]
        for call in calls:
            try:
                call()
            except ClusterClosedError as error:
                print(error)
        with run_cluster(topics={"own": 1}) as own:
            print(own.produce("own", ["tea"]))
    else:
        assert os.waitpid(child, 0)[1] == 0
        print(cluster.produce("orders", ["tea"]), os.getpid(), child)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_refused() -> None:
    """The child cannot use the parent's cluster, but can run its own. The parent's cluster is not affected."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    *refused, own, last = done.stdout.splitlines()
    produced, parent, child = last.split(" ")
    assert (own, produced) == ("[0]", "[0]")
    assert set(refused) == {
        f"the cluster runs in process {parent}, and this is process {child}, forked from it: "
        "call the handle in the parent process; clients can connect to bootstrap_servers from any process"
    }
    assert len(refused) == 7


def test_closing_ends_a_wait() -> None:
    caught: list[BaseException] = []

    def wait(cluster: ThreadCluster, began: threading.Event) -> None:
        began.set()
        try:
            cluster.wait_group("g", timeout=60)
        except ClusterClosedError as error:
            caught.append(error)

    with run_cluster() as cluster:
        began = threading.Event()
        thread = threading.Thread(target=wait, args=[cluster, began])
        thread.start()
        began.wait()
    thread.join(30)
    assert len(caught) == 1


def test_start_over_disconnects_clients_and_old_handles() -> None:
    thread = BrokerThread(brokers=2, config=CONFIG)
    try:
        old = thread.start_over({"orders": 1}, CONFIG)
        with PlainClient(old.bootstrap_servers) as client:
            client.join("g")
            new = thread.start_over({"other": 2}, CONFIG | {"num.partitions": 4})
            with pytest.raises(ConnectionError):
                client.join("g")
        with pytest.raises(ConnectionRefusedError):
            PlainClient(old.bootstrap_servers)
        assert {node.port for node in new.nodes}.isdisjoint(node.port for node in old.nodes)
        assert [node.node_id for node in new.nodes] == [0, 1]
        with pytest.raises(ClusterClosedError, match="a test that has finished"):
            old.produce("other", ["late"])
        with pytest.raises(ClusterClosedError, match="a test that has finished"):
            old.wait_group("g")
        with pytest.raises(SettingsError, match="did you mean"):
            thread.start_over({}, {"num.partition": 1})
        assert new.records("other") == []
        assert new.groups() == {}
    finally:
        thread.close()


def test_start_over_removes_the_listeners_of_the_journal() -> None:
    thread = BrokerThread(config=CONFIG)
    try:
        old, seen = thread.handle(), list[Event]()
        old.journal.listeners.append(seen.append)
        thread.start_over({"t": 1}, CONFIG).set_committed("g", {("t", 0): 1})
        assert seen == []
    finally:
        thread.close()


def test_start_over_without_tls_has_no_certificates() -> None:
    thread = BrokerThread(config=CONFIG, listeners=["PLAINTEXT", "SSL"])
    try:
        assert thread.handle().tls.ca is not None
        assert thread.start_over({}, CONFIG).tls == TlsFiles()
        ca = thread.start_over({}, CONFIG, ["SSL"]).tls.ca
        assert ca is not None
        assert ca.exists()
    finally:
        thread.close()


def test_a_wait_of_the_old_handle_ends() -> None:
    thread = BrokerThread(config=CONFIG)
    try:
        old = thread.handle()
        waiting = old._start(lambda cluster: cluster.wait_group("g", timeout=60))
        thread.start_over({}, {})
        with pytest.raises(ClusterClosedError):
            waiting.result(10)
    finally:
        thread.close()


class BlockError(Exception):
    pass


async def test_exception_of_the_block_is_not_wrapped() -> None:
    with pytest.raises(BlockError):
        async with open_cluster():
            raise BlockError
    with trio.move_on_after(0.01) as scope:
        async with open_cluster():
            await trio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises(BlockError), run_cluster():
        raise BlockError


async def test_a_server_that_dies_ends_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(*_: object) -> None:
        raise BlockError

    monkeypatch.setattr("mockbroker.net.timekeeper.Timekeeper.run", die)
    with pytest.raises(ExceptionGroup) as caught:
        async with open_cluster():
            await trio.sleep_forever()
    assert caught.group_contains(BlockError)

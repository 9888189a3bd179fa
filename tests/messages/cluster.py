"""Messages of the Python API of mockbroker, except those of the consumer."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trustme
from messages.row import Row
from tools.broker_harness import BrokerHarness
from trio.testing import wait_all_tasks_blocked

import mockbroker
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataRequest
from kwire.records import Record as WireRecord
from kwire.records import build_batch
from mockbroker import Cluster, ClusterClosedError, Record, ThreadCluster, open_cluster, run_cluster
from mockbroker.api.thread import BrokerThread
from mockbroker.base.effects import Client
from mockbroker.cli.clock_lines import run_command
from mockbroker.net.tls_connection import TlsRequests
from mockbroker.pytest_plugin import _mark_arguments
from mockbroker.storage.catalogue import CATALOGUE

_OPEN = ExitStack()  # the clusters that rows share
TOPICS = {"orders": 3}


@cache
def shared(brokers: int = 1) -> ThreadCluster:
    """Return a cluster that several rows use; no row changes it."""
    return _OPEN.enter_context(run_cluster(brokers=brokers, topics=TOPICS))


def close_all() -> None:
    """Close the shared clusters."""
    _OPEN.close()
    shared.cache_clear()


def opened(**options: Any) -> Callable[[], None]:
    """Return a function that opens a cluster and closes it."""

    def run() -> None:
        with run_cluster(**options):
            pass

    return run


def in_asyncio() -> None:
    async def run() -> None:
        async with open_cluster():
            pass

    asyncio.run(run())


def in_trio(use: Callable[[Cluster], Any], **options: Any) -> Callable[[], None]:
    """Return a function that opens a cluster in trio and calls ``use``, a coroutine function or a function."""

    async def run() -> None:
        async with open_cluster(**options) as cluster:
            result = use(cluster)
            if hasattr(result, "__await__"):
                await result

    return lambda: trio.run(run)


def on_shared(use: Callable[[ThreadCluster], Any], brokers: int = 1) -> Callable[[], Any]:
    return lambda: use(shared(brokers))


async def replaced_in_wait(cluster: Cluster) -> None:
    async def replace() -> None:
        await wait_all_tasks_blocked()
        cluster.start_over({}, {})

    failure: ClusterClosedError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replace)
        try:
            await cluster.wait_group("g")
        except ClusterClosedError as error:
            failure = error
    assert failure is not None
    raise failure


async def closed_connection(cluster: Cluster) -> None:
    connection = cluster.connect()
    connection.close()
    await connection.ask(ApiVersionsRequest())


async def connect_to_stopped(cluster: Cluster) -> None:
    cluster.kill_broker(0)
    await cluster.connect().ask(ApiVersionsRequest())


def closed_in_trio() -> None:
    async def run() -> Cluster:
        async with open_cluster() as cluster:
            return cluster

    trio.run(run).events()


def clock_command(line: str) -> Callable[[], str]:
    """Return a function that runs a line of ``mockbroker serve --clock manual``."""

    async def run() -> str:
        async with open_cluster(clock="manual") as cluster:
            return str((await run_command(cluster.clock, line))["error"])

    return lambda: trio.run(run)


async def large_response(cluster: Cluster) -> None:
    await cluster.connect().ask(MetadataRequest(topics=None))


async def version_not_served(cluster: Cluster) -> None:
    await cluster.connect().ask(JoinGroupRequest(), 9)


async def evict_unknown_member(cluster: Cluster) -> None:
    join = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert not (await cluster.connect().ask(join)).error_code
    cluster.evict("g", "b")


async def wait_for_a_fault(cluster: Cluster) -> None:
    await cluster.faults.hold("Heartbeat", name="gate").wait_holding(0.01)


def rebalance_empty_group(cluster: Cluster) -> None:
    cluster.set_committed("g", {("orders", 0): 1})
    cluster.rebalance("g")


def coordinator_is_stopped(cluster: Cluster) -> None:
    cluster.stop_broker(0)
    cluster.evict("g", "a")


async def topic_is_not_compacted(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    await cluster.compact("orders")


def coordinator_is_loading(cluster: Cluster) -> None:
    cluster.stop_broker(cluster.coordinator("g"))
    cluster.set_committed("g", {})


def busy_port() -> None:
    with run_cluster(port=int(shared().bootstrap_servers.rpartition(":")[2])):
        pass


def restart_at_a_busy_port() -> None:
    with run_cluster(brokers=2) as cluster:
        node = cluster.nodes[1]
        cluster.stop_broker(1)
        with socket.create_server((node.host, node.port)):
            cluster.start_broker(1)


def stopped_twice() -> None:
    with run_cluster(brokers=2) as cluster:
        cluster.stop_broker(1)
        cluster.stop_broker(1)


def closed_cluster() -> None:
    with run_cluster() as cluster:
        pass
    cluster.groups()


def finished_test() -> None:
    thread = BrokerThread()
    try:
        handle = thread.handle()
        thread.start_over({}, {})
        handle.groups()
    finally:
        thread.close()


def dead_thread() -> None:
    thread = BrokerThread()

    def fail() -> None:
        raise MemoryError("no memory")

    handle = thread.handle()
    thread._token.run_sync_soon(fail)
    thread._thread.join()
    handle.groups()


def forked() -> None:
    shared()
    with patch("os.getpid", return_value=0):
        shared().groups()


def other_thread(cluster: Cluster) -> None:
    with ThreadPoolExecutor(thread_name_prefix="worker") as pool:
        pool.submit(cluster.groups).result()


def without_trio(cluster: Cluster) -> None:
    with patch("trio.lowlevel.in_trio_task", return_value=False):
        cluster.wait_group("g").send(None)


def own_thread() -> None:
    thread = BrokerThread()
    try:
        handle = thread.handle()
        thread.call(lambda _: handle.groups())
    finally:
        thread.close()


def data_dir(change: Callable[[Path], object] = lambda _: None, **options: Any) -> Callable[[], None]:
    """Return a function that opens a data directory of one broker again after a change.

    Args:
        options: Arguments of the second cluster.
    """

    def run() -> None:
        with run_cluster(topics=TOPICS, data_dir="data"):
            pass
        change(Path("data"))
        with run_cluster(data_dir="data", **options):
            pass

    return run


def used_twice() -> None:
    with run_cluster(data_dir="data"), run_cluster(data_dir="data"):
        pass


def catalogue(content: str) -> Callable[[], None]:
    return data_dir(lambda folder: (folder / CATALOGUE).write_text(content))


def coordinator_record(folder: Path) -> None:
    """Replace a partition of __consumer_offsets by one with a key of the version 1, which is damaged."""
    partition = folder / "__consumer_offsets-0"
    (partition / f"{0:020}.log").write_bytes(build_batch([WireRecord(key=b"\0\1\0", value=b"")]))


def kafka_log_dir() -> None:
    Path("data").mkdir()
    Path("data/meta.properties").touch()
    with run_cluster(data_dir="data"):
        pass


def unwritable() -> None:
    with run_cluster(data_dir="data") as cluster:
        shutil.rmtree("data")
        cluster.create_topic("orders")


def unmapped_certificate() -> None:
    """Send a request with a client certificate that no mapping rule matches."""
    router = BrokerHarness(config={"ssl.principal.mapping.rules": "RULE:^OU=/x/"}).router
    issued = trustme.CA().issue_cert("x@y", common_name="client")
    der = ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())
    requests = TlsRequests(1, Client(0, "", "/127.0.0.1"), router, lambda: der)
    requests.receive(b"\0")
    requests.next_call()


def mark(*arguments: Any, **keywords: Any) -> Callable[[], object]:
    item: Any = SimpleNamespace(iter_markers=lambda _: [pytest.mark.kafka(*arguments, **keywords).mark])
    return lambda: _mark_arguments(item)


def released_below_zero(cluster: ThreadCluster) -> None:
    fault = cluster.faults.hold("Heartbeat", optional=True)
    try:
        fault.release(-1)
    finally:
        fault.remove()


ROWS = [
    # open_cluster, run_cluster
    Row("certificate without a rule", unmapped_certificate, "RemoteProtocolError: no rule of ssl.principal.mapping.rules matches 'CN=client,$REST': add a rule that matches it, or the rule DEFAULT"),
    Row("cluster without brokers", opened(brokers=0), "SettingsError: brokers is 0: a cluster needs at least 1"),
    Row("type of the number of brokers", opened(brokers="3"), "SettingsError: brokers is '3': expected an integer"),
    Row("type of the port", opened(port="9092"), "SettingsError: port is '9092': expected an integer"),
    Row("replication factor", opened(config={"default.replication.factor": 3}), "SettingsError: default.replication.factor is 3, but the cluster has only 1 broker: start with 3 brokers"),
    Row("segment size", opened(config={"log.segment.bytes": 65_536}), "SettingsError: log.segment.bytes (Kafka 4.2): 65536 is not between 1048576 and 2147483647"),
    Row("port", opened(port=70_000), "SettingsError: port 70000 is out of range (0-65535 for 1 broker)"),
    Row("port of the last broker", opened(port=65_535, brokers=2), "SettingsError: port 65535 is out of range (0-65534 for 2 brokers)"),
    Row("port in use", busy_port, "PortInUseError: cannot listen on 127.0.0.1:$PORT: Address already in use; choose another port (--port or port=; 0 picks a free one) or another address (--host or host=)"),
    Row("port of a further listener", opened(port=65_535, listeners=["PLAINTEXT", "SSL"]), "SettingsError: listeners: port 65536 is out of range (0-65535)"),
    Row("release", opened(as_version="0.8"), "SettingsError: as_version '0.8' is unknown: expected one of 2.8, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2, all"),
    Row("release that is a number", opened(as_version=3.9), "SettingsError: as_version is 3.9: expected a str, such as '3.9'"),
    Row("initial fault rule that is not in a list", opened(faults={"api": "Fetch"}), "SettingsError: faults is {'api': 'Fetch'}: expected a list of rules, such as [{\"api\": \"Fetch\", \"error\": \"UNKNOWN_SERVER_ERROR\"}]"),
    Row("data directory that is a number", opened(data_dir=5), "SettingsError: data_dir is 5: expected the path of a directory"),
    Row("clock", opened(clock="slow"), "SettingsError: clock 'slow' is unknown: expected one of real, manual"),
    Row("topic name", opened(topics={"a b": 1}), "SettingsError: topic 'a b': not a legal topic name (1-249 of the characters a-z, A-Z, 0-9, '.', '_' and '-')"),
    Row("type of the number of partitions", opened(topics={"orders": None}), "SettingsError: topic orders: the number of partitions, None, is not an integer"),
    Row("topics without partitions", opened(topics=["orders"]), "SettingsError: topics is ['orders']: expected topic names with numbers of partitions, such as {\"orders\": 6}"),
    Row("name of a setting that is a number", opened(config={5: 1}), "SettingsError: config: the name 5 is not a str"),
    Row("settings in a list", opened(config=["a=b"]), "SettingsError: config is ['a=b']: expected a dict, such as {\"group.max.size\": 2}"),
    Row("password that is a number", opened(users={"alice": 5}), "SettingsError: users: the value of alice is not a str"),
    Row("listener that is a number", opened(listeners=[9092]), "SettingsError: listeners: 9092 is not a str: write a listener as SASL_SSL"),
    Row("no host", opened(host=None), "SettingsError: host is None: expected a host name or an address"),
    Row("listeners in one text", opened(listeners="SASL_SSL"), "SettingsError: listeners is 'SASL_SSL': expected a list, such as ['SASL_SSL']"),
    Row("cluster in asyncio", in_asyncio, "RuntimeError: open_cluster() needs a trio run: in asyncio and in code without an event loop, use run_cluster"),
    Row("number of partitions", opened(topics={"orders": 0}), "SettingsError: topic orders: the number of partitions, 0, is out of range (1-100000)"),
    Row("misspelled setting", opened(config={"group.max.sise": 2}), "SettingsError: unknown setting group.max.sise; did you mean group.max.size?"),
    Row("unknown setting", opened(config={"nope": 2}), "SettingsError: unknown setting nope: Kafka's brokers have no setting of this or a similar name"),
    Row("value of a setting", opened(config={"group.max.size": "two"}), "SettingsError: group.max.size: expected a whole number, got 'two'"),
    Row("limit of an address", opened(config={"max.connections.per.ip.overrides": "10.0.0.1"}), "SettingsError: max.connections.per.ip.overrides: expected HOST:NUMBER, got '10.0.0.1'"),
    Row("host of a listener", opened(listeners=["PLAINTEXT://10.0.0.1:0"]), "SettingsError: listeners: host 10.0.0.1 differs from 127.0.0.1, to which all listeners bind: remove it from listeners, or use --host 10.0.0.1 (in Python host=)"),
    Row("listener that is given twice", opened(listeners=["SSL", "SSL"]), "SettingsError: listeners: duplicate listener name in SSL,SSL: give each listener its own name"),
    Row("listener with a colon", opened(listeners=["SSL:9093"]), "SettingsError: listeners: expected NAME or NAME://:PORT, got 'SSL:9093'"),
    Row("unknown security protocol", opened(listeners=["TLS"]), "SettingsError: listeners: TLS has no security protocol: add it to listener.security.protocol.map, or use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    Row("listener at a port out of range", opened(listeners=["SSL://:65540"]), "SettingsError: listeners: port 65540 is out of range (0-65535)"),
    Row("listeners at one port", opened(brokers=2, listeners=["PLAINTEXT://:9092", "SSL://:9093"]), "SettingsError: listeners: SSL of broker 0 and PLAINTEXT of broker 1 have the same port, 9093: give each listener 2 ports of its own"),
    Row("users in a setting", opened(config={"mockbroker.users": "alice"}), "SettingsError: mockbroker.users: expected NAME:PASSWORD"),
    Row("user twice in a setting", opened(config={"mockbroker.users": "alice:a,alice:b"}), "SettingsError: mockbroker.users: duplicate user alice"),
    # data_dir
    Row("empty data_dir", opened(data_dir=""), "SettingsError: data_dir is empty: expected the path of a directory, such as '.' for the current one"),
    Row("brokers of a data directory", data_dir(brokers=2), "DataDirError: data directory data: the directory was created by a cluster of 1 broker (id 0), and cannot be opened with 2 brokers (ids 0, 1): start with the same brokers"),
    Row("partitions of a data directory", data_dir(topics={"orders": 5}), "SettingsError: topic orders: the number of partitions is 5, but 3 in the data directory: start with 3, and add partitions with CreatePartitions"),
    Row("data directory in use", used_twice, "DataDirError: data directory data: in use by another cluster; stop that cluster first"),
    Row("Kafka's log directory", kafka_log_dir, "DataDirError: data directory data: the folder contains meta.properties but no mockbroker.json, so it is a log directory of Kafka: read it with mockbroker import"),
    Row("catalogue that is not JSON", catalogue("{"), "DataDirError: data directory data: mockbroker.json is damaged: invalid JSON: Expecting property name enclosed in double quotes at character 1"),
    Row("catalogue of a newer format", catalogue('{"format": 2}'), "DataDirError: data directory data: mockbroker.json has format 2, only format 1 is supported: upgrade mockbroker"),
    Row("catalogue without topics", catalogue('{"format": 1}'), "DataDirError: data directory data: mockbroker.json is damaged: 'cluster_id' is missing"),
    Row("damaged checkpoint", data_dir(lambda folder: (folder / "log-start-offset-checkpoint").write_text("0\n")), "DataDirError: data directory data: log-start-offset-checkpoint is damaged: expected '0' and '0' (version and number of entries) in the first two lines, got '0' and ''"),
    Row("damaged coordinator record", data_dir(coordinator_record), "DataDirError: data directory data: a coordinator record cannot be decoded: OffsetCommitKey v0 at byte 2, group: expected 2 bytes, found 1; use a backup or a new directory"),
    Row("data directory that cannot be written", unwritable, "DataDirError: data directory data: cannot write file data/mockbroker.json.tmp: No such file or directory"),
    Row("reset with a data directory", in_trio(lambda cluster: cluster.reset(), data_dir="data"), "ResetError: a cluster with a data directory cannot be reset: start one without --data-dir (in Python data_dir=)"),
    # Cluster
    Row("connection to an unknown broker", in_trio(lambda cluster: cluster.connect(7)), "ValueError: broker 7 does not exist; the broker ids are 0"),
    Row("connection to a stopped broker", in_trio(connect_to_stopped), "ConnectionClosedError: broker 0 is not running"),
    Row("closed cluster in trio", closed_in_trio, "ClusterClosedError: the cluster is closed"),
    Row("closed connection", in_trio(closed_connection), "ConnectionClosedError: the client has closed the connection"),
    Row("response above its limit", in_trio(large_response, config={"mockbroker.response.max.bytes": 100}), "ConnectionClosedError: the response would have at least 1400 bytes, above mockbroker.response.max.bytes (100): request fewer items at once, or raise the setting"),
    Row("version that the release does not serve", in_trio(version_not_served, as_version="2.8"), "ConnectionClosedError: JoinGroup v9 is not in the ApiVersions response of this broker: use a supported version"),
    Row("state of a group", on_shared(lambda cluster: cluster.wait_group("g", "stable")), "ValueError: state 'stable' is unknown: expected one of Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, NotReady, Dead"),
    Row("timeout of wait_group", on_shared(lambda cluster: cluster.wait_group("g", timeout=0)), "WaitTimeoutError: timed out after 0 s waiting for group 'g' to be Stable\nthe group does not exist (Dead); existing groups: none\nno group has had an event"),
    Row("timeout of wait_group for members", on_shared(lambda cluster: cluster.wait_group("g", None, 2, timeout=0)), "WaitTimeoutError: timed out after 0 s waiting for group 'g' to have 2 members\nthe group does not exist (Dead); existing groups: none\nno group has had an event"),
    Row("number of members that is a text", on_shared(lambda cluster: cluster.wait_group("g", members="3")), "TypeError: members is '3': use an integer"),
    Row("negative number of members", on_shared(lambda cluster: cluster.wait_group("g", members=-1)), "ValueError: members is -1: use at least 0"),
    Row("timeout that is a text", on_shared(lambda cluster: cluster.wait_group("g", timeout="1")), "TypeError: timeout is '1': use a number of seconds"),
    Row("negative timeout", on_shared(lambda cluster: cluster.wait_group("g", timeout=-1)), "ValueError: timeout is -1: use at least 0 seconds"),
    Row("group that is None in wait_group", on_shared(lambda cluster: cluster.wait_group(None)), "TypeError: the group id must be a str, got None"),
    Row("number of applied requests that is a text", on_shared(lambda cluster: cluster.faults.wait("slow", applied="1")), "TypeError: count of applied requests is '1': use an integer"),
    Row("cluster replaced in wait_group", in_trio(replaced_in_wait), "ClusterClosedError: the cluster was replaced by start_over() while waiting for group 'g' to be Stable"),
    Row("topic that exists", on_shared(lambda cluster: cluster.create_topic("orders")), "TopicExistsError: topic orders already exists"),
    Row("topic whose name collides", opened(topics={"a.b": 1, "a_b": 1}), "TopicExistsError: topic a_b collides with topic a.b, because names in metrics have '_' instead of '.': use another name"),
    Row("configuration of a topic", on_shared(lambda cluster: cluster.create_topic("new", 1, {"retention.ms": "long"})), "SettingsError: topic new has an invalid configuration: Invalid value long for configuration retention.ms: Not a number of type LONG"),
    Row("unknown configuration of a topic", on_shared(lambda cluster: cluster.create_topic("new", 1, {"nope": 1})), "SettingsError: topic new has an invalid configuration: Unknown topic config name: nope"),
    Row("records of an unknown topic", on_shared(lambda cluster: cluster.records("order")), "UnknownTopicError: topic 'order' does not exist; existing topics: orders"),
    Row("partition of a record", on_shared(lambda cluster: cluster.produce("orders", [Record(value=b"", partition=3)])), "UnknownTopicError: topic orders has no partition 3; its partitions are 0 to 2"),
    Row("requests of a misspelled API", on_shared(lambda cluster: cluster.requests("Heartbeet")), "ValueError: unknown API 'Heartbeet'; did you mean Heartbeat?"),
    Row("requests by the class of a response", on_shared(lambda cluster: cluster.requests(JoinGroupResponse)), "ValueError: JoinGroupResponse is not the request of an API: use a class such as JoinGroupRequest"),
    Row("requests by an API key", on_shared(lambda cluster: cluster.requests(11)), "TypeError: api is 11: use the name of an API, such as 'JoinGroup', or the class of its requests"),
    Row("requests of an unknown API", on_shared(lambda cluster: cluster.requests("x")), "ValueError: unknown API 'x'"),
    Row("step of the clock", on_shared(lambda cluster: cluster.clock.advance(-1)), "ValueError: cannot advance the clock by -1 s: expected 0 to 315360000 s"),
    Row("line for the clock", clock_command("wait 5"), "'wait 5': expected advance SECONDS, stop, resume or now"),
    Row("time for the clock", clock_command("advance soon"), "'advance soon': expected a number of seconds, got 'soon'"),
    Row("step of the clock below zero", clock_command("advance -1"), "'advance -1': cannot advance the clock by -1.0 s: expected 0 to 315360000 s"),
    Row("eviction from an unknown group", on_shared(lambda cluster: cluster.evict("g", "a")), "UnknownGroupError: group 'g' does not exist; existing groups: none"),
    Row("eviction of an unknown member", in_trio(evict_unknown_member), "UnknownMemberError: group 'g' has no member 'b'; its members: 'a'"),
    Row("rebalance of an empty group", in_trio(rebalance_empty_group, topics=TOPICS), "EmptyGroupError: group 'g' has no members: there is nothing to rebalance"),
    Row("initial fault rule that is invalid", opened(faults=[{"api": "Heartbeat", "error": "REBALANCE"}]), "InvalidRule: faults[0].action.error: unknown value 'REBALANCE' (possible: REBALANCE_IN_PROGRESS)"),
    Row("fault rule with too many names of APIs", opened(faults=[{"api": ["Fetch"] * 500, "hold": True}]), "InvalidRule: faults[0].match.api: the list has 500 names, but there are only 93 APIs: name each API once"),
    Row("initial fault rules with one name", opened(faults=[{"name": "a", "api": "Heartbeat", "hold": True}] * 2), "RuleExists: the rule a already exists: replace the rule, or use another name"),
    Row("initial fault rule that is no mapping", opened(faults=["hold"]), "InvalidRule: faults[0]: expected an object, got 'hold'\nfaults[0].action: a rule needs an action (possible: error, disconnect, hold, no_response, throttle_ms, respond, bytes_per_second, malform, evict, delay_ms)"),
    Row("fault rule that does not exist", on_shared(lambda cluster: cluster.faults.state("gate")), "UnknownFaultError: fault rule gate does not exist; existing rules: none"),
    Row("fault rule that is not applied in time", in_trio(wait_for_a_fault), "WaitTimeoutError: timed out after 0.01 s waiting for fault rule gate to hold 1 requests: it has matched 0, was applied to 0 and holds 0 requests\nrule: {'name': 'gate', 'match': {'api': 'Heartbeat'}, 'action': {'hold': True}}\nno group has had an event"),
    Row("assertion about an unknown API", on_shared(lambda cluster: cluster.assert_requested("Heartbea")), "ValueError: api: unknown API 'Heartbea' (possible: Heartbeat)"),
    Row("assertion about an unknown field", on_shared(lambda cluster: cluster.assert_requested("Heartbeat", where='body.grup_id == "g"')), "ValueError: where: Heartbeat requests have no field grup_id (possible: group_id)"),
    Row("assertion about a field of an array", on_shared(lambda cluster: cluster.assert_requested("OffsetCommit", where='body.topics.name == "t"')), "ValueError: where: topics is an array: give the index of an element, such as topics[0].name"),
    Row("assertion with two numbers", on_shared(lambda cluster: cluster.assert_requested("Heartbeat", 1, at_least=1)), "ValueError: assert_requested got count=1 and at_least=1: pass only one of them"),
    Row("requests that were not received", on_shared(lambda cluster: cluster.assert_requested("Heartbeat")), "AssertionError: expected at least 1 Heartbeat requests, found 0\nHeartbeat requests: none\nno group has had an event"),
    Row("preset that does not exist", on_shared(lambda cluster: cluster.faults.add_preset("nope", {})), "UnknownPresetError: preset nope does not exist; existing presets: rebalance-storm, zombie-member, no-sync-group, commit-gap, coordinator-loading, poison-batch, duplicate-records, corrupted-values, invalid-schema-id, fenced-leader-epoch, leader-election, transaction-coordinator-lost-at-end-txn, throttled-producer, broken-broker, latency, slow-broker, slow-producer, slow-consumer, blackholed-client, rolling-restart, stale-metadata, unclean-leader-election"),
    Row("loss of a negative number of records", on_shared(lambda cluster: cluster.lose_records("orders", 0, -1)), "ValueError: cannot lose -1 records of orders-0: expected 0 or more"),
    Row("one value instead of a list", on_shared(lambda cluster: cluster.produce("orders", "tea")), "TypeError: produce() expects a list of values, not one str: pass [value]"),
    Row("header without a value", on_shared(lambda cluster: cluster.produce("orders", ["tea"], headers=["id"])), "TypeError: a header of a record must be a pair of name and value, not 'id'"),
    Row("key of a record", on_shared(lambda cluster: cluster.produce("orders", ["tea"], key="k")), "TypeError: the key of a record must be bytes or None, not str"),
    Row("headers of a record in a dict", on_shared(lambda cluster: cluster.produce("orders", ["tea"], headers={"trace": b"1"})), "TypeError: the headers of a record must be a list of pairs of name and value, not {'trace': b'1'}"),
    Row("records that are a number", on_shared(lambda cluster: cluster.produce("orders", 5)), "TypeError: produce() expects a list of values, not one int: pass [value]"),
    Row("timestamp of a record", on_shared(lambda cluster: cluster.produce("orders", ["tea"], timestamp=1.5)), "TypeError: the timestamp of a record must be an integer or None, not float"),
    Row("record that is too large", on_shared(lambda cluster: cluster.produce("orders", [bytes(1_048_576)])), "RejectedRecordError: record 0 is not appended: its batch has 1048650 bytes, but max.message.bytes of topic orders is 1048588"),
    Row("group id that is too long", on_shared(lambda cluster: cluster.set_committed("g" * 32_768, {("orders", 0): 1})), "ValueError: the group id has 32768 bytes, the maximum is 32767"),
    Row("group id that is no text", on_shared(lambda cluster: cluster.set_committed("\udcff", {("orders", 0): 1})), "ValueError: the group id '\\udcff' is not valid Unicode text: surrogates not allowed"),
    Row("committed offset that is no integer", on_shared(lambda cluster: cluster.set_committed("g", {("orders", 0): 1.5})), "TypeError: offset 1.5 of orders-0 is not an integer"),
    Row("committed offset of no partition", on_shared(lambda cluster: cluster.set_committed("g", {"orders": 1})), "TypeError: the key of an offset must be a topic and a partition, such as (\"orders\", 0), got 'orders'"),
    Row("group id that is a number", on_shared(lambda cluster: cluster.set_committed(5, {("orders", 0): 1})), "TypeError: the group id must be a str, got 5"),
    Row("name of a topic configuration that is a number", on_shared(lambda cluster: cluster.create_topic("new", 1, {5: 1})), "SettingsError: topic new has an invalid configuration: the name 5 is not a str"),
    Row("partition that is a text", on_shared(lambda cluster: cluster.records("orders", "0")), "TypeError: partition '0' of topic orders is not an integer"),
    Row("committed offset below zero", on_shared(lambda cluster: cluster.set_committed("g", {("orders", 0): -1})), "ValueError: offset -1 of orders-0 is out of range (0-9223372036854775807)"),
    Row("coordinator that is stopped", in_trio(coordinator_is_stopped), "CoordinatorUnavailableError: the coordinator of group 'g' is not running: start a replica of __consumer_offsets-3 (brokers 0)"),
    Row("coordinator that is loading", in_trio(coordinator_is_loading, brokers=2, config={"mockbroker.coordinator.load.ms": 1_000}), "CoordinatorUnavailableError: broker 0, the coordinator of group 'g', is loading its groups: wait until the loading time (mockbroker.coordinator.load.ms) is over"),
    Row("connection that is not open", on_shared(lambda cluster: cluster.disconnect(999)), "UnknownConnectionError: connection 999 is not open; open connections: none"),
    Row("disconnection of nothing", on_shared(lambda cluster: cluster.disconnect()), "ValueError: disconnect() got connection_id=None and client_id=None: pass one of them; client_id may be a glob"),
    Row("deletion of an internal topic", on_shared(lambda cluster: cluster.delete_topic("__consumer_offsets")), "InternalTopicError: topic __consumer_offsets cannot be deleted: the coordinators store their records in it"),
    Row("compaction of a topic without the policy", in_trio(topic_is_not_compacted), "NotCompactedError: topic orders is not compacted: set its configuration cleanup.policy=compact"),
    Row("negative number of released requests", on_shared(released_below_zero), "ValueError: count is -1: use an integer of at least 0, or None for all held requests"),
    Row("deletion of records out of range", on_shared(lambda cluster: cluster.delete_records("orders", 0, 9)), "ValueError: cannot delete the records of orders-0 before offset 9: expected -1 to 0"),
    # failover
    Row("paused leader", on_shared(lambda cluster: cluster.pause_replica("orders", 0, 0)), "FailoverError: broker 0 is not an in-sync follower of orders-0 (in-sync followers: [])"),
    Row("resumed replica that is not paused", on_shared(lambda cluster: cluster.resume_replica("orders", 0, 0)), "FailoverError: the replica of orders-0 on broker 0 is not paused (paused: [])"),
    Row("stopped broker that does not exist", on_shared(lambda cluster: cluster.stop_broker(7)), "UnknownBrokerError: broker 7 does not exist (broker ids: 0)"),
    Row("broker that is stopped twice", stopped_twice, "FailoverError: broker 1 is not running: start it first"),
    Row("killed broker that does not exist", on_shared(lambda cluster: cluster.kill_broker(7)), "UnknownBrokerError: broker 7 does not exist (broker ids: 0)"),
    Row("started broker that runs", on_shared(lambda cluster: cluster.start_broker(0)), "FailoverError: broker 0 is already running"),
    Row("frozen broker that does not exist", on_shared(lambda cluster: cluster.freeze_metadata(0, 7)), "UnknownBrokerError: broker 7 does not exist (broker ids: 0)"),
    Row("started broker that does not exist", on_shared(lambda cluster: cluster.start_broker(7)), "UnknownBrokerError: broker 7 does not exist (broker ids: 0)"),
    Row("leader without a replica", on_shared(lambda cluster: cluster.move_leader("orders", 0, 0), brokers=2), "FailoverError: broker 0 is not an in-sync replica of orders-0 (in-sync: [1])"),
    Row("coordinator that does not exist", on_shared(lambda cluster: cluster.move_coordinator("g", 7)), "FailoverError: broker 7 is not an in-sync replica of __consumer_offsets-3 (in-sync: [0])"),
    Row("restart at a busy port", restart_at_a_busy_port, "PortInUseError: broker 1 cannot restart: Address already in use: stop the process that uses a port of this broker, or leave the broker stopped"),
    # handles of a thread, pytest plugin
    Row("closed cluster", closed_cluster, "ClusterClosedError: the cluster is closed"),
    Row("handle of a finished test", finished_test, "ClusterClosedError: this handle belongs to a test that has finished: use the handle of the current test"),
    Row("thread that has died", dead_thread, "ClusterClosedError: the broker's thread has died: TrioInternalError('internal error in Trio - please file a bug!')"),
    Row("forked process", forked, "ClusterClosedError: the cluster runs in process $PID, and this is process 0, forked from it: call the handle in the parent process; clients can connect to bootstrap_servers from any process"),
    Row("handle for another process", on_shared(pickle.dumps), "TypeError: a ThreadCluster cannot be pickled or copied: pass bootstrap_servers to another process"),
    Row("handle of trio in another thread", in_trio(other_thread), "RuntimeError: this handle belongs to thread MainThread, and this is thread worker_0: call it through trio.from_thread.run_sync, or open the cluster with run_cluster, whose handle can be used in any thread"),
    Row("handle of trio in asyncio", in_trio(without_trio), "RuntimeError: this handle waits only in the trio run that has opened the cluster: in asyncio, open the cluster with run_cluster, and await the methods of its handle that end in _async"),
    Row("call in the broker's thread", own_thread, "RuntimeError: a call of ThreadCluster in the broker's thread, such as from a callback of the journal, would wait for itself: put the event into a queue, and call the method in the thread of the test"),
    Row("positional argument of the mark", mark(3), "TypeError: invalid argument of @pytest.mark.kafka: 3; expected keyword arguments: as_version, brokers, clock, config, data_dir, faults, listeners, port, topics, users"),
    Row("type of an argument of the mark", mark(topics=["orders"]), "TypeError: topics of @pytest.mark.kafka is ['orders']: expected a dict"),
    Row("unknown argument of the mark", mark(broker=3), "TypeError: invalid argument of @pytest.mark.kafka: broker; expected keyword arguments: as_version, brokers, clock, config, data_dir, faults, listeners, port, topics, users"),
    Row("unknown name", lambda: mockbroker.open, "AttributeError: module 'mockbroker' has no attribute 'open'"),
]  # fmt: skip

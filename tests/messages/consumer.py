"""Messages of the consumer, ``mockbroker.consumer``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import trio
import trio.testing
from messages.cluster import shared
from messages.row import Row
from tools.fake_cluster import FakeCluster
from tools.fake_logs import FakeLogCluster, FetchedPartition

from kwire import ErrorCode
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.messages.fetch import FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from mockbroker.consumer import Consumer, OffsetAndMetadata, open_consumer

TOPIC = ("t", 0)
ORDERS = ("orders", 0)


def opened(bootstrap: Any = "127.0.0.1:1", **options: Any) -> Callable[[], None]:
    """Return a function that opens a consumer."""

    async def run() -> None:
        async with open_consumer(bootstrap, **options):
            pass

    return lambda: trio.run(run)


def in_asyncio() -> None:
    async def run() -> None:
        async with open_consumer("127.0.0.1:1"):
            pass

    asyncio.run(run())


def used(use: Callable[[Consumer], Any], **options: Any) -> Callable[[], None]:
    """Return a function that opens a consumer of the shared cluster and calls ``use``, which may return an awaitable."""

    async def run() -> None:
        async with open_consumer(shared().bootstrap_servers, **options) as consumer:
            result = use(consumer)
            if hasattr(result, "__await__"):
                await result

    return lambda: trio.run(run)


async def closed(consumer: Consumer) -> None:
    await consumer.close()
    await consumer.poll()


async def woken(consumer: Consumer) -> None:
    await consumer.assign([ORDERS])
    consumer.wakeup()
    await consumer.poll()


async def unreachable() -> None:
    """Ask for the end of a partition at a port without a broker."""
    async with open_consumer("127.0.0.1:1") as consumer:
        await consumer.end_offsets(ORDERS, timeout=0.01)


async def shared_by_tasks(consumer: Consumer) -> None:
    """Poll in two tasks; raise what the second one raises."""
    await consumer.assign([ORDERS])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consumer.poll, 60)
        await trio.testing.wait_all_tasks_blocked()
        failure: Exception | None = None
        try:
            await consumer.poll(0)
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    assert failure is not None
    raise failure


class PollingListener:
    """A rebalance listener that polls."""

    async def on_assigned(self, consumer: Consumer, partitions: object) -> None:
        await consumer.poll()

    async def on_revoked(self, consumer: Consumer, partitions: object) -> None:
        pass

    async def on_lost(self, consumer: Consumer, partitions: object) -> None:
        pass


polling_listener = used(
    lambda consumer: consumer.poll(30), group="listening", topics=["orders"], listener=PollingListener()
)


async def subscribed_and_assigned(consumer: Consumer) -> None:
    await consumer.subscribe(["orders"])
    await consumer.assign([ORDERS])


async def assigned_and_subscribed(consumer: Consumer) -> None:
    await consumer.assign([ORDERS])
    await consumer.subscribe(["orders"])


def joining(answer: Callable[[FakeCluster], None], **settings: Any) -> Callable[[], None]:
    """Return a function that answers the JoinGroup of a member."""

    def run() -> None:
        cluster = FakeCluster(**settings)
        cluster.engine.subscribe(["t"])
        cluster.poll()
        answer(cluster)

    return run


def syncing(answer: Callable[[FakeCluster], None]) -> Callable[[], None]:
    """Return a function that answers the SyncGroup of a member."""

    def run(cluster: FakeCluster) -> None:
        cluster.answer_join()
        answer(cluster)

    return joining(run)


def committing(answer: Callable[[FakeCluster], object], **options: Any) -> Callable[[], None]:
    """Return a function that answers the OffsetCommit of a member, and raises the error of the commit."""

    def run() -> None:
        cluster = FakeCluster()
        cluster.engine.subscribe(["t"])
        cluster.make_stable()
        commit = cluster.commit({TOPIC: 8}, **options)
        answer(cluster)
        assert commit.error is not None
        raise commit.error

    return run


def commit_error(code: ErrorCode) -> Callable[[], None]:
    return committing(lambda cluster: cluster.answer_commit(code, polling=False))


def commit_beside_members() -> None:
    cluster = FakeCluster()
    cluster.engine.assign([TOPIC])
    cluster.wait(1.0)
    commit = cluster.commit({TOPIC: 8})
    cluster.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID, polling=False)
    assert commit.error is not None
    raise commit.error


def commit_of_an_earlier_generation() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.make_stable(generation=2)
    commit = cluster.commit({TOPIC: 8})
    commit.identity = (1, "me")
    cluster.answer_commit(ErrorCode.ILLEGAL_GENERATION, polling=False)
    assert commit.error is not None
    raise commit.error


def rejoining() -> None:
    """Commit while a rebalance is in progress."""
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    error = cluster.commit({TOPIC: 8}).error
    assert error is not None
    raise error


def undecodable_subscription(cluster: FakeCluster) -> None:
    """Answer the JoinGroup of the leader with a member whose metadata is one byte."""
    member = JoinGroupResponse.Member(member_id="other", metadata=b"\0")
    fields = {"generation_id": 1, "protocol_name": "range", "leader": "me", "member_id": "me", "members": [member]}
    cluster.answer("JoinGroup", JoinGroupResponse(protocol_type="consumer", **fields))


def two_coordinators() -> None:
    cluster = FakeCluster()
    del cluster.answers["FindCoordinator"]
    cluster.engine.subscribe(["t"])
    cluster.poll()
    one = FindCoordinatorResponse.Coordinator(key="g")
    cluster.answer("FindCoordinator", FindCoordinatorResponse(coordinators=[one, one]))


def coordinator_error() -> None:
    cluster = FakeCluster()
    del cluster.answers["FindCoordinator"]
    cluster.engine.subscribe(["t"])
    cluster.poll()
    cluster.answer_error("FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)


def unread_error() -> None:
    """Answer the OffsetFetch of a member with an error."""
    cluster = FakeCluster()
    cluster.answers["OffsetFetch"] = lambda request: cluster.offset_fetch(
        request, error=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    cluster.poll()


def heartbeat_error(code: ErrorCode) -> Callable[[], None]:
    def run() -> None:
        cluster = FakeCluster(group_protocol="consumer")
        cluster.engine.subscribe(["t"])
        cluster.poll()
        cluster.answer_consumer_heartbeat(0, error=code)

    return run


def fetching(**settings: Any) -> FakeLogCluster:
    """Return a cluster with 5 records, and a consumer that has sent its Fetch."""
    cluster = FakeLogCluster({TOPIC: 0}, **settings)
    cluster.logs[TOPIC].add(5)
    cluster.seek(TOPIC, 0)
    cluster.poll_records()
    return cluster


def fetched(code: ErrorCode = ErrorCode.NONE, **settings: Any) -> Callable[[], None]:
    """Return a function that answers a Fetch with an error, and polls."""

    def run() -> None:
        cluster = fetching(**settings)
        request = cluster.request("Fetch")
        cluster.answer(request, cluster.fetch_one(request, TOPIC, error_code=code))
        cluster.poll_records()

    return run


def corrupt_batch(change: Callable[[bytes], bytes]) -> Callable[[], None]:
    """Return a function that reads a batch after a change."""

    def run() -> None:
        cluster = fetching()
        request = cluster.request("Fetch")
        response = cluster.fetch(request)
        partition = response.responses[0].partitions[0]
        partition.records = change(partition.records)
        cluster.answer(request, response)
        cluster.poll_records()

    return run


def forbidden_topic() -> None:
    cluster = FakeCluster()
    cluster.answers["Metadata"] = lambda request: cluster.metadata(request, errors={"t": 29})
    cluster.engine.subscribe(["t"])
    cluster.poll()


def truncated_log() -> None:
    """Read to offset 5; then a new leader has a log that ends at 0."""
    cluster = fetching(auto_offset_reset="none")
    cluster.answer_rightly(cluster.request("Fetch"))
    cluster.poll_records()
    log = cluster.logs[TOPIC]
    log.batches, log.epoch, cluster.leader_epochs[TOPIC] = [], 1, 1
    log.add(9)
    cluster.answer(cluster.request("Fetch"), FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    cluster.engine.metadata.refresh()
    cluster.settle()
    cluster.wait(1)
    cluster.poll_records()


def recreated_topic() -> None:
    """Read to offset 5 of a topic that is deleted and created again."""
    cluster = fetching(auto_offset_reset="none")
    cluster.answer_rightly(cluster.request("Fetch"))
    cluster.poll_records()
    request, old = cluster.request("Fetch"), cluster.topic_id("t")
    cluster.topic_ids["t"] = UUID(int=99)
    cluster.engine.metadata.refresh()
    cluster.settle()
    partition = FetchedPartition(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1)
    cluster.answer(request, FetchResponse(responses=[FetchResponse.Topic(topic_id=old, partitions=[partition])]))
    cluster.poll_records()


def unread(**settings: Any) -> Callable[[], None]:
    """Return a function that polls without a committed offset."""

    def run() -> None:
        cluster = FakeCluster(auto_offset_reset="none", **settings)
        cluster.default_committed = -1
        cluster.engine.subscribe(["t"])
        cluster.make_stable()
        cluster.poll()

    return run


ROWS = [
    # open_consumer
    Row("address without a port", opened("localhost"), "ValueError: invalid bootstrap address 'localhost': use host:port"),
    Row("address with port 0", opened("localhost:0"), "ValueError: invalid bootstrap address 'localhost:0': port 0 is out of range (1-65535)"),
    Row("no addresses", opened([]), "ValueError: bootstrap is empty: give the host:port of at least one broker"),
    Row("addresses that are None", opened(None), "TypeError: bootstrap is None: use host:port, or a list of such addresses"),
    Row("group that is a number", opened(group=5), "TypeError: group is 5: use a str or None"),
    Row("group that cannot be encoded", opened(group="\ud800"), "ValueError: group is '\\ud800', which UTF-8 cannot encode: use another text"),
    Row("listener that is a number", opened(listener=5), "TypeError: the rebalance listener is 5: use an object of a subclass of RebalanceListener"),
    Row("setting with the name of another client", opened(group_id="g"), "TypeError: unknown setting group_id; did you mean group?"),
    Row("unknown setting of the consumer", opened(zzz=1), "TypeError: unknown setting zzz"),
    Row("consumer in asyncio", in_asyncio, "RuntimeError: a consumer of mockbroker needs a trio run: in asyncio, use a client such as aiokafka"),
    Row("topics and partitions", opened(group="g", topics=["t"], partitions=[TOPIC]), "ValueError: both topics and partitions are given: use topics to join the group, partitions to read without rebalances"),
    Row("one name as topics", opened(topics="orders"), "TypeError: topics must be a list of names or a pattern, got 'orders': use ['orders']"),
    Row("reset of offsets", opened(auto_offset_reset="oldest"), "ValueError: auto_offset_reset is 'oldest': use earliest, latest, none or a timedelta"),
    Row("group protocol", opened(group_protocol="eager"), "ValueError: group_protocol is 'eager': use classic or consumer"),
    Row("isolation level", opened(isolation_level="committed"), "ValueError: isolation_level is 'committed': use read_uncommitted or read_committed"),
    Row("records of a poll", opened(max_poll_records=0), "ValueError: max_poll_records is 0: use at least 1"),
    Row("text as a duration", opened(request_timeout="30"), "TypeError: request_timeout is '30': use a number of seconds"),
    Row("duration above its limit", opened(fetch_max_wait=1e9), "ValueError: fetch_max_wait is 1000000000.0: use at most 2147483.647"),
    Row("client id that cannot be encoded", opened(client_id="\ud800"), "ValueError: client_id is '\\ud800', which UTF-8 cannot encode: use another text"),
    Row("long client id", opened(client_id="x" * 40_000), "ValueError: client_id has 40000 bytes: use at most 32767"),
    Row("empty instance id", opened(group_instance_id=""), "ValueError: group_instance_id is empty: use at least one character, or None for a dynamic member"),
    Row("remote assignor of a classic member", opened(group_remote_assignor="range"), "ValueError: group_remote_assignor is 'range', but only the consumer protocol has it: set group_protocol=\"consumer\", or use assignors"),
    Row("one name as assignors", opened(assignors="range"), "TypeError: assignors is 'range': use a list, ['range']"),
    Row("no assignors", opened(assignors=[]), "ValueError: assignors is empty: give at least one, such as range"),
    Row("heartbeat interval", opened(heartbeat_interval=60.0), "ValueError: heartbeat_interval is 60.0 s: use less than session_timeout, which is 45.0 s"),
    # calls
    Row("poll without topics", used(lambda consumer: consumer.poll(0)), "IllegalUse: nothing to poll: call subscribe() or assign() first"),
    Row("subscription without a group", used(lambda consumer: consumer.subscribe(["orders"])), "IllegalUse: subscribe() needs a group: open the consumer with group=..., or use assign()"),
    Row("subscription to one name", used(lambda consumer: consumer.subscribe("orders"), group="g"), "TypeError: topics must be a list of names or a pattern, got 'orders': use ['orders']"),
    Row("assignment after a subscription", used(subscribed_and_assigned, group="g"), "IllegalUse: assign() after subscribe(): call unsubscribe() first"),
    Row("subscription after an assignment", used(assigned_and_subscribed, group="g"), "IllegalUse: subscribe() after assign(): call unsubscribe() first"),
    Row("commit without a group", used(lambda consumer: consumer.commit({ORDERS: 1})), "IllegalUse: commit() needs a group: open the consumer with group=..."),
    Row("committed offsets without a group", used(lambda consumer: consumer.committed(ORDERS)), "IllegalUse: committed() needs a group: open the consumer with group=..."),
    Row("group metadata without a group", used(lambda consumer: consumer.group_metadata), "IllegalUse: group_metadata needs a group: open the consumer with group=..."),
    Row("negative offset", used(lambda consumer: consumer.commit({ORDERS: -1}), group="g"), "ValueError: offset -1 is negative: use 0 or more"),
    Row("offset above its limit", used(lambda consumer: consumer.commit({ORDERS: 2**63}), group="g"), "ValueError: offset 9223372036854775808 is above the limit of 2**63 - 1"),
    Row("offset that is a string", used(lambda consumer: consumer.commit({ORDERS: "1"}), group="g"), "TypeError: an offset must be an int, got '1'"),
    Row("partition without a number", used(lambda consumer: consumer.commit({"orders": 1}), group="g"), "TypeError: a partition must be a topic and a number, such as (\"orders\", 0), got 'orders'"),
    Row("partition below 0", used(lambda consumer: consumer.end_offsets(("orders", -1))), "ValueError: partition -1 of orders is out of range (0-2147483647)"),
    Row("topic that is a number", used(lambda consumer: consumer.partitions_for(5)), "TypeError: the name of a topic must be a str, got 5"),
    Row("topic that cannot be encoded", used(lambda consumer: consumer.partitions_for("\ud800")), "ValueError: topic '\\ud800' cannot be encoded in UTF-8: use another name"),
    Row("pattern of bytes", used(lambda consumer: consumer.subscribe(re.compile(b"t")), group="g"), "TypeError: a pattern of topics must be a str, got b't'"),
    Row("timestamp that is a float", used(lambda consumer: consumer.seek_to_time(1.5)), "TypeError: timestamp 1.5 is not an int: give milliseconds since 1970"),
    Row("timestamp above its limit", used(lambda consumer: consumer.seek_to_time(2**63)), "ValueError: timestamp 9223372036854775808 is above the limit of 2**63 - 1: give milliseconds since 1970"),
    Row("metadata of an offset", used(lambda consumer: consumer.commit({ORDERS: OffsetAndMetadata(1, b"x")}), group="g"), "TypeError: metadata of an offset must be a str, got b'x'"),
    Row("negative timestamp of a seek", used(lambda consumer: consumer.seek_to_time(-1), partitions=[ORDERS]), "ValueError: timestamp -1 is negative: give milliseconds since 1970"),
    Row("negative timestamp of a lookup", used(lambda consumer: consumer.offsets_for_times({ORDERS: -1})), "ValueError: timestamp -1 of orders-0 is negative: give milliseconds since 1970"),
    Row("position of another partition", used(lambda consumer: consumer.seek(ORDERS, 1)), "NotAssigned: orders-0 is not assigned to this consumer: the property assignment contains the assigned partitions"),
    Row("seek without a number", used(lambda consumer: consumer.seek("orders", 1)), "TypeError: a partition must be a topic and a number, such as (\"orders\", 0), got 'orders'"),
    Row("closed consumer", used(closed), "IllegalUse: the consumer is closed: open another one"),
    Row("consumer of two tasks", used(shared_by_tasks), "ConcurrentUse: another task is using this consumer: other tasks may only call wakeup()"),
    Row("listener that polls", polling_listener, "IllegalUse: a rebalance listener cannot poll, unsubscribe or close: do that after the poll"),
    Row("wakeup", used(woken), "Wakeup: wakeup() interrupted this call: handle the exception, and call again"),
    Row("unreachable cluster", lambda: trio.run(unreachable), "TimedOut: no response within 0.01 s: check the connection, or give a longer timeout"),
    # the group
    Row("coordinator without permission", coordinator_error, "AuthorizationFailed: FindCoordinator of group g failed: GROUP_AUTHORIZATION_FAILED"),
    Row("two coordinators", two_coordinators, "ConsumerError: FindCoordinator returned 2 coordinators of group g, expected 1"),
    Row("full group", joining(lambda cluster: cluster.answer_error("JoinGroup", ErrorCode.GROUP_MAX_SIZE_REACHED)), "BrokerError: JoinGroup of group g failed: GROUP_MAX_SIZE_REACHED"),
    Row("fenced static member", joining(lambda cluster: cluster.answer_error("JoinGroup", ErrorCode.FENCED_INSTANCE_ID), group_instance_id="one"), "FencedInstance: JoinGroup: FENCED_INSTANCE_ID"),
    Row("static member of an old broker", joining(lambda cluster: cluster.answer_error("JoinGroup", ErrorCode.UNSUPPORTED_VERSION), group_instance_id="one"), "UnsupportedVersion: JoinGroup of group g: the broker does not support group_instance_id: open the consumer without it"),
    Row("group of another protocol type", joining(lambda cluster: cluster.answer_join(protocol_type="connect")), "InconsistentGroupProtocol: JoinGroup of group g: the protocol type of the group is 'connect', but a consumer needs 'consumer': INCONSISTENT_GROUP_PROTOCOL"),
    Row("unknown assignor of a group", joining(lambda cluster: cluster.answer_join(protocol_name="fair", members={"me": ["t"]})), "UnknownAssignor: the group chose the assignor 'fair', but this member supports only range, cooperative-sticky: add 'fair' to assignors"),
    Row("subscription that cannot be decoded", joining(undecodable_subscription), "ConsumerError: invalid subscription of member 'other': ConsumerProtocolSubscription at byte 0: expected 2 bytes of version, found 1"),
    Row("error of a SyncGroup", syncing(lambda cluster: cluster.answer_error("SyncGroup", ErrorCode.UNKNOWN_SERVER_ERROR)), "BrokerError: SyncGroup of group g failed: UNKNOWN_SERVER_ERROR"),
    Row("protocol of a SyncGroup", syncing(lambda cluster: cluster.answer_sync([], protocol_name="sticky")), "InconsistentGroupProtocol: SyncGroup returned protocol 'sticky' of type 'consumer', expected 'range': INCONSISTENT_GROUP_PROTOCOL"),
    Row("assignment of 1 byte", syncing(lambda cluster: cluster.answer_sync(b"\0")), "ConsumerError: the assignment (1 bytes) in the SyncGroup response is not a ConsumerProtocolAssignment"),
    Row("truncated assignment", syncing(lambda cluster: cluster.answer_sync(encode_stored(ConsumerProtocolAssignment(), 3)[:-1])), "ConsumerError: the assignment in the SyncGroup response cannot be decoded: ConsumerProtocolAssignment v3 at byte 6, user_data: expected 4 bytes, found 3"),
    Row("too many partitions", syncing(lambda cluster: cluster.answer_sync([("t", n) for n in range(100_001)])), "ConsumerError: the group leader assigned 100,001 partitions, more than the maximum of 100,000: add members to the group, or check its assignor"),
    Row("error of a ConsumerGroupHeartbeat", heartbeat_error(ErrorCode.GROUP_MAX_SIZE_REACHED), "BrokerError: ConsumerGroupHeartbeat of group g failed: GROUP_MAX_SIZE_REACHED"),
    Row("topic of a ConsumerGroupHeartbeat", heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "AuthorizationFailed: ConsumerGroupHeartbeat of group g failed: TOPIC_AUTHORIZATION_FAILED"),
    Row("committed offsets without permission", unread_error, "AuthorizationFailed: OffsetFetch of group g failed: GROUP_AUTHORIZATION_FAILED"),
    # commits
    Row("commit of an assigned partition beside members", commit_beside_members, "CommitFailed: the group has members, and this consumer, which assigns its partitions itself, is not one of them: open it with another group, or subscribe"),
    Row("commit of an evicted member", commit_error(ErrorCode.UNKNOWN_MEMBER_ID), "CommitFailed: this consumer is not a member of the group any more, and another member may read its uncommitted records again: poll to rejoin, and poll more often or raise max_poll_interval"),
    Row("commit in a rebalance", commit_error(ErrorCode.REBALANCE_IN_PROGRESS), "RebalanceInProgress: a rebalance is in progress: poll, then commit again"),
    Row("commit of a joining member", rejoining, "RebalanceInProgress: a rebalance is in progress: poll, then commit again"),
    Row("commit of an earlier generation", commit_of_an_earlier_generation, "RebalanceInProgress: the group rebalanced during the commit: commit again"),
    Row("commit to a topic without permission", commit_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "AuthorizationFailed: OffsetCommit of t-0 failed: TOPIC_AUTHORIZATION_FAILED"),
    Row("commit of a fenced member", commit_error(ErrorCode.FENCED_INSTANCE_ID), "FencedInstance: OffsetCommit of t-0 failed: FENCED_INSTANCE_ID"),
    Row("commit without a response", committing(lambda cluster: cluster.wait(61)), "TimedOut: the commit got no response within its timeout: commit again"),
    Row("commit that is retried", committing(lambda cluster: (cluster.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, polling=False), cluster.wait(61))), "TimedOut: the commit did not succeed (OffsetCommit of t-0 failed: UNKNOWN_TOPIC_OR_PARTITION) within its timeout: commit again"),
    Row("commit on a lost connection", committing(lambda cluster: cluster.cut(cluster.group_link(), polling=False), retried=False), "TimedOut: the commit got no response: node1:9001 closed the connection"),
    Row("commit response without a partition", committing(lambda cluster: cluster.answer("OffsetCommit", OffsetCommitResponse(), polling=False), retried=False), "CommitFailed: the OffsetCommit response lacks t-0: commit again"),
    # records
    Row("no committed offset", unread(), "NoOffset: no committed offset: t-0; call seek(), or set auto_offset_reset to earliest or latest"),
    Row("log that was truncated", truncated_log, "LogTruncated: t-0 was truncated: the position is 5, the log ends at 0: call seek()"),
    Row("topic that was created again", recreated_topic, "NoOffset: the topic was deleted and created again: t-0 at 5; call seek(), or set auto_offset_reset to earliest or latest"),
    Row("topic without permission", forbidden_topic, "AuthorizationFailed: Metadata request for topic t failed: TOPIC_AUTHORIZATION_FAILED"),
    Row("offset out of range", fetched(ErrorCode.OFFSET_OUT_OF_RANGE, auto_offset_reset="none"), "NoOffset: offset out of range: t-0 at 0; call seek(), or set auto_offset_reset to earliest or latest"),
    Row("fetch without permission", fetched(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "AuthorizationFailed: Fetch of t-0 from offset 0 failed: TOPIC_AUTHORIZATION_FAILED"),
    Row("checksum of a fetched batch", corrupt_batch(lambda data: data[:-1] + bytes([data[-1] ^ 1])), "CorruptRecord: t-0 at offset 0: RecordBatch at byte 0: the CRC in the batch header does not match the batch"),
    Row("fetched batch that is not complete", corrupt_batch(lambda data: data[:30]), "CorruptRecord: t-0 at offset 0: RecordBatch at byte 0: the Fetch response has no complete record batch, although it is not empty"),
]  # fmt: skip

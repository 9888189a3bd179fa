"""Conversations with a broker that has an authorizer, which record.py records: each API, by users with different ACLs.

A script creates the ACLs of its users, sends requests as each of them, and deletes the ACLs. The connections "super"
belong to User:ANONYMOUS, a super user; every other connection has the name of its user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import trio
from consumer import topic_id
from fetch_scripts import NO_SESSION, Reader, create
from fetch_scripts import produce as produce_to
from prober import Prober
from script import NEW, Play, script
from streams import CONFIG, Streams, word_count
from transaction import batch

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_acls import DeleteAclsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_acls import DescribeAclsRequest
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.find_coordinator import FindCoordinatorResponse as Found
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_config_resources import ListConfigResourcesRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from mockbroker.lab.conform.asker import open_asker

ANY, TOPIC, GROUP, CLUSTER, TXN = 1, 2, 3, 4, 5  # resource types
MATCH, LITERAL, PREFIXED = 2, 3, 4  # pattern types
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(2, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(10, 13)
THE_CLUSTER = "kafka-cluster"
NAMES = ("none", "one", "two", "three", "four", "five")
OTHERS = [f"super{number}" for number in range(20)]  # connections that may be closed
USERS = {name: f"{name}-secret" for name in NAMES}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EVERYONE = {**SETTINGS, "allow.everyone.if.no.acl.found": "true"}
Acl: TypeAlias = tuple[int, int, str] | tuple[int, int, str, int] | tuple[int, int, str, int, int]
Acls = Mapping[str, Sequence[Acl]]
Ask = Callable[[str], Any]


def authorizer_script(config: Mapping[str, int | str] = SETTINGS) -> Callable[[Play], Play]:
    return script(config, (NEW,), USERS, ("super", *OTHERS))


def creation(user: str, acl: Sequence[Any], host: str = "*") -> CreateAclsRequest.Creation:
    """Return the creation of an ACL. ``acl``: operation, resource type, name; pattern type, permission if unusual."""
    operation, kind, name, pattern, permission = (*acl, *(LITERAL, ALLOW)[len(acl) - 3 :])
    return CreateAclsRequest.Creation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host=host,
        operation=operation,
        permission_type=permission,
    )


async def grant(p: Prober, acls: Acls) -> None:
    """Create the ACLs of users, and connect as each of them and as ``none``."""
    creations = [creation(user, acl) for user, each in acls.items() for acl in each]
    await p.ask("super", CreateAclsRequest(creations=creations), 3)
    await p.wait(500, "until the brokers have the ACLs")
    for user in ("none", *acls):
        if user in USERS:
            await log_in(p, user)


async def log_in(p: Prober, user: str) -> None:
    await p.ask(user, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    await p.ask(user, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{USERS[user]}".encode()), 2)


async def revoke(p: Prober) -> None:
    """Delete all ACLs."""
    everything = DeleteAclsRequest.Filter(**searched())
    await p.ask("super", DeleteAclsRequest(filters=[everything]), 3)
    await p.wait(300, "until the brokers have deleted the ACLs")


async def matrix(p: Prober, acls: Acls, *asked: tuple[object, int]) -> None:
    """Send the same requests as each user."""
    await grant(p, acls)
    for user in ("none", *acls):
        if user in USERS:
            for request, version in asked:
                await p.ask(user, request, version)
    await revoke(p)


async def warm_up(p: Prober) -> None:
    """Wait until the broker has its transaction log and producer ids. This is not part of the conversation."""
    async with open_asker(p.host, p.port) as asker:
        for name in ("warm-up", None):
            while (await asker.ask(FindCoordinatorRequest(key="warm-up", key_type=1), 3, Found)).error_code:
                await trio.sleep(0.1)
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=20_000)
            while (await asker.ask(request, 4, InitProducerIdResponse)).error_code:
                await trio.sleep(0.1)
    await trio.sleep(3)


# --- records ---


def produce(topics: Sequence[str], **more: Any) -> ProduceRequest:
    data = ProduceRequest.Topic.Partition(index=0, records=batch(b"v", **more.pop("batch", {})))
    return ProduceRequest(
        **{
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [ProduceRequest.Topic(name=name, partition_data=[data]) for name in topics],
            **more,
        }
    )


@authorizer_script()
async def acl_produce(p: Prober) -> None:
    """Produce needs WRITE on each topic, and on the transactional id."""
    acls: Acls = {
        "one": [(WRITE, TOPIC, "probe")],
        "two": [(DESCRIBE, TOPIC, "probe"), (READ, TOPIC, "probe2")],
        "three": [(ALL, TOPIC, "pro", PREFIXED), (WRITE, TOPIC, "probe2", LITERAL, DENY)],
        "four": [(WRITE, TOPIC, "*"), (IDEMPOTENT_WRITE, CLUSTER, THE_CLUSTER)],
    }
    await grant(p, acls)
    ids = {name: topic_id(p, name) for name in ("probe", "probe2")}
    for user in ("none", *acls):
        await p.ask(user, produce(["probe", "probe2"]), 9)
        await p.ask(user, produce(["probe2", "not-there", "probe"]), 7)
        by_id = produce(["probe", "probe2"])
        for topic in by_id.topic_data:
            topic.topic_id, topic.name = ids[topic.name], ""
        await p.ask(user, by_id, 13)
    transactional = {"transactional": True, "producer_id": 9, "epoch": 0, "sequence": 0}
    await p.ask("four", produce(["probe"], transactional_id="t", batch=transactional), 9)
    await p.ask("four", produce(["probe"], batch={"producer_id": 9, "epoch": 0, "sequence": 0}), 9)
    await p.closed(await p.send("none", produce(["probe"], acks=0), 9))
    await p.closed(await p.send("one", produce(["probe", "probe2"], acks=0), 9))
    await revoke(p)


@authorizer_script()
async def acl_fetch(p: Prober) -> None:
    """Fetch needs READ on each topic, also in a fetch session."""

    def fetch(*topics: str, epoch: int = -1, session: int = 0, by_id: bool = False) -> FetchRequest:
        named = [{"topic_id": topic_id(p, name)} if by_id else {"topic": name} for name in topics]
        partition = FetchRequest.Topic.Partition(partition=2, fetch_offset=0, partition_max_bytes=1 << 20)
        wanted = [FetchRequest.Topic(**name, partitions=[partition]) for name in named]
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch, topics=wanted)

    acls: Acls = {"one": [(READ, TOPIC, "probe")], "two": [(WRITE, TOPIC, "probe"), (DESCRIBE, TOPIC, "probe2")]}
    await grant(p, acls)
    for user in ("none", *acls):
        await p.ask(user, fetch("probe2", "probe", "not-there"), 11)
        await p.ask(user, fetch("probe2", "probe", by_id=True), 13)
        begun = await p.ask(user, fetch("probe", "probe2", epoch=0), 11)
        await p.ask(user, fetch(epoch=1, session=begun.session_id), 11)
        await p.ask(user, fetch(epoch=2, session=begun.session_id), 11)
    await revoke(p)


@script({**SETTINGS, "log.retention.ms": -1}, (NEW,), USERS, ("super", "P"))
async def acl_fetch_that_waits(p: Prober) -> None:
    """A Fetch with a denied topic waits for records of the other topics, with and without a session; it returns no
    records of the denied topic."""
    await grant(p, {"one": [(READ, TOPIC, "t-acl", PREFIXED)]})
    secret = await create(p, "t-secret")
    denied = (secret, [(0, 0)])
    await produce_to(p, secret)
    for version in (11, 13):
        topic = await create(p, f"t-acl-{version}")
        alone = Reader(p=p, topic=topic, conn="one", version=version)
        sessionless = {"session_id": 0, "session_epoch": NO_SESSION, "also": [denied]}
        await alone.fetch((0, 0), max_wait_ms=700, **sessionless)
        await alone.fetch((0, 0), max_wait_ms=700, min_bytes=0, **sessionless)
        await alone.fetch(max_wait_ms=5000, **sessionless)
        await alone.fetch((9, 0), (0, 0), max_wait_ms=700, **sessionless)
        await alone.fetch((9, 0), max_wait_ms=700, **sessionless)
        await alone.fetch((0, 0), (1, 5), max_wait_ms=5000, **sessionless)
        held = await alone.send((0, 0), (1, 0), max_wait_ms=5000, **sessionless)
        await p.silent(held)
        await produce_to(p, secret)
        await p.silent(held, 600)
        await produce_to(p, topic, 1)
        await alone.answer(held)
        await alone.fetch((1, 0), max_wait_ms=700, min_bytes=100, **sessionless)

        reader = Reader(p=p, topic=topic, conn="one", version=version)
        await reader.fetch((0, 0), also=[denied], max_wait_ms=700)
        await reader.fetch(max_wait_ms=700)
        held = await reader.send(max_wait_ms=5000)
        await p.silent(held)
        await produce_to(p, secret)
        await p.silent(held, 600)
        await produce_to(p, topic)
        await reader.answer(held)
        await reader.fetch((0, 1), max_wait_ms=700)
        await reader.fetch(max_wait_ms=700, forget=[(topic, [0])])
        await reader.fetch(max_wait_ms=5000)
        await reader.fetch((2, 0), max_wait_ms=700, forget=[(secret, [0])])
    await revoke(p)


@authorizer_script()
async def acl_list_offsets(p: Prober) -> None:
    """ListOffsets needs DESCRIBE on each topic, which READ implies."""
    partition = ListOffsetsRequest.Topic.Partition(partition_index=2, timestamp=-1)
    topics = [ListOffsetsRequest.Topic(name=name, partitions=[partition]) for name in ("probe", "probe2", "not-there")]
    acls: Acls = {"one": [(READ, TOPIC, "probe")], "two": [(DESCRIBE, TOPIC, "*")], "three": [(CREATE, TOPIC, "*")]}
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    await matrix(p, acls, (request, 5), (request, 1))


@authorizer_script()
async def acl_offset_for_leader_epoch(p: Prober) -> None:
    """OffsetForLeaderEpoch needs DESCRIBE on each topic, or CLUSTER_ACTION."""
    partition = OffsetForLeaderEpochRequest.Topic.Partition(partition=2, leader_epoch=0)
    topics = [OffsetForLeaderEpochRequest.Topic(topic=name, partitions=[partition]) for name in ("probe", "probe2")]
    acls: Acls = {"one": [(DESCRIBE, TOPIC, "probe")], "two": [(CLUSTER_ACTION, CLUSTER, THE_CLUSTER)]}
    await matrix(p, acls, (OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4))


@authorizer_script()
async def acl_delete_records(p: Prober) -> None:
    """DeleteRecords needs DELETE on each topic."""
    partition = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)
    topics = [DeleteRecordsRequest.Topic(name=name, partitions=[partition]) for name in ("probe", "probe2", "gone")]
    acls: Acls = {"one": [(DELETE, TOPIC, "probe")], "two": [(WRITE, TOPIC, "probe")], "three": [(ALL, TOPIC, "*")]}
    await matrix(p, acls, (DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2))


@authorizer_script()
async def acl_describe_producers(p: Prober) -> None:
    """DescribeProducers needs READ on each topic."""
    topics = [DescribeProducersRequest.Topic(name=name, partition_indexes=[2]) for name in ("probe", "probe2")]
    acls: Acls = {"one": [(READ, TOPIC, "probe")], "two": [(DESCRIBE, TOPIC, "*")]}
    await matrix(p, acls, (DescribeProducersRequest(topics=topics), 0))


# --- metadata ---


@authorizer_script()
async def acl_metadata(p: Prober) -> None:
    """Metadata returns errors for topics without DESCRIBE, or omits them if all topics are requested; authorized
    operations come from the ACLs."""

    def named(*topics: str, **more: bool) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in topics], **more)

    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    quiet = {"allow_auto_topic_creation": False}
    acls: Acls = {
        "one": [(READ, TOPIC, "probe"), (ALTER, CLUSTER, THE_CLUSTER)],
        "two": [(DESCRIBE, TOPIC, "*"), (DESCRIBE_CONFIGS, TOPIC, "probe")],
        "three": [(ALL, TOPIC, "*"), (WRITE, TOPIC, "probe", LITERAL, DENY), (READ, TOPIC, "pro", PREFIXED, DENY)],
        "four": [(DESCRIBE, TOPIC, "*", LITERAL, DENY), (ALL, TOPIC, "probe"), (CLUSTER_ACTION, CLUSTER, THE_CLUSTER)],
    }
    await grant(p, acls)
    ids = [MetadataRequest.Topic(topic_id=topic_id(p, name), name=None) for name in ("probe", "probe2")]
    for user in ("none", *acls):
        await p.ask(user, named("probe", "not-there", "probe2", **operations, **quiet), 8)
        await p.ask(user, named("probe", "probe2", "not legal", **quiet), 12)
        await p.ask(user, MetadataRequest(topics=None, **quiet), 9)
        await p.ask(user, MetadataRequest(topics=None, **operations, **quiet), 10)
        await p.ask(user, MetadataRequest(topics=[], **quiet), 9)
        await p.ask(user, MetadataRequest(topics=[]), 0)
        await p.ask(user, MetadataRequest(topics=ids, include_topic_authorized_operations=True, **quiet), 12)
        await p.ask(user, MetadataRequest(topics=ids, **quiet), 13)
    await revoke(p)


@authorizer_script()
async def acl_auto_creation(p: Prober) -> None:
    """Metadata creates a topic with CREATE on the cluster or on the topic."""
    acls: Acls = {
        "one": [(DESCRIBE, TOPIC, "*")],
        "two": [(DESCRIBE, TOPIC, "*"), (CREATE, TOPIC, "new-two")],
        "three": [(DESCRIBE, TOPIC, "*"), (CREATE, CLUSTER, THE_CLUSTER)],
        "four": [(CREATE, TOPIC, "new", PREFIXED)],
    }
    await grant(p, acls)
    for user in ("none", *acls):
        topics = [MetadataRequest.Topic(name=name) for name in (f"new-{user}", "probe")]
        await p.ask(user, MetadataRequest(topics=topics), 9)
        await p.wait(500, "until the topic is there")
        await p.ask("super", MetadataRequest(topics=topics[:1], allow_auto_topic_creation=False), 9)
    await revoke(p)


@authorizer_script()
async def acl_describe_topic_partitions(p: Prober) -> None:
    """DescribeTopicPartitions needs DESCRIBE on each topic; without names it lists those with DESCRIBE."""

    def described(*names: str) -> DescribeTopicPartitionsRequest:
        return DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.Topic(name=n) for n in names])

    acls: Acls = {"one": [(READ, TOPIC, "probe")], "two": [(DESCRIBE, TOPIC, "pro", PREFIXED)]}
    await matrix(p, acls, (described("probe", "probe2", "not-there"), 0), (described(), 0))


@authorizer_script()
async def acl_describe_cluster(p: Prober) -> None:
    """DescribeCluster is always allowed; its operations need DESCRIBE on the cluster."""
    acls: Acls = {"one": [(ALTER, CLUSTER, THE_CLUSTER)], "two": [(CREATE, CLUSTER, THE_CLUSTER)]}
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    await matrix(p, acls, (request, 1), (DescribeClusterRequest(), 1))


# --- groups ---


@authorizer_script()
async def acl_groups(p: Prober) -> None:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup need READ on the group."""
    acls: Acls = {"one": [(DESCRIBE, GROUP, "g")], "two": [(READ, GROUP, "g")], "three": [(DELETE, GROUP, "*")]}
    member = {"group_id": "g", "member_id": "m"}
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id="m")])
    join = JoinGroupRequest(
        **member, session_timeout_ms=10_000, rebalance_timeout_ms=1000, protocol_type="consumer", protocols=protocols
    )
    await matrix(
        p,
        acls,
        (join, 9),
        (join, 5),
        (SyncGroupRequest(**member, generation_id=1), 3),
        (SyncGroupRequest(**member, generation_id=1, protocol_type="consumer", protocol_name="range"), 5),
        (HeartbeatRequest(**member, generation_id=1), 4),
        (leave, 5),
        (LeaveGroupRequest(**member), 2),
    )


@authorizer_script()
async def acl_offset_commit(p: Prober) -> None:
    """OffsetCommit needs READ on the group and on each topic."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    names = ("probe", "probe2", "not-there")
    named = [OffsetCommitRequest.Topic(name=name, partitions=[partition]) for name in names]
    by_id = [OffsetCommitRequest.Topic(topic_id=topic_id(p, name), partitions=[partition]) for name in names[:2]]
    acls: Acls = {
        "one": [(READ, TOPIC, "*")],
        "two": [(READ, GROUP, "g"), (READ, TOPIC, "probe")],
        "three": [(READ, GROUP, "*"), (DESCRIBE, TOPIC, "*")],
        "four": [(ALL, GROUP, "g"), (ALL, TOPIC, "*")],
    }
    await matrix(
        p,
        acls,
        (OffsetCommitRequest(group_id="g", topics=named), 9),
        (OffsetCommitRequest(group_id="g", topics=by_id), 10),
        (OffsetCommitRequest(group_id="g", topics=named), 2),
    )


@authorizer_script()
async def acl_offset_fetch(p: Prober) -> None:
    """OffsetFetch needs DESCRIBE on the group and on each topic; a request for all topics returns those with
    DESCRIBE."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    commits = [OffsetCommitRequest.Topic(name=name, partitions=[partition]) for name in ("probe", "probe2")]
    await p.ask("super", OffsetCommitRequest(group_id="g", topics=commits), 9)
    await p.wait(100)
    acls: Acls = {
        "one": [(DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "probe")],
        "two": [(DESCRIBE, GROUP, "*"), (WRITE, TOPIC, "*")],
        "three": [(READ, TOPIC, "*")],
    }
    wanted = OffsetFetchRequest.Group
    named = [wanted.Topic(name=name, partition_indexes=[0]) for name in ("probe", "probe2", "not-there")]
    by_id = [wanted.Topic(topic_id=topic_id(p, name), partition_indexes=[0]) for name in ("probe2", "probe")]
    older = [OffsetFetchRequest.Topic(name=name, partition_indexes=[0]) for name in ("probe", "probe2")]
    both = [wanted(group_id="g", topics=named), wanted(group_id="other", topics=None)]
    await matrix(
        p,
        acls,
        (OffsetFetchRequest(groups=both), 9),
        (OffsetFetchRequest(groups=[wanted(group_id="g", topics=None)]), 8),
        (OffsetFetchRequest(groups=[wanted(group_id="g", topics=None)]), 10),
        (OffsetFetchRequest(groups=[wanted(group_id="g", topics=by_id)]), 10),
        (OffsetFetchRequest(group_id="g", topics=older), 7),
        (OffsetFetchRequest(group_id="g", topics=None), 5),
        (OffsetFetchRequest(group_id="g", topics=older), 1),
    )


@authorizer_script()
async def acl_find_coordinator(p: Prober) -> None:
    """FindCoordinator needs DESCRIBE on the group or transactional id."""
    await warm_up(p)
    acls: Acls = {
        "one": [(READ, GROUP, "g"), (WRITE, TXN, "t")],
        "two": [(DESCRIBE, GROUP, "*"), (DESCRIBE, TXN, "*")],
        "three": [(CREATE, GROUP, "*"), (DESCRIBE, CLUSTER, THE_CLUSTER)],
    }
    await matrix(
        p,
        acls,
        (FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 4),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["t", "u"]), 4),
        (FindCoordinatorRequest(key="g", key_type=0), 3),
        (FindCoordinatorRequest(key="t", key_type=1), 2),
        (FindCoordinatorRequest(key="g"), 0),
        (FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"]), 6),
    )


@authorizer_script()
async def acl_describe_groups(p: Prober) -> None:
    """DescribeGroups needs DESCRIBE on the groups; ListGroups needs DESCRIBE on the groups or on the cluster."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    for group in ("g", "h"):
        commits = [OffsetCommitRequest.Topic(name="probe", partitions=[partition])]
        await p.ask("super", OffsetCommitRequest(group_id=group, topics=commits), 9)
    await p.wait(100)
    acls: Acls = {
        "one": [(READ, GROUP, "g")],
        "two": [(DESCRIBE, GROUP, "*"), (DELETE, GROUP, "h")],
        "three": [(DESCRIBE, CLUSTER, THE_CLUSTER)],
        "four": [(ALL, GROUP, "*"), (DESCRIBE_CONFIGS, GROUP, "g", LITERAL, DENY)],
    }
    request = DescribeGroupsRequest(groups=["g", "h", "unknown"], include_authorized_operations=True)
    await matrix(p, acls, (request, 5), (request, 6), (ListGroupsRequest(), 4))


@authorizer_script()
async def acl_delete_groups(p: Prober) -> None:
    """DeleteGroups needs DELETE on the groups; OffsetDelete also needs READ on the topics."""
    partition = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    topics = [OffsetDeleteRequest.Topic(name=name, partitions=[partition]) for name in ("probe", "probe2")]
    acls: Acls = {
        "one": [(DELETE, GROUP, "g")],
        "two": [(DELETE, GROUP, "*"), (READ, TOPIC, "probe")],
        "three": [(READ, GROUP, "*"), (READ, TOPIC, "*")],
    }
    place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    commits = [OffsetCommitRequest.Topic(name=name, partitions=[place]) for name in ("probe", "probe2")]
    await p.ask("super", OffsetCommitRequest(group_id="h", topics=commits), 9)
    await p.wait(100)
    await matrix(
        p,
        acls,
        (DeleteGroupsRequest(groups_names=["g", "other"]), 2),
        (OffsetDeleteRequest(group_id="h", topics=topics), 0),
        (OffsetDeleteRequest(group_id="g", topics=topics), 0),
    )


@authorizer_script(SETTINGS | {"group.consumer.heartbeat.interval.ms": 500})
async def acl_consumer_groups(p: Prober) -> None:
    """ConsumerGroupHeartbeat needs READ on the group and DESCRIBE on all topics; ConsumerGroupDescribe needs
    DESCRIBE."""

    def beat(**more: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": "g",
                "member_id": "member",
                "member_epoch": 0,
                "rebalance_timeout_ms": 5000,
                "subscribed_topic_names": ["probe", "probe2"],
                "topic_partitions": [],
                **more,
            }
        )

    acls: Acls = {
        "one": [(READ, GROUP, "g"), (READ, TOPIC, "probe")],
        "two": [(DESCRIBE, GROUP, "*"), (READ, TOPIC, "*")],
        "three": [(READ, GROUP, "g"), (DESCRIBE, TOPIC, "*")],
        "four": [(DESCRIBE, GROUP, "*")],
    }
    await grant(p, acls)
    for user in ("none", *acls):
        await p.ask(user, beat(), 1)
        await p.wait(300)
        request = ConsumerGroupDescribeRequest(group_ids=["g", "h"], include_authorized_operations=True)
        await p.ask(user, request, 1)
    await p.ask("one", beat(member_epoch=-1, subscribed_topic_names=None, topic_partitions=None), 1)
    await p.ask("three", beat(member_epoch=-1, subscribed_topic_names=None, topic_partitions=None), 1)
    await p.ask("none", beat(member_epoch=-1, subscribed_topic_names=None, topic_partitions=None), 1)
    joined = {"member_id": "regex", "subscribed_topic_names": None, "subscribed_topic_regex": "probe.*"}
    await p.ask("one", beat(**joined), 1)
    await p.wait(500, "until the expression is evaluated")
    await p.ask("one", beat(**joined), 1)
    await p.wait(500)
    await p.ask("super", ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    await p.ask("one", beat(**joined | {"member_epoch": -1}), 1)
    await revoke(p)


@authorizer_script(CONFIG | SETTINGS)
async def acl_streams_groups(p: Prober) -> None:
    """StreamsGroupHeartbeat needs READ on the group and DESCRIBE on all topics, and CREATE to create internal
    topics."""
    group = p.group
    acls: Acls = {
        "one": [(READ, GROUP, group), (DESCRIBE, TOPIC, "probe")],
        "two": [(READ, GROUP, group), (DESCRIBE, TOPIC, "*")],
        "three": [(READ, GROUP, group), (READ, TOPIC, "*"), (CREATE, TOPIC, f"{group}-counts-repartition")],
        "four": [(READ, GROUP, group), (READ, TOPIC, "*"), (CREATE, TOPIC, group, PREFIXED)],
    }
    await grant(p, acls)
    for user in ("none", *acls):
        member = Streams(p=p, conn=user, topology=word_count(p))
        answer = await member.join()
        if not answer.error_code:
            await member.beat(member_epoch=-1)
    request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    for user in ("none", "four"):
        await p.ask(user, request, 0)
    await revoke(p)


@authorizer_script(CONFIG | SETTINGS)
async def acl_streams_group_topics(p: Prober) -> None:
    """StreamsGroupDescribe needs DESCRIBE on the group, and on each topic of its topology."""
    group = p.group
    described = (DESCRIBE, GROUP, group)
    acls: Acls = {
        "one": [described],
        "two": [described, (DESCRIBE, TOPIC, group, PREFIXED)],
        "three": [described, (READ, TOPIC, "probe"), (DESCRIBE, TOPIC, group, PREFIXED)],
        "four": [described, (DESCRIBE, TOPIC, "probe"), (DESCRIBE, TOPIC, f"{group}-counts-repartition")],
        "five": [described, (DESCRIBE, TOPIC, "probe"), (DESCRIBE, TOPIC, f"{group}-counts-changelog")],
    }
    await grant(p, acls)
    member = Streams(p=p, conn="super", topology=word_count(p))
    await member.join()
    await p.wait(600, "until the internal topics exist")
    await member.beat()
    request = StreamsGroupDescribeRequest(group_ids=[group, "other"], include_authorized_operations=True)
    for user in ("none", *acls):
        await p.ask(user, request, 0)
    await member.beat(member_epoch=-1)
    await revoke(p)


@authorizer_script()
async def acl_share_groups(p: Prober) -> None:
    """The APIs of share groups need READ, DESCRIBE or DELETE on the group, and READ or DESCRIBE on the topics."""
    group = p.group
    acls: Acls = {
        "one": [(READ, TOPIC, "*")],
        "two": [(READ, GROUP, group), (READ, TOPIC, "probe")],
        "three": [(DELETE, GROUP, group), (DESCRIBE, TOPIC, "probe")],
        "four": [(ALL, GROUP, group), (ALL, TOPIC, "*")],
    }
    await grant(p, acls)
    member = {"group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    both = ["probe", "probe2"]
    partition = ShareFetchRequest.Topic.Partition(partition_index=9)
    fetched = [ShareFetchRequest.Topic(topic_id=topic_id(p, name), partitions=[partition]) for name in both]
    described = DescribeShareGroupOffsetsRequest.Group
    topics = [described.Topic(topic_name=name, partitions=[0]) for name in both]
    start = AlterShareGroupOffsetsRequest.Topic.Partition(partition_index=0, start_offset=1)
    altered = [AlterShareGroupOffsetsRequest.Topic(topic_name=name, partitions=[start]) for name in both]
    deleted = [DeleteShareGroupOffsetsRequest.Topic(topic_name=name) for name in both]
    fetch = ShareFetchRequest(**member, share_session_epoch=0, max_records=10, batch_size=10, topics=fetched)
    for user in ("none", "one", "two", "three"):
        await p.ask(user, ShareGroupHeartbeatRequest(**member, member_epoch=5, subscribed_topic_names=both), 1)
        await p.ask(user, ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 1)
        await p.ask(user, fetch, 1)
        await p.ask(user, ShareAcknowledgeRequest(**member, share_session_epoch=7), 1)
        await p.ask(user, DescribeShareGroupOffsetsRequest(groups=[described(group_id=group, topics=topics)]), 1)
        await p.ask(user, AlterShareGroupOffsetsRequest(group_id=group, topics=altered), 0)
        await p.ask(user, DeleteShareGroupOffsetsRequest(group_id=group, topics=deleted), 0)
    await revoke(p)


# --- transactions ---


@authorizer_script()
async def acl_init_producer_id(p: Prober) -> None:
    """InitProducerId needs WRITE on the transactional id; without one, IDEMPOTENT_WRITE, or WRITE on any topic."""
    await warm_up(p)
    acls: Acls = {
        "one": [(WRITE, TXN, "init")],
        "two": [(DESCRIBE, TXN, "*"), (IDEMPOTENT_WRITE, CLUSTER, THE_CLUSTER)],
        "three": [(WRITE, TOPIC, "x")],
        "four": [(WRITE, TOPIC, "x-1"), (WRITE, TOPIC, "x", PREFIXED, DENY)],
        "five": [(ALL, TOPIC, "*"), (WRITE, TOPIC, "*", LITERAL, DENY)],
    }
    await matrix(
        p,
        acls,
        (InitProducerIdRequest(transactional_id="init", transaction_timeout_ms=20_000), 4),
        (InitProducerIdRequest(transactional_id=None), 4),
    )


@authorizer_script()
async def acl_transactions(p: Prober) -> None:
    """The APIs of a transaction need WRITE on the transactional id, and READ on the group."""
    await warm_up(p)
    acls: Acls = {
        "one": [(WRITE, TXN, "t")],
        "two": [(WRITE, TXN, "t"), (READ, GROUP, "g"), (WRITE, TOPIC, "probe"), (READ, TOPIC, "probe")],
        "three": [(READ, GROUP, "*"), (ALL, TOPIC, "*"), (CLUSTER_ACTION, CLUSTER, THE_CLUSTER)],
        "four": [(WRITE, TXN, "*"), (READ, GROUP, "*"), (WRITE, TOPIC, "*"), (READ, TOPIC, "*")],
    }
    await grant(p, acls)
    p.names["t"] = "$txn:t"
    producer = {"producer_id": 77, "producer_epoch": 0}
    added = [AddedTopic(name=name, partitions=[0, 1]) for name in ("probe", "probe2")]
    older = {"transactional_id": "t", **producer, "topics": added}
    offset = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    offsets = [TxnOffsetCommitRequest.Topic(name=name, partitions=[offset]) for name in ("probe", "probe2")]
    verified = AddPartitionsToTxnRequest.Transaction(transactional_id="t", **producer, verify_only=True, topics=added)
    for user in ("none", *acls):
        add = AddPartitionsToTxnRequest(**{f"v3_and_below_{name}": value for name, value in older.items()})
        await p.ask(user, add, 3)
        await p.ask(user, AddPartitionsToTxnRequest(transactions=[verified]), 4)
        await p.ask(user, AddOffsetsToTxnRequest(transactional_id="t", **producer, group_id="g"), 3)
        commit = TxnOffsetCommitRequest(transactional_id="t", group_id="g", **producer, topics=offsets)
        await p.ask(user, commit, 3)
        await p.ask(user, EndTxnRequest(transactional_id="t", **producer, committed=True), 3)
    await revoke(p)


@authorizer_script()
async def acl_describe_transactions(p: Prober) -> None:
    """DescribeTransactions and ListTransactions need DESCRIBE on the transactional ids, and on the topics in them."""
    await warm_up(p)
    for name in ("described-t", "described-u"):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=20_000)
        answer = await p.ask("super", request, 4)
        added = [AddedTopic(name=topic, partitions=[0]) for topic in ("probe", "probe2")]
        fields = {"transactional_id": name, "producer_id": answer.producer_id, "producer_epoch": 0, "topics": added}
        add = AddPartitionsToTxnRequest(**{f"v3_and_below_{field}": value for field, value in fields.items()})
        await p.ask("super", add, 3)
    listed = ListTransactionsRequest(state_filters=["Ongoing"])
    acls: Acls = {
        "one": [(WRITE, TXN, "described-t"), (DESCRIBE, TOPIC, "probe")],
        "two": [(DESCRIBE, TXN, "*"), (READ, TOPIC, "*")],
        "three": [(READ, TXN, "described-u")],
    }
    await matrix(
        p,
        acls,
        (DescribeTransactionsRequest(transactional_ids=["described-t", "described-u"]), 0),
        (listed, 1),
    )


# --- the cluster ---


@authorizer_script()
async def acl_create_topics(p: Prober) -> None:
    """CreateTopics needs CREATE on the cluster or the topic; the configurations in its response need
    DESCRIBE_CONFIGS."""

    def create(*names: str) -> CreateTopicsRequest:
        topics = [CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1) for name in names]
        return CreateTopicsRequest(topics=topics, timeout_ms=5000)

    acls: Acls = {
        "one": [(CREATE, TOPIC, "new-one")],
        "two": [(CREATE, CLUSTER, THE_CLUSTER), (DESCRIBE_CONFIGS, TOPIC, "new-two")],
        "three": [(CREATE, TOPIC, "new", PREFIXED), (ALTER_CONFIGS, TOPIC, "new-three")],
        "four": [(DESCRIBE, TOPIC, "*")],
    }
    await grant(p, acls)
    for user in ("none", *acls):
        await p.ask(user, create(f"new-{user}", f"other-{user}"), 7)
        await p.ask(user, create("probe"), 4)
    await revoke(p)


@authorizer_script()
async def acl_delete_topics(p: Prober) -> None:
    """DeleteTopics needs DELETE; without DESCRIBE it does not even report whether a topic exists."""
    ids = {}
    for name in ("d-one", "d-two", "d-three", "d-four", "e-one", "e-two", "e-three", "e-four"):
        wanted = CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1)
        created = await p.ask("super", CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 7)
        ids[name] = created.topics[0].topic_id
    await p.wait(800, "until the leaders are known")
    acls: Acls = {
        "one": [(DELETE, TOPIC, "d-one"), (DELETE, TOPIC, "e-one")],
        "two": [(DESCRIBE, TOPIC, "*")],
        "three": [(DELETE, CLUSTER, THE_CLUSTER)],
        "four": [(WRITE, TOPIC, "d-four"), (DELETE, TOPIC, "*")],
    }
    await grant(p, acls)
    topic = DeleteTopicsRequest.Topic
    for user in acls:
        await p.ask("none", DeleteTopicsRequest(topics=[topic(name=f"d-{user}")], timeout_ms=5000), 6)
        unknown = topic(topic_id=topic_id(p, "probe"), name=None)
        by_id = topic(topic_id=ids[f"e-{user}"], name=None)
        await p.ask("none", DeleteTopicsRequest(topics=[by_id], timeout_ms=5000), 6)
        await p.ask(user, DeleteTopicsRequest(topics=[by_id, topic(name="not-there")], timeout_ms=5000), 6)
        if user in ("one", "two"):
            await p.ask(user, DeleteTopicsRequest(topics=[unknown], timeout_ms=5000), 6)
        await p.ask(user, DeleteTopicsRequest(topic_names=[f"d-{user}", "not-there"], timeout_ms=5000), 4)
    await revoke(p)


@authorizer_script()
async def acl_create_partitions(p: Prober) -> None:
    """CreatePartitions needs ALTER on each topic."""
    topics = [CreatePartitionsRequest.Topic(name=name, count=3) for name in ("probe", "probe2", "not-there")]
    acls: Acls = {"one": [(ALTER, TOPIC, "probe")], "two": [(CREATE, TOPIC, "*"), (ALTER, CLUSTER, THE_CLUSTER)]}
    await matrix(p, acls, (CreatePartitionsRequest(topics=topics, timeout_ms=5000), 3))


@authorizer_script()
async def acl_describe_configs(p: Prober) -> None:
    """DescribeConfigs needs DESCRIBE_CONFIGS on the topic, on the group, or for brokers on the cluster."""
    named = [(TOPIC, "probe"), (TOPIC, "not-there"), (4, "1")]
    resources = [
        DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
        for kind, name in named
    ]
    acls: Acls = {
        "one": [(DESCRIBE_CONFIGS, TOPIC, "probe")],
        "two": [(ALTER_CONFIGS, CLUSTER, THE_CLUSTER)],
        "three": [(ALTER_CONFIGS, TOPIC, "*"), (DESCRIBE, CLUSTER, THE_CLUSTER)],
    }
    await matrix(p, acls, (DescribeConfigsRequest(resources=resources), 4))


@authorizer_script()
async def acl_alter_configs(p: Prober) -> None:
    """AlterConfigs and IncrementalAlterConfigs need ALTER_CONFIGS on the topic, or for brokers on the cluster."""
    acls: Acls = {
        "one": [(ALTER_CONFIGS, TOPIC, "probe")],
        "two": [(ALTER_CONFIGS, CLUSTER, THE_CLUSTER), (DESCRIBE_CONFIGS, TOPIC, "*")],
        "three": [(ALTER, TOPIC, "*")],
    }
    old, new = AlterConfigsRequest.Resource, IncrementalAlterConfigsRequest.Resource
    named = [(TOPIC, "probe"), (TOPIC, "not-there")]
    kinds = [{"resource_type": kind, "resource_name": name} for kind, name in named]
    value = {"name": "retention.ms", "value": "1000"}
    replaced = [old(**kind, configs=[old.Config(**value)]) for kind in kinds]
    changed = [new(**kind, configs=[new.Config(**value, config_operation=0)]) for kind in kinds]
    broker = [new(resource_type=4, resource_name="1", configs=[])]
    await grant(p, acls)
    for user in ("none", *acls):
        await p.ask(user, AlterConfigsRequest(resources=replaced, validate_only=True), 2)
        await p.ask(user, IncrementalAlterConfigsRequest(resources=changed, validate_only=True), 1)
        if user != "two":
            await p.ask(user, IncrementalAlterConfigsRequest(resources=broker, validate_only=True), 1)
    await revoke(p)


@authorizer_script()
async def acl_cluster(p: Prober) -> None:
    """The APIs that need an operation on the cluster resource."""
    acls: Acls = {
        "one": [(DESCRIBE, CLUSTER, THE_CLUSTER)],
        "two": [(ALTER, CLUSTER, THE_CLUSTER)],
        "three": [(DESCRIBE_CONFIGS, CLUSTER, THE_CLUSTER)],
        "four": [(CLUSTER_ACTION, CLUSTER, THE_CLUSTER)],
    }
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=55,
        producer_epoch=0,
        topics=[WriteTxnMarkersRequest.Marker.Topic(name="probe2", partition_indexes=[9])],
    )
    elected = ElectLeadersRequest.TopicPartition(topic="probe", partitions=[0])
    upsertion = AlterUserScramCredentialsRequest.Upsertion(
        name="x", mechanism=1, iterations=1, salt=b"salt", salted_password=b"password"
    )
    await matrix(
        p,
        acls,
        (ElectLeadersRequest(topic_partitions=[elected], timeout_ms=5000), 2),
        (ListPartitionReassignmentsRequest(timeout_ms=5000), 0),
        (DescribeClientQuotasRequest(), 1),
        (DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsRequest.User(name="x")]), 0),
        (AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0),
        (ListConfigResourcesRequest(), 0),
        (WriteTxnMarkersRequest(markers=[marker]), 1),
    )


@authorizer_script()
async def acl_describe_log_dirs(p: Prober) -> None:
    """DescribeLogDirs needs DESCRIBE on the cluster; older versions have no field for the error."""
    request = DescribeLogDirsRequest(topics=[DescribeLogDirsRequest.Topic(topic="probe", partitions=[0])])
    acls: Acls = {"one": [(DESCRIBE, TOPIC, "*"), (CLUSTER_ACTION, CLUSTER, THE_CLUSTER)]}
    await matrix(p, acls, (request, 4), (request, 1))


# --- ACLs ---


def searched(
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> dict[str, Any]:
    """Return the fields of an ACL filter."""
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }


@authorizer_script()
async def acl_filters(p: Prober) -> None:
    """DescribeAcls and DeleteAcls with every kind of filter."""
    await p.ask("super", DescribeAclsRequest(**searched()), 3)
    acls = [
        creation("one", (READ, TOPIC, "orders")),
        creation("one", (READ, TOPIC, "orders"), host="10.0.0.1"),
        creation("one", (WRITE, TOPIC, "ord", PREFIXED)),
        creation("two", (ALL, TOPIC, "*")),
        creation("two", (READ, TOPIC, "orders", LITERAL, DENY)),
        creation("*", (DESCRIBE, GROUP, "orders")),
        creation("two", (READ, GROUP, "", PREFIXED)),
        creation("two", (ALTER, CLUSTER, THE_CLUSTER)),
        creation("one", (WRITE, TXN, "t")),
        creation("one", (WRITE, TXN, "t")),
    ]
    await p.ask("super", CreateAclsRequest(creations=acls), 3)
    await p.wait(500)
    filters = [
        searched(),
        searched(TOPIC),
        searched(TOPIC, "orders", LITERAL),
        searched(TOPIC, "orders", PREFIXED),
        searched(TOPIC, "ord", PREFIXED),
        searched(TOPIC, "orders"),
        searched(TOPIC, "orders", MATCH),
        searched(TOPIC, "*", MATCH),
        searched(TOPIC, "x", MATCH),
        searched(TOPIC, None, MATCH),
        searched(ANY, "orders"),
        searched(principal="User:two"),
        searched(principal="User:*"),
        searched(host="10.0.0.1"),
        searched(host="*"),
        searched(operation=READ),
        searched(operation=ALL),
        searched(permission=DENY),
        searched(TOPIC, "orders", LITERAL, "User:two", "*", READ, DENY),
        searched(GROUP, ""),
        searched(6),
    ]
    for fields in filters:
        await p.ask("super", DescribeAclsRequest(**fields), 3)
    await p.ask("super", DescribeAclsRequest(**searched(TOPIC, "orders", LITERAL)), 1)
    await p.ask("super", DescribeAclsRequest(**searched(TOPIC, "orders", MATCH)), 1)
    twice = [searched(TOPIC, "orders", LITERAL), searched(TOPIC, "orders", MATCH), searched(TOPIC, "none", LITERAL)]
    await p.ask("super", DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**each) for each in twice]), 3)
    await p.wait(500)
    await p.ask("super", DescribeAclsRequest(**searched()), 2)
    await revoke(p)


@authorizer_script()
async def acl_invalid(p: Prober) -> None:
    """Invalid CreateAcls, DescribeAcls and DeleteAcls requests are refused."""
    wrong = [
        creation("one", (READ, TOPIC, "")),
        creation("one", (READ, CLUSTER, "other")),
        creation("one", (READ, ANY, "x")),
        creation("one", (READ, TOPIC, "x", 1)),
        creation("one", (READ, TOPIC, "x", MATCH)),
        creation("one", (1, TOPIC, "x")),
        creation("one", (READ, TOPIC, "x", LITERAL, 1)),
        creation("one", (CLUSTER_ACTION, TOPIC, "x")),
        creation("one", (READ, TOPIC, "x y/z")),
        creation("", (READ, TOPIC, "x")),
        creation("one", (READ, TOPIC, "x"), host=""),
        creation("one", (READ, TOPIC, "x"), host="not a host"),
    ]
    for each in wrong:
        await p.ask("super", CreateAclsRequest(creations=[each]), 3)
    for principal in ("one", "", "Group:one", "User:"):
        each = creation("one", (READ, TOPIC, "p"))
        each.principal = principal
        await p.ask("super", CreateAclsRequest(creations=[each]), 3)
    await p.ask("super", CreateAclsRequest(creations=[*wrong[:2], creation("one", (READ, TOPIC, "ok"))]), 3)
    await p.ask("super", CreateAclsRequest(creations=[]), 3)
    await p.ask("super", DeleteAclsRequest(filters=[]), 3)
    await p.wait(500)
    unknown = [
        CreateAclsRequest(creations=[creation("one", (READ, 0, "x"))]),
        CreateAclsRequest(creations=[creation("one", (99, TOPIC, "x"))]),
        CreateAclsRequest(creations=[creation("one", (READ, 99, "x"))]),
        CreateAclsRequest(creations=[creation("one", (READ, TOPIC, "x", 99))]),
        CreateAclsRequest(creations=[creation("one", (READ, TOPIC, "x", LITERAL, 99))]),
        CreateAclsRequest(creations=[creation("one", (READ, ANY, "x")), creation("one", (READ, TOPIC, "x"))]),
        DescribeAclsRequest(**searched(99)),
        DescribeAclsRequest(**searched(0)),
        DescribeAclsRequest(**searched(pattern=99)),
        DescribeAclsRequest(**searched(operation=99)),
        DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**searched(99))]),
        DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**searched(pattern=99))]),
        DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**searched(operation=99))]),
        DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**searched(permission=99))]),
        DescribeAclsRequest(**searched(pattern=0)),
        DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**searched(permission=0))]),
    ]
    for conn, request in zip(OTHERS, unknown, strict=False):
        await outcome(p, conn, request)
    await revoke(p)


async def outcome(p: Prober, conn: str, request: object) -> None:
    """Send a request, and record the response, or that the broker has closed the connection instead."""
    response = await p.send(conn, request, 3)
    connection = p.connections[conn]
    await connection.wait(lambda: connection.closed or response.n in connection.answers, 5)
    if connection.closed:
        await p.closed(response)
    else:
        await p.answer(response)


@authorizer_script()
async def acl_of_acls(p: Prober) -> None:
    """DescribeAcls needs DESCRIBE on the cluster; CreateAcls and DeleteAcls need ALTER."""
    acls: Acls = {
        "one": [(DESCRIBE, CLUSTER, THE_CLUSTER)],
        "two": [(ALTER, CLUSTER, THE_CLUSTER)],
        "three": [(ALL, TOPIC, "*")],
        "four": [(ALL, CLUSTER, "*")],
    }
    new = creation("x", (READ, TOPIC, "x"))
    gone = DeleteAclsRequest.Filter(**searched(TOPIC, "y", LITERAL))
    await matrix(
        p,
        acls,
        (CreateAclsRequest(creations=[new, new]), 3),
        (DescribeAclsRequest(**searched(TOPIC, "y", LITERAL)), 3),
        (DeleteAclsRequest(filters=[gone]), 3),
    )


@authorizer_script()
async def acl_matching(p: Prober) -> None:
    """The ACLs that match a request: hosts, User:*, prefixes, wildcards, DENY before ALLOW, and implied operations."""
    mine = [
        creation("one", (READ, TOPIC, "probe"), host="10.0.0.1"),
        creation("one", (READ, TOPIC, "probe2"), host="127.0.0.1"),
        creation("two", (READ, TOPIC, "p", PREFIXED)),
        creation("two", (READ, TOPIC, "probe2", PREFIXED, DENY)),
        creation("*", (READ, GROUP, "open")),
        creation("three", (READ, GROUP, "open", LITERAL, DENY)),
        creation("four", (DESCRIBE, TOPIC, "probe", LITERAL, DENY)),
        creation("four", (READ, TOPIC, "probe")),
        creation("four", (ALL, TOPIC, "probe2", LITERAL, DENY), host="10.0.0.1"),
        creation("four", (ALL, TOPIC, "probe2")),
        creation("five", (ALL, TOPIC, "*", PREFIXED)),
        creation("five", (READ, TOPIC, "probe", PREFIXED, DENY)),
    ]
    await p.ask("super", CreateAclsRequest(creations=mine), 3)
    await p.wait(500)
    topics = [MetadataRequest.Topic(name=name) for name in ("probe", "probe2")]
    request = MetadataRequest(topics=topics, include_topic_authorized_operations=True, allow_auto_topic_creation=False)
    for user in NAMES:
        await log_in(p, user)
        await p.ask(user, request, 8)
        await p.ask(user, HeartbeatRequest(group_id="open", generation_id=1, member_id="m"), 4)
    await revoke(p)


@authorizer_script(EVERYONE)
async def acl_everyone(p: Prober) -> None:
    """allow.everyone.if.no.acl.found=true: every user has access to a resource without ACLs."""
    await warm_up(p)
    acls: Acls = {"one": [(DESCRIBE, TOPIC, "probe"), (READ, GROUP, "g")]}
    await grant(p, acls)
    for user in ("none", "one"):
        topics = [MetadataRequest.Topic(name=name) for name in ("probe", "probe2")]
        await p.ask(user, MetadataRequest(topics=topics, include_topic_authorized_operations=True), 8)
        for group in ("g", "h"):
            await p.ask(user, HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4)
        await p.ask(user, InitProducerIdRequest(transactional_id=None), 4)
        await p.ask(user, DescribeAclsRequest(**searched(TOPIC, "y", LITERAL)), 3)
    await revoke(p)

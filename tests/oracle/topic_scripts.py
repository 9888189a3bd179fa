"""Conversations about topics and their configurations, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from fetch_scripts import create
from prober import Client, Prober
from script import NEW, script

from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from kwire.records.compression import GZIP

TOPIC, BROKER = 2, 4  # resource types
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN_ID = UUID(int=5)
LONG_AGO, FAR_OFF = 1_600_000_000_000, 4_000_000_000_000  # milliseconds since 1970: 2020 and 2096
MEBIBYTE = 1_048_576

Topic = CreateTopicsRequest.Topic
Given = Sequence[tuple[str, str | None]]

WHOLE = [
    "-3",
    "-2",
    "-1",
    "0",
    "1",
    "3",
    "4",
    "5",
    "9",
    "10",
    "13",
    "14",
    "17",
    "18",
    "22",
    "23",
    "1048575",
    "1048576",
    "2147483647",
    "2147483648",
]
WHOLE += ["-131073", "-131072", "9223372036854775807", "9223372036854775808", "-9223372036854775808"]
WHOLE += ["x", "", " 7 ", " x ", "1_0", "+5", "0x10", "1.0", "--1", "7\u00a0"]
BROKEN = ["-0.1", "0", "0.5", "1", "1.0", "1.01", ".5", "1.", "x", "", "NaN", " 0.5 ", " x ", "1e-3", "inf", "Infinity"]
BROKEN += ["-Infinity", "1_0", "nan", "1e"]
SWITCHES = ["true", "TRUE", "false", " true ", "yes", " yes ", "", "1"]
POLICIES = ["delete", "compact", "compact,delete", "delete,delete", "", " ", "delete,,compact", " delete , compact "]
POLICIES += ["DELETE", "nonsense", "delete,nonsense", ",", " , ", "*", "none"]
THROTTLED = [
    "*",
    " * ",
    "",
    "0:1",
    "0:1,1:1",
    "0:1,0:1",
    "0:1 , 1:2",
    "a:b",
    "0",
    "0:1,*",
    "none",
    "0 : 1",
    ",",
    "x,,y",
]
WORDS = [
    "CreateTime",
    "LogAppendTime",
    "createtime",
    "",
    "x",
    " x ",
    "producer",
    "gzip",
    "GZIP",
    "zstd",
    "snappy",
    "lz4",
]
WORDS += ["uncompressed", "none", " gzip "]
VALUES: Sequence[tuple[str, Sequence[str]]] = [
    ("cleanup.policy", POLICIES),
    ("compression.gzip.level", WHOLE),
    ("compression.lz4.level", WHOLE),
    ("compression.type", WORDS),
    ("compression.zstd.level", WHOLE),
    ("delete.retention.ms", WHOLE),
    ("file.delete.delay.ms", WHOLE),
    ("flush.messages", WHOLE),
    ("flush.ms", WHOLE),
    ("follower.replication.throttled.replicas", THROTTLED),
    ("index.interval.bytes", WHOLE),
    ("leader.replication.throttled.replicas", THROTTLED),
    ("local.retention.bytes", WHOLE),
    ("local.retention.ms", WHOLE),
    ("max.compaction.lag.ms", WHOLE),
    ("max.message.bytes", WHOLE),
    ("message.timestamp.after.max.ms", WHOLE),
    ("message.timestamp.before.max.ms", WHOLE),
    ("message.timestamp.type", WORDS),
    ("min.cleanable.dirty.ratio", BROKEN),
    ("min.compaction.lag.ms", WHOLE),
    ("min.insync.replicas", WHOLE),
    ("preallocate", SWITCHES),
    ("remote.log.copy.disable", SWITCHES),
    ("remote.log.delete.on.disable", SWITCHES),
    ("remote.storage.enable", SWITCHES),
    ("retention.bytes", WHOLE),
    ("retention.ms", WHOLE),
    ("segment.bytes", WHOLE),
    ("segment.index.bytes", WHOLE),
    ("segment.jitter.ms", WHOLE),
    ("segment.ms", WHOLE),
    ("unclean.leader.election.enable", SWITCHES),
]
TOGETHER: Sequence[Given] = [
    [("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")],
    [("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "5")],
    [("retention.ms", "-5"), ("no.such.config", "1")],
    [("retention.ms", None), ("no.such.config", "1")],
    [("retention.ms", None), ("segment.ms", None)],
    [("no.such.config", None)],
    [("retention.ms", "5"), ("retention.ms", "6")],
    [("retention.ms", "5"), ("retention.ms", "-6")],
    [("local.retention.ms", "5"), ("retention.ms", "4")],
    [("cleanup.policy", "compact"), ("remote.storage.enable", "true")],
    [("RETENTION.MS", "1")],
    [("", "1")],
]


def topic(name: str, given: Given = (), partitions: int = 1, replicas: int = 1) -> Topic:
    configs = [Topic.Config(name=key, value=value) for key, value in given]
    return Topic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)


async def make(p: Prober, *topics: Topic, version: int = 7, only_try: bool = False) -> None:
    await p.ask("A", CreateTopicsRequest(topics=list(topics), timeout_ms=20_000, validate_only=only_try), version)


@script()
async def topic_configs_validated(p: Prober) -> None:
    """CreateTopics with validate_only: the valid values of each configuration, one configuration per topic, and
    combinations of several."""
    for name, values in VALUES:
        tries = [topic(f"{p.scenario}-{n}", [(name, value)]) for n, value in enumerate([*values, None])]
        await make(p, *tries, only_try=True, version=4)
    await make(p, *(topic(f"{p.scenario}-{n}", given) for n, given in enumerate(TOGETHER)), only_try=True, version=4)


@script()
async def topic_configs_reported(p: Prober) -> None:
    """CreateTopics v5 and later returns every configuration of the topic and its source."""
    given = [("retention.ms", "1000"), ("cleanup.policy", " compact , delete ")]
    for version in range(2, 8):
        await make(p, topic(f"{p.scenario}-{version}", given), version=version)
    await make(p, topic(f"{p.scenario}-none"))
    await p.wait(300)
    name = f"{p.scenario}-7"
    wanted = DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name=name)
    for synonyms in (False, True):
        request = DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms)
        await p.ask("A", request, 4)


@script()
async def topics_refused(p: Prober) -> None:
    """CreateTopics: which of several mistakes is reported, manual assignments, names that collide, too many
    partitions."""
    name = await create(p, f"{p.scenario}.here", partitions=1)
    kind = Topic.Assignment
    unknown = [("no.such.config", "1")]

    def placed(suffix: str, *brokers: Sequence[int], first: int = 0, step: int = 1, **more: Any) -> Topic:
        lists = [kind(partition_index=first + n * step, broker_ids=list(ids)) for n, ids in enumerate(brokers)]
        counts: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1} | more
        return Topic(name=f"{p.scenario}-{suffix}", assignments=lists, **counts)

    tries = [
        topic(f"{p.scenario}-1", unknown, 0),
        topic(f"{p.scenario}-2", unknown, 1, 7),
        topic(f"{p.scenario}-3", (), -2),
        topic(f"{p.scenario}-4", (), 1, 0),
        topic(f"{p.scenario}-5", (), 1, -2),
        topic(f"{p.scenario}-6", (), 0, 7),
        topic(name, unknown, 0),
        topic("a/b", unknown, 0),
        topic(".."),
        topic("."),
        topic(""),
        topic("q" * 250),
        topic(f"{p.scenario}_here"),
        topic("__consumer_offsets"),
        topic(f"{p.scenario}-twice"),
        topic(f"{p.scenario}-twice"),
        placed("a", [1], num_partitions=1),
        placed("b", [1], replication_factor=1),
        placed("c", [1], first=1),
        placed("d", [1, 1]),
        placed("e", [9]),
        placed("f", []),
        placed("g", [1], [1], step=0),
        placed("h", [-1]),
        placed("i", [1], [1, 1]),
        placed("j", [1], [1], step=2),
        placed("k", [1], [1, 9]),
        placed("l", [1], []),
        placed("m", [1], [1]),
    ]
    for only_try in (True, False):
        await make(p, *tries, only_try=only_try)
        tries = tries[:-1]
    await make(p, topic(f"{p.scenario}-x", (), 10_001), only_try=True)
    await make(p, topic(f"{p.scenario}-x", (), 9_999), topic(f"{p.scenario}-y"), topic("a/b", (), 2), only_try=True)


@script()
async def topics_refused_elsewhere(p: Prober) -> None:
    """Invalid or missing topics and partitions in requests whose responses have error messages."""
    name = await create(p, partitions=1)
    for version in (5, 6):
        if version == 5:
            gone = DeleteTopicsRequest(topic_names=["not-there", "a/b", "", "not-there"], timeout_ms=5000)
        else:
            kind = DeleteTopicsRequest.Topic
            wanted = [kind(name="not-there"), kind(name=None, topic_id=UNKNOWN_ID), kind(name="a/b")]
            gone = DeleteTopicsRequest(topics=wanted, timeout_ms=5000)
        await p.ask("A", gone, version)
    places = DescribeProducersRequest.Topic
    requested = [(name, [0, 9, -1]), ("not-there", [0]), ("a/b", [0]), ("", [0])]
    topics = [places(name=each, partition_indexes=indexes) for each, indexes in requested]
    await p.ask("A", DescribeProducersRequest(topics=topics), 0)
    more = CreatePartitionsRequest.Topic
    for each, count in ((name, 1), ("a/b", 5), ("", 5), ("__consumer_offsets", 51)):
        wanted_count = more(name=each, count=count, assignments=None)
        await p.ask("A", CreatePartitionsRequest(topics=[wanted_count], timeout_ms=5000, validate_only=True), 3)
    twice = [more(name=name, count=2, assignments=None), more(name=name, count=3, assignments=None)]
    await p.ask("A", CreatePartitionsRequest(topics=twice, timeout_ms=5000, validate_only=True), 3)
    assigned = [[1, 1], [], [-1]]
    for brokers in assigned:
        lists = [more.Assignment(broker_ids=brokers)]
        wanted_places = more(name=name, count=2, assignments=lists)
        await p.ask("A", CreatePartitionsRequest(topics=[wanted_places], timeout_ms=5000, validate_only=True), 3)
    place = ElectLeadersRequest.TopicPartition
    for election in (0, 1, 7):
        wanted_leaders = [place(topic=name, partitions=[0, 9]), place(topic="not-there", partitions=[0])]
        await p.ask("A", ElectLeadersRequest(topic_partitions=wanted_leaders, election_type=election), 2)
    kinds = [(FindCoordinatorRequest(key="x", key_type=kind), 2) for kind in (0, 7)]
    kinds += [(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x", ""]), 4) for kind in (0, 7)]
    for request, version in kinds:
        await p.ask("A", request, version)
    record = DeleteRecordsRequest.Topic
    partition = record.Partition(partition_index=0, offset=0)
    await p.ask("A", DeleteRecordsRequest(topics=[record(name="a/b", partitions=[partition])], timeout_ms=5000), 2)


@script()
async def topic_configs_refused(p: Prober) -> None:
    """AlterConfigs and IncrementalAlterConfigs of a topic: values that are invalid alone or in combination with the
    existing ones."""
    name = await create(p, partitions=1)
    whole, part = AlterConfigsRequest.Resource, IncrementalAlterConfigsRequest.Resource

    async def replace(*given: tuple[str, str | None], only_try: bool = False, to: str = name) -> None:
        configs = [whole.Config(name=key, value=value) for key, value in given]
        resource = whole(resource_type=TOPIC, resource_name=to, configs=configs)
        await p.ask("A", AlterConfigsRequest(resources=[resource], validate_only=only_try), 2)

    async def alter(*changes: tuple[str, int, str | None], only_try: bool = False, to: str = name) -> None:
        configs = [part.Config(name=key, config_operation=op, value=value) for key, op, value in changes]
        resource = part(resource_type=TOPIC, resource_name=to, configs=configs)
        await p.ask("A", IncrementalAlterConfigsRequest(resources=[resource], validate_only=only_try), 1)

    wrong = [("cleanup.policy", "nonsense"), ("retention.ms", "-5"), ("segment.ms", "0"), ("preallocate", "yes")]
    wrong += [("compression.type", "x"), ("retention.ms", "x"), ("remote.storage.enable", "true")]
    for key, value in wrong:
        for only_try in (True, False):
            await replace((key, value), only_try=only_try)
            await alter((key, SET, value), only_try=only_try)
    await alter(("cleanup.policy", APPEND, "nonsense"))
    await alter(("cleanup.policy", SUBTRACT, "delete"), only_try=True)
    await alter(("min.compaction.lag.ms", SET, "5"))
    await alter(("max.compaction.lag.ms", SET, "4"))
    await alter(("max.compaction.lag.ms", SET, "6"))
    await replace(("max.compaction.lag.ms", "4"), ("min.compaction.lag.ms", "5"))
    await replace(("max.compaction.lag.ms", "4"))
    await replace(("retention.ms", "1"), ("retention.ms", "2"))
    await alter(("no.such.config", SET, "1"), ("retention.ms", SET, "-5"))
    await alter(("no.such.config", APPEND, "1"))
    await alter(("segment.ms", SUBTRACT, "1"))
    for to in ("a/b", ""):
        await replace(("retention.ms", "5"), to=to)
        await alter(("retention.ms", SET, "5"), to=to)
    await p.wait(300)
    wanted = DescribeConfigsRequest.Resource(
        resource_type=TOPIC,
        resource_name=name,
        configuration_keys=["cleanup.policy", "retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms"],
    )
    await p.ask("A", DescribeConfigsRequest(resources=[wanted]), 4)


async def send(p: Prober, name: str, *records: Record, version: int = 9, acks: int = -1, **batch: object) -> None:
    await send_bytes(p, name, build_batch(records, **batch), version, acks)  # type: ignore[arg-type]


async def send_bytes(p: Prober, name: str, records: bytes, version: int = 9, acks: int = -1) -> None:
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name=name, partition_data=[data])]
    await p.ask("P", ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics), version)


async def fetch(p: Prober, name: str, offset: int = 0, isolation_level: int = 0) -> None:
    place = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=MEBIBYTE)
    topics = [FetchRequest.Topic(topic=name, partitions=[place])]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=MEBIBYTE, isolation_level=isolation_level, topics=topics
    )
    await p.ask("F", request, 11)


async def configured(p: Prober, suffix: str, *given: tuple[str, str]) -> str:
    name = f"{p.scenario}-{suffix}"
    await make(p, topic(name, given), version=4)
    await p.wait(600, "until the leader is known")
    return name


def of(size: int, key: bytes | None = None) -> Record:
    return Record(timestamp=LONG_AGO, key=key, value=bytes(size))


@script()
async def records_too_large(p: Prober) -> None:
    """Produce: max.message.bytes and segment.bytes of a topic limit the size of a batch as the client sent it."""
    small = await configured(p, "small", ("max.message.bytes", "200"))
    for version in (3, 7, 9):
        await send(p, small, of(100), version=version)
        await send(p, small, of(200), version=version)
    for size in (129, 130, 131):  # sizes around a batch of 200 bytes
        await send(p, small, of(size))
    await send(p, small, of(1000), codec=GZIP)
    await fetch(p, small)
    none = await configured(p, "none", ("max.message.bytes", "0"))
    await send(p, none, of(1))
    large = await configured(p, "large", ("max.message.bytes", "3000000"), ("segment.bytes", str(MEBIBYTE)))
    for size in (MEBIBYTE - 100, MEBIBYTE, 3_000_000):
        await send(p, large, of(size))
    usual = await configured(p, "usual")
    for size in (1_048_500, 1_048_588):
        await send(p, usual, of(size))


@script({"message.max.bytes": 300})
async def records_too_large_for_the_broker(p: Prober) -> None:
    """Produce: message.max.bytes of the broker is the default of topics; a topic may have a higher or lower limit."""
    usual = await configured(p, "usual")
    large = await configured(p, "large", ("max.message.bytes", "500"))
    for name in (usual, large):
        for size in (200, 300, 500):
            await send(p, name, of(size))
    wanted = DescribeConfigsRequest.Resource(
        resource_type=TOPIC, resource_name=usual, configuration_keys=["max.message.bytes"]
    )
    for synonyms in (False, True):
        await p.ask("A", DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms), 4)
    wanted = DescribeConfigsRequest.Resource(
        resource_type=TOPIC, resource_name=large, configuration_keys=["max.message.bytes"]
    )
    await p.ask("A", DescribeConfigsRequest(resources=[wanted], include_synonyms=True), 4)


@script()
async def records_without_a_key(p: Prober) -> None:
    """Produce to compacted topics: every record needs a key; otherwise no record is stored, and the response lists the
    invalid records."""
    keyed, bare = of(1, b"k"), of(1)
    for suffix, policy in (("compact", "compact"), ("both", "compact,delete"), ("delete", "delete"), ("neither", "")):
        name = await configured(p, suffix, ("cleanup.policy", policy))
        await send(p, name, keyed)
        await send(p, name, of(1, b""))
        for version in (3, 7, 8, 9):
            await send(p, name, bare, version=version)
        await send(p, name, keyed, bare, keyed, bare, bare, bare)
        await send(p, name, keyed, bare, codec=GZIP)
        await fetch(p, name)
    await send(p, f"{p.scenario}-both", Record(timestamp=LONG_AGO, key=b"k", value=None))
    await send(p, f"{p.scenario}-compact", Record(timestamp=FAR_OFF, value=b"v"), bare)


@script()
async def record_timestamps(p: Prober) -> None:
    """Produce: how far timestamps may be from the current time, how LogAppendTime replaces them, and records without a
    timestamp."""
    past, now, future = Record(timestamp=LONG_AGO), Record(timestamp=-1), Record(timestamp=FAR_OFF)
    usual = await configured(p, "usual")
    early = await configured(p, "before", ("message.timestamp.before.max.ms", "1000"))
    late = await configured(p, "after", ("message.timestamp.after.max.ms", "9223372036854775807"))
    strict = await configured(
        p, "strict", ("message.timestamp.after.max.ms", "0"), ("message.timestamp.before.max.ms", "0")
    )
    append = await configured(p, "append", ("message.timestamp.type", "LogAppendTime"))
    for name in (usual, early, late, strict, append):
        await send(p, name, past)
        await send(p, name, now)
        await send(p, name, future)
        await send(p, name, past, future, now, future, past)
        await send(p, name, future, past, codec=GZIP)
        await send(p, name, past, log_append_time=LONG_AGO)
        await send(p, name, future, log_append_time=FAR_OFF)
        await send(p, name, past, version=3)
        await send(p, name, future, version=7)
    stamped = await configured(p, "stamped")
    await send(p, stamped, past, past, log_append_time=LONG_AGO)
    await fetch(p, stamped)


@script()
async def operations_reported(p: Prober) -> None:
    """Authorized operations of topics, of the cluster and of groups, as bits; also if they are not requested, and in
    errors."""
    member = Client(p=p, conn="A")
    await member.stable()
    names = ["probe", "not-there", "a/b"]
    for version in range(8, 13):
        topics = [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        if version <= 10:
            request.include_cluster_authorized_operations = True
        await p.ask("M", request, version)
    unknown = [MetadataRequest.Topic(name=None, topic_id=UNKNOWN_ID)]
    request = MetadataRequest(topics=unknown, include_topic_authorized_operations=True)
    await p.ask("M", request, 12)
    plain = MetadataRequest(topics=[MetadataRequest.Topic(name="probe")])
    await p.ask("M", plain, 12)
    await p.ask("M", MetadataRequest(topics=[], include_cluster_authorized_operations=True), 9)
    for version in (0, 1):
        for included in (True, False):
            await p.ask("M", DescribeClusterRequest(include_cluster_authorized_operations=included), version)
    for version in (3, 4, 5):
        wanted = DescribeGroupsRequest(groups=[p.group, "not-there"], include_authorized_operations=True)
        await p.ask("M", wanted, version)
    await p.ask("M", DescribeGroupsRequest(groups=[p.group]), 5)
    parts = DescribeTopicPartitionsRequest.Topic
    await p.ask("M", DescribeTopicPartitionsRequest(topics=[parts(name=name) for name in names]), 0)


@script(releases=(NEW,))
async def operations_reported_in_new_versions(p: Prober) -> None:
    """Authorized operations of groups of both protocols, in the versions that 4.2 has beyond 3.9."""
    member = Client(p=p, conn="A")
    await member.stable()
    for group in (p.group, "not-there"):
        await p.ask("M", DescribeGroupsRequest(groups=[group], include_authorized_operations=True), 6)
        await p.ask("M", ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 1)
    topics = [MetadataRequest.Topic(name="probe"), MetadataRequest.Topic(name="a/b")]
    await p.ask("M", MetadataRequest(topics=topics, include_topic_authorized_operations=True), 13)
    await p.ask("M", DescribeClusterRequest(include_cluster_authorized_operations=True), 2)


@script()
async def features_reported(p: Prober) -> None:
    """ApiVersions: supported and finalized features; features whose minimum level is 0 are returned from v4 on."""
    for version in (2, 3, 4):
        named = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
        await p.ask("A", named if version >= 3 else ApiVersionsRequest(), version)


@script()
async def resources_described(p: Prober) -> None:
    """DescribeConfigs of resources that are neither a topic nor this broker: the error messages of refused requests."""
    kind = DescribeConfigsRequest.Resource
    for number, name in (
        (2, "not-there"),
        (2, ".."),
        (4, "7"),
        (4, "x"),
        (4, " 1"),
        (0, "x"),
        (99, "x"),
        (8, "x"),
        (8, "7"),
    ):
        await p.ask("A", DescribeConfigsRequest(resources=[kind(resource_type=number, resource_name=name)]), 4)

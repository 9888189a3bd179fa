"""Conversations of admin clients with a broker, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from fetch_scripts import Reader, create, produce
from prober import Prober
from script import NEW, script

from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.delete_acls import DeleteAclsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.describe_acls import DescribeAclsRequest
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.list_config_resources import ListConfigResourcesRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

TOPIC, BROKER = 2, 4  # resource types
SET, DELETE, APPEND, SUBTRACT = range(4)
LOOKED_AT = ["retention.ms", "cleanup.policy", "max.message.bytes"]
Change = tuple[str, int, str | None]


async def look(p: Prober, topic: str) -> None:
    await p.wait(300, "until the broker has heard of it")
    resource = DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name=topic, configuration_keys=LOOKED_AT)
    await p.ask("D", DescribeConfigsRequest(resources=[resource], include_synonyms=False), 4)


@script()
async def configs_altered(p: Prober) -> None:
    """IncrementalAlterConfigs of topics: set, delete, append and subtract, and requests that are refused."""
    topic = await create(p, partitions=1)
    resource = IncrementalAlterConfigsRequest.Resource

    async def alter(*changes: Change, name: str = topic, kind: int = TOPIC, **more: bool) -> None:
        configs = [resource.Config(name=n, config_operation=op, value=v) for n, op, v in changes]
        altered = resource(resource_type=kind, resource_name=name, configs=configs)
        await p.ask("A", IncrementalAlterConfigsRequest(resources=[altered], **more), 1)

    await alter(("retention.ms", SET, "1000"), ("max.message.bytes", SET, "2000"))
    await look(p, topic)
    await alter(("retention.ms", DELETE, None))
    await look(p, topic)
    await alter(("cleanup.policy", APPEND, "compact"))
    await look(p, topic)
    await alter(("cleanup.policy", SUBTRACT, "delete"))
    await look(p, topic)
    await alter(("retention.ms", SET, "5"), validate_only=True)
    await alter(("retention.ms", SET, "nonsense"))
    await alter(("no.such.config", SET, "1"))
    await alter(("retention.ms", APPEND, "1"))
    await alter(("retention.ms", SET, None))
    await alter(("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    await alter(("retention.ms", 9, "1"))
    await alter(("retention.ms", SET, "1"), name="not-there")
    await alter(("retention.ms", SET, "1"), name="")
    await alter(("retention.ms", SET, "1"), kind=99)
    await alter(("no.such.config", DELETE, None))
    await alter()
    await look(p, topic)


@script()
async def configs_replaced(p: Prober) -> None:
    """AlterConfigs of topics: a configuration that the request does not name returns to its default."""
    topic = await create(p, partitions=1)
    resource = AlterConfigsRequest.Resource
    for version in (0, 1, 2):
        for given in ({"retention.ms": "1000", "cleanup.policy": "compact"}, {"max.message.bytes": "2000"}, {}):
            configs = [resource.Config(name=name, value=value) for name, value in given.items()]
            replaced = resource(resource_type=TOPIC, resource_name=topic, configs=configs)
            await p.ask("A", AlterConfigsRequest(resources=[replaced]), version)
            await look(p, topic)
    bad = [("retention.ms", "nonsense"), ("no.such.config", "1"), ("retention.ms", None)]
    for name, value in bad:
        configs = [resource.Config(name=name, value=value)]
        replaced = resource(resource_type=TOPIC, resource_name=topic, configs=configs)
        await p.ask("A", AlterConfigsRequest(resources=[replaced]), 2)
    nowhere = resource(resource_type=TOPIC, resource_name="not-there", configs=[])
    await p.ask("A", AlterConfigsRequest(resources=[nowhere]), 2)


@script()
async def records_deleted(p: Prober) -> None:
    """DeleteRecords advances the log start offset; offsets before it are out of range."""
    topic = await create(p, partitions=2)
    a = Reader(p=p, topic=topic)
    for _ in range(3):
        await produce(p, topic, 0, b"a", b"b")

    async def delete(*places: tuple[int, int], version: int = 2, name: str = topic) -> None:
        kind = DeleteRecordsRequest.Topic
        partitions = [kind.Partition(partition_index=index, offset=offset) for index, offset in places]
        wanted = DeleteRecordsRequest(topics=[kind(name=name, partitions=partitions)], timeout_ms=5000)
        await p.ask("B", wanted, version)

    await a.fetch((0, 6))
    await delete((0, 2), (1, 0))
    await a.fetch()
    for offset in (0, 1, 2, 3):
        await a.fetch((0, offset), session_id=0, session_epoch=-1)
    for timestamp in (-2, -1):
        wanted = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
        listed = ListOffsetsRequest.Topic(name=topic, partitions=[wanted])
        await p.ask("F", ListOffsetsRequest(replica_id=-1, topics=[listed]), 5)
    await delete((0, 1))
    await delete((0, 3), version=0)
    await a.fetch((0, 3), session_id=0, session_epoch=-1)
    await a.fetch((0, 2), session_id=0, session_epoch=-1)
    await delete((0, 7))
    await delete((0, -2))
    await delete((9, 1))
    await delete((0, 1), name="not-there")
    await delete((0, -1), version=1)
    await a.fetch((0, 6), session_id=0, session_epoch=-1)
    await produce(p, topic, 0, b"c")
    await a.fetch((0, 6), session_id=0, session_epoch=-1)
    await delete((0, 1), name="__consumer_offsets")


@script()
async def acls_without_authorizer(p: Prober) -> None:
    """DescribeAcls, CreateAcls and DeleteAcls to a broker without an authorizer."""
    for version in (1, 3):
        seen = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1, pattern_type_filter=1)
        await p.ask("A", seen, version)
        made = CreateAclsRequest.Creation(
            resource_type=TOPIC, resource_name="probe", principal="User:x", host="*", operation=3, permission_type=3
        )
        await p.ask("A", CreateAclsRequest(creations=[made, made]), version)
        gone = DeleteAclsRequest.Filter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
        await p.ask("A", DeleteAclsRequest(filters=[gone]), version)


@script()
async def nothing_to_tell(p: Prober) -> None:
    """Client quotas, reassignments and elections of a cluster that has none in progress."""
    part = DescribeClientQuotasRequest.Component
    for strict, components in ((False, []), (True, [part(entity_type="user", match_type=2, match=None)])):
        await p.ask("A", DescribeClientQuotasRequest(components=components, strict=strict), 1)
    await p.ask("A", DescribeClientQuotasRequest(components=[part(entity_type="nonsense", match_type=2)]), 1)
    await p.ask("A", ListPartitionReassignmentsRequest(topics=None), 0)
    wanted = ListPartitionReassignmentsRequest.Topic(name="probe", partition_indexes=[0, 9])
    await p.ask("A", ListPartitionReassignmentsRequest(topics=[wanted]), 0)
    for version in (0, 1, 2):
        await elect(p, version, [("probe", [0, 1]), ("not-there", [0]), ("probe2", [9])])
    await elect(p, 2, [("probe", [0])], election_type=1)
    await elect(p, 2, None)
    await elect(p, 2, [])


async def elect(p: Prober, version: int, places: Sequence[tuple[str, Sequence[int]]] | None, **more: int) -> None:
    kind = ElectLeadersRequest.TopicPartition
    wanted = None if places is None else [kind(topic=name, partitions=list(which)) for name, which in places]
    await p.ask("A", ElectLeadersRequest(topic_partitions=wanted, timeout_ms=5000, **more), version)


@script(releases=(NEW,))
async def config_resources(p: Prober) -> None:
    """ListConfigResources returns the resources that have configurations, by type."""
    await p.ask("A", ListConfigResourcesRequest(), 0)
    for kinds in ([], [2], [4], [8], [16], [32], [4, 2], [0], [99], [2, 2]):
        await p.ask("A", ListConfigResourcesRequest(resource_types=kinds), 1)

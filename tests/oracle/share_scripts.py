"""Conversations about share groups (KIP-932), which record.py records; each function is one conversation."""

from __future__ import annotations

import trio
from consumer import Consumer, create, drop, grow, list_groups, look_old
from consumer import look as look_consumer
from prober import Client, Prober
from share_members import FIRST_SETTLED, SETTLED, Sharer, look, share_script

from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.list_config_resources import ListConfigResourcesRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest

# --- joining, and the fields of a heartbeat -----------------------------------------------------------------------


@share_script()
async def share_fields_of_a_join(p: Prober) -> None:
    """ShareGroupHeartbeat with epoch 0: the rules for each field, then a join with the minimum of fields."""
    a = Sharer(p=p, conn="A")
    await a.join(group_id="")
    await a.join(group_id=" ")
    await a.join(member_id="")
    await a.join(member_id=" ")
    await a.join(member_id="m" * 37)
    await a.join(rack_id="")
    await a.join(subscribed_topic_names=None)
    await a.join(subscribed_topic_names=[])
    await look(p)
    await a.join(group_id=f"{p.group}-1", member_id="m" * 36)
    await a.join(group_id=f"{p.group}-2", subscribed_topic_names=["probe", "probe"], member_id="m2")
    await a.join(group_id=f"{p.group}-3", subscribed_topic_names=["bad/name"], member_id="m3")
    await a.join(group_id=f"{p.group}-4", subscribed_topic_names=["nowhere"], member_id="m4", rack_id="r")
    await look(p, *(f"{p.group}-{n}" for n in range(1, 5)), operations=True)


@share_script()
async def share_fields_of_a_heartbeat(p: Prober) -> None:
    """ShareGroupHeartbeat with other epochs: the rules for each field, for a missing group and for one with a
    member."""
    a = Sharer(p=p, conn="A")
    for _ in range(2):
        await a.beat(member_epoch=1, member_id="")
        await a.beat(member_epoch=-1, member_id="")
        await a.beat(member_epoch=-2)
        await a.beat(member_epoch=1, rack_id="")
        await a.beat(member_epoch=-1, rack_id="")
        await a.beat(member_epoch=1, subscribed_topic_names=[])
        await a.beat(member_epoch=1)
        await a.beat(member_epoch=-1)
        await a.join()


@share_script()
async def share_worked_example(p: Prober) -> None:
    """One member gets all partitions once they are initialized; a second one shares them at once."""
    a, b = Sharer(p=p, conn="A"), Sharer(p=p, conn="B")
    await a.join()
    await look(p)
    await p.wait(SETTLED)
    await a.beat()
    await look(p)
    await b.join()
    await look(p)
    await a.beat()
    await b.beat()
    await look(p, operations=True)
    await b.leave()
    await look(p)
    await a.beat()
    await look(p)
    await a.leave()
    await look(p)


@share_script()
async def share_more_members_than_partitions(p: Prober) -> None:
    """Four members of three partitions: each partition is shared by two."""
    members = [Sharer(p=p, conn=conn) for conn in "ABCD"]
    await members[0].enter()
    for member in members[1:]:
        await member.join()
    for member in members:
        await member.beat()
    await look(p)
    await members[0].leave()
    for member in members[1:]:
        await member.beat()
    await look(p)


@share_script()
async def share_member_epochs(p: Prober) -> None:
    """Heartbeats with the epoch of the member, the previous epoch, and other epochs."""
    a, b = Sharer(p=p, conn="A"), Sharer(p=p, conn="B")
    await a.enter()
    await a.beat(member_epoch=1)
    await a.beat(member_epoch=3)
    await a.beat(member_epoch=9)
    await b.join()
    await a.beat(member_epoch=2)
    await a.beat(member_epoch=2)
    await a.beat(member_epoch=1)
    await a.beat(member_epoch=0, subscribed_topic_names=["probe"])
    await a.beat(member_epoch=3)
    await b.beat(member_epoch=0, subscribed_topic_names=["probe"])
    await a.beat(member_id="nobody", member_epoch=3)
    await a.beat(member_id="nobody", member_epoch=-1)
    await look(p)


@share_script()
async def share_full_requests(p: Prober) -> None:
    """The assignment is in the response to a full request, and when it changes."""
    a = Sharer(p=p, conn="A")
    await a.enter()
    await a.beat()
    await a.beat(subscribed_topic_names=["probe"])
    await a.beat(rack_id="r2")
    await a.beat(member_epoch=0, subscribed_topic_names=["probe"])
    await look(p)


@share_script()
async def share_subscription_changes(p: Prober) -> None:
    """A member subscribes to other topics, to a missing topic, and to none."""
    a, b = Sharer(p=p, conn="A"), Sharer(p=p, conn="B")
    await a.enter()
    await a.beat(subscribed_topic_names=["probe", "probe2"])
    await p.wait(SETTLED)
    await a.beat()
    await look(p)
    await b.join()
    await a.beat()
    await look(p)
    await a.beat(subscribed_topic_names=["probe2"])
    await b.beat()
    await look(p)
    await a.beat(subscribed_topic_names=["nowhere"])
    await b.beat()
    await look(p)
    await a.beat(subscribed_topic_names=[])
    await b.beat()
    await look(p)


@share_script()
async def share_topics_come_and_grow(p: Prober) -> None:
    """A subscribed topic is created, gets more partitions, and is deleted."""
    topic = f"{p.group}-late"
    a = Sharer(p=p, conn="A", names=["probe", topic])
    await a.enter()
    await look(p)
    await create(p, topic, 1)
    await a.beat()
    await p.wait(SETTLED)
    await a.beat()
    await look(p)
    await grow(p, topic, 2)
    await a.beat()
    await p.wait(SETTLED)
    await a.beat()
    await look(p)
    await drop(p, topic)
    await a.beat()
    await a.beat()
    await look(p)


@share_script(group_share_session_timeout_ms=3000)
async def share_session_expires(p: Prober) -> None:
    """A member without heartbeats is removed; its next heartbeat is refused, and it may join again."""
    a, b = Sharer(p=p, conn="A"), Sharer(p=p, conn="B")
    await a.enter(FIRST_SETTLED)
    await b.join()
    await a.beat()
    for _ in range(4):
        await p.wait(1000)
        await b.beat()
    await a.beat()
    await look(p)
    await a.join()
    await look(p)


@share_script(group_share_max_size=2)
async def share_group_is_full(p: Prober) -> None:
    """group.share.max.size: a third member is refused, known members are not."""
    a, b, c = (Sharer(p=p, conn=conn) for conn in "ABC")
    await a.enter(FIRST_SETTLED)
    await b.join()
    await c.join()
    await c.beat(member_epoch=3)
    await a.beat()
    await a.join()
    await b.leave()
    await c.join()
    await look(p)


# --- other requests and other types -------------------------------------------------------------------------------


@share_script()
async def share_descriptions(p: Prober) -> None:
    """ShareGroupDescribe, ListGroups and the describe requests of other group types, for groups of all types and for a
    missing group."""
    a, b, c = Sharer(p=p, conn="A"), Consumer(p=p, conn="B", group=f"{p.group}-848"), Client(p=p, conn="C")
    c.group = f"{p.group}-classic"
    await a.enter()
    await b.join()
    await c.stable()
    await look(p, "", "none", p.group, b.group, c.group, p.group, operations=True)
    await look_consumer(p, p.group)
    await look_old(p, p.group)
    await list_groups(p, types=["share"])
    await list_groups(p, types=["Share", "classic"])
    await list_groups(p, types=["share"], states=["empty"])
    await list_groups(p, version=4)
    await a.leave()
    await list_groups(p, types=["share"], states=["empty"])
    await list_groups(p, types=["share"], states=["stable"])


@share_script()
async def share_group_and_other_protocols(p: Prober) -> None:
    """Members of other protocols cannot join a share group, even if it is empty, and members of share groups cannot
    join other groups."""
    a, b, c = Sharer(p=p, conn="A"), Consumer(p=p, conn="B"), Client(p=p, conn="C", join_version=3)
    await a.enter()
    for _ in range(2):
        await b.join()
        await b.beat(member_epoch=1)
        await b.leave()
        await c.enter()
        await c.enter(member_id="member-c")
        await c.synced(member_id="member-c", generation_id=1)
        await c.beat(member_id="member-c", generation_id=1)
        await c.leave(("member-c", None))
        if a.epoch >= 0:
            await a.leave()
    for other in (f"{p.group}-848", f"{p.group}-classic"):
        if other.endswith("classic"):
            await Client(p=p, conn="C", group=other).stable()
        else:
            await Consumer(p=p, conn="B", group=other).join()
        await a.join(group_id=other)
        await a.beat(group_id=other, member_epoch=1)
        await a.leave(group_id=other)


@share_script()
async def share_group_has_no_offsets(p: Prober) -> None:
    """OffsetCommit, OffsetFetch and OffsetDelete of a share group, and the deletion of the group."""
    a = Sharer(p=p, conn="A")
    await a.enter()
    for _ in range(2):
        place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
        topic = OffsetCommitRequest.Topic(name="probe", partitions=[place])
        for generation, member_id in ((-1, ""), (a.epoch, a.member_id)):
            commit = OffsetCommitRequest(
                group_id=p.group, generation_id_or_member_epoch=generation, member_id=member_id, topics=[topic]
            )
            await p.ask("C", commit, 9)
            await p.ask("C", commit, 8)
        kind = OffsetFetchRequest.Group
        await p.ask(
            "C",
            OffsetFetchRequest(
                groups=[kind(group_id=p.group, topics=[kind.Topic(name="probe", partition_indexes=[0])])]
            ),
            9,
        )
        await p.ask("C", OffsetFetchRequest(groups=[kind(group_id=p.group, topics=None)]), 9)
        member = kind(group_id=p.group, topics=None, member_id="member-a", member_epoch=a.epoch)
        await p.ask("C", OffsetFetchRequest(groups=[member]), 9)
        deleted = OffsetDeleteRequest.Topic(name="probe", partitions=[OffsetDeleteRequest.Topic.Partition()])
        await p.ask("C", OffsetDeleteRequest(group_id=p.group, topics=[deleted]), 0)
        await p.ask("C", DeleteGroupsRequest(groups_names=[p.group, "none", p.group]), 2)
        if a.epoch >= 0:
            await a.leave()
    await look(p)


@share_script()
async def share_coordinators(p: Prober) -> None:
    """FindCoordinator of share partitions: valid and invalid keys, and versions before 6."""
    await Sharer(p=p, conn="A").enter()
    for version in (6, 5, 3):
        for key in (
            "",
            "g",
            "g:t:0",
            "g:AAAAAAAAAAAAAAAAAAAAAQ:0",
            "g:AAAAAAAAAAAAAAAAAAAAAQ:x",
            "a:g:AAAAAAAAAAAAAAAAAAAAAQ:0",
        ):
            request = FindCoordinatorRequest(key_type=2)
            if version >= 4:
                request.coordinator_keys = [key]
            else:
                request.key = key
            await p.ask("F", request, version)


# --- configurations of groups -------------------------------------------------------------------------------------

GROUP = 32  # resource type


async def alter(
    p: Prober, *changes: tuple[str, int, str | None], group: str | None = None, check: bool = False
) -> None:
    """Send IncrementalAlterConfigs for a group, with name, operation and value of each configuration."""
    kind = IncrementalAlterConfigsRequest.Resource
    configs = [kind.Config(name=name, config_operation=operation, value=value) for name, operation, value in changes]
    resource = kind(resource_type=GROUP, resource_name=p.group if group is None else group, configs=configs)
    await p.ask("C", IncrementalAlterConfigsRequest(resources=[resource], validate_only=check), 1)
    await trio.sleep(0.2)  # until the broker knows the change


async def configs_of(p: Prober, *keys: str, group: str | None = None, synonyms: bool = True) -> None:
    resource = DescribeConfigsRequest.Resource(
        resource_type=GROUP,
        resource_name=p.group if group is None else group,
        configuration_keys=list(keys) or None,
    )
    await p.ask("C", DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms), 4)


@share_script()
async def group_configs_described(p: Prober) -> None:
    """DescribeConfigs of a group without configurations, of a group with some, and of an empty group id."""
    await configs_of(p)
    await configs_of(p, "share.auto.offset.reset", "nothing", synonyms=False)
    await configs_of(p, group="")
    await alter(p, ("share.auto.offset.reset", 0, "earliest"), ("share.session.timeout.ms", 0, "7000"))
    await configs_of(p)
    resource = DescribeConfigsRequest.Resource(resource_type=GROUP, resource_name=p.group)
    await p.ask("C", DescribeConfigsRequest(resources=[resource]), 1)
    await p.ask("C", ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    await alter(p, ("share.auto.offset.reset", 1, None))
    await configs_of(p)
    await alter(p, ("share.session.timeout.ms", 1, None))
    await configs_of(p, "share.session.timeout.ms")
    await p.ask("C", ListConfigResourcesRequest(resource_types=[GROUP]), 1)


@share_script()
async def group_configs_validated(p: Prober) -> None:
    """IncrementalAlterConfigs of groups: the names, values and operations that are valid."""
    values = {
        "share.auto.offset.reset": [
            "latest",
            "LATEST",
            "none",
            "",
            "by_duration:PT1H",
            "by_duration:-PT1H",
            "by_duration:x",
            " earliest ",
        ],
        "share.isolation.level": ["read_committed", "READ_COMMITTED", "x"],
        "share.session.timeout.ms": ["999", "1000", "60001", "0", "x", "500"],
        "share.heartbeat.interval.ms": ["99", "100", "15001", "45000", "0"],
        "share.record.lock.duration.ms": ["999", "14999", "15000", "60000", "60001"],
        "consumer.session.timeout.ms": ["44999", "45000", "60001", "0"],
        "consumer.heartbeat.interval.ms": ["99", "100", "15001", "0"],
        "streams.num.standby.replicas": ["-1", "0", "2", "3"],
        "streams.session.timeout.ms": ["44999", "60000", "60001"],
        "streams.heartbeat.interval.ms": ["4999", "5000", "15001"],
        "streams.initial.rebalance.delay.ms": ["-1", "0"],
        "nothing": ["1"],
        "retention.ms": ["1"],
    }
    for name, texts in values.items():
        for text in texts:
            await alter(p, (name, 0, text), check=True)
    await alter(p, ("share.session.timeout.ms", 0, "15000"), ("share.heartbeat.interval.ms", 0, "15000"), check=True)
    await alter(p, ("share.session.timeout.ms", 0, "15001"), ("share.heartbeat.interval.ms", 0, "15000"), check=True)
    await alter(p, ("share.session.timeout.ms", 0, None))
    await alter(p, ("share.session.timeout.ms", 2, "5"))
    await alter(p, ("share.session.timeout.ms", 0, "7000"), ("share.session.timeout.ms", 0, "8000"))
    await alter(p, ("share.session.timeout.ms", 0, "7000"), group="")
    await alter(p)
    await alter(p, ("nothing", 1, None))
    kind = AlterConfigsRequest.Resource
    for value in ("earliest", "x", None):
        config = kind.Config(name="share.auto.offset.reset", value=value)
        resource = kind(resource_type=GROUP, resource_name=p.group, configs=[config])
        await p.ask("C", AlterConfigsRequest(resources=[resource]), 2)
    await trio.sleep(0.2)
    await configs_of(p, "share.auto.offset.reset", synonyms=False)
    await p.ask("C", AlterConfigsRequest(resources=[kind(resource_type=GROUP, resource_name=p.group)]), 2)
    await trio.sleep(0.2)
    await configs_of(p, "share.auto.offset.reset", synonyms=False)


@share_script()
async def group_configs_take_effect(p: Prober) -> None:
    """The session timeout and the heartbeat interval of a single group, for a share group and a consumer group."""
    await alter(p, ("share.session.timeout.ms", 0, "1500"), ("share.heartbeat.interval.ms", 0, "300"))
    a = Sharer(p=p, conn="A", names=["nowhere"])
    await a.join()
    await p.wait(800)
    await a.beat()
    await p.wait(2500)
    await a.beat()
    await alter(p, ("share.heartbeat.interval.ms", 1, None))
    await a.join()
    other = f"{p.group}-848"
    await alter(
        p, ("consumer.session.timeout.ms", 0, "1500"), ("consumer.heartbeat.interval.ms", 0, "300"), group=other
    )
    b = Consumer(p=p, conn="B", group=other)
    await b.join()
    await p.wait(2500)
    await b.beat()
    await alter(p, ("share.session.timeout.ms", 1, None))
    await alter(p, ("consumer.session.timeout.ms", 1, None), ("consumer.heartbeat.interval.ms", 1, None), group=other)

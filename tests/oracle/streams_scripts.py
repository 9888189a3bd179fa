"""Conversations about streams groups (KIP-1071), which record.py records; each function is one conversation."""

from __future__ import annotations

from consumer import Consumer, create, drop, grow, list_groups
from consumer import look as look_consumers
from prober import Client, Prober
from streams import Request, Streams, created, info, look, part, simple, streams_script, task_ids, topology, word_count

from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.streams_group_heartbeat import KeyValue


async def two(p: Prober) -> tuple[Streams, Streams]:
    """Return a stable group of two: A has tasks 0 and 1, B has task 2."""
    a, b = Streams(p=p, conn="A"), Streams(p=p, conn="B")
    await a.join()
    await b.join()
    await a.own()
    await a.own()
    await b.own()
    await a.own()
    return a, b


async def gone(*members: Streams) -> None:
    for member in members:
        await member.leave()


# --- fields of a heartbeat ----------------------------------------------------------------------------------------


@streams_script(group_coordinator_rebalance_protocols="classic,consumer")
async def kip1071_switched_off(p: Prober) -> None:
    """The protocol is not among group.coordinator.rebalance.protocols: heartbeats and descriptions are unsupported."""
    a = Streams(p=p, conn="A")
    await a.join()
    await a.join(group_id="")
    await look(p)
    await look(p, "", p.group)


@streams_script()
async def kip1071_fields_of_a_join(p: Prober) -> None:
    """StreamsGroupHeartbeat with epoch 0: the rules for each field, then a join with the minimum of fields."""
    a = Streams(p=p, conn="A")
    tasks = task_ids({"0": [0]})
    await a.join(group_id="")
    await a.join(group_id=" ")
    await a.join(member_id="")
    await a.join(instance_id="i")
    await a.join(instance_id="")
    await a.join(rack_id="")
    await a.join(rebalance_timeout_ms=-1)
    await a.join(active_tasks=tasks)
    await a.join(standby_tasks=tasks)
    await a.join(warmup_tasks=tasks)
    await a.join(active_tasks=None)
    await a.join(topology=None)
    await a.join(task_offsets=[])
    await a.join(task_end_offsets=[Request.TaskOffset(subtopology_id="0", partition=0, offset=1)])
    await a.join(topology=topology(part("0", "probe", source_topic_regex=["p.*"])))
    await a.join(topology=topology(part("0", "probe", state_changelog_topics=[info("log", 3)])))
    await look(p)
    await a.join(process_id=None, client_tags=None)
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_fields_of_a_heartbeat(p: Prober) -> None:
    """StreamsGroupHeartbeat with other epochs: the rules for each field, for a missing group and for one with a
    member."""
    a = Streams(p=p, conn="A")
    for _ in range(2):
        await a.beat(member_epoch=2, member_id="")
        await a.beat(member_epoch=-1, member_id="")
        await a.beat(member_epoch=-2)
        await a.beat(member_epoch=-2, instance_id="i")
        await a.beat(member_epoch=-3)
        await a.beat(member_epoch=2, rack_id="")
        await a.beat(member_epoch=2, topology=simple())
        await a.beat(member_epoch=2, active_tasks=[])
        await a.beat(member_epoch=2, active_tasks=[], standby_tasks=[], warmup_tasks=task_ids({"0": [0]}))
        await a.beat(member_epoch=2, member_id="zz")
        await a.beat(member_epoch=-1, member_id="zz")
        await a.beat(member_epoch=1)
        await a.join()
    await a.own({"9": [0]})
    await a.own({"0": [3]})
    await a.own({"0": [-1]})
    await a.own({}, {"0": [7]})
    await a.leave()


@streams_script()
async def kip1071_invalid_topologies(p: Prober) -> None:
    """Topologies that are refused: internal and invalid topic names, duplicate subtopology ids, no sources, cycles and
    invalid indexes."""
    a = Streams(p=p, conn="A")
    group = part("0").CopartitionGroup
    await a.join(topology=topology(part("0", "__consumer_offsets", "probe", "__transaction_state")))
    await a.join(topology=topology(part("0", "a b", "", ".."), part("1", "probe", repartition_sink_topics=["c/d"])))
    await a.join(topology=topology())
    await a.join(topology=topology(part("0")), group_id=f"{p.group}-1")
    await a.join(topology=topology(part("0", "probe"), part("0", "probe2")), group_id=f"{p.group}-2")
    await a.join(topology=topology(part("0", "probe"), epoch=-1), group_id=f"{p.group}-3")
    never = [info(f"{p.group}-never")]
    await a.join(topology=topology(part("0", "probe", repartition_source_topics=never)), group_id=f"{p.group}-4")
    one, other = f"{p.group}-one", f"{p.group}-other"
    loop = topology(
        part("0", repartition_source_topics=[info(one)], repartition_sink_topics=[other]),
        part("1", repartition_source_topics=[info(other)], repartition_sink_topics=[one]),
    )
    await a.join(topology=loop, group_id=f"{p.group}-5")
    bad = part("0", "probe", copartition_groups=[group(source_topics=[1])])
    await a.join(topology=topology(bad), group_id=f"{p.group}-6")
    negative = part("0", "probe", repartition_sink_topics=[one], repartition_source_topics=[info(one, -2)])
    await a.join(topology=topology(negative), group_id=f"{p.group}-7")
    await a.join(topology=topology(part("0", "probe", state_changelog_topics=[info(f"{p.group}-l", -1)])))
    await look(p, p.group, *(f"{p.group}-{n}" for n in range(1, 8)))
    await a.leave()


@streams_script()
async def kip1071_topology_epochs(p: Prober) -> None:
    """The first member sets the topology of the group. Another topology needs a newer epoch, which 4.2 refuses; a
    topology with an older epoch is stale."""
    a, b = Streams(p=p, conn="A", topology=topology(part("0", "probe"), epoch=3)), Streams(p=p, conn="B")
    await a.join()
    await b.join(topology=topology(part("0", "probe2"), epoch=3))
    await b.join(topology=topology(part("0", "probe"), epoch=4))
    await b.join(topology=topology(part("0", "probe2"), epoch=2))
    await b.own()
    await a.own()
    await look(p)
    await a.join(topology=topology(part("0", "probe2"), epoch=1))
    await a.own()
    await look(p)
    await gone(a, b)
    await look(p)
    await b.join(topology=topology(part("0", "probe2"), epoch=3))
    await b.join(topology=topology(part("0", "probe"), epoch=3))
    await look(p)
    await gone(b)


# --- members, epochs and reconciliation ---------------------------------------------------------------------------


@streams_script()
async def kip1071_join_and_leave(p: Prober) -> None:
    """One member gets all tasks at epoch 2; a second one gets its share after the first has revoked it."""
    a, b = Streams(p=p, conn="A"), Streams(p=p, conn="B")
    await a.join()
    await look(p)
    await a.own()
    await b.join()
    await look(p)
    await a.beat()
    await a.own()
    await b.own()
    await a.own({"0": [0, 1]})
    await look(p)
    await b.own()
    await b.own()
    await look(p)
    await b.leave()
    await look(p)
    await a.own()
    await a.leave()
    await look(p)
    await a.leave()
    await a.beat()
    await a.join()
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_epochs(p: Prober) -> None:
    """Heartbeats are accepted with the current epoch, with 0, and with the previous epoch if the owned tasks are
    assigned to the member."""
    a, b = await two(p)
    await a.beat(member_epoch=a.epoch + 1)
    await a.beat(member_epoch=a.epoch - 1)
    await a.beat(member_epoch=1)
    last = a.epoch
    await b.leave()
    await a.own()
    await a.own({"0": [0]}, member_epoch=last)
    await a.own({"0": [0, 1, 2]}, member_epoch=last)
    await a.beat(member_epoch=last)
    await a.own({"0": [0]}, {"0": [1]}, member_epoch=last)
    await a.join()
    await a.join(process_id="other")
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_metadata_of_a_member_changes(p: Prober) -> None:
    """A change of the rack, client tags, endpoint, timeout or process id advances the group epoch; the same values
    again do not."""
    a = Streams(p=p, conn="A")
    await a.join()
    await a.own(rack_id="r")
    await a.own(rack_id="r")
    await a.own(client_tags=[KeyValue(key="zone", value="z"), KeyValue(key="az", value="a")])
    await a.own(client_tags=[KeyValue(key="az", value="a"), KeyValue(key="zone", value="z")])
    await a.own(rebalance_timeout_ms=700)
    await a.own(process_id="other")
    await a.own(user_endpoint=Request.Endpoint(host="h", port=1))
    await look(p)
    await a.own()
    await a.leave()


@streams_script()
async def kip1071_sessions_end(p: Prober) -> None:
    """A member that sends no heartbeats is fenced after the session timeout; the other one gets its tasks."""
    a, b = await two(p)
    for _ in range(5):
        await p.wait(1400)
        await a.own()
    await look(p)
    await b.own()
    await a.leave()


@streams_script()
async def kip1071_rebalance_timeout(p: Prober) -> None:
    """A member that does not revoke tasks within its rebalance timeout is fenced, in spite of its heartbeats."""
    a, b = Streams(p=p, conn="A"), Streams(p=p, conn="B")
    await a.join(rebalance_timeout_ms=1_500)
    await b.join()
    await a.own()
    for _ in range(3):
        await p.wait(400)
        await a.own({"0": [0, 1, 2]})
        await b.own()
    await p.wait(900)
    await look(p)
    await a.own()
    await b.own()
    await b.own()
    await look(p)
    await b.leave()


@streams_script()
async def kip1071_revokes_in_two_steps(p: Prober) -> None:
    """A third member joins while a member revokes a task: the group epoch advances by one, and the member has to revoke
    another task."""
    a, b, c = (Streams(p=p, conn=conn) for conn in "ABC")
    await a.join()
    await b.join()
    await a.own()
    await c.join()
    await look(p)
    await a.own({"0": [0, 1]})
    await look(p)
    await a.own({"0": [0]})
    await b.own()
    await c.own()
    await a.own()
    await look(p)
    await gone(a, b, c)


@streams_script()
async def kip1071_threads_of_one_process(p: Prober) -> None:
    """Tasks are balanced over processes first: two members of one process have half of the tasks."""
    a = Streams(p=p, conn="A", process="one")
    b = Streams(p=p, conn="B", process="one")
    c = Streams(p=p, conn="C", process="two")
    await a.join()
    await b.join()
    await c.join()
    for _ in range(3):
        for member in (a, b, c):
            await member.own()
    await look(p)
    await gone(a, b, c)


@streams_script(group_streams_max_size=2)
async def kip1071_max_size(p: Prober) -> None:
    """group.streams.max.size=2: a third member is refused, and so is one of the two members that joins again."""
    a, b = await two(p)
    c = Streams(p=p, conn="C")
    await c.join()
    await a.join()
    await a.own()
    await b.leave()
    await c.join()
    await gone(a, c)


@streams_script(group_streams_num_standby_replicas=1)
async def kip1071_standby_tasks(p: Prober) -> None:
    """Stateful tasks have a standby task in another process; it takes over when the owner leaves."""
    a, b = (Streams(p=p, conn=conn, topology=word_count(p)) for conn in "AB")
    await a.join()
    await created(p)
    await a.own()
    await b.join()
    for _ in range(4):
        await a.own()
        await b.own()
    await look(p)
    await b.leave()
    await a.own()
    await a.own()
    await look(p)
    await a.leave()


@streams_script(group_streams_initial_rebalance_delay_ms=1500)
async def kip1071_initial_rebalance_delay(p: Prober) -> None:
    """An empty group waits for more members during the initial rebalance delay: no task is assigned until its end, and
    the status of the response reports this."""
    a, b = Streams(p=p, conn="A"), Streams(p=p, conn="B")
    await a.join()
    await look(p)
    await p.wait(500)
    await b.join()
    await a.own()
    await look(p)
    await p.wait(1400)
    await look(p)
    await a.own()
    await b.own()
    await look(p)
    await gone(a, b)
    await a.join()
    await a.own()
    await p.wait(1700)
    await look(p)
    await a.own()
    await a.leave()


@streams_script(group_streams_initial_rebalance_delay_ms=1000)
async def kip1071_initial_delay_of_one_heartbeat(p: Prober) -> None:
    """After the initial delay the group has no assignment if the first heartbeat was the only one; the next heartbeat
    computes it."""
    a = Streams(p=p, conn="A")
    await a.join()
    await p.wait(1300)
    await look(p)
    await a.own()
    await look(p)
    await a.leave()


# --- topics -------------------------------------------------------------------------------------------------------


@streams_script()
async def kip1071_internal_topics(p: Prober) -> None:
    """The coordinator creates repartition and changelog topics; until then there are no tasks."""
    a = Streams(p=p, conn="A", topology=word_count(p))
    await a.join()
    await created(p)
    await look(p)
    await a.own()
    await look(p)
    await a.own()
    await drop(p, f"{p.group}-counts-changelog")
    await look(p)
    await a.own()
    await created(p)
    await a.own()
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_missing_source_topics(p: Prober) -> None:
    """Source topics that do not exist: a status names three of them, and no task is assigned until they are created."""
    names = [f"{p.group}-{letter}" for letter in "dabc"]
    a = Streams(p=p, conn="A", topology=topology(part("0", "probe", *names[:2]), part("1", *names[2:])))
    await a.join()
    await look(p)
    await a.own()
    for name in names:
        await create(p, name, 2)
        await a.own()
    await look(p)
    await a.own()
    await drop(p, names[0])
    await look(p)
    await a.own()
    await a.own({})
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_source_topic_grows(p: Prober) -> None:
    """New partitions of a source topic become new tasks; then the changelog topic has too few partitions."""
    name, log = f"{p.group}-in", f"{p.group}-log"
    await create(p, name, 2)
    a = Streams(p=p, conn="A", topology=topology(part("0", name, state_changelog_topics=[info(log)])))
    b = Streams(p=p, conn="B", group=f"{p.group}-2", topology=topology(part("0", name)))
    await a.join()
    await b.join()
    await created(p)
    await a.own()
    await grow(p, name, 3)
    await a.own()
    await b.own()
    await look(p, p.group, f"{p.group}-2")
    await gone(a, b)


@streams_script()
async def kip1071_repartition_counts(p: Prober) -> None:
    """The number of partitions of repartition topics: a given number, or that of the sources, also through several
    subtopologies."""
    r1, r2, r3 = (f"{p.group}-r{n}" for n in (1, 2, 3))
    a = Streams(
        p=p,
        conn="A",
        topology=topology(
            part("2", repartition_source_topics=[info(r2)], repartition_sink_topics=[r3]),
            part("1", repartition_source_topics=[info(r1, 5)], repartition_sink_topics=[r2]),
            part("0", "probe", repartition_sink_topics=[r1]),
            part("3", "probe2", repartition_source_topics=[info(r3)], state_changelog_topics=[info(f"{p.group}-l")]),
        ),
    )
    await a.join()
    await created(p)
    await a.own()
    await look(p)
    await a.leave()


@streams_script()
async def kip1071_copartitioning(p: Prober) -> None:
    """Copartitioned topics must have equal partition counts: repartition topics are adapted, source topics are
    refused."""
    small, r1, r2 = f"{p.group}-small", f"{p.group}-r1", f"{p.group}-r2"
    await create(p, small, 2)
    kind = part("0").CopartitionGroup
    together = [kind(source_topics=[0, 1])]
    a = Streams(p=p, conn="A", topology=topology(part("0", "probe", small, copartition_groups=together)))
    await a.join()
    b = Streams(
        p=p,
        conn="B",
        group=f"{p.group}-2",
        topology=topology(
            part("0", small, repartition_sink_topics=[r1]),
            part(
                "1",
                "probe",
                repartition_source_topics=[info(r1)],
                copartition_groups=[kind(source_topics=[0], repartition_source_topics=[0])],
            ),
        ),
    )
    await b.join()
    await created(p)
    await b.own()
    c = Streams(
        p=p,
        conn="C",
        group=f"{p.group}-3",
        topology=topology(
            part("0", small, repartition_sink_topics=[r2]),
            part(
                "1",
                "probe",
                repartition_source_topics=[info(r2, 4)],
                copartition_groups=[kind(source_topics=[0], repartition_source_topics=[0])],
            ),
        ),
    )
    await c.join()
    await look(p, p.group, f"{p.group}-2", f"{p.group}-3")
    await gone(a, b, c)


@streams_script()
async def kip1071_existing_internal_topic(p: Prober) -> None:
    """An internal topic exists with a wrong number of partitions: the response has a status, and no task is
    assigned."""
    log = f"{p.group}-log"
    await create(p, log, 2)
    a = Streams(p=p, conn="A", topology=topology(part("0", "probe", state_changelog_topics=[info(log)])))
    await a.join()
    await a.own()
    await look(p)
    await drop(p, log)
    await a.own()
    await created(p)
    await a.own()
    await a.leave()


@streams_script()
async def kip1071_internal_topics_fail(p: Prober) -> None:
    """An internal topic cannot be created: the status of a later heartbeat contains the reason."""
    changelogs = [info(f"{p.group}-{n}", factor=3) for n in range(2)]
    a = Streams(p=p, conn="A", topology=topology(part("0", "probe", state_changelog_topics=changelogs)))
    await a.join()
    await created(p)
    await a.own()
    await look(p)
    b = Streams(
        p=p,
        conn="B",
        group=f"{p.group}-2",
        topology=topology(part("0", "probe", state_changelog_topics=[info(f"{p.group}-9", zz="1")])),
    )
    await b.join()
    await created(p)
    await b.own()
    await gone(a, b)


# --- status, endpoints --------------------------------------------------------------------------------------------


@streams_script()
async def kip1071_shutdown(p: Prober) -> None:
    """A member requests the shutdown of the application: every later response has this status until the group is
    empty."""
    a, b = await two(p)
    await b.own(shutdown_application=True)
    await a.own()
    await a.own(shutdown_application=True)
    await b.leave()
    await a.own()
    c = Streams(p=p, conn="C")
    await c.join()
    await a.leave()
    await c.leave(shutdown_application=True)
    await c.join()
    await c.join(shutdown_application=True)
    await c.own()
    await c.leave()


@streams_script()
async def kip1071_shutdown_by_an_unknown_member(p: Prober) -> None:
    """A member that is not in the group sends a leave request and requests the shutdown of the application."""
    a, b = await two(p)
    c = Streams(p=p, conn="C")
    await c.leave(shutdown_application=True)
    await a.own()
    await c.leave(member_epoch=-2, instance_id="i", shutdown_application=True)
    await a.own()
    await c.beat(member_epoch=3, shutdown_application=True)
    await a.own()
    await b.own(member_epoch=99, shutdown_application=True)
    await a.own()
    await b.leave(shutdown_application=True)
    await a.own()
    await a.leave()


@streams_script()
async def kip1071_endpoints(p: Prober) -> None:
    """Members with endpoints receive the partitions of all endpoints when the endpoint epoch has changed."""
    a = Streams(p=p, conn="A")
    b = Streams(p=p, conn="B")
    c = Streams(p=p, conn="C")
    await a.join(user_endpoint=Request.Endpoint(host="a.example", port=65535))
    await a.own()
    await a.own()
    await b.join(user_endpoint=Request.Endpoint(host="b.example", port=1))
    await c.join()
    for _ in range(3):
        for member in (a, b, c):
            await member.own()
    await a.own(endpoint_information_epoch=-1)
    await c.own(endpoint_information_epoch=99)
    await look(p)
    await gone(b)
    await a.own()
    await gone(a, c)


@streams_script()
async def kip1071_endpoints_of_uneven_topics(p: Prober) -> None:
    """A subtopology reads topics of two and of three partitions: an endpoint lists only the partitions that exist."""
    small = f"{p.group}-small"
    await create(p, small, 2)
    a = Streams(p=p, conn="A", topology=topology(part("0", "probe", small)))
    await a.join(user_endpoint=Request.Endpoint(host="a.example", port=1))
    await a.own()
    await a.leave()


@streams_script()
async def kip1071_endpoint_without_source_topics(p: Prober) -> None:
    """A member with an endpoint joins while source topics are missing."""
    a = Streams(p=p, conn="A", topology=topology(part("0", f"{p.group}-none")))
    await a.join(user_endpoint=Request.Endpoint(host="a.example", port=1))
    await look(p)
    await a.join()
    await look(p)
    await a.leave()


# --- other requests -----------------------------------------------------------------------------------------------


@streams_script()
async def kip1071_described_in_each_state(p: Prober) -> None:
    """StreamsGroupDescribe, ListGroups and DescribeGroups of a group that is Empty, NotReady, Assigning, Reconciling
    and Stable."""

    async def see() -> None:
        await look(p)
        await list_groups(p, types=["streams"])

    await look(p, p.group, "", p.group, operations=True)
    name = f"{p.group}-in"
    a, b = (Streams(p=p, conn=conn, topology=topology(part("0", name))) for conn in "AB")
    await a.join()
    await see()
    await list_groups(p, states=["NotReady"])
    await list_groups(p, states=["not_ready"])
    await create(p, name, 3)
    await a.own()
    await see()
    await b.join()
    await see()
    await a.own()
    await a.own()
    await b.own()
    await a.own()
    await see()
    await b.leave()
    await see()
    await a.leave()
    await see()
    await list_groups(p, types=["Streams"], states=["empty"])
    await p.ask("D", DescribeGroupsRequest(groups=[p.group]), 5)
    await p.ask("D", DescribeGroupsRequest(groups=[p.group]), 6)
    await p.ask("D", FindCoordinatorRequest(key_type=0, coordinator_keys=[p.group]), 6)


@streams_script()
async def kip1071_commits(p: Prober) -> None:
    """OffsetCommit and OffsetFetch of members: current epochs, and older ones that are not before the assignment of the
    task."""
    a, b = await two(p)
    await a.commit()
    await a.commit(8)
    await a.commit(member_id="")
    await a.commit(member_id="zz")
    await a.commit(generation_id_or_member_epoch=-1)
    await a.commit(generation_id_or_member_epoch=a.epoch + 1)
    await a.commit(generation_id_or_member_epoch=a.epoch - 1)
    await a.commit(generation_id_or_member_epoch=2)
    await a.commit(generation_id_or_member_epoch=1)
    await a.commit(generation_id_or_member_epoch=2, partition=2)
    await a.commit(generation_id_or_member_epoch=2, topic="probe2")
    await b.commit(partition=2)
    await b.commit(partition=2, generation_id_or_member_epoch=2)
    await b.commit(topic="probe2")
    await a.fetch()
    await a.fetch(member_epoch=a.epoch - 1)
    await a.fetch(member_id="zz")
    await a.fetch(member_id=None, member_epoch=-1)
    await a.fetch(member_id=None, member_epoch=2)
    await a.fetch(8)
    await gone(a, b)
    await a.commit()
    await a.commit(member_id="", generation_id_or_member_epoch=-1)
    await a.fetch(member_id=None, member_epoch=-1)


@streams_script()
async def kip1071_commits_while_revoking(p: Prober) -> None:
    """A member that has to revoke a task may still commit its offsets with the epoch at which the task was assigned."""
    a, b = Streams(p=p, conn="A"), Streams(p=p, conn="B")
    await a.join()
    await b.join()
    await a.own()
    await a.commit(partition=2)
    await a.commit(partition=2, generation_id_or_member_epoch=1)
    await a.own({"0": [0, 1]})
    await a.commit(partition=2)
    await a.commit(partition=2, generation_id_or_member_epoch=2)
    await a.commit(partition=1, generation_id_or_member_epoch=2)
    await gone(a, b)


@streams_script()
async def kip1071_deletes(p: Prober) -> None:
    """DeleteGroups of a group with members and OffsetDelete of topics that it reads are refused."""
    a = Streams(p=p, conn="A")
    place = OffsetDeleteRequest.Topic.Partition(partition_index=0)

    async def forget() -> None:
        topics = [OffsetDeleteRequest.Topic(name=name, partitions=[place]) for name in ("probe", "probe2")]
        await p.ask("D", OffsetDeleteRequest(group_id=p.group, topics=topics), 0)

    await a.join()
    await a.commit()
    await forget()
    await p.ask("D", DeleteGroupsRequest(groups_names=[p.group]), 2)
    await a.leave()
    await forget()
    await p.ask("D", DeleteGroupsRequest(groups_names=[p.group]), 2)
    await look(p)
    await p.ask("D", DeleteGroupsRequest(groups_names=[p.group]), 2)


@streams_script(group_consumer_heartbeat_interval_ms=500, group_consumer_min_heartbeat_interval_ms=100)
async def kip1071_other_types(p: Prober) -> None:
    """Streams heartbeats to groups of other types, and members of other protocols that join a streams group."""
    classic, a = Client(p=p, conn="C"), Streams(p=p, conn="A")
    await classic.stable()
    await a.join()
    await a.beat(member_epoch=2)
    await a.leave()
    await look(p)
    await classic.leave()
    await a.join()
    await look(p)
    late = Client(p=p, conn="E")
    await p.answer(await p.send("E", late._join(), 9))
    other = Consumer(p=p, conn="B")
    await other.join()
    await other.beat(member_epoch=3)
    await look_consumers(p)
    await a.leave()
    await other.join()
    await late.stable()
    await look(p)
    await late.leave()
    await other.join()
    await a.join()
    await a.beat(member_epoch=2)
    await other.leave()
    await a.join()


@streams_script()
async def kip1071_offsets_survive_migration(p: Prober) -> None:
    """An empty classic group becomes a streams group and back; its committed offsets stay."""
    classic, a = Client(p=p, conn="C"), Streams(p=p, conn="A")
    await classic.stable()
    await classic.commit()
    await classic.leave()
    await a.join()
    await a.fetch()
    await a.commit(partition=1)
    await a.leave()
    again = Client(p=p, conn="E")
    await again.stable()
    await a.fetch(member_id=None, member_epoch=-1)
    await again.leave()

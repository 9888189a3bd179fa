"""Conversations about groups of the consumer protocol (KIP-848), which record.py records; each function is one."""

from __future__ import annotations

from uuid import UUID

import trio
from consumer import (
    Consumer,
    consumer_script,
    create,
    drop,
    grow,
    list_groups,
    look,
    look_old,
    owning,
    topic_id,
)
from prober import Client, Prober
from script import NEW, script

from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_delete import OffsetDeleteRequest


async def two(p: Prober, **both: object) -> tuple[Consumer, Consumer]:
    """Return a stable group of two at epoch 2: A has partitions 0 and 1, B has 2."""
    a, b = Consumer(p=p, conn="A", **both), Consumer(p=p, conn="B", **both)  # type: ignore[arg-type]
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await a.beat(0, 1)
    await b.beat(topic_partitions=[])
    return a, b


# --- joining, and the fields of a heartbeat -----------------------------------------------------------------------


@script({"group.coordinator.rebalance.protocols": "classic"})
async def kip848_switched_off(p: Prober) -> None:
    """The consumer protocol is disabled, as it is by default in 3.9: heartbeats and descriptions fail with
    UNSUPPORTED_VERSION."""
    a = Consumer(p=p, conn="A", version=0)
    await a.join()
    await a.join(group_id="")
    await a.beat(member_epoch=1)
    await look(p, version=0)
    await look(p, "", p.group, version=0)
    await Client(p=p, conn="C").stable()
    await a.join()


@consumer_script()
async def kip848_fields_of_a_join(p: Prober) -> None:
    """ConsumerGroupHeartbeat v1 with epoch 0: the rules for each field, then a join with the minimum of fields."""
    a = Consumer(p=p, conn="A")
    await a.join(group_id="")
    await a.join(member_id="")
    await a.join(instance_id="")
    await a.join(rack_id="")
    await a.join(rebalance_timeout_ms=-1)
    await a.join(topic_partitions=None)
    await a.join(topic_partitions=owning(p, 0))
    await a.join(subscribed_topic_names=None)
    await a.join(subscribed_topic_names=None, subscribed_topic_regex="((")
    await a.join(server_assignor="zz")
    await a.join(server_assignor="")
    await look(p)
    await a.join(group_id=f"{p.group}-1", subscribed_topic_names=[])
    await a.join(group_id=f"{p.group}-2", subscribed_topic_names=None, subscribed_topic_regex="")
    await a.join(group_id=f"{p.group}-3", rebalance_timeout_ms=0)
    await a.join(group_id=f"{p.group}-4", subscribed_topic_names=["probe", "probe"])
    await a.join(group_id=f"{p.group}-5", subscribed_topic_names=["bad/name"])
    await a.join(group_id=f"{p.group}-6", member_id=" ")
    await look(p, *(f"{p.group}-{n}" for n in range(1, 7)))


@consumer_script()
async def kip848_fields_of_a_heartbeat(p: Prober) -> None:
    """ConsumerGroupHeartbeat v1 with other epochs: the rules for each field, for a missing group and for one with a
    member."""
    a = Consumer(p=p, conn="A")
    for _ in range(2):
        await a.beat(member_epoch=1, member_id="")
        await a.beat(member_epoch=-1, member_id="")
        await a.beat(member_epoch=-2, member_id="", instance_id="i")
        await a.beat(member_epoch=-2)
        await a.beat(member_epoch=-2, instance_id="")
        await a.beat(member_epoch=-1, instance_id="")
        await a.beat(member_epoch=-3)
        await a.beat(member_epoch=1, instance_id="")
        await a.beat(member_epoch=1, rack_id="")
        await a.beat(member_epoch=1, server_assignor="zz")
        await a.beat(member_epoch=-1, server_assignor="zz", rack_id="")
        await a.beat(member_epoch=1, subscribed_topic_names=[])
        await a.beat(member_epoch=1)
        await a.beat(member_epoch=-1)
        await a.join()


@consumer_script()
async def kip848_fields_in_version_0(p: Prober) -> None:
    """ConsumerGroupHeartbeat v0: the coordinator generates a member id of 22 characters; the topic names may be empty
    but not null."""
    a = Consumer(p=p, conn="A", version=0)
    await a.join(subscribed_topic_names=None)
    await a.join(subscribed_topic_names=[], group_id=f"{p.group}-empty")
    await a.beat(member_id="", member_epoch=1)
    await a.beat(member_id="", member_epoch=-1)
    await a.join(member_id="")
    await a.beat()
    await a.beat(0, 1, 2)
    await look(p, version=0)
    await look(p, version=1)
    b = Consumer(p=p, conn="B", version=0)
    await b.join(member_id="", instance_id="i")
    await b.leave(-2, instance_id="i")
    await b.join(member_id="", instance_id="i")
    await a.leave()


@consumer_script()
async def kip848_which_error(p: Prober) -> None:
    """Heartbeats with two mistakes show which error the coordinator returns."""
    a = Consumer(p=p, conn="A")
    await a.join(group_id="", member_id="")
    await a.join(member_id="", instance_id="")
    await a.join(instance_id="", rack_id="")
    await a.join(rack_id="", rebalance_timeout_ms=-1)
    await a.join(rebalance_timeout_ms=-1, topic_partitions=None)
    await a.join(topic_partitions=None, subscribed_topic_names=None)
    await a.join(subscribed_topic_names=None, server_assignor="zz")
    await a.beat(member_epoch=-3, instance_id="")
    await a.beat(member_epoch=5, server_assignor="zz")
    await a.join()
    await a.beat(member_epoch=9, server_assignor="zz")
    await a.beat(member_epoch=9, member_id="nobody")
    await a.beat(member_epoch=1, member_id="nobody", server_assignor="zz")
    await a.beat(member_epoch=9, subscribed_topic_regex="((")
    await a.beat(member_epoch=9, instance_id="i")
    await a.beat(instance_id="i")
    await a.beat(subscribed_topic_regex="((", server_assignor="range")
    await look(p)


@consumer_script()
async def kip848_worked_example(p: Prober) -> None:
    """Two members share three partitions: the first one revokes a partition before the other one is assigned it."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await look(p)
    await b.join()
    await look(p)
    await a.beat(0, 1, 2)
    await look(p)
    await b.beat()
    await a.beat(0, 1)
    await look(p)
    await b.beat()
    await look(p)
    await a.beat()
    await b.beat(2)


@consumer_script()
async def kip848_three_members(p: Prober) -> None:
    """A third member joins and then the first one leaves: which partitions are revoked and who gets the free ones."""
    a, b = await two(p)
    c = Consumer(p=p, conn="C")
    await c.join()
    await b.beat(2)
    await a.beat()
    await c.beat()
    await a.beat(0)
    await c.beat()
    await b.beat()
    await look(p)
    await a.leave()
    await look(p)
    await b.beat()
    await c.beat()
    await look(p)
    await c.leave()
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_more_members_than_partitions(p: Prober) -> None:
    """Five members of three partitions: two members have no partition until another member leaves."""
    members = [Consumer(p=p, conn=conn) for conn in "ABCDE"]
    a, *others = members
    await a.join()
    for member in others:
        await member.join()
    await a.beat(0, 1, 2)
    await a.beat(topic_partitions=owning(p, 0))
    for member in members:
        await member.beat()
    await look(p)
    await a.leave()
    for member in others:
        await member.beat()
    await look(p)


@consumer_script()
async def kip848_blank_ids(p: Prober) -> None:
    """Ids of one unusual character: an id is blank if Java's String.trim makes it empty, so some spaces are not
    blank."""
    a = Consumer(p=p, conn="A")
    for blank in ("\t", "\0", "\x1f", "\x7f", "\x85", "\xa0", "\u2003", "\u3000"):
        await a.join(member_id=blank, group_id=f"{p.group}-{ord(blank)}")
        await a.join(group_id=blank, member_id="x")
        await a.join(instance_id=blank, member_id="x", group_id=f"{p.group}-{ord(blank)}-i")
        await a.join(rack_id=blank, member_id="x", group_id=f"{p.group}-{ord(blank)}-r")


@consumer_script()
async def kip848_without_topics_while_a_target_is_due(p: Prober) -> None:
    """After a member has left, a member without topics joins before a new target is computed. The assignor treats the
    group as homogeneous, as it was before, and uses the subscription of the first member in Kafka's order. If the new
    member (B) is first, no member gets partitions; if not (Z), the target has a share for it that it does not receive.
    The next join of a member with topics ends this."""
    for assignor in ("uniform", "range"):
        for conn in "BZ":
            group = f"{p.group}-{assignor}-{conn.lower()}"
            late, c, d, x = (Consumer(p=p, conn=name, group=group) for name in (conn, "C", "D", "X"))
            for member in (c, d, x):
                await member.join(server_assignor=assignor)
            await x.leave()
            await late.join(subscribed_topic_names=[], server_assignor=assignor)
            await look(p, group)
            await c.beat(0, 1, 2)
            await late.beat()
            await x.join(server_assignor=assignor)
            await look(p, group)


@consumer_script()
async def kip848_regex_and_a_member_without_topics(p: Prober) -> None:
    """A member without topics joins, then one with a regular expression, which is resolved only after its join."""
    a, b = Consumer(p=p, conn="A", names=()), Consumer(p=p, conn="B", names=None, regex="prob[e]")
    await a.join()
    await b.join()
    await p.wait(300)
    await a.beat()
    await look(p)
    await b.beat()
    await look(p)


# --- epochs -------------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_epochs(p: Prober) -> None:
    """A member at epoch 2 sends heartbeats with epochs 0 to 4 and 99: the coordinator accepts its own epoch, 0, and the
    previous epoch if all owned partitions are assigned to the member."""
    a, _ = await two(p)
    for epoch in (3, 4, 99):
        await a.beat(0, 1, member_epoch=epoch)
    await a.beat(member_epoch=1)
    await a.beat(member_epoch=1, topic_partitions=[])
    await a.beat(0, member_epoch=1)
    await a.beat(0, 1, member_epoch=1)
    await a.beat(0, 1, 2, member_epoch=1)
    await a.beat(2, member_epoch=1)
    await a.beat(member_epoch=1, topic_partitions=owning(p, 0, topic="probe2"))
    await a.beat(0, 1)
    await a.join()
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_lost_answer_of_a_join(p: Prober) -> None:
    """The response to a join was lost: the member joins again, first with the same id and then with another one."""
    a = Consumer(p=p, conn="A")
    await a.join()
    await a.join()
    await a.join(subscribed_topic_names=["probe", "probe2"])
    await look(p)
    again = Consumer(p=p, conn="B")
    await again.join()
    await look(p)
    await a.join()
    await look(p)


@consumer_script()
async def kip848_joins_again_while_revoking(p: Prober) -> None:
    """A member that has to revoke a partition joins again with epoch 0: it owns no partitions, so nothing has to be
    revoked."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await look(p)
    await a.join()
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_epochs_while_revoking(p: Prober) -> None:
    """A member of a group at epoch 2 has to revoke a partition: it stays at epoch 1, and epoch 2 is refused as too
    high."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await a.beat(0, 1, member_epoch=2)
    await a.commit()
    await b.beat(member_epoch=1)
    await b.commit()
    await b.commit(generation_id_or_member_epoch=1)
    await a.beat(0, 1)
    await a.commit(generation_id_or_member_epoch=1)
    await a.commit()


@consumer_script()
async def kip848_full_requests(p: Prober) -> None:
    """A response has the assignment if the heartbeat has the timeout, the subscription and the owned partitions; if one
    of them is absent, it does not."""
    a = Consumer(p=p, conn="A")
    await a.join()
    everything = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["probe"]}
    await a.beat(0, 1, 2, **everything)
    await a.beat(**everything)
    await a.beat(0, 1, 2, rebalance_timeout_ms=5000)
    await a.beat(0, 1, 2, subscribed_topic_names=["probe"])
    await a.beat(topic_partitions=[], **everything)
    await a.beat(topic_partitions=[], rebalance_timeout_ms=5000, subscribed_topic_regex="")


# --- revoking partitions ------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_null_is_not_empty(p: Prober) -> None:
    """While a partition has to be revoked, null owned partitions mean no change, and an empty list means that all are
    revoked."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat()
    await a.beat()
    await look(p)
    await b.beat()
    await a.beat(0, 1, 2)
    await a.beat(topic_partitions=[])
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_owns_nothing_to_give_up(p: Prober) -> None:
    """A member reports that it does not own a partition that it has to revoke: the coordinator does not wait for it."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1)
    await b.beat()
    c = Consumer(p=p, conn="C")
    await c.join()
    await a.beat(topic_partitions=[])
    await c.beat()
    await look(p)


@consumer_script()
async def kip848_gives_up_in_two_steps(p: Prober) -> None:
    """A member revokes two partitions one after the other: its epoch advances after both, and a third member waits
    too."""
    a, b, c = (Consumer(p=p, conn=conn) for conn in "ABC")
    await a.join()
    await b.join()
    await c.join()
    await a.beat(0, 1, 2)
    await look(p)
    await a.beat(0, 1)
    await b.beat()
    await c.beat()
    await a.beat(0, 2)
    await a.beat(0)
    await b.beat()
    await c.beat()
    await look(p)


@consumer_script()
async def kip848_target_changes_while_revoking(p: Prober) -> None:
    """A new member leaves while a partition is being revoked for it: the revocation completes, then the partition
    returns."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await b.leave()
    await look(p)
    await a.beat()
    await look(p)
    await a.beat(0, 1, 2)
    await a.beat(0, 1)
    await a.beat(0, 1, 2)
    await look(p)


@consumer_script()
async def kip848_does_not_give_up(p: Prober) -> None:
    """A member that does not revoke a partition within the rebalance timeout (1.5 s) is fenced, in spite of its
    heartbeats."""
    a, b = Consumer(p=p, conn="A", rebalance=1500), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await p.wait(900)
    await a.beat(0, 1, 2)
    await b.beat()
    await p.wait(900)
    await look(p)
    await a.beat(0, 1, 2)
    await b.beat()
    await look(p)
    await a.join()


@consumer_script(group_consumer_session_timeout_ms=1000)
async def kip848_session_ends(p: Prober) -> None:
    """Session timeout 1 s: a heartbeat renews the session, a commit or a refused heartbeat does not; a silent member is
    fenced."""
    clients = [Consumer(p=p, conn=conn, group=f"{p.group}-{conn}") for conn in "ABCD"]
    a, b, c, d = clients
    for client in clients:
        await client.join()
    await p.wait(600)
    await a.beat()
    await b.commit()
    await c.beat(member_epoch=9)
    await p.wait(600)
    for client in clients:
        await client.beat()
    await look(p, *(client.group for client in clients))
    await d.join()


@consumer_script(group_consumer_session_timeout_ms=1000)
async def kip848_does_not_give_up_in_silence(p: Prober) -> None:
    """A silent member has 3 s to revoke a partition and a session timeout of 1 s: it is fenced after the session
    timeout, and its commits until then are accepted."""
    a, b = Consumer(p=p, conn="A", rebalance=3000), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await p.wait(700)
    await b.beat()
    await a.commit()
    await p.wait(700)
    await b.beat()
    await a.commit()
    await look(p)


@consumer_script(group_consumer_session_timeout_ms=1000)
async def kip848_session_of_one_of_two(p: Prober) -> None:
    """Session timeout 1 s: one of two members is silent, and the other one gets all partitions with its next
    heartbeat."""
    _, b = await two(p)
    for _ in range(3):
        await p.wait(500)
        await b.beat()
    await look(p)


# --- leaving ------------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_leaving(p: Prober) -> None:
    """Epoch -1 from a member, from the same member again, from an unknown member and for a missing group; other fields
    are ignored."""
    a, b = await two(p)
    await a.leave(member_id="nobody")
    await a.leave(group_id=f"{p.group}-absent")
    await a.leave(instance_id="i")
    await a.leave(rebalance_timeout_ms=5000, subscribed_topic_names=["probe2"], topic_partitions=owning(p, 0, 1))
    await look(p)
    await a.leave()
    await a.beat(member_epoch=2)
    await b.beat(2)
    await look(p)
    await b.leave()
    await look(p)
    await b.leave()
    await b.beat(member_epoch=3)
    await a.join()
    await look(p)


@consumer_script()
async def kip848_leaving_while_revoking(p: Prober) -> None:
    """A member that has a partition to revoke leaves: all of its partitions are free at once."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await a.leave()
    await b.beat()
    await look(p)


# --- static members -----------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_static_members(p: Prober) -> None:
    """The instance id of an active member cannot be used by another join, not even with its own member id; other
    invalid requests for static members."""
    a = Consumer(p=p, conn="A", instance="i")
    b = Consumer(p=p, conn="B", instance="i")
    await a.join()
    await b.join()
    await a.join()
    await a.beat(instance_id="i")
    await a.beat()
    await a.beat(instance_id="other")
    await b.beat(instance_id="i", member_epoch=1)
    await b.beat(member_epoch=1)
    await b.beat(instance_id="nobody", member_epoch=1)
    await b.leave()
    await b.leave(-2)
    await b.leave(-2, instance_id="nobody")
    await a.leave(instance_id=None)
    await look(p)
    await b.join()


@consumer_script()
async def kip848_static_comes_back(p: Prober) -> None:
    """A static member leaves with epoch -2 and returns with a new member id: it gets its partitions at once, and the
    group epoch stays."""
    a, b = await two(p)
    await a.leave()
    c = Consumer(p=p, conn="C", instance="i")
    await c.join()
    await b.beat()
    await look(p)
    await c.leave(-2)
    await look(p)
    await b.beat()
    await c.beat(instance_id="i")
    d = Consumer(p=p, conn="E", instance="i")
    await d.join()
    await look(p)
    await b.beat()
    await c.beat(instance_id="i", member_epoch=4)
    await c.beat(member_epoch=4)
    await c.leave()
    await d.beat(instance_id="i")
    await d.leave()
    await look(p)
    await d.leave()


@consumer_script()
async def kip848_static_same_id_comes_back(p: Prober) -> None:
    """A static member sends epoch -2 and then joins with the same member id; it also sends -2 twice, and -1 after
    -2."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await a.leave(-2)
    await a.leave(-2)
    await a.beat(member_epoch=-2, instance_id="i", topic_partitions=[])
    await a.join()
    await a.leave(-2)
    await a.beat(member_epoch=1, instance_id="i")
    await a.leave()
    await look(p)


@consumer_script()
async def kip848_static_other_subscription(p: Prober) -> None:
    """A static member returns after epoch -2 with a new member id and other topics: the group epoch advances."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await a.leave(-2)
    b = Consumer(p=p, conn="B", instance="i", names=("probe2",))
    await b.join()
    await look(p)


@consumer_script()
async def kip848_static_away_while_another_joins(p: Prober) -> None:
    """A static member is away (epoch -2): a second member gets its share only after the first has returned and revoked
    it."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await a.leave(-2)
    b = Consumer(p=p, conn="B")
    await b.join()
    await look(p)
    await b.beat()
    c = Consumer(p=p, conn="C", instance="i")
    await c.join()
    await look(p)
    await c.beat()
    await b.beat()
    await look(p)


@consumer_script(group_consumer_session_timeout_ms=1000)
async def kip848_static_stays_away(p: Prober) -> None:
    """A static member that does not return within the session timeout (1 s) after epoch -2 is removed, and the others
    get its partitions."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await p.wait(600)
    await a.leave(-2)
    await p.wait(150)
    await look(p)
    await p.wait(500)
    await look(p)
    b = Consumer(p=p, conn="B", instance="i")
    await b.join()
    await b.beat(instance_id="j")


# --- changes that bump the epoch ----------------------------------------------------------------------------------


@consumer_script()
async def kip848_no_bump(p: Prober) -> None:
    """Another rack, timeout or assignor, or the same topic names in another order, does not advance the group epoch."""
    a = Consumer(p=p, conn="A", names=("probe", "probe2"))
    await a.join()
    await a.beat(rack_id="r")
    await a.beat(rebalance_timeout_ms=7000)
    await a.beat(server_assignor="range")
    await look(p)
    await a.beat(subscribed_topic_names=["probe2", "probe"])
    await a.beat(subscribed_topic_names=["probe", "probe2", "probe"])
    await a.beat(subscribed_topic_regex="")
    await look(p)


@consumer_script()
async def kip848_names_change(p: Prober) -> None:
    """Other topic names advance the group epoch, and partitions of topics that are no longer subscribed are revoked
    first."""
    a = Consumer(p=p, conn="A")
    await a.join()
    await a.beat(0, 1, 2, subscribed_topic_names=["probe2"])
    await look(p)
    await a.beat(0, 1, 2)
    await a.beat(topic_partitions=[])
    await look(p)
    await a.beat(subscribed_topic_names=["probe", "probe2"], topic_partitions=owning(p, 0, 1, 2, topic="probe2"))
    await a.beat(subscribed_topic_names=[], topic_partitions=None)
    await look(p)
    await a.beat(topic_partitions=[])
    await look(p)


@consumer_script()
async def kip848_names_change_of_one_of_two(p: Prober) -> None:
    """One of two members subscribes to another topic: the partitions that it revokes are then assigned to the other
    one."""
    a, b = await two(p)
    await b.beat(2, subscribed_topic_names=["probe2"])
    await a.beat()
    await look(p)
    await b.beat(topic_partitions=[])
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_topic_comes_later(p: Prober) -> None:
    """A member subscribes to a topic that does not exist and gets no partitions; once it is created, the next heartbeat
    of any member assigns them."""
    name = f"{p.scenario}-topic"
    a, b = Consumer(p=p, conn="A", names=(name,)), Consumer(p=p, conn="B", names=("probe",))
    await a.join()
    await b.join()
    await a.beat()
    await look(p)
    await create(p, name, 2)
    await look(p)
    await b.beat(0, 1, 2)
    await look(p)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_topic_grows(p: Prober) -> None:
    """Partitions are added to a subscribed topic: the next heartbeat assigns them with a new epoch."""
    name = f"{p.scenario}-topic"
    await create(p, name, 1)
    a = Consumer(p=p, conn="A", names=(name,))
    await a.join()
    await grow(p, name, 3)
    await look(p)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_topic_goes(p: Prober) -> None:
    """A subscribed topic is deleted and created again: its partitions are removed, and the new ones are assigned with a
    new epoch."""
    name = f"{p.scenario}-topic"
    await create(p, name, 2)
    a = Consumer(p=p, conn="A", names=(name, "probe"))
    await a.join()
    await drop(p, name)
    await look(p)
    await a.beat()
    await look(p)
    await a.beat(0, 1, 2)
    await look(p)
    await create(p, name, 1)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_other_topics_do_not_matter(p: Prober) -> None:
    """The creation of a topic to which no member subscribes does not advance the group epoch."""
    a = Consumer(p=p, conn="A")
    await a.join()
    await create(p, f"{p.scenario}-topic", 1)
    await a.beat()
    await look(p)


# --- assignors ----------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_range(p: Prober) -> None:
    """Two members that prefer the range assignor, two topics of three partitions: the first member gets two partitions
    of each topic."""
    a = Consumer(p=p, conn="A", names=("probe", "probe2"))
    b = Consumer(p=p, conn="B", names=("probe", "probe2"))
    await a.join(server_assignor="range")
    await b.join(server_assignor="range")
    await a.beat()
    await look(p)
    await a.beat(topic_partitions=[*owning(p, 0, 1), *owning(p, 0, 1, topic="probe2")])
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_assignors_are_voted_for(p: Prober) -> None:
    """The assignor that most members prefer is used, and members without a preference do not count; a changed
    preference is used from the next epoch."""
    a, b, c = (Consumer(p=p, conn=conn) for conn in "ABC")
    await a.join(server_assignor="range")
    await look(p)
    await b.join(server_assignor="uniform")
    await c.join(server_assignor="uniform")
    await look(p)
    await b.beat(server_assignor="range")
    await look(p)
    d = Consumer(p=p, conn="E")
    await d.join()
    await look(p)


@consumer_script(group_consumer_assignors="range")
async def kip848_other_assignors(p: Prober) -> None:
    """The broker has only the range assignor: it is the default, and uniform is unsupported."""
    a = Consumer(p=p, conn="A")
    await a.join(server_assignor="uniform")
    await a.join()
    await look(p)


@consumer_script(group_consumer_max_size=2)
async def kip848_max_size(p: Prober) -> None:
    """group.consumer.max.size=2: a third member is refused, even as a replacement of a static member that is away; a
    member may join again."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B", instance="i")
    await a.join()
    await b.join()
    c = Consumer(p=p, conn="C")
    await c.join()
    await c.join(instance_id="i")
    await c.join(instance_id="j")
    await c.beat(member_epoch=1)
    await a.join()
    await b.leave(-2)
    await c.join(instance_id="i")
    await c.join()
    await a.leave()
    await c.join()
    await look(p)
    d = Client(p=p, conn="E")
    await p.ask("E", d._join(), 9)
    await p.ask("E", d._join(member_id="made-up-1"), 9)


# --- regular expressions ------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_regex(p: Prober) -> None:
    """A member joins with a regular expression: it has no partitions at first, and all of them once it is resolved."""
    a = Consumer(p=p, conn="A", names=None, regex="prob[e]")
    await a.join()
    await p.wait(300)
    await look(p)
    await a.beat()
    await look(p)
    await a.beat(subscribed_topic_regex="prob[e]")
    await look(p)
    b = Consumer(p=p, conn="B", names=None, regex="prob[e]")
    await b.join()
    await look(p)


@consumer_script()
async def kip848_regex_that_matches_nothing(p: Prober) -> None:
    """A regular expression must match whole topic names; if it matches no topic, its resolution does not advance the
    group epoch."""
    a = Consumer(p=p, conn="A", names=None, regex="pro")
    await a.join()
    await p.wait(300)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_regex_of_a_second_member(p: Prober) -> None:
    """A second regular expression within 10 s of the last resolution is resolved by a heartbeat after that time."""
    a = Consumer(p=p, conn="A", names=None, regex="probe")
    b = Consumer(p=p, conn="B", names=None, regex="probe2")
    await a.join()
    await p.wait(300)
    await a.beat()
    await b.join()
    await p.wait(300)
    await b.beat()
    await look(p)
    await p.wait(4800)
    await a.beat()
    await b.beat()
    await p.wait(5200)
    await b.beat()
    await p.wait(300)
    await look(p)
    await a.beat()
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_regex_changes(p: Prober) -> None:
    """A member that subscribes only by a regular expression changes it: the partitions of the old one are revoked at
    once, and the next heartbeat resolves the new one."""
    a = Consumer(p=p, conn="A", names=None, regex="probe")
    await a.join()
    await p.wait(300)
    await a.beat()
    await a.beat(0, 1, 2, subscribed_topic_regex="probe2")
    await look(p)
    await p.wait(300)
    await a.beat()
    await p.wait(300)
    await look(p)
    await a.beat(topic_partitions=[])
    await look(p)


@consumer_script()
async def kip848_regex_shared(p: Prober) -> None:
    """A member subscribes with the regular expression of another member, which is already resolved, and later clears
    it."""
    a = Consumer(p=p, conn="A", names=None, regex="prob[e]")
    b = Consumer(p=p, conn="B", names=())
    await a.join()
    await p.wait(300)
    await a.beat()
    await b.join()
    await b.beat(subscribed_topic_regex="prob[e]")
    await look(p)
    await b.beat(subscribed_topic_regex="")
    await b.beat(topic_partitions=[])
    await look(p)
    await a.leave()
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_regex_and_internal_topics(p: Prober) -> None:
    """A regular expression that matches every name shows whether internal topics are matched."""
    await Client(p=p, conn="C", group=f"{p.group}-classic").commit(1, generation_id_or_member_epoch=-1, member_id="")
    await p.name_topics(["__consumer_offsets"])
    a = Consumer(p=p, conn="A", names=None, regex="__consumer.*|probe2")
    await a.join()
    await p.wait(600)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_regex_and_names(p: Prober) -> None:
    """A member subscribes to topic names and to a regular expression together; the expression changes and is
    cleared."""
    a = Consumer(p=p, conn="A")
    await a.join()
    await a.beat(subscribed_topic_regex="probe2")
    await p.wait(300)
    await look(p)
    await a.beat()
    await look(p)
    await a.beat(subscribed_topic_regex="probe[3]")
    await look(p)
    await p.wait(300)
    await look(p)
    await a.beat(topic_partitions=owning(p, 0, 1, 2))
    await look(p)
    await a.beat(subscribed_topic_regex="")
    await look(p)
    await a.beat(topic_partitions=owning(p, 0, 1, 2))
    await look(p)


@consumer_script()
async def kip848_regex_cleared(p: Prober) -> None:
    """A member that subscribes only by a regular expression clears it and sets another one."""
    a = Consumer(p=p, conn="A", names=None, regex="probe")
    await a.join()
    await p.wait(300)
    await a.beat()
    await a.beat(subscribed_topic_regex="")
    await look(p)
    await a.beat(topic_partitions=[])
    await look(p)
    await a.beat(subscribed_topic_regex="probe2?")
    await p.wait(300)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_regex_is_known_to_a_static_member(p: Prober) -> None:
    """A static member with a regular expression returns with a new member id: the expression is already resolved, and
    the group epoch stays."""
    a = Consumer(p=p, conn="A", instance="i", names=None, regex="probe")
    await a.join()
    await p.wait(300)
    await a.beat()
    await a.leave(-2)
    await look(p)
    b = Consumer(p=p, conn="B", instance="i", names=None, regex="probe")
    await b.join()
    await look(p)


@consumer_script()
async def kip848_regex_of_re2j(p: Prober) -> None:
    """Regular expressions that RE2 and RE2/J may treat differently, each in its own group."""
    a = Consumer(p=p, conn="A", names=None)
    for n, text in enumerate(
        (
            "(?P<n>a)(?P<n>b)",
            "(?P<n>a)(?<n>b)",
            "(?P<n>a)(?P<m>b)",
            r"\C",
            r"a\Cb",
            r"\\C",
            r"[\\C]",
            r"\Q\C\E",
            r"\Q(?P<n>a)(?P<n>b)\E",
            r"[(?P<n>](?P<n>b)",
            "a{1000}",
            "a{1001}",
            "(?:a{10}){100}",
        )
    ):
        await a.join(group_id=f"{p.group}-{n}", subscribed_topic_regex=text)


@consumer_script()
async def kip848_regex_is_wrong(p: Prober) -> None:
    """Expressions that RE2/J refuses, in a join and in a heartbeat, which then changes nothing."""
    a = Consumer(p=p, conn="A", names=None, regex="probe")
    for wrong in ("((", "[", "*", "a{2,1}", "(?=a)", "(a)\\1", "a**", "\\", "(?<n>a", "[z-a]", "a{1001}", "\\pX"):
        await a.join(subscribed_topic_regex=wrong)
    await look(p)
    await a.join(subscribed_topic_names=["probe"], subscribed_topic_regex=None)
    await a.beat(subscribed_topic_regex="((")
    await a.beat(subscribed_topic_names=["probe2"], subscribed_topic_regex="((")
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_regex_sees_new_topics(p: Prober) -> None:
    """A new topic matches a regular expression: a heartbeat finds it 10 s after the last resolution."""
    name = f"{p.scenario}-topic"
    a = Consumer(p=p, conn="A", names=None, regex="probe|kip848_regex_sees.*")
    await a.join()
    await p.wait(300)
    await a.beat()
    await create(p, name, 1)
    await a.beat()
    await p.wait(300)
    await a.beat()
    await look(p)
    for _ in range(3):
        await p.wait(3300)
        await a.beat()
    await p.wait(300)
    await a.beat()
    await look(p)


# --- describing and listing groups --------------------------------------------------------------------------------


@consumer_script()
async def kip848_described_in_each_state(p: Prober) -> None:
    """ConsumerGroupDescribe v0 and v1, ListGroups and DescribeGroups v4 to v6 of a group that is Empty, Assigning,
    Reconciling and Stable."""
    a, b = Consumer(p=p, conn="A", instance="i"), Consumer(p=p, conn="B")

    async def everything() -> None:
        await look(p, version=0)
        await look(p, version=1)
        await list_groups(p, types=["consumer"])
        for version in (4, 5, 6):
            await look_old(p, version=version)

    await everything()
    await a.join(rack_id="r", server_assignor="range")
    await everything()
    await b.join()
    await everything()
    await b.leave()
    await everything()
    await a.leave()
    await everything()


@consumer_script()
async def kip848_describe_errors(p: Prober) -> None:
    """ConsumerGroupDescribe of a missing group, an empty group id, a classic group, several groups and the same one
    twice; authorized operations."""
    await Consumer(p=p, conn="A").join()
    classic = f"{p.group}-classic"
    await Client(p=p, conn="B", group=classic).stable()
    simple = f"{p.group}-simple"
    await Client(p=p, conn="C", group=simple).commit()
    for version in (0, 1):
        await look(p, "no-such-group", version=version)
        await look(p, "", version=version)
        await look(p, classic, version=version)
        await look(p, simple, version=version)
        await look(p, p.group, operations=True, version=version)
        await look(p, p.group, "no-such-group", "", classic, p.group, version=version)
        await p.ask("D", ConsumerGroupDescribeRequest(group_ids=[]), version)


@consumer_script()
async def kip848_listed(p: Prober) -> None:
    """ListGroups returns the types and states of consumer groups, classic groups and simple groups."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    empty = Consumer(p=p, conn="C", group=f"{p.group}-empty")
    await empty.join()
    await empty.leave()
    await Client(p=p, conn="E", group=f"{p.group}-classic").stable()
    await Client(p=p, conn="F", group=f"{p.group}-simple").commit()
    for types in ([], ["consumer"], ["CONSUMER"], ["classic"], ["consumer", "classic"], ["share"], ["nonsense"]):
        await list_groups(p, types=types)
    for states in (["Reconciling"], ["reconciling"], ["Empty"], ["Assigning"], ["Stable"], ["Stable", "Reconciling"]):
        await list_groups(p, states=states)
    await list_groups(p, states=["empty"], types=["consumer"])
    await list_groups(p, version=4)
    await list_groups(p, states=["Reconciling"], version=4)


@consumer_script()
async def kip848_two_instance_names(p: Prober) -> None:
    """A member joins again with another instance id: the first id stays reserved while the member lives; afterwards it
    belongs to no member and cannot be used."""
    m, n = Consumer(p=p, conn="M", instance="a"), Consumer(p=p, conn="N", instance="a")
    await m.join()
    await m.join(instance_id="b")
    await look(p)
    await n.join()
    await n.beat(member_epoch=1, instance_id="a")
    await m.beat(instance_id="b")
    await m.leave(instance_id="b")
    await look(p)
    await n.join()
    await m.beat(member_epoch=1, instance_id="a")
    await m.leave(instance_id="a")
    await m.leave(-2, instance_id="a")
    c = Client(p=p, conn="C")
    await Consumer(p=p, conn="E").join()
    await c.leave(("", "a"), ("member-m", "a"), ("", "b"))
    await c.beat(member_id="member-m", group_instance_id="a", generation_id=1)
    await p.answer(await p.send("C", c._join(group_instance_id="a"), 9))
    await n.join(instance_id="b")
    await look(p)


@consumer_script()
async def kip848_takes_a_place_while_it_has_one(p: Prober) -> None:
    """A static member replaces another one that is away: it gets the target of that member, and its own partitions are
    unassigned until the next epoch."""
    a, b = Consumer(p=p, conn="A", instance="a"), Consumer(p=p, conn="B", instance="b")
    await b.join()
    await a.join()
    await b.leave(-2)
    await a.join(instance_id="b")
    await look(p)
    await a.beat()
    c = Consumer(p=p, conn="C")
    await c.join()
    await look(p)


@consumer_script()
async def kip848_away_without_an_id(p: Prober) -> None:
    """ConsumerGroupHeartbeat v0 with epoch -2 is refused without the member id; LeaveGroup of an admin needs only the
    instance id."""
    a = Consumer(p=p, conn="A", instance="i", version=0)
    await a.join()
    await a.beat(member_id="", member_epoch=-2, instance_id="i")
    await a.beat(member_id="", member_epoch=-2)
    await a.beat(member_id="", member_epoch=-2, instance_id="other")
    await look(p)
    await Client(p=p, conn="C").leave(("", "i"))
    await look(p)


# --- offsets ------------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_commits(p: Prober) -> None:
    """OffsetCommit v7 to v10 with the epoch of the member, with older and newer ones, with unknown members and without
    a member."""
    a, _ = await two(p)
    for version in (7, 8, 9, 10):
        await a.commit(version)
        for epoch in (1, 3, 0, -1):
            await a.commit(version, generation_id_or_member_epoch=epoch)
        await a.commit(version, member_id="nobody")
        await a.commit(version, member_id="")
        await a.commit(version, member_id="", generation_id_or_member_epoch=-1)
        await a.commit(version, group_instance_id="i")
        await a.commit(version, group_id=f"{p.group}-absent")
    await a.fetch()


@consumer_script()
async def kip848_commits_of_a_static_member(p: Prober) -> None:
    """OffsetCommit of a static member ignores the instance id; also while the member is away."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await a.commit()
    await a.commit(group_instance_id=None)
    await a.commit(group_instance_id="other")
    await a.commit(member_id="nobody")
    await a.leave(-2)
    await a.commit(generation_id_or_member_epoch=1)
    await a.commit(generation_id_or_member_epoch=-2)
    await a.commit(member_id="", group_instance_id=None, generation_id_or_member_epoch=-1)


@consumer_script()
async def kip848_commits_to_an_empty_group(p: Prober) -> None:
    """After all members have left, a commit without an epoch is accepted, and a commit of a former member is
    refused."""
    a = Consumer(p=p, conn="A")
    await a.join()
    await a.leave()
    for version in (8, 9):
        for member_id, epoch in (("", -1), ("nobody", -1), ("member-a", 1), ("", 0), ("nobody", 2)):
            await a.commit(version, member_id=member_id, generation_id_or_member_epoch=epoch)


@consumer_script()
async def kip848_fetches(p: Prober) -> None:
    """OffsetFetch v8 to v10 with the epoch of the member, with other epochs, of unknown members, without a member, and
    of a missing group."""
    a, _ = await two(p)
    await a.commit()
    await p.wait(100)
    await a.fetch(8, member_id=None, member_epoch=-1)
    for version in (9, 10):
        await a.fetch(version)
        for epoch in (1, 3, 0, -1):
            await a.fetch(version, member_epoch=epoch)
        await a.fetch(version, member_id="nobody")
        await a.fetch(version, member_id="nobody", member_epoch=-1)
        await a.fetch(version, member_id="")
        await a.fetch(version, member_id="", member_epoch=-1)
        await a.fetch(version, member_id=None)
        await a.fetch(version, member_id=None, member_epoch=-1)
        await a.fetch(version, topics=None)
        await a.fetch(version, member_id=None, member_epoch=-1, topics=None)
        await a.fetch(version, group_id=f"{p.group}-absent")
        await a.fetch(version, group_id=f"{p.group}-absent", member_id=None, member_epoch=-1)


@consumer_script()
async def kip848_offsets_deleted(p: Prober) -> None:
    """OffsetDelete of topics that are subscribed by name or by regular expression, and of other topics; DeleteGroups;
    then the same requests for the empty group."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B", names=None, regex="probe2")
    await a.join()
    await b.join()
    await p.wait(300)
    await a.beat()
    await b.beat()
    await a.commit()
    await a.commit(topic="probe2")

    async def delete() -> None:
        kind = OffsetDeleteRequest.Topic
        place = kind.Partition(partition_index=0)
        for topic in ("probe", "probe2", "no-such-topic"):
            request = OffsetDeleteRequest(group_id=p.group, topics=[kind(name=topic, partitions=[place])])
            await p.ask("O", request, 0)
        await p.ask("O", DeleteGroupsRequest(groups_names=[p.group]), 2)

    await delete()
    await a.leave()
    await b.leave()
    await a.commit(generation_id_or_member_epoch=-1, member_id="")
    await delete()
    await trio.sleep(0.1)
    await look(p)
    await a.fetch(member_id=None, member_epoch=-1)


# --- topics by id -------------------------------------------------------------------------------------------------


@script(releases=(NEW,))
async def metadata_by_topic_id(p: Prober) -> None:
    """Metadata v10 to v13 by topic id, as consumers resolve their assignments: an existing id, an unknown one, the zero
    id, the id of a deleted topic, and an id together with a name."""
    kind = MetadataRequest.Topic
    await create(p, "probe3", 2)
    ids = {name: topic_id(p, name) for name in ("probe", "probe3")}
    unknown = UUID(int=77)
    for version in (10, 11, 12, 13):
        for asked in (ids["probe"], unknown, UUID(int=0)):
            await p.ask("A", MetadataRequest(topics=[kind(topic_id=asked, name=None)]), version)
        many = [kind(topic_id=asked, name=None) for asked in (ids["probe3"], unknown, ids["probe"])]
        await p.ask("A", MetadataRequest(topics=many), version)
    await p.ask("A", MetadataRequest(topics=[kind(topic_id=ids["probe"], name="probe2")]), 12)
    await p.ask("A", MetadataRequest(topics=[kind(topic_id=unknown, name="probe2")]), 12)
    both = [kind(topic_id=ids["probe"], name=None), kind(name="probe2")]
    await p.ask("A", MetadataRequest(topics=both), 12)
    await drop(p, "probe3")
    await p.ask("A", MetadataRequest(topics=[kind(topic_id=ids["probe3"], name=None)]), 12)

"""Conversations about classic groups and other APIs, which record.py records; each function is one conversation."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import trio
from prober import MORE, RANGE, ROUND_ROBIN, SHARE, Client, Prober
from script import NEW, script

from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

DELAY = {"group.initial.rebalance.delay.ms": 1000}
TWO_AT_MOST = {"group.max.size": 2}


async def describe(p: Prober, *groups: str, version: int = 5, conn: str = "D") -> None:
    await trio.sleep(0.1)  # Kafka 4 returns only state that is already written
    await p.ask(conn, DescribeGroupsRequest(groups=list(groups or [p.group])), version)


async def fetch(p: Prober, group: str = "", topic: str = "probe", conn: str = "D", version: int = 7) -> None:
    requested = OffsetFetchRequest.Topic(name=topic, partition_indexes=[0, 1])
    await p.ask(conn, OffsetFetchRequest(group_id=group or p.group, topics=[requested]), version)


async def together(a: Client, b: Client) -> None:
    """Let ``b`` join the stable group of ``a``: both get a generation with the leader ``a``, and none has synced."""
    parked = await b.join()
    again = await a.join()
    await a.joined(again)
    await b.joined(parked)


async def pair(p: Prober, **both: object) -> tuple[Client, Client]:
    """Return a Stable group of two: A leads and has all partitions."""
    a, b = Client(p=p, conn="A", **both), Client(p=p, conn="B", **both)
    await a.stable()
    await together(a, b)
    await a.synced({a.member_id: SHARE, b.member_id: b""})
    await b.synced()
    return a, b


# --- the initial delay --------------------------------------------------------------------------------------------


@script(DELAY)
async def delay_two_joiners(p: Prober) -> None:
    """Initial rebalance delay of 1 s, and a second member joins during it: both get responses after 2 s, and the first
    one is the leader."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B")
    await a.get_id()
    await b.get_id()
    first = await a.join()
    await p.wait(300)
    second = await b.join()
    await p.silent(first, 1700)
    await a.joined(first)
    await b.joined(second)


@script(DELAY)
async def delay_heartbeats_of_the_parked(p: Prober) -> None:
    """While the first JoinGroup of a group is pending, its member may send heartbeats with generation 0."""
    a = Client(p=p, conn="A")
    parked = await a.join()
    for generation in (0, -1, 1):
        await a.beat(conn="B", generation_id=generation)
    await a.beat(conn="B", generation_id=0, member_id="nobody")
    await describe(p)
    await a.joined(parked)


@script(DELAY)
async def delay_outlives_who_leaves(p: Prober) -> None:
    """The only joining member leaves during the initial rebalance delay: its JoinGroup gets a response at once, but the
    group is empty only after the delay."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B")
    parked = await a.join()
    await a.leave(conn="C")
    await p.answer(parked)
    await describe(p)
    await p.wait(1200)
    await describe(p)
    await b.enter()


@script(DELAY)
async def delay_again_after_empty(p: Prober) -> None:
    """A group has become empty after its first generation: a second joining member extends the initial delay in 4.2,
    but not in 3.9."""
    a, b, c = (Client(p=p, conn=conn) for conn in "ABC")
    await a.stable()
    await a.leave()
    await b.get_id()
    await c.get_id()
    first = await b.join()
    await p.wait(300)
    second = await c.join()
    await b.joined(first)
    await c.joined(second)


# --- group.max.size -----------------------------------------------------------------------------------------------


@script(DELAY | TWO_AT_MOST)
async def max_size_of_ids(p: Prober) -> None:
    """group.max.size=2 and three member ids from an empty group: the third member that joins is refused."""
    a, b, c = (Client(p=p, conn=conn) for conn in "ABC")
    for client in (a, b, c):
        await client.get_id()
    first = await a.join()
    second = await b.join()
    third = await c.join()
    await p.answer(third)
    await a.joined(first)
    await b.joined(second)
    await describe(p)


@script(TWO_AT_MOST)
async def max_size_full(p: Prober) -> None:
    """group.max.size=2 and a group of two members: every new member is refused; a member may join again."""
    a, b = await pair(p)
    c = Client(p=p, conn="C")
    await p.ask("C", c._join(), 9)
    await p.ask("C", c._join(member_id="made-up-1"), 9)
    await p.ask("C", c._join(group_instance_id="i"), 9)
    await p.ask("C", c._join(protocols=[("other", b"")]), 9)
    await b.enter()
    again = await a.join(protocols=[MORE])
    await p.ask("C", c._join(), 9)
    parked = await b.join()
    await a.joined(again)
    await b.joined(parked)


@script(TWO_AT_MOST)
async def max_size_while_preparing(p: Prober) -> None:
    """group.max.size=2 in PreparingRebalance: the members that join first are accepted, and the old leader joins too
    late. Its refusal completes the rebalance in 3.9, not in 4.2."""
    a, b, c, d = (Client(p=p, conn=conn) for conn in "ABCD")
    await a.stable()
    await b.get_id()
    await c.get_id()
    first = await b.join()
    await d.get_id()
    second = await c.join()
    late = await a.join()
    await p.answer(late)
    third = await d.join()
    await p.answer(third)
    if p.release == NEW:
        await p.silent(first, 1200)
        await p.silent(second, 1300)
    await describe(p, conn="E")


# --- pending member ids -------------------------------------------------------------------------------------------


@script()
async def id_given_holds_completion(p: Prober) -> None:
    """A client gets a member id and disappears: a rebalance waits for it until its session timeout (2 s) ends."""
    a, b, gone = Client(p=p, conn="A"), Client(p=p, conn="B"), Client(p=p, conn="C", session=2000)
    await a.stable()
    await gone.get_id()
    await b.get_id()
    parked = await b.join()
    again = await a.join()
    await p.silent(again, 800)
    await a.joined(again)
    await b.joined(parked)


@script()
async def id_given_is_nobody(p: Prober) -> None:
    """Other requests with a member id that was assigned but has not joined fail with UNKNOWN_MEMBER_ID; LeaveGroup
    removes it."""
    a = Client(p=p, conn="A")
    await a.get_id()
    await describe(p)
    await a.beat(generation_id=0)
    await a.synced(generation_id=0)
    await a.commit(generation_id_or_member_epoch=0)
    await a.leave()
    await a.enter()


@script()
async def id_given_expires(p: Prober) -> None:
    """A member id that is not used within the session timeout (600 ms) expires."""
    a = Client(p=p, conn="A", session=600)
    await a.get_id()
    await p.wait(1000)
    await a.enter()


@script()
async def id_given_with_instance(p: Prober) -> None:
    """A static member joins with a member id that was assigned to a dynamic member."""
    a = Client(p=p, conn="A")
    await a.get_id()
    await p.answer(await a.join(group_instance_id="i"))
    await a.enter()


@script()
async def id_given_disturbs_nobody(p: Prober) -> None:
    """A third client only gets a member id: the heartbeats of the two members still succeed. When it joins, Heartbeat
    and SyncGroup return REBALANCE_IN_PROGRESS, and a commit is accepted."""
    a, b = await pair(p)
    c = Client(p=p, conn="C")
    await c.get_id()
    await a.beat()
    await b.beat()
    parked = await c.join()
    await a.beat()
    await b.beat()
    await a.synced()
    await a.commit()
    await describe(p)
    first = await a.join()
    second = await b.join()
    await a.joined(first)
    await b.joined(second)
    await c.joined(parked)


# --- delayed requests ---------------------------------------------------------------------------------------------


@script()
async def parked_join_leaves(p: Prober) -> None:
    """A member with a pending JoinGroup leaves on another connection: the JoinGroup gets a response, and the rebalance
    ends."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B")
    await a.stable()
    parked = await b.join()
    await b.leave(conn="C")
    await p.answer(parked)
    await a.beat()
    await a.enter()
    await a.synced({a.member_id: SHARE})


@script()
async def parked_join_loses_its_socket(p: Prober) -> None:
    """The connection of a pending JoinGroup is closed: the member stays and is in the next member list of the
    leader."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B", session=1500)
    await a.stable()
    await b.join()
    await p.close("B")
    await a.enter()
    await describe(p)
    await a.synced({a.member_id: SHARE, b.member_id: b""})
    await b.beat(conn="C", generation_id=2)


@script()
async def parked_sync_and_a_leave(p: Prober) -> None:
    """A follower leaves while the SyncGroup of another one is pending: that SyncGroup returns REBALANCE_IN_PROGRESS."""
    a, b = await pair(p)
    c = Client(p=p, conn="C")
    parked = await c.join()
    first = await a.join()
    second = await b.join()
    await a.joined(first)
    await b.joined(second)
    await c.joined(parked)
    held = await b.sync()
    await p.silent(held)
    await c.leave()
    await p.answer(held)
    await a.beat()


@script()
async def parked_sync_outlives_the_session(p: Prober) -> None:
    """A member with a pending SyncGroup does not expire, even after its session timeout (1 s)."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B", session=1000)
    await a.stable()
    await together(a, b)
    held = await b.sync()
    await p.silent(held, 2200)
    await a.synced({a.member_id: SHARE, b.member_id: b"own"})
    await p.answer(held)
    await b.beat()


@script()
async def parked_sync_again(p: Prober) -> None:
    """A member sends a second SyncGroup while its first one is pending: only the second one gets a response."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B")
    await a.stable()
    await together(a, b)
    first = await b.sync()
    again = Client(p=p, conn="C", member_id=b.member_id, generation=b.generation)
    second = await again.sync()
    await a.synced({a.member_id: SHARE, b.member_id: b"own"})
    await p.answer(second)
    await p.never(first, 1000)


# --- members that do not rejoin -----------------------------------------------------------------------------------


@script()
async def never_syncs(p: Prober) -> None:
    """A member that sends heartbeats but never SyncGroup is removed after the rebalance timeout (1.5 s); the next
    generation is higher by two."""
    a = Client(p=p, conn="A", rebalance=1500)
    await a.enter()
    for _ in range(2):
        await p.wait(400)
        await a.beat()
    await p.wait(1200)
    await a.beat()
    await describe(p)
    b = Client(p=p, conn="B")
    await b.enter()


@script()
async def never_rejoins(p: Prober) -> None:
    """Rebalance timeouts of 2 s and 1 s: a member that sends heartbeats and does not rejoin is removed after 2 s, and
    the other one leads."""
    a, b = Client(p=p, conn="A", rebalance=2000), Client(p=p, conn="B", rebalance=1000)
    await a.stable()
    parked = await b.join()
    await p.wait(700)
    await a.beat()
    await p.wait(700)
    await a.beat()
    await b.joined(parked)
    await a.beat()


@script()
async def old_joins_have_one_timeout(p: Prober) -> None:
    """JoinGroup v0 has no rebalance timeout: the coordinator uses the session timeout (1.2 s) of the members
    instead."""
    a = Client(p=p, conn="A", session=1200, join_version=0, sync_version=0)
    b = Client(p=p, conn="B", session=1200, join_version=0, sync_version=0)
    await a.stable()
    parked = await b.join()
    await p.wait(500)
    await a.beat()
    await b.joined(parked)
    await a.beat()


@script()
async def session_what_renews_it(p: Prober) -> None:
    """Session timeout 1.2 s in Stable: which of a SyncGroup (in 3.9 only), an accepted commit and a refused commit
    renews the session."""
    clients = [Client(p=p, conn=conn, group=f"{p.group}-{conn}", session=1200) for conn in "ABC"]
    for client in clients:
        await client.stable()
    await p.wait(700)
    a, b, c = clients
    await a.synced()
    await b.commit()
    await c.commit(generation_id_or_member_epoch=9)
    await p.wait(750)
    for client in clients:
        await client.beat()


@script()
async def session_while_preparing(p: Prober) -> None:
    """Session timeout 1.2 s in PreparingRebalance: an accepted commit, or a heartbeat that returns
    REBALANCE_IN_PROGRESS, renews the session."""
    pairs = [
        (Client(p=p, conn=one, group=f"{p.group}-{one}", session=1200), Client(p=p, conn=two, group=f"{p.group}-{one}"))
        for one, two in ("AX", "BY")
    ]
    for old, new in pairs:
        await old.stable()
        await new.join()
    (a, _), (b, _) = pairs
    await p.wait(500)
    await a.commit()
    await b.beat()
    await p.wait(800)
    await a.beat()
    await b.beat()


@script()
async def session_while_completing(p: Prober) -> None:
    """Session timeout 1.2 s in CompletingRebalance: a commit is refused and does not renew the session."""
    a = Client(p=p, conn="A", session=1200)
    await a.enter()
    await p.wait(700)
    await a.commit()
    await p.wait(750)
    await a.beat()


# --- static members -----------------------------------------------------------------------------------------------


@script()
async def static_leader_restarts_v5(p: Prober) -> None:
    """JoinGroup v5: a static leader returns with other metadata, and the group stays Stable; the response names its old
    member id as the leader, and the member gets the old assignment."""
    a = Client(p=p, conn="A", instance="i1", join_version=5, sync_version=3)
    b = Client(p=p, conn="B", instance="i2", join_version=5, sync_version=3)
    await a.stable()
    await together(a, b)
    await a.synced({a.member_id: SHARE, b.member_id: b"own"})
    await b.synced()
    new = Client(p=p, conn="C", instance="i1", join_version=5, sync_version=3, protocols=(MORE,))
    await new.enter()
    await new.synced()
    await a.beat()
    await a.beat(group_instance_id=None)
    await new.beat(group_instance_id="nobody")
    await describe(p)
    await new.leave((a.member_id, "i1"))
    await new.leave(("", "i1"))
    await b.beat()


@script()
async def static_joins_twice(p: Prober) -> None:
    """A static member joins a second time while its first JoinGroup is pending: the first is fenced, the second is
    accepted."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B", instance="i")
    await a.stable()
    first = await b.join()
    twin = Client(p=p, conn="C", instance="i")
    second = await twin.join()
    await p.answer(first)
    await a.enter()
    await twin.joined(second)
    await twin.synced(member_id="made-up-1")
    held = await twin.sync()
    await a.synced({a.member_id: SHARE, twin.member_id: b"own"})
    await p.answer(held)


@script()
async def static_sync_is_fenced(p: Prober) -> None:
    """A static follower is replaced while its SyncGroup is pending: the SyncGroup is fenced, and the group
    rebalances."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B", instance="i")
    await a.stable()
    await together(a, b)
    held = await b.sync()
    twin = Client(p=p, conn="C", instance="i")
    parked = await twin.join()
    await p.answer(held)
    await a.beat()
    await a.enter()
    await twin.joined(parked)


@script()
async def static_leader_replaced_while_completing(p: Prober) -> None:
    """A static leader restarts in CompletingRebalance: its JoinGroup waits for the others, the pending SyncGroup
    returns REBALANCE_IN_PROGRESS, and the new member id becomes the leader."""
    a, b = Client(p=p, conn="A", instance="i1"), Client(p=p, conn="B", instance="i2")
    await a.stable()
    await together(a, b)
    held = await b.sync()
    new = Client(p=p, conn="C", instance="i1")
    parked = await new.join()
    await p.answer(held)
    await a.beat()
    await b.enter()
    await new.joined(parked)


@script()
async def static_replacement_changes_the_protocol(p: Prober) -> None:
    """A static member returns without the selected protocol: a new generation uses a protocol that all members
    support."""
    both = (RANGE, ROUND_ROBIN)
    a = Client(p=p, conn="A", instance="i1", protocols=both)
    b = Client(p=p, conn="B", instance="i2", protocols=both)
    await a.stable()
    await together(a, b)
    await a.synced({a.member_id: SHARE, b.member_id: b""})
    await b.synced()
    new = Client(p=p, conn="C", instance="i2", protocols=(ROUND_ROBIN,))
    parked = await new.join()
    await a.beat()
    await a.enter()
    await new.joined(parked)


@script()
async def static_absentees_stay(p: Prober) -> None:
    """Two static members do not rejoin: after the rebalance timeout (1.5 s) they are still in the member list of the
    one that did. No member syncs: after another 1.5 s all members are removed."""
    a = Client(p=p, conn="A", instance="i1", rebalance=1500)
    b = Client(p=p, conn="B", instance="i2", rebalance=1500)
    c = Client(p=p, conn="C", rebalance=1500)
    await a.stable()
    await together(a, b)
    await a.synced({a.member_id: SHARE, b.member_id: b""})
    await b.synced()
    parked = await c.join()
    await c.joined(parked)
    await describe(p)
    await p.wait(1900)
    await describe(p)
    await a.beat()


@script()
async def static_all_absent(p: Prober) -> None:
    """All remaining members are static and absent: the rebalance is extended after its timeout (1 s) until one
    returns."""
    a = Client(p=p, conn="A", instance="i1", rebalance=1000)
    b = Client(p=p, conn="B", instance="i2", rebalance=1000)
    await a.stable()
    await together(a, b)
    await a.synced({a.member_id: SHARE, b.member_id: b""})
    await b.synced()
    c = Client(p=p, conn="C", rebalance=1000)
    parked = await c.join()
    await c.leave(conn="D")
    await p.answer(parked)
    await p.wait(1300)
    await describe(p)
    await a.beat()
    first = await b.join()
    await a.enter()
    await b.joined(first)


@script()
async def static_needs_no_id(p: Prober) -> None:
    """JoinGroup of a static member never fails with MEMBER_ID_REQUIRED, in any version; a made-up member id is
    unknown."""
    for version in range(5, 10):
        a = Client(p=p, conn=f"v{version}", instance="i", group=f"{p.group}-v{version}", join_version=version)
        await p.answer(await a.join(member_id="made-up-1"))
        await a.enter()
        await a.beat(member_id="made-up-1")


@script()
async def static_identity(p: Prober) -> None:
    """Every mismatch of member id and instance id, in every request that has both."""
    a = Client(p=p, conn="A", instance="i")
    other = Client(p=p, conn="B")
    await a.stable()
    await together(a, other)
    await a.synced({a.member_id: SHARE})
    await other.synced()
    wrong: list[tuple[str, str | None]] = [
        (a.member_id, None),
        (a.member_id, "nobody"),
        ("made-up-1", "i"),
        ("made-up-1", None),
        (other.member_id, "i"),
        ("", "i"),
        ("", None),
    ]
    for member_id, instance in wrong:
        names = {"member_id": member_id, "group_instance_id": instance}
        await a.beat(**names)
        await a.synced(**names)
        await a.commit(**names)
        if (member_id, instance) not in ((a.member_id, None), ("", "i")):
            await a.leave((member_id, instance))
    await a.leave(("made-up-1", None), ("", "nobody"), (other.member_id, None), ("", "i"))
    await describe(p)


# --- choice of the protocol, order of checks ----------------------------------------------------------------------


@script()
async def votes_are_equal(p: Prober) -> None:
    """One vote each for range and roundrobin: 4.2 selects range, 3.9 roundrobin."""
    a = Client(p=p, conn="A", protocols=(RANGE, ROUND_ROBIN))
    b = Client(p=p, conn="B", protocols=(ROUND_ROBIN, RANGE))
    await a.stable()
    await together(a, b)


@script()
async def votes_decide(p: Prober) -> None:
    """Two of three members prefer sticky, which the third does not support: their votes count for roundrobin, their
    first protocol that all members support."""
    sticky = ("sticky", RANGE[1])
    a = Client(p=p, conn="A", protocols=(RANGE, ROUND_ROBIN))
    b = Client(p=p, conn="B", protocols=(sticky, ROUND_ROBIN, RANGE))
    c = Client(p=p, conn="C", protocols=(sticky, ROUND_ROBIN, RANGE))
    await a.stable()
    first = await b.join()
    second = await c.join()
    await a.enter()
    await b.joined(first)
    await c.joined(second)


@script()
async def leader_rejoins_while_completing(p: Prober) -> None:
    """The leader joins again in CompletingRebalance, first with the same metadata and then with other metadata."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B")
    await a.stable()
    await together(a, b)
    await a.enter()
    held = await b.sync()
    parked = await a.join(protocols=[MORE])
    await p.answer(held)
    await b.enter()
    await a.joined(parked)


@script()
async def kind_changes_when_empty(p: Prober) -> None:
    """An empty group keeps its protocol type, but the next member may join with another type."""
    a, b = Client(p=p, conn="A"), Client(p=p, conn="B", kind="connect", protocols=(("sessioned", b"x"),))
    await a.stable()
    await p.ask("B", b._join(), 9)
    await a.leave()
    await describe(p)
    await b.enter()
    await describe(p)


@script()
async def order_of_checks(p: Prober) -> None:
    """Requests with two mistakes show which error the broker returns."""
    a = Client(p=p, conn="A")
    await p.ask("A", a._join(group_id="", session_timeout_ms=1), 9)
    await p.ask("A", a._join(group_id=f"{p.group}-absent", session_timeout_ms=1, member_id="made-up-1"), 9)
    await p.ask("A", a._join(session_timeout_ms=1, protocols=[]), 9)
    await a.stable()
    await p.ask("A", a._join(member_id="made-up-1", protocols=[("other", b"")]), 9)
    await p.ask("A", a._join(member_id="made-up-1", protocol_type="other"), 9)
    await a.synced(group_id="", protocol_type=None)
    await a.synced(member_id="made-up-1", protocol_name=None)
    await a.synced(member_id="made-up-1", generation_id=9)
    await a.synced(generation_id=9, protocol_name="other")
    await a.beat(member_id="made-up-1", generation_id=9)
    await a.commit(member_id="made-up-1", generation_id_or_member_epoch=9)
    b = Client(p=p, conn="B")
    await b.join()
    await a.synced(protocol_name="other")
    await a.synced(generation_id=9)


# --- offsets ------------------------------------------------------------------------------------------------------


@script()
async def commit_to_no_group(p: Prober) -> None:
    """OffsetCommit with a generation to a missing group: GROUP_ID_NOT_FOUND in 4.2 from v9 on, otherwise
    ILLEGAL_GENERATION."""
    a = Client(p=p, conn="A")
    for version in range(5, 10):
        for generation in (0, 1):
            await a.commit(version=version, generation_id_or_member_epoch=generation, member_id="made-up-1")
    await a.commit(version=9, generation_id_or_member_epoch=-1, member_id="")
    await fetch(p)


@script()
async def commit_long_metadata(p: Prober) -> None:
    """offset.metadata.max.bytes (4096) counts UTF-16 units; empty and null metadata are the same."""
    a = Client(p=p, conn="A")
    for text in ("x" * 4096, "x" * 4097, "é" * 4096, "é" * 4097, "😀" * 2048, "😀" * 2049, "", None):
        await a.commit(metadata=text)
    await fetch(p)


@script(releases=(NEW,))
async def offsets_by_topic_id(p: Prober) -> None:
    """OffsetCommit and OffsetFetch v10 by topic id: existing, unknown and zero ids."""
    known = next(UUID(bytes=_uuid(text)) for text, label in p.names.items() if label == "$topic:probe")
    for topic in (known, UUID(int=7), UUID(int=0)):
        place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5, committed_metadata="")
        far = OffsetCommitRequest.Topic.Partition(partition_index=9, committed_offset=5, committed_metadata="")
        named = OffsetCommitRequest.Topic(topic_id=topic, partitions=[place, far])
        await p.ask("A", OffsetCommitRequest(group_id=p.group, topics=[named]), 10)
    for topic in (known, UUID(int=7), UUID(int=0)):
        wanted = OffsetFetchRequest.Group.Topic(topic_id=topic, partition_indexes=[0, 1])
        group = OffsetFetchRequest.Group(group_id=p.group, topics=[wanted])
        await p.ask("A", OffsetFetchRequest(groups=[group]), 10)
    await p.ask("A", OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=p.group, topics=None)]), 10)


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


async def delete_offsets(p: Prober, topic: str, *partitions: int, group: str = "") -> None:
    places = [OffsetDeleteRequest.Topic.Partition(partition_index=n) for n in partitions]
    topics = [OffsetDeleteRequest.Topic(name=topic, partitions=places)]
    await p.ask("O", OffsetDeleteRequest(group_id=group or p.group, topics=topics), 0)


@script()
async def offset_delete_states(p: Prober) -> None:
    """OffsetDelete of a missing group, of an empty group, and of groups whose members subscribe to the topic, subscribe
    to another topic, have invalid metadata or are not consumers."""
    await delete_offsets(p, "probe", 0)
    a = Client(p=p, conn="A")
    await a.stable()
    await a.commit(topic="probe")
    await a.commit(topic="probe2")
    await delete_offsets(p, "probe", 0, 9)
    await delete_offsets(p, "probe2", 0, 1, 9)
    await delete_offsets(p, "no-such-topic", 0)
    await fetch(p, topic="probe2")
    await a.leave()
    await delete_offsets(p, "probe", 0, 1, 9)
    await fetch(p)
    odd = Client(p=p, conn="B", group=f"{p.group}-odd", protocols=(("range", b"?"),))
    await odd.stable()
    await delete_offsets(p, "probe2", 0, group=odd.group)
    connect = Client(p=p, conn="C", group=f"{p.group}-connect", kind="connect", protocols=(("default", b"x"),))
    await connect.stable()
    await delete_offsets(p, "probe", 0, group=connect.group)
    await delete_offsets(p, "no-such-topic", 9, group=connect.group)
    await p.ask("O", DeleteGroupsRequest(groups_names=[p.group, connect.group, "no-such-group"]), 2)


@script()
async def offsets_of_a_deleted_topic(p: Prober) -> None:
    """The offsets of a topic are deleted with the topic, and do not return when a topic of the same name is created."""
    name = f"{p.scenario}-topic"
    made = CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1)])
    await p.ask("A", made, 4)
    await p.wait(300)
    a = Client(p=p, conn="A")
    await a.commit(topic=name)
    await a.commit(topic="probe")
    await fetch(p, topic=name)
    await p.ask("A", DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 4)
    await p.wait(500)
    await fetch(p, topic=name)
    await a.commit(topic=name)
    await p.ask("A", made, 4)
    await p.wait(300)
    await fetch(p, topic=name)
    await p.ask("D", OffsetFetchRequest(group_id=p.group, topics=None), 7)


# --- describing and listing groups --------------------------------------------------------------------------------


@script(releases=(NEW,))
async def describe_in_version_6(p: Prober) -> None:
    """DescribeGroups v6: a missing group has an error with a message; a group that is named twice is returned twice."""
    await describe(p, "no-such-group", version=6)
    a = Client(p=p, conn="A")
    await a.get_id()
    await describe(p, version=6)
    await a.stable()
    await describe(p, p.group, p.group, version=6)
    request = DescribeGroupsRequest(groups=[p.group], include_authorized_operations=True)
    await p.ask("D", request, 6)


@script()
async def describe_while_rebalancing(p: Prober) -> None:
    """DescribeGroups of two members during a rebalance: which metadata and assignment it returns in each state."""
    a, b = await pair(p)
    await describe(p)
    again = await a.join()
    await describe(p)
    second = await b.join()
    await a.joined(again)
    await b.joined(second)
    await describe(p)
    await a.synced({b.member_id: SHARE})
    await describe(p)


@script()
async def list_filters(p: Prober) -> None:
    """ListGroups with filters: states and types in upper and lower case, unknown ones, several and none."""
    _, b = await pair(p)
    empty = Client(p=p, conn="C", group=f"{p.group}-empty")
    await empty.commit()
    await trio.sleep(0.1)
    for states in (["Stable"], ["sTABLE"], ["Empty"], ["Stable", "empty"], ["Dead"], ["Nonsense"], ["Stable", "x"]):
        await p.ask("L", ListGroupsRequest(states_filter=states), 4)
    for types in (["classic"], ["CLASSIC"], ["consumer"], ["nonsense"], ["classic", "consumer"]):
        await p.ask("L", ListGroupsRequest(types_filter=types), 5)
    await p.ask("L", ListGroupsRequest(states_filter=["stable"], types_filter=["classic"]), 5)
    await b.join(protocols=[MORE])
    await trio.sleep(0.1)
    await p.ask("L", ListGroupsRequest(states_filter=["preparingrebalance"]), 5)


@script()
async def leave_many(p: Prober) -> None:
    """LeaveGroup of several members at once: members, unknown ones, the same one twice, a member id that has not
    joined."""
    a, b = await pair(p)
    c = Client(p=p, conn="C")
    await c.get_id()
    await a.leave(
        ("made-up-1", None), (b.member_id, None), (b.member_id, None), (c.member_id, None), ("", None), ("", "nobody")
    )
    await a.beat()
    await a.enter()
    await p.answer(await c.join())
    await a.leave()
    await describe(p)


# --- the cluster --------------------------------------------------------------------------------------------------


@script()
async def leader_epochs(p: Prober) -> None:
    """OffsetForLeaderEpoch: the epoch of an empty log, newer and older epochs, missing partitions."""
    kind = OffsetForLeaderEpochRequest.Topic
    for version in (2, 3, 4):
        for current, wanted in ((-1, 0), (0, 0), (0, 5), (5, 0), (-1, -1)):
            place = kind.Partition(partition=0, current_leader_epoch=current, leader_epoch=wanted)
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic="probe", partitions=[place])])
            await p.ask("A", request, version)
        for topic, partition in (("probe", 9), ("no-such-topic", 0)):
            place = kind.Partition(partition=partition, current_leader_epoch=0, leader_epoch=0)
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic=topic, partitions=[place])])
            await p.ask("A", request, version)


@script()
async def configs_described(p: Prober) -> None:
    """DescribeConfigs: selected keys of a topic and of the broker, unknown keys, missing resources."""
    kind = DescribeConfigsRequest.Resource
    resources = [
        (2, "probe", ["cleanup.policy", "retention.ms"]),
        (2, "probe", ["no.such.key"]),
        (2, "no-such-topic", None),
        (2, "bad/name", None),
        (2, "", None),
        (4, "1", ["group.min.session.timeout.ms", "num.partitions"]),
        (4, "7", None),
        (4, "x", None),
        (99, "x", None),
    ]
    for version in (1, 2, 4):
        for number, name, keys in resources:
            wanted = kind(resource_type=number, resource_name=name, configuration_keys=keys)
            await p.ask("A", DescribeConfigsRequest(resources=[wanted]), version)


@script()
async def cluster_described(p: Prober) -> None:
    """DescribeCluster in the versions that both releases support, with the endpoint types brokers, controllers and an
    unknown one."""
    for version, endpoint in ((0, 1), (1, 1), (1, 2), (1, 7)):
        request = DescribeClusterRequest(endpoint_type=endpoint) if version else DescribeClusterRequest()
        await p.ask("A", request, version)
    await p.ask("A", DescribeClusterRequest(include_cluster_authorized_operations=True), 1)


@script()
async def partitions_created(p: Prober) -> None:
    """CreatePartitions: more partitions, the same number, fewer, none, too many names, validate_only, and invalid
    assignments."""
    name = f"{p.scenario}-topic"
    made = CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1)])
    await p.ask("A", made, 4)
    await p.wait(300)
    kind = CreatePartitionsRequest.Topic
    one, many = kind.Assignment(broker_ids=[1]), kind.Assignment(broker_ids=[1, 7])
    tries: list[tuple[str, int, list[Any] | None, bool]] = [
        (name, 3, None, True),
        (name, 2, None, False),
        (name, 1, None, False),
        (name, 0, None, False),
        (name, -1, None, False),
        ("no-such-topic", 5, None, False),
        (name, 3, [], False),
        (name, 3, [one, one], False),
        (name, 3, [many], False),
        (name, 3, [one], False),
        (name, 5, None, False),
    ]
    for topic, count, places, only_try in tries:
        wanted = kind(name=topic, count=count, assignments=places)
        await p.ask("A", CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=only_try), 3)
    await p.wait(300)
    await p.ask("A", MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 9)
    places = [ListOffsetsRequest.Topic.Partition(partition_index=n, timestamp=-1) for n in (4, 5)]
    await p.ask(
        "A", ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=name, partitions=places)]), 6
    )


@script()
async def heartbeat_versions(p: Prober) -> None:
    """Heartbeat in every version: a valid one, a wrong generation, an unknown member, a missing group and an empty
    group id."""
    a = Client(p=p, conn="A")
    await a.stable()
    for version in range(5):
        for group, member_id, generation in (
            (p.group, a.member_id, 1),
            (p.group, a.member_id, 2),
            (p.group, "made-up-1", 1),
            ("no-such-group", a.member_id, 1),
            ("", a.member_id, 1),
        ):
            request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
            await p.ask("A", request, version)

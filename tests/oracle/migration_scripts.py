"""Conversations about groups that change their protocol or have members of both, which record.py records (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumer import Consumer, consumer_script, list_groups, look, look_old
from prober import MORE, RANGE, ROUND_ROBIN, SHARE, Client, Prober

from kwire.messages.delete_groups import DeleteGroupsRequest


def subscription(*topics: str, owned: Mapping[str, tuple[int, ...]] | None = None) -> bytes:
    """Return the subscription of a classic member in v1: its topics, and its owned partitions."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    def count(values: Any) -> bytes:
        return len(values).to_bytes(4, "big")

    data = b"\0\1" + count(topics) + b"".join(map(text, topics)) + b"\xff\xff\xff\xff" + count(owned or {})
    for topic, partitions in (owned or {}).items():
        data += text(topic) + count(partitions) + b"".join(n.to_bytes(4, "big") for n in partitions)
    return data


OTHER_TOPIC = (("range", subscription("probe2")),)


def owning(*partitions: int) -> tuple[str, bytes]:
    return "range", subscription("probe", owned={"probe": partitions} if partitions else None)


def share(*partitions: int) -> bytes:
    """Return an assignment of partitions of probe."""
    places = b"".join(n.to_bytes(4, "big") for n in partitions)
    return b"\0\1\0\0\0\1\0\5probe" + len(partitions).to_bytes(4, "big") + places + b"\xff\xff\xff\xff"


async def mixed(p: Prober, **classic: Any) -> tuple[Consumer, Client]:
    """Return a stable group of A, a member of the consumer protocol with 0 and 1, and C, a classic member with 2."""
    a, c = Consumer(p=p, conn="A"), Client(p=p, conn="C", member_id="member-c", **classic)
    await a.join()
    await c.enter()
    await a.beat(0, 1, 2)
    await a.beat(0, 1)
    await c.synced()
    await c.beat()
    await c.enter()
    await c.synced()
    return a, c


# --- classic members in a group of the consumer protocol ----------------------------------------------------------


@consumer_script()
async def kip848_classic_joins(p: Prober) -> None:
    """A classic member joins a consumer group: it first gets a member id, then an immediate response, and is never the
    leader. It gets its partition when it joins and syncs again after the other member has revoked it."""
    a, c = Consumer(p=p, conn="A"), Client(p=p, conn="C")
    await a.join()
    await c.get_id()
    await look(p)
    await c.enter()
    await look(p)
    await c.beat()
    await c.synced()
    await c.beat()
    await a.beat(0, 1, 2)
    await c.beat()
    await a.beat(0, 1)
    await c.beat()
    await c.synced()
    await c.enter()
    await c.synced()
    await c.beat()
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_classic_joins_in_every_version(p: Prober) -> None:
    """JoinGroup v0 to v9 to a consumer group: in which versions the coordinator first returns a member id, and which
    one."""
    a = Consumer(p=p, conn="A", names=("probe2",))
    await a.join()
    for version in range(10):
        c = Client(p=p, conn=f"C{version}", join_version=version)
        await p.ask(c.conn, c._join(), version)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_classic_joins_wrongly(p: Prober) -> None:
    """Invalid JoinGroup requests to a consumer group: other protocol types and protocols, unknown member ids, no
    protocols, invalid timeouts."""
    a = Consumer(p=p, conn="A")
    await a.join()
    c = Client(p=p, conn="C")
    tries: tuple[dict[str, Any], ...] = (
        {"protocol_type": "connect"},
        {"protocol_type": ""},
        {"protocols": []},
        {"session_timeout_ms": 1},
        {"protocols": [("range", b"?")]},
        {"protocols": [("range", b"")]},
        {"group_id": ""},
    )
    for changes in tries:
        await p.answer(await p.send("C", c._join(**({"member_id": "made-up-1"} | changes)), 9))
    await p.answer(await p.send("C", c._join(protocol_type="connect"), 9))
    await look(p)
    await c.enter(member_id="made-up-1")
    await look(p)
    other = Client(p=p, conn="E", protocols=(ROUND_ROBIN,))
    await p.answer(await p.send("E", other._join(member_id="made-up-2"), 9))
    await p.answer(await p.send("E", other._join(), 9))
    await p.answer(await p.send("E", other._join(member_id="made-up-2", protocols=[ROUND_ROBIN, RANGE]), 9))
    await look(p)


@consumer_script()
async def kip848_classic_requests(p: Prober) -> None:
    """Heartbeat, SyncGroup and OffsetCommit of a classic member of a mixed group: valid requests, and each kind of
    invalid one."""
    a, c = await mixed(p)
    await c.beat()
    await c.beat(generation_id=1)
    await c.beat(generation_id=9)
    await c.beat(member_id="nobody")
    await c.beat(member_id="")
    await c.beat(group_instance_id="i")
    await c.beat(member_id=a.member_id, generation_id=2)
    await c.synced()
    await c.synced(generation_id=1)
    await c.synced(generation_id=9)
    await c.synced(member_id="nobody")
    await c.synced(member_id=a.member_id, generation_id=2)
    await c.synced(protocol_name="other")
    await c.synced(protocol_type="other")
    await c.synced(group_instance_id="i")
    await c.synced({c.member_id: SHARE, a.member_id: SHARE})
    for version in (8, 9):
        await c.commit(version=version)
        await c.commit(version=version, generation_id_or_member_epoch=1)
        await c.commit(version=version, generation_id_or_member_epoch=9)
        await c.commit(version=version, generation_id_or_member_epoch=-1)
        await c.commit(version=version, member_id="nobody")
    fetching = Consumer(p=p, conn="C", member_id=c.member_id, epoch=c.generation)
    await fetching.fetch()
    await fetching.fetch(member_epoch=9)
    await look(p)


@consumer_script()
async def kip848_classic_has_to_rejoin(p: Prober) -> None:
    """The epoch of a mixed group advances: Heartbeat and SyncGroup of the classic member return REBALANCE_IN_PROGRESS,
    and it joins again."""
    a, c = await mixed(p)
    b = Consumer(p=p, conn="B")
    await b.join()
    await look(p)
    await c.beat()
    await c.synced()
    await c.commit()
    await c.enter(protocols=[owning(2)])
    await c.synced()
    await c.beat()
    await a.beat(0)
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_classic_gives_up(p: Prober) -> None:
    """A classic member of a mixed group has to revoke a partition: the owned partitions in its next JoinGroup decide
    whether it has."""
    c, b = Client(p=p, conn="C"), Consumer(p=p, conn="B")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    await b.join()
    await look(p)
    await c.beat()
    await c.enter(protocols=[owning(0, 1, 2)])
    await c.synced()
    await c.beat()
    await b.beat()
    await look(p)
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await c.beat()
    await b.beat()
    await look(p)


@consumer_script()
async def kip848_classic_leaves(p: Prober) -> None:
    """LeaveGroup to a mixed group: a classic member, unknown members, and members of the consumer protocol by member id
    and by instance id."""
    a, c = await mixed(p)
    b = Consumer(p=p, conn="B", instance="i")
    await b.join()
    await c.leave(("nobody", None), ("", "nobody"), ("", None), ("nobody", "i"), version=5)
    await c.leave()
    await look(p)
    await a.beat()
    await c.leave(("", "i"), version=5)
    await look(p)
    await c.leave((a.member_id, None), version=5)
    await look(p)
    await a.beat()


@consumer_script()
async def kip848_classic_session_ends(p: Prober) -> None:
    """A classic member of a mixed group uses its own session timeout (1 s): if it is silent for longer, it is
    removed."""
    a, c = await mixed(p, session=1000)
    await p.wait(600)
    await c.beat()
    await a.beat()
    await p.wait(600)
    await c.beat()
    await p.wait(1300)
    await a.beat()
    await c.beat()
    await look(p)


@consumer_script()
async def kip848_classic_does_not_come_back(p: Prober) -> None:
    """A classic member of a mixed group that has to rejoin and only sends heartbeats is removed after its rebalance
    timeout (1 s); so is one that joins and does not sync."""
    a, c = await mixed(p, rebalance=1000)
    b = Consumer(p=p, conn="B")
    await b.join()
    await c.beat()
    await p.wait(700)
    await c.beat()
    await p.wait(700)
    await c.beat()
    await look(p)
    await a.beat()
    late = Client(p=p, conn="E", member_id="member-e", rebalance=1000)
    await late.enter()
    await p.wait(700)
    await late.beat()
    await p.wait(700)
    await late.beat()
    await look(p)


@consumer_script()
async def kip848_classic_static(p: Prober) -> None:
    """Static members of both protocols replace each other in a mixed group."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B", instance="i")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    await a.beat(0, 1)
    await b.beat()
    c = Client(p=p, conn="C", instance="i")
    await c.enter()
    await look(p)
    await c.synced()
    await b.beat(instance_id="i")
    await b.beat()
    await a.beat()
    d = Consumer(p=p, conn="E", instance="i")
    await d.join()
    await look(p)
    await c.beat()
    await c.synced()
    await c.leave()
    await d.beat()


@consumer_script()
async def kip848_protocol_of_an_id_changes(p: Prober) -> None:
    """A JoinGroup with the member id of a member of the consumer protocol makes it a classic member; a heartbeat with
    epoch 0 makes a classic member one of the consumer protocol."""
    a, b = Consumer(p=p, conn="A"), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    c = Client(p=p, conn="C", member_id="member-b")
    await c.enter()
    await look(p)
    await b.beat()
    await c.synced()
    await b.join()
    await look(p)
    await c.beat()


@consumer_script()
async def kip848_consumer_turns_classic_while_revoking(p: Prober) -> None:
    """A member that has 1.5 s to revoke a partition joins by the classic protocol instead. If it has revoked the
    partition, it stays; if not, the rebalance timeout continues."""
    a, b = Consumer(p=p, conn="A", rebalance=1_500), Consumer(p=p, conn="B")
    await a.join()
    await b.join()
    await a.beat(0, 1, 2)
    c = Client(p=p, conn="C", member_id="member-a", rebalance=20_000)
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await p.wait(1000)
    await c.beat()
    await p.wait(1000)
    await c.beat()
    await look(p)
    d, e = (
        Consumer(p=p, conn="E", group=f"{p.group}-late", rebalance=1_500),
        Consumer(p=p, conn="F", group=f"{p.group}-late"),
    )
    await d.join()
    await e.join()
    await d.beat(0, 1, 2)
    c = Client(p=p, conn="G", group=d.group, member_id="member-e", rebalance=20_000)
    await c.enter(protocols=[owning(0, 1, 2)])
    await c.synced()
    await p.wait(1000)
    await c.beat()
    await p.wait(1000)
    await c.beat()
    await look(p, d.group)


# --- upgrade ------------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_upgrade_of_an_empty_group(p: Prober) -> None:
    """An empty classic group and a group that has only offsets become consumer groups; their committed offsets stay."""
    c = Client(p=p, conn="C")
    await c.stable()
    await c.commit()
    await c.leave()
    a = Consumer(p=p, conn="A")
    await a.beat(member_epoch=1)
    await a.leave()
    await a.join()
    await look(p)
    await p.wait(100)
    await a.fetch()
    simple = Consumer(p=p, conn="B", group=f"{p.group}-simple")
    await simple.commit(8, generation_id_or_member_epoch=-1, member_id="")
    await look(p, simple.group)
    await simple.join()
    await p.wait(100)
    await simple.fetch()
    await look(p, simple.group)


@consumer_script()
async def kip848_upgrade_of_a_stable_group(p: Prober) -> None:
    """A member of the consumer protocol joins a classic group of one member: the group is converted, and its generation
    becomes the epoch."""
    c, a = Client(p=p, conn="C"), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    await c.commit()
    await a.beat(member_epoch=1)
    await a.leave()
    await a.join()
    await look(p)
    await look_old(p)
    await list_groups(p)
    await c.commit()
    await c.synced()
    await c.beat()
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await c.beat()
    await look(p)
    await a.beat()
    await look(p)


@consumer_script()
async def kip848_upgrade_of_two(p: Prober) -> None:
    """A third member upgrades a classic group of two: both keep their partitions until they join again."""
    c, e, a = Client(p=p, conn="C"), Client(p=p, conn="E"), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    parked = await e.join()
    again = await c.join()
    await c.joined(again)
    await e.joined(parked)
    await c.synced({c.member_id: share(0, 1), e.member_id: share(2)})
    await e.synced()
    await a.join()
    await c.beat()
    await e.beat()
    await e.enter(protocols=[owning(2)])
    await e.synced()
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await c.beat()
    await c.enter(protocols=[owning(0)])
    await c.synced()
    await a.beat()
    await e.beat()
    await c.beat()


@consumer_script()
async def kip848_upgrade_while_preparing(p: Prober) -> None:
    """A member of the consumer protocol joins while a classic JoinGroup is pending: that request fails with
    REBALANCE_IN_PROGRESS."""
    c, e, a = Client(p=p, conn="C"), Client(p=p, conn="E", protocols=OTHER_TOPIC), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    parked = await e.join()
    await p.silent(parked)
    await a.join()
    await p.answer(parked)
    await look(p)
    await c.beat()
    await e.enter()
    await e.synced()
    await c.enter(protocols=[owning(0, 1, 2)])
    await c.synced()
    await c.beat()


@consumer_script()
async def kip848_upgrade_while_completing(p: Prober) -> None:
    """A member of the consumer protocol joins while a classic SyncGroup is pending: that request fails with
    REBALANCE_IN_PROGRESS."""
    c, e, a = Client(p=p, conn="C"), Client(p=p, conn="E", protocols=OTHER_TOPIC), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    parked = await e.join()
    again = await c.join()
    await c.joined(again)
    await e.joined(parked)
    held = await e.sync()
    await p.silent(held)
    await a.join()
    await p.answer(held)
    await look(p)
    await c.synced({c.member_id: share(0, 1), e.member_id: share(2)})
    await c.beat()
    await c.enter()
    await e.enter()
    await c.synced()
    await e.synced()


@consumer_script()
async def kip848_upgrade_refused(p: Prober) -> None:
    """Classic groups that are not upgraded: groups of another protocol type, and groups with invalid metadata."""
    connect = Client(p=p, conn="C", group=f"{p.group}-connect", kind="connect", protocols=(("default", b"x"),))
    await connect.stable()
    await Consumer(p=p, conn="A", group=connect.group).join()
    await Consumer(p=p, conn="A", group=connect.group).beat(member_epoch=1)
    await Consumer(p=p, conn="A", group=connect.group).leave()
    odd = Client(p=p, conn="E", group=f"{p.group}-odd", protocols=(("range", b"?"),))
    await odd.stable()
    await Consumer(p=p, conn="A", group=odd.group).join()
    share_odd = Client(p=p, conn="F", group=f"{p.group}-share")
    await share_odd.enter()
    await share_odd.synced({share_odd.member_id: b"?"})
    await Consumer(p=p, conn="A", group=share_odd.group).join()
    await connect.beat()
    await odd.beat()
    await share_odd.beat()


@consumer_script(group_consumer_max_size=1)
async def kip848_upgrade_of_a_group_that_is_too_big(p: Prober) -> None:
    """group.consumer.max.size=1 and a classic group of two members or of one: whether a member of the consumer protocol
    can join."""
    c, e, a = Client(p=p, conn="C"), Client(p=p, conn="E"), Consumer(p=p, conn="A")
    await c.stable()
    await a.join()
    parked = await e.join()
    again = await c.join()
    await c.joined(again)
    await e.joined(parked)
    await c.synced({c.member_id: SHARE, e.member_id: b""})
    await e.synced()
    await a.join()
    await c.beat()


@consumer_script(group_consumer_migration_policy="disabled")
async def kip848_migration_is_off(p: Prober) -> None:
    """group.consumer.migration.policy=disabled: a classic group with members is not converted; a consumer group accepts
    classic members, and is not converted when only they remain."""
    c, a = Client(p=p, conn="C"), Consumer(p=p, conn="A")
    await c.stable()
    await a.join()
    await c.beat()
    await c.leave()
    await a.join()
    await look(p)
    late = Client(p=p, conn="E", member_id="member-e")
    await late.enter()
    await look(p)
    await a.leave()
    await look(p)
    await late.beat()
    await late.enter()
    await late.synced()
    await look(p)
    await late.leave()
    await look(p)
    await Client(p=p, conn="F").get_id()
    await look_old(p)


@consumer_script()
async def kip848_upgrade_of_two_owners(p: Prober) -> None:
    """The leader of a classic group assigned one partition to two members: the upgrade fails, but pending requests have
    already failed with REBALANCE_IN_PROGRESS."""
    c, e = Client(p=p, conn="C", instance="c"), Client(p=p, conn="E", instance="e")
    a, late = Consumer(p=p, conn="A"), Client(p=p, conn="F", instance="f")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    parked = await e.join()
    again = await c.join()
    await c.joined(again)
    await e.joined(parked)
    await c.synced({c.member_id: share(0, 1), e.member_id: share(1, 2)})
    await e.synced()
    await a.join()
    await look(p)
    await look_old(p)
    parked = await late.join()
    await p.silent(parked)
    await a.join()
    await p.answer(parked)
    await look_old(p)
    await c.beat()


@consumer_script()
async def kip848_upgrade_refused_while_preparing(p: Prober) -> None:
    """The upgrade of a group with an invalid assignment, or by an invalid regular expression, fails, but pending
    requests have already failed with REBALANCE_IN_PROGRESS; not if the group has another protocol type."""
    c, e, a = Client(p=p, conn="C"), Client(p=p, conn="E", protocols=OTHER_TOPIC), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    parked = await e.join()
    await p.silent(parked)
    await a.join(subscribed_topic_regex="((")
    await p.answer(parked)
    await look_old(p)
    odd, late = Client(p=p, conn="F", group=f"{p.group}-odd"), Client(p=p, conn="G", group=f"{p.group}-odd")
    await odd.enter()
    await odd.synced({odd.member_id: b"?"})
    parked = await late.join()
    await p.silent(parked)
    await Consumer(p=p, conn="A", group=odd.group).join()
    await p.answer(parked)
    other = Client(p=p, conn="H", group=f"{p.group}-other", kind="connect")
    late = Client(p=p, conn="I", group=other.group, kind="connect")
    await other.stable()
    parked = await late.join()
    await Consumer(p=p, conn="A", group=other.group).join()
    await p.silent(parked)
    await other.leave()
    await p.answer(parked)


@consumer_script()
async def kip848_offsets_survive(p: Prober) -> None:
    """A group with members is upgraded and downgraded: the offsets that were committed before are still there."""
    c, a = Client(p=p, conn="C"), Consumer(p=p, conn="A")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    await c.commit()
    await a.join()
    await p.wait(100)
    await a.fetch()
    await a.fetch(8, member_id=None, member_epoch=-1)
    await a.commit(topic="probe2", offset=8)
    await a.leave()
    await look_old(p)
    await a.fetch(member_id=None, member_epoch=-1)
    await a.fetch(8, topic="probe2", member_id=None, member_epoch=-1)
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    await a.fetch(member_id=c.member_id, member_epoch=c.generation)
    await a.fetch(10, topic="probe2", member_id=c.member_id, member_epoch=c.generation)


# --- downgrade ----------------------------------------------------------------------------------------------------


@consumer_script()
async def kip848_downgrade_by_leaving(p: Prober) -> None:
    """The last member of the consumer protocol leaves: the group becomes classic and rebalances, and the epoch becomes
    its generation."""
    a, c = await mixed(p)
    await c.commit()
    await a.leave()
    await look_old(p)
    await look(p)
    await list_groups(p)
    await c.synced()
    await c.beat()
    await c.enter(protocols=[owning(2)])
    await c.synced({c.member_id: share(0, 1, 2)})
    await c.beat()
    await a.beat()


@consumer_script(group_consumer_session_timeout_ms=1000)
async def kip848_downgrade_by_timeout(p: Prober) -> None:
    """The last member of the consumer protocol is silent for its session timeout (1 s): the group becomes classic."""
    _, c = await mixed(p)
    await p.wait(1300)
    await look_old(p)
    await c.beat()
    await c.enter(protocols=[owning(2)])


@consumer_script()
async def kip848_downgrade_by_a_static_member(p: Prober) -> None:
    """A classic static member replaces the last member of the consumer protocol: the group becomes classic without a
    rebalance."""
    a = Consumer(p=p, conn="A", instance="i")
    await a.join()
    await a.leave(-2)
    c = Client(p=p, conn="C", instance="i")
    await c.enter()
    await look_old(p)
    await c.synced({c.member_id: share(0, 1, 2)})
    await c.beat()
    await a.beat(instance_id="i", member_epoch=1)


@consumer_script()
async def kip848_downgrade_by_a_classic_leave(p: Prober) -> None:
    """LeaveGroup removes the last member of the consumer protocol: the group becomes classic."""
    a, c = await mixed(p)
    await c.leave((a.member_id, None), conn="E")
    await look_old(p)
    await c.beat()


@consumer_script()
async def kip848_downgrade_of_an_empty_group(p: Prober) -> None:
    """All members of the consumer protocol have left: a classic member converts the group, then a consumer member
    converts it back; the offsets stay."""
    a, c = Consumer(p=p, conn="A"), Client(p=p, conn="C")
    await a.join()
    await a.commit()
    await a.leave()
    await look(p)
    await c.get_id()
    await look_old(p)
    await c.enter()
    await c.synced({c.member_id: SHARE})
    await p.wait(100)
    await c.commit(offset=8, topic="probe2")
    await look_old(p)
    await p.wait(100)
    await a.fetch(8, member_id=None, member_epoch=-1)
    await c.leave()
    await a.join()
    await look(p)
    await p.ask("O", DeleteGroupsRequest(groups_names=[p.group]), 2)


@consumer_script(group_consumer_migration_policy="upgrade")
async def kip848_no_downgrade(p: Prober) -> None:
    """group.consumer.migration.policy=upgrade: the last member of the consumer protocol leaves, and the classic member
    stays in a consumer group."""
    a, c = Consumer(p=p, conn="A"), Client(p=p, conn="C")
    await c.enter()
    await c.synced({c.member_id: share(0, 1, 2)})
    await a.join()
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await a.beat()
    await a.leave()
    await look(p)
    await c.beat()
    await c.enter(protocols=[owning(0, 1)])
    await c.synced()
    await c.enter(protocols=[MORE])
    await look(p)


@consumer_script(group_consumer_migration_policy="downgrade")
async def kip848_no_upgrade(p: Prober) -> None:
    """group.consumer.migration.policy=downgrade: a classic group with members is not upgraded; a consumer group accepts
    classic members."""
    a, c = Consumer(p=p, conn="A"), Client(p=p, conn="C")
    await c.stable()
    await a.join()
    await c.leave()
    await a.join()
    other = Client(p=p, conn="E")
    await other.enter()
    await a.leave()
    await look_old(p)

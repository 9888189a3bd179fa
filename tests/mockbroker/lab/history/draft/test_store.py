"""The stored state of a group, which is consistent at any time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from tools.draft_groups import GROUP, TOPIC, WARM, assert_shared, generation, settled

from mockbroker.lab.history.draft import DraftCluster, Store
from mockbroker.lab.history.draft.store import GroupRecord


def rested() -> DraftCluster:
    uuids = (f"{number}" for number in count(1))
    cluster = DraftCluster({TOPIC: 3, "other": 1}, uuid=lambda: next(uuids))
    for _ in range(2):
        cluster.add(GROUP, [TOPIC])
    cluster.add("another", ["other", TOPIC])
    cluster.run(WARM)
    return cluster


def test_dump_contains_all_topics_and_groups() -> None:
    cluster = rested()
    dumped = cluster.store.dump()
    assert dumped["topics"] == {
        TOPIC: {"partitions": 3, "groups": [GROUP, "another"]},
        "other": {"partitions": 1, "groups": ["another"]},
    }
    group = dumped["groups"][GROUP]
    offsets = group.pop("offsets")
    hosts = {one.consumer_id: one.name for one in cluster.consumers.values() if one.group == GROUP}
    assert group.pop("members") == [
        {"id": consumer_id, "host": hosts[consumer_id]} for consumer_id in cluster.store.read(GROUP).hosts
    ]
    assert group.pop("ownership") == {
        one.consumer_id: [list(partition) for partition in one.partitions]
        for one in cluster.consumers.values()
        if one.group == GROUP
    }
    assert group == {
        "generation": generation(cluster),
        "topics": [TOPIC],
        "config": {"session_timeout": 6.0, "strategy": "range"},
    }
    assert sorted(offsets[TOPIC]) == ["0", "1", "2"]
    assert all(offset > 100 for offset in offsets[TOPIC].values())


def test_dumped_store_loads_unchanged() -> None:
    dumped = json.loads(json.dumps(rested().store.dump()))
    loaded = Store.load(dumped)
    assert loaded.dump() == dumped


def test_groups_continue_with_a_loaded_store() -> None:
    cluster = rested()
    loaded = Store.load(cluster.store.dump())
    assert (loaded.read(GROUP), loaded.offsets(GROUP)) == (cluster.store.read(GROUP), cluster.store.offsets(GROUP))
    later = DraftCluster(store=loaded)
    later.add(GROUP, [TOPIC])
    later.run(WARM)
    assert generation(later) > generation(cluster)
    assert_shared(later, 3, {"c1"})
    begun = {partition: offset for _, _, partition, offset in reversed(later.records)}
    assert begun == dict(cluster.store.offsets(GROUP))


def test_group_is_read_when_its_first_consumer_joins() -> None:
    cluster = DraftCluster({TOPIC: 2})
    cluster.run(WARM)
    assert cluster.store.reads == 0
    assert cluster.trace == []
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM + 5)
    assert cluster.store.reads == 1


def test_new_coordinator_reads_every_group_with_members() -> None:
    before = rested()
    store = Store.load(before.store.dump())
    cluster = DraftCluster(store=store)
    cluster.run(1.0)
    assert store.reads == 2
    for group in (GROUP, "another"):
        coordinator = cluster.coordinator(group)
        assert coordinator is not None
        assert coordinator.members.keys() == before.store.read(group).hosts.keys()


def test_group_without_members_is_read_when_a_consumer_joins() -> None:
    store = Store({TOPIC: 2})
    store.write(GROUP, GroupRecord(7, (TOPIC,), "range", 6.0))
    cluster = DraftCluster(store=store)
    cluster.run(5.0)
    assert store.reads == 0
    cluster.add(GROUP, [TOPIC])
    cluster.run(10.0)
    assert store.reads == 1
    assert generation(cluster) == 8


def test_member_missing_at_coordinator_start_is_removed() -> None:
    cluster = DraftCluster(store=Store.load(rested().store.dump()))
    cluster.run(10.0)
    record = cluster.store.read(GROUP)
    assert dict(record.hosts) == {}
    assert record.generation == generation(rested()) + 1


def test_watch_notifies_each_live_broker_once() -> None:
    store = Store({TOPIC: 1})
    for node in (2, 0, 2):
        store.watch(TOPIC, node)
    assert store.set_topic(TOPIC, 2) == [0, 2]
    assert store.set_topic("another", 2) == []
    store.session_ends(2)
    assert store.set_topic(TOPIC, 3) == [0]
    assert store.notifications == 3


# --- a rebalance is one write ---


def is_whole(record: GroupRecord, grown: int) -> bool:
    """Return whether members, ownership and generation are of the same rebalance: the earlier has three members, the
    later four."""
    owned = [partition for share in record.ownership.values() for partition in share]
    members = 3 if record.generation == grown - 1 else 4
    return len(record.hosts) == members and record.ownership.keys() == record.hosts.keys() and len(owned) == 6


class InTwoWrites(Store):
    """A store without atomic writes: the broker can fail between two writes."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self.between: Iterator[None] = iter(())

    def write(self, group: str, record: GroupRecord) -> None:
        super().write(group, replace(self.read(group), generation=record.generation))
        next(self.between, None)
        super().write(group, record)


class PowerLoss(Exception):
    """The broker fails."""


def rebalanced(store: Store) -> tuple[DraftCluster, int]:
    """Return a cluster in which a fourth member is about to join a group of three, and the generation that this will
    create."""
    cluster = DraftCluster(store=store)
    for _ in range(3):
        cluster.add(GROUP, [TOPIC])
    cluster.run(WARM)
    assert cluster.is_settled(GROUP)
    cluster.add(GROUP, [TOPIC])
    return cluster, generation(cluster) + 1


def test_no_failure_mixes_generation_and_members() -> None:
    results = set()
    for nth in range(60):
        cluster, grown = rebalanced(Store({TOPIC: 6}))
        node, counter = cluster.coordinator_node(GROUP), count()
        cluster.strike(lambda moment, nth=nth, counter=counter, node=node: moment.node == node and next(counter) == nth)
        while node in cluster.brokers and cluster.now < WARM + 30:
            cluster.run(cluster.now + 0.01)
        record = cluster.store.read(GROUP)
        assert is_whole(record, grown)
        results.add(record.generation - grown)
    assert results >= {-1, 0}  # failures before the write, and after it


def test_two_writes_could_mix_generations() -> None:
    store = InTwoWrites({TOPIC: 6})
    cluster, grown = rebalanced(store)

    def fails() -> Iterator[None]:
        raise PowerLoss
        yield

    store.between = fails()
    with pytest.raises(PowerLoss):
        cluster.run(WARM + 10)
    assert store.read(GROUP).generation == grown
    assert not is_whole(store.read(GROUP), grown)


def test_a_broker_does_nothing_after_its_failure() -> None:
    cluster = settled()
    cluster.set_topic(TOPIC, 6)
    cluster.strike(lambda moment: moment.kind == "wrote")
    cluster.run(WARM + 20)
    kinds = [(moment.kind, moment.node) for moment in cluster.trace]
    (struck,) = (number for number, (kind, _) in enumerate(kinds) if kind == "failed")
    node = cluster.trace[struck].node
    assert kinds[struck - 1] == ("wrote", node)
    assert [moment.what for moment in cluster.trace[struck + 1 :] if moment.node == node] == ["Down"]

"""Changes of groups are recorded, and their records are written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from tools.broker_harness import WALL, BrokerHarness, stable_member
from tools.counting import counted
from tools.group_records_check import check_group_records

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.groups.changes import Changes, Recorded
from mockbroker.groups.classic.state import ClassicGroup, Member
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)


@dataclass(slots=True)
class Part(Recorded):
    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"session"})
    value: int = 0
    session: float = 0.0


@dataclass(slots=True)
class Whole(Recorded):
    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"waits"})
    epoch: int = 0
    waits: dict[str, float] = field(default_factory=dict)
    table: dict[str, object] = field(default_factory=dict)


@pytest.fixture
def whole() -> Whole:
    result = Whole(table={"a": 1, "b": 2})
    result.changes.clear()
    return result


def test_all_fields_of_a_new_object_have_changed() -> None:
    assert set(Whole(table={"a": 1}).changes) == {"epoch", "table"}
    assert Whole(table={"a": 1}).changes["table"].keys() == {"a", None}


def set_key(found: Whole) -> None:
    found.table["a"] = 3


def delete_key(found: Whole) -> None:
    del found.table["a"]


def pop_key(found: Whole) -> None:
    found.table.pop("a")


def update_keys(found: Whole) -> None:
    found.table.update({"a": 3})


def merge_keys(found: Whole) -> None:
    found.table |= {"a": 3}


def default_key(found: Whole) -> None:
    found.table.pop("a")
    found.changes.clear()
    found.table.setdefault("a", 3)


def replace_table(found: Whole) -> None:
    found.table = {"a": 3, "b": 2}


def replace_without_key(found: Whole) -> None:
    found.table = {"b": 2}


@pytest.mark.parametrize(
    "change",
    [set_key, delete_key, pop_key, update_keys, merge_keys, default_key, replace_table, replace_without_key],
    ids=lambda change: change.__name__,
)
def test_a_changed_key_of_a_table_is_recorded(whole: Whole, change) -> None:
    change(whole)
    assert {key for key in whole.changes["table"] if key is not None} == {"a"}


def test_removed_keys_are_recorded(whole: Whole) -> None:
    whole.table.popitem()
    assert whole.changes["table"].keys() == {"b"}
    whole.table.clear()
    assert whole.changes["table"].keys() == {"a", "b"}


def test_a_new_table_records_its_changes_too(whole: Whole) -> None:
    whole.table = {"b": 2}
    whole.changes.clear()
    whole.table["c"] = 3
    assert whole.changes["table"].keys() == {"c"}


def test_transient_fields_are_not_recorded(whole: Whole) -> None:
    whole.waits = {"a": 1.0}
    whole.waits["b"] = 2.0
    assert whole.changes == {}


def test_a_part_records_its_changes_in_the_whole(whole: Whole) -> None:
    part = Part()
    part.record_in(whole.changes)
    part.session = 1.0
    assert whole.changes == {}
    part.value = 1
    assert whole.changes.keys() == {"value"}


# --- groups -------------------------------------------------------------------------------------------------------


def stable() -> tuple[BrokerHarness, ClassicGroup, Member]:
    harness = BrokerHarness()
    member_id = stable_member(harness, "g", assignment=b"first")
    group = harness.broker.groups.get_as("g", ClassicGroup)
    assert group is not None
    return harness, group, group.members[member_id]


def reconciled() -> tuple[BrokerHarness, ConsumerGroup]:
    harness = BrokerHarness()
    beat(harness, 0, subscribed_topic_names=["t"], rebalance_timeout_ms=60_000, topic_partitions=[])
    group = harness.broker.groups.get_as("g", ConsumerGroup)
    assert group is not None
    return harness, group


def beat(harness: BrokerHarness, epoch: int, **how: Any) -> None:
    harness.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **how), 1)


def write(harness: BrokerHarness) -> None:
    harness.broker.groups.mark_dirty("g")
    harness.broker.write_changes(harness.now)
    check_group_records(harness.broker, WALL)


def test_an_assignment_that_changes_in_stable_is_written() -> None:
    """Setting the field is enough; no method of the group is called."""
    harness, group, one = stable()
    one.assignment = b"another"
    write(harness)
    harness.broker.unload_group("g")
    harness.broker.load_groups(harness.broker.offsets_partition("g")[1], harness.now)
    result = harness.broker.groups.get_as("g", ClassicGroup)
    assert result is not None
    assert result is not group
    assert result.members[one.member_id].assignment == b"another"


@pytest.mark.parametrize("name", ["generation", "leader", "state_since"])
def test_a_field_of_a_classic_group_is_written(name: str) -> None:
    harness, group, _ = stable()
    setattr(group, name, getattr(group, name) * 2)
    write(harness)


@pytest.mark.parametrize("name", ["client_id", "client_host", "session_timeout", "rebalance_timeout"])
def test_a_field_of_a_classic_member_is_written(name: str) -> None:
    harness, _, one = stable()
    setattr(one, name, getattr(one, name) * 2)
    write(harness)


def test_changes_of_a_consumer_group_are_written() -> None:
    harness, group = reconciled()
    group.members["m"] = replace(group.members["m"], client_id="another", previous_epoch=7)
    group.target["m"] = {}
    group.epoch, group.assignment_epoch = 8, 9
    write(harness)


def test_the_record_check_notices_an_unrecorded_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of records and groups in all handler tests notices a field that is transient by mistake."""
    monkeypatch.setattr(Member, "TRANSIENT", Member.TRANSIENT | {"assignment"})
    harness, _, one = stable()
    one.assignment = b"another"
    with pytest.raises(AssertionError, match="another"):
        write(harness)


def test_the_record_check_notices_an_unrecorded_table(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, group = reconciled()
    monkeypatch.setattr(Changes, "add", lambda *_: None)
    group.members["m"] = replace(group.members["m"], client_id="another")
    with pytest.raises(AssertionError, match="another"):
        write(harness)


def test_heartbeat_of_a_classic_member_changes_nothing() -> None:
    harness, group, one = stable()
    harness.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=one.member_id), 3)
    assert group.changes == {}


def test_heartbeat_of_a_consumer_member_changes_nothing() -> None:
    harness, group = reconciled()
    beat(harness, group.members["m"].epoch)
    assert group.changes == {}


def test_heartbeat_costs_the_same_in_a_large_group() -> None:
    assert cost_of_a_heartbeat(members=10) == cost_of_a_heartbeat(members=100)


def cost_of_a_heartbeat(members: int) -> int:
    """Return how many functions a heartbeat calls that changes nothing."""
    harness = BrokerHarness(topics={"t": 1})
    harness.watched = 0
    for number in range(members):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number:03d}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        harness.ask(request, 1)
    again = ConsumerGroupHeartbeatRequest(group_id="g", member_id=f"m{members - 1:03d}", member_epoch=members)
    harness.ask(again, 1)
    with counted() as calls:
        assert harness.ask(again, 1).error_code == 0
    return calls.count

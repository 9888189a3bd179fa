"""The registry of groups: written, watched and scheduled groups after each step."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from mockbroker.base.effects import Reply, Ticket
from mockbroker.groups import registry
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.events import Commit, Evict, Join, Leave, LeavingMember
from mockbroker.groups.offsets import Committed
from mockbroker.groups.registry import SWEEP, Groups

TICKETS = count(1 << 20)
HOUR = 3_600.0


@pytest.fixture
def groups() -> Groups:
    registry = BrokerHarness().broker.groups
    registry.dirty.clear()
    registry.watched = set()
    return registry


def join(groups: Groups, group_id: str = "g", member_id: str = "", *, new: str = "m", asks: bool = False) -> E | None:
    """Send a JoinGroup, and return the error of its response, if there is one. ``asks``: the member must rejoin with
    the member id ``new``.
    """
    event = Join(
        ticket=Ticket(next(TICKETS), 1, 0, 0),
        member_id=member_id,
        new_member_id=new,
        require_member_id=asks,
        instance_id=None,
        supports_skipping_assignment=False,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10.0,
        rebalance_timeout=60.0,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )
    effects = groups.receive(group_id, event, 0.0)
    return next((E(each.response.error_code) for each in effects if isinstance(each, Reply)), None)


def leave(groups: Groups, member_id: str, group_id: str = "g") -> None:
    leaving = [LeavingMember(member_id=member_id, instance_id=None)]
    groups.receive(group_id, Leave(ticket=Ticket(next(TICKETS), 1, 0, 0), members=leaving), 0.0)


def scheduled(groups: Groups, key: Any) -> float | None:
    return groups._deadlines.at(key)


def test_new_group_is_written_watched_and_scheduled(groups: Groups) -> None:
    join(groups)
    assert (list(groups), list(groups.dirty), groups.watched) == (["g"], ["g"], {"g"})
    assert scheduled(groups, "g") == groups["g"].timers.earliest < inf
    assert isinstance(groups.get_as("g", ClassicGroup), ClassicGroup)
    assert groups.get_as("x", ClassicGroup) is None


def test_registry_without_a_reader_watches_nothing(groups: Groups) -> None:
    groups.watched = None
    join(groups)
    groups.mark_dirty("g")
    groups.load(groups["g"])
    groups.unload("g")
    assert groups.watched is None


def test_event_of_an_administrator_needs_a_group(groups: Groups) -> None:
    assert groups.receive("none", Evict("m", "evicted"), 0.0) == []
    assert (list(groups), groups.watched) == ([], set())


def test_pending_members_of_all_groups_are_counted(groups: Groups) -> None:
    context = groups.context
    for group_id, new in (("g", "a"), ("g", "b"), ("h", "c")):
        join(groups, group_id, new=new, asks=True)
    assert context.pending_member_count == 3
    join(groups, "g", "a")
    assert context.pending_member_count == 2
    leave(groups, "b")
    assert context.pending_member_count == 1
    groups.unload("h")
    assert context.pending_member_count == 0
    groups.unload("g")
    assert context.pending_member_count == 0


def test_unloaded_group_leaves_nothing_behind(groups: Groups) -> None:
    join(groups)
    groups.watched = set()
    groups.unload("g")
    assert (list(groups), list(groups.dirty), groups.watched, scheduled(groups, "g")) == ([], [], {"g"}, None)


def test_deleted_group_is_written(groups: Groups) -> None:
    groups.create("g", 0.0)
    groups.delete("g")
    assert (list(groups), list(groups.dirty), groups.watched) == ([], ["g"], {"g"})


def test_loaded_group_is_watched_and_scheduled_but_not_written(groups: Groups) -> None:
    join(groups)
    group = groups["g"]
    groups.unload("g")
    groups.watched = set()
    groups.load(group)
    assert (list(groups), list(groups.dirty), groups.watched) == (["g"], [], {"g"})
    assert scheduled(groups, "g") == group.timers.earliest


def test_group_is_deleted_on_request(groups: Groups) -> None:
    join(groups)
    leave(groups, "m")
    groups.dirty.clear()
    assert groups.delete_on_request("g", 0.0) == E.NONE
    assert (list(groups), list(groups.dirty)) == ([], ["g"])


def test_due_timer_is_scheduled_again(groups: Groups) -> None:
    join(groups)
    first = scheduled(groups, "g")
    assert first is not None
    groups.watched = set()
    groups.tick("g", first)
    assert groups.watched == {"g"}
    assert scheduled(groups, "g") == groups["g"].timers.earliest > first


def test_accepted_commit_is_written(groups: Groups) -> None:
    group = groups.create("g", 0.0)
    assert groups.commit_error(group, Commit(member_id="", generation=-1), 0.0) == E.NONE
    assert list(groups.dirty) == ["g"]
    groups.dirty.clear()
    group.changes.clear()
    assert groups.commit_error(group, Commit(member_id="x", generation=1), 0.0) == E.UNKNOWN_MEMBER_ID
    assert list(groups.dirty) == []


@pytest.mark.parametrize(
    ("generation", "quirk", "error"),
    [(-1, True, E.NONE), (-1, False, E.NONE), (0, True, E.UNKNOWN_MEMBER_ID), (0, False, E.ILLEGAL_GENERATION)],
)
def test_transactional_commit_to_a_missing_group(groups: Groups, generation: int, quirk: bool, error: E) -> None:
    quirks = groups.context.quirks
    groups.context.quirks = replace(quirks, txn_commit_to_missing_group_is_unknown_member=quirk)
    assert groups.transactional_commit_error("none", Commit(member_id="", generation=generation)) == error
    groups.create("g", 0.0)
    assert groups.transactional_commit_error("g", Commit(member_id="x", generation=1)) == E.UNKNOWN_MEMBER_ID


def test_deleted_topics_take_the_offsets_of_all_groups(groups: Groups) -> None:
    cluster = groups.context.cluster
    topic = cluster.topics["t"]
    for group_id in ("g", "h"):
        group = groups.create(group_id, 0.0)
        group.offsets.store("t" if group_id == "g" else "other", 0, Committed(offset=1))
        group.changes.clear()
        group.offsets.mark_written()
    groups.dirty.clear()
    assert list(groups.delete_topics_in_slices({}, 100)) == []
    assert len(groups["g"].offsets.committed) == 1
    assert list(groups.delete_topics_in_slices({topic.topic_id: topic.name}, 100)) == []
    assert ([len(each.offsets.committed) for each in groups.values()], list(groups.dirty)) == ([0, 1], ["g"])


def test_offsets_of_deleted_topics_are_deleted_in_slices(groups: Groups) -> None:
    """A slice has two offsets, or groups without such offsets."""
    topic = groups.context.cluster.topics["t"]
    for group_id, offsets in (("a", 3), ("b", 0), ("c", 1), ("d", 0)):
        group = groups.create(group_id, 0.0)
        for index in range(offsets):
            group.offsets.store("t", index, Committed(offset=1))
    remaining = [
        [len(group.offsets.committed) for group in groups.values()]
        for _ in groups.delete_topics_in_slices({topic.topic_id: topic.name}, 2)
    ]
    assert remaining == [[1, 0, 1, 0], [0, 0, 1, 0]]
    assert [len(group.offsets.committed) for group in groups.values()] == [0, 0, 0, 0]


def test_group_that_is_deleted_between_two_slices_is_skipped(groups: Groups) -> None:
    topic = groups.context.cluster.topics["t"]
    for group_id in ("a", "b"):
        groups.create(group_id, 0.0).offsets.store("t", 0, Committed(offset=1))
    slices = groups.delete_topics_in_slices({topic.topic_id: topic.name}, 1)
    next(slices)
    groups.delete("b")
    assert list(slices) == []
    assert len(groups["a"].offsets.committed) == 0


def test_expired_offsets_are_deleted_with_their_group(groups: Groups) -> None:
    retention = groups.context.settings.offsets_retention_minutes * 60.0
    for group_id, at in (("g", 0.0), ("h", HOUR)):
        groups.create(group_id, 0.0).offsets.store("t", 3, Committed(offset=1, at=at))
    groups.dirty.clear()
    notes = groups.delete_expired_offsets(retention)
    assert [(note.event, note.group, note.reason) for note in notes] == [
        ("offset_expire", "g", "offset of t 3 expired"),
        ("delete", "g", "empty and without offsets"),
    ]
    assert (list(groups), list(groups.dirty)) == (["h"], ["g"])
    every = groups.context.settings.offsets_retention_check_interval_ms / 1000
    assert scheduled(groups, SWEEP) == retention + every == retention + 600.0


def test_many_offsets_are_checked_in_slices(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups a and b fill a slice; c is deleted before the next slice."""
    monkeypatch.setattr(registry, "CHECKED_OFFSETS", 4)
    retention = groups.context.settings.offsets_retention_minutes * 60.0
    for group_id in ("a", "b", "c", "d"):
        groups.create(group_id, 0.0).offsets.store("t", 0, Committed(offset=1, at=0.0))
    expired = [note.group for note in groups.delete_expired_offsets(retention) if note.event == "offset_expire"]
    assert (expired, list(groups), scheduled(groups, SWEEP)) == (["a", "b"], ["c", "d"], retention)
    groups.delete("c")
    expired = [note.group for note in groups.delete_expired_offsets(retention) if note.event == "offset_expire"]
    every = groups.context.settings.offsets_retention_check_interval_ms / 1000
    assert (expired, list(groups), scheduled(groups, SWEEP)) == (["d"], [], retention + every)


@pytest.mark.parametrize(
    ("quiet", "at", "steps"),
    [
        (0.0, 0.0, 1),
        (599.0, 0.0, 1),
        (601.0, 0.0, 2),
        (6_000.0, 0.0, 10),
        (2 * 7 * 86_400.0, 0.0, 7 * 144),
        (2 * 7 * 86_400.0, HOUR, 7 * 144 + 6),
    ],
)
def test_checks_that_find_nothing_are_skipped(groups: Groups, quiet: float, at: float, steps: int) -> None:
    """A manual clock advances. Until then, a check is only needed when an offset expires."""
    groups._deadlines.forget(SWEEP)
    for key in list(groups._deadlines):
        groups._deadlines.forget(key)
    groups.create("g", 0.0).offsets.store("t", 0, Committed(offset=1, at=at))
    groups.quiet_until = quiet
    groups.schedule_offset_expiration(0.0)
    assert scheduled(groups, SWEEP) == 600.0 * steps


def test_other_deadline_ends_the_skipped_checks(groups: Groups) -> None:
    for key in list(groups._deadlines):
        groups._deadlines.forget(key)
    groups._deadlines.set("g", 1_000.0)
    groups.quiet_until = 100_000.0
    groups.schedule_offset_expiration(0.0)
    assert scheduled(groups, SWEEP) == 1_200.0


def test_pending_members_of_all_groups_are_limited() -> None:
    harness = BrokerHarness(config={"mockbroker.max.pending.members": 1})
    registry = harness.broker.groups
    codes = []
    for group_id, new in (("g", "a"), ("g", "b"), ("h", "c")):
        codes.append(join(registry, group_id, new=new, asks=True))
    assert codes == [E.MEMBER_ID_REQUIRED, E.GROUP_MAX_SIZE_REACHED, E.GROUP_MAX_SIZE_REACHED]
    assert "h" not in registry
    join(registry, "g", "a")
    assert join(registry, "g", new="b", asks=True) == E.MEMBER_ID_REQUIRED


def test_watched_groups_are_those_that_may_have_changed(groups: Groups) -> None:
    groups.mark_dirty("g")
    assert groups.watched == {"g"}
    groups.watched = None
    groups.mark_dirty("other")
    assert groups.watched is None


def test_context_has_the_conversions_of_the_group_types(groups: Groups) -> None:
    assert groups.types.conversions
    assert groups.context.conversions is groups.types.conversions


def test_renewed_session_moves_the_deadline_of_its_group(groups: Groups) -> None:
    group = groups.create("g", 0.0)
    group.timers.set(("session", "m"), 30.0)
    groups.schedule_session(group)
    assert (scheduled(groups, "g"), groups.watched) == (30.0, {"g"})
    group.timers.set(("session", "m"), 20.0)
    groups.watched = None
    groups.schedule_session(group)
    assert scheduled(groups, "g") == 20.0


def test_skipped_checks_count_from_the_present(groups: Groups) -> None:
    for key in list(groups._deadlines):
        groups._deadlines.forget(key)
    groups.quiet_until = 4_000.0
    groups.schedule_offset_expiration(1_000.0)
    assert scheduled(groups, SWEEP) == 4_000.0


def test_group_whose_share_state_remains_is_not_deleted(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    groups.create("g", 0.0)
    groups.dirty.clear()
    kind = SimpleNamespace(prepare_deletion=lambda *_: E.COORDINATOR_NOT_AVAILABLE)
    monkeypatch.setattr(groups, "types", SimpleNamespace(of=lambda _: kind))
    assert groups.delete_on_request("g", 0.0) == E.COORDINATOR_NOT_AVAILABLE
    assert (list(groups), list(groups.dirty)) == (["g"], ["g"])


def test_commit_of_a_member_schedules_its_session(groups: Groups) -> None:
    join(groups, asks=True)
    join(groups, member_id="m")
    groups.tick("g", 0.0)
    group = groups["g"]
    group.timers.set(("session", "m"), 1.0)
    groups.watched = set()
    assert groups.commit_error(group, Commit(member_id="m", generation=9), 0.0) == E.ILLEGAL_GENERATION
    assert (scheduled(groups, "g"), groups.watched) == (1.0, {"g"})

"""The decision tables of the classic group, row by row.

The order of checks is that of docs/coordinator.md, under "JoinGroup", "SyncGroup", "Heartbeat" and "OffsetCommit".
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tools.group_harness import GroupHarness

from kwire import ErrorCode as E
from mockbroker.base.effects import Ticket
from mockbroker.groups.classic import rules
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.events import Commit, Heartbeat, Join, Sync

EMPTY, PREPARING, COMPLETING, STABLE = State
TICKET = Ticket(1, 1, 0, 0)

HEARTBEATS = [  # state, member, difference to the group's generation, instance id, error
    pytest.param(EMPTY, "a", 0, None, E.UNKNOWN_MEMBER_ID, id="empty"),
    pytest.param(PREPARING, "a", 0, None, E.REBALANCE_IN_PROGRESS, id="preparing"),
    pytest.param(COMPLETING, "a", 0, None, E.NONE, id="completing"),
    pytest.param(STABLE, "a", 0, None, E.NONE, id="stable"),
    *(
        pytest.param(state, "z", 0, None, E.UNKNOWN_MEMBER_ID, id=f"unknown, {state.name}")
        for state in (PREPARING, COMPLETING, STABLE)
    ),
    pytest.param(STABLE, "a", 0, "i", E.UNKNOWN_MEMBER_ID, id="instance"),
    pytest.param(STABLE, "", 0, None, E.UNKNOWN_MEMBER_ID, id="no id"),
    *(
        pytest.param(state, "a", 1, None, E.ILLEGAL_GENERATION, id=f"later generation, {state.name}")
        for state in (PREPARING, COMPLETING, STABLE)
    ),
    pytest.param(STABLE, "a", -1, None, E.ILLEGAL_GENERATION, id="earlier generation"),
    pytest.param(STABLE, "z", 1, None, E.UNKNOWN_MEMBER_ID, id="UNKNOWN_MEMBER_ID before ILLEGAL_GENERATION"),
]


@pytest.mark.parametrize(("state", "member_id", "beside", "instance_id", "answer"), HEARTBEATS)
def test_heartbeat(state, member_id, beside, instance_id, answer):
    harness = GroupHarness()
    harness.in_state(state)
    assert harness.heartbeat(member_id, harness.group.generation + beside, instance_id=instance_id) is answer


def test_every_state_has_a_row_in_the_tables():
    assert set(rules.HEARTBEAT_ERRORS) == set(rules.COMMIT_ERRORS) == set(rules.ACCEPTS_JOIN) == set(State)


SYNCS = [  # state, member, difference to the group's generation, type, name, error; None: pending
    pytest.param(EMPTY, "a", 0, None, None, E.UNKNOWN_MEMBER_ID, id="empty"),
    pytest.param(STABLE, "z", 0, None, None, E.UNKNOWN_MEMBER_ID, id="unknown"),
    pytest.param(STABLE, "a", 1, None, None, E.ILLEGAL_GENERATION, id="generation"),
    pytest.param(STABLE, "a", 0, "connect", None, E.INCONSISTENT_GROUP_PROTOCOL, id="other protocol type"),
    pytest.param(STABLE, "a", 0, None, "roundrobin", E.INCONSISTENT_GROUP_PROTOCOL, id="other protocol name"),
    pytest.param(STABLE, "a", 0, "consumer", "range", E.NONE, id="same protocol"),
    pytest.param(PREPARING, "a", 0, None, None, E.REBALANCE_IN_PROGRESS, id="preparing"),
    pytest.param(COMPLETING, "b", 0, None, None, None, id="follower waits in Completing"),
    pytest.param(COMPLETING, "a", 0, None, None, E.NONE, id="leader in Completing"),
    pytest.param(STABLE, "b", 0, None, None, E.NONE, id="stable"),
    pytest.param(
        STABLE, "z", 1, "connect", None, E.UNKNOWN_MEMBER_ID, id="UNKNOWN_MEMBER_ID before ILLEGAL_GENERATION"
    ),
    pytest.param(
        STABLE,
        "a",
        1,
        "connect",
        None,
        E.ILLEGAL_GENERATION,
        id="ILLEGAL_GENERATION before INCONSISTENT_GROUP_PROTOCOL",
    ),
    pytest.param(
        PREPARING,
        "a",
        0,
        "connect",
        None,
        E.INCONSISTENT_GROUP_PROTOCOL,
        id="INCONSISTENT_GROUP_PROTOCOL before REBALANCE_IN_PROGRESS",
    ),
]


@pytest.mark.parametrize(("state", "member_id", "beside", "protocol_type", "name", "answer"), SYNCS)
def test_sync(state, member_id, beside, protocol_type, name, answer):
    harness = GroupHarness()
    harness.in_state(state)
    generation = harness.group.generation + beside
    ask = harness.sync(member_id, generation=generation, protocol_type=protocol_type, protocol_name=name)
    assert (None if ask.parked else ask.error) is answer


def test_sync_checks_the_instance_id():
    harness = GroupHarness()
    harness.in_state(STABLE)
    assert harness.sync("a", instance_id="i").error is E.UNKNOWN_MEMBER_ID


COMMITS = [  # state, member, generation (None: the group's), instance id, error
    pytest.param(EMPTY, "", -1, None, E.NONE, id="simple"),
    pytest.param(EMPTY, "who", -1, None, E.NONE, id="any member id"),
    pytest.param(EMPTY, "", -1, "i", E.NONE, id="any instance"),
    pytest.param(EMPTY, "a", 1, None, E.UNKNOWN_MEMBER_ID, id="empty, with a generation"),
    pytest.param(EMPTY, "", 0, None, E.UNKNOWN_MEMBER_ID, id="empty, with the first generation"),
    pytest.param(STABLE, "a", None, None, E.NONE, id="stable"),
    pytest.param(PREPARING, "a", None, None, E.NONE, id="preparing"),
    pytest.param(COMPLETING, "a", None, None, E.REBALANCE_IN_PROGRESS, id="completing"),
    pytest.param(STABLE, "z", None, None, E.UNKNOWN_MEMBER_ID, id="unknown id"),
    pytest.param(STABLE, "a", 0, None, E.ILLEGAL_GENERATION, id="generation 0"),
    pytest.param(STABLE, "a", -1, None, E.ILLEGAL_GENERATION, id="member id, no generation"),
    pytest.param(STABLE, "", None, None, E.UNKNOWN_MEMBER_ID, id="generation, no member id"),
    pytest.param(STABLE, "", -1, "i", E.UNKNOWN_MEMBER_ID, id="instance only"),
    pytest.param(STABLE, "", -1, None, E.UNKNOWN_MEMBER_ID, id="stable, no identity"),
    pytest.param(PREPARING, "", -1, None, E.UNKNOWN_MEMBER_ID, id="preparing, no identity"),
    pytest.param(COMPLETING, "", -1, None, E.UNKNOWN_MEMBER_ID, id="UNKNOWN_MEMBER_ID before REBALANCE_IN_PROGRESS"),
    pytest.param(COMPLETING, "a", 9, None, E.ILLEGAL_GENERATION, id="ILLEGAL_GENERATION before REBALANCE_IN_PROGRESS"),
]


@pytest.mark.parametrize(("state", "member_id", "generation", "instance_id", "answer"), COMMITS)
def test_commit(state, member_id, generation, instance_id, answer):
    harness = GroupHarness()
    harness.in_state(state)
    number = harness.group.generation if generation is None else generation
    assert harness.commit(member_id, number, instance_id) is answer


TRANSACTIONAL_COMMITS = [  # state, member, generation (None: the group's), instance id, error
    pytest.param(EMPTY, "", -1, None, E.NONE, id="simple"),
    pytest.param(EMPTY, "x", -1, None, E.NONE, id="any member id"),
    pytest.param(EMPTY, "", -1, "inst", E.NONE, id="any instance"),
    pytest.param(EMPTY, "x", 0, None, E.UNKNOWN_MEMBER_ID, id="empty, with a generation"),
    pytest.param(EMPTY, "", 0, "inst", E.UNKNOWN_MEMBER_ID, id="empty, instance with a generation"),
    pytest.param(STABLE, "", -1, None, E.NONE, id="stable, no identity"),
    pytest.param(STABLE, "x", -1, None, E.UNKNOWN_MEMBER_ID, id="unknown id"),
    pytest.param(STABLE, "a", -1, None, E.ILLEGAL_GENERATION, id="member id, no generation"),
    pytest.param(COMPLETING, "a", None, None, E.NONE, id="completing"),
]


@pytest.mark.parametrize(("state", "member_id", "generation", "instance_id", "answer"), TRANSACTIONAL_COMMITS)
def test_transactional_commit(state, member_id, generation, instance_id, answer):
    harness = GroupHarness()
    harness.in_state(state)
    number = harness.group.generation if generation is None else generation
    event = Commit(member_id=member_id, instance_id=instance_id, generation=number)
    assert rules.transactional_commit_error(harness.group, event) is answer


def member(member_id: str, *names: str) -> Member:
    return Member(
        member_id=member_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10.0,
        rebalance_timeout=60.0,
        protocols=tuple((name, b"m") for name in names),
    )


def join_of(protocol_type: str, protocols: list[tuple[str, bytes]]) -> Join:
    return Join(
        ticket=TICKET,
        member_id="",
        new_member_id="new",
        require_member_id=False,
        client_id="",
        client_host="",
        session_timeout=1.0,
        rebalance_timeout=1.0,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def group_of(*offers: tuple[str, ...], protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup(group_id="g", initial_delay=0.0, protocol_type=protocol_type)
    for number, names in enumerate(offers):
        group.add_member(member(f"m{number}", *names))
    return group


FITS = [  # protocols of the members, type, names, whether they are supported
    pytest.param([], "consumer", ["range"], True, id="empty group"),
    pytest.param([], "connect", ["range"], True, id="empty group, another type than before"),
    pytest.param([], "", ["range"], False, id="empty group, no type"),
    pytest.param([], "consumer", [], False, id="empty group, no protocol"),
    pytest.param([], "consumer", [""], True, id="empty protocol name"),
    pytest.param([("range",)], "consumer", ["range"], True, id="same protocol"),
    pytest.param([("range",)], "connect", ["range"], False, id="other type"),
    pytest.param([("range",)], "consumer", ["sticky"], False, id="unsupported name"),
    pytest.param([("range",)], "consumer", [], False, id="no protocols"),
    pytest.param([("range", "sticky"), ("sticky",)], "consumer", ["range"], False, id="name of one of two members"),
    pytest.param([("range", "sticky"), ("sticky",)], "consumer", ["range", "sticky"], True, id="name of all members"),
    pytest.param([("range", "range"), ("sticky",)], "consumer", ["range"], False, id="duplicate name counts once"),
]


@pytest.mark.parametrize(("offers", "protocol_type", "names", "fits"), FITS)
def test_supported_protocols(offers, protocol_type, names, fits):
    event = join_of(protocol_type, [(name, b"") for name in names])
    assert rules.supports_protocols(group_of(*offers), event) is fits


REJOINS = [  # state, is leader, unchanged protocols, gets the current generation
    pytest.param(PREPARING, False, True, False, id="preparing"),
    pytest.param(COMPLETING, True, True, True, id="completing, leader"),
    pytest.param(COMPLETING, False, True, True, id="completing, follower"),
    pytest.param(COMPLETING, False, False, False, id="completing, other protocols"),
    pytest.param(STABLE, True, True, False, id="stable, leader"),
    pytest.param(STABLE, False, True, True, id="stable, follower"),
    pytest.param(STABLE, False, False, False, id="stable, other protocols"),
]


@pytest.mark.parametrize(("state", "leads", "same", "current"), REJOINS)
def test_rejoin_gets_current_generation(state, leads, same, current):
    group = group_of(("range",), ("range",))
    group.state, group.leader = state, "m0" if leads else "m1"
    event = join_of("consumer", [("range", b"m" if same else b"other")])
    assert rules.gets_current_generation(group, group.members["m0"], event) is current


VOTES = [  # protocols of the members, selected protocol
    pytest.param([("range",)], "range", id="one member"),
    pytest.param([("sticky", "range"), ("sticky", "range")], "sticky", id="first choice of both members"),
    pytest.param([("a", "b"), ("b", "a"), ("b", "a")], "b", id="most votes"),
    pytest.param([("x", "range"), ("range",)], "range", id="choice that another member lacks"),
    pytest.param([("range", "roundrobin"), ("roundrobin", "range")], "range", id="tie"),
    pytest.param([("roundrobin", "range"), ("range", "roundrobin")], "range", id="tie in the other join order"),
    pytest.param([("a", "a", "b"), ("b", "a"), ("b", "a")], "b", id="duplicate name votes once"),
]


@pytest.mark.parametrize(("offers", "winner"), VOTES)
def test_selected_protocol(offers, winner):
    assert rules.select_protocol(group_of(*offers)) == winner


def test_order_of_join_checks_is_kafkas():
    wrong = SimpleNamespace(instance_id=None, member_id="z", generation=99)
    group = group_of(("range",))
    assert rules.member_error(group, wrong) is E.UNKNOWN_MEMBER_ID
    wrong.member_id = "m0"
    assert rules.member_error(group, wrong) is E.ILLEGAL_GENERATION
    assert rules.member_error(group, Heartbeat(ticket=TICKET, member_id="m0", generation=0)) is E.NONE


def test_all_requests_check_the_instance_before_the_member():
    group = group_of(("range",))
    for event in (
        Heartbeat(ticket=TICKET, member_id="m0", instance_id="i", generation=0),
        Sync(ticket=TICKET, member_id="m0", instance_id="i", generation=0),
        Commit(member_id="m0", instance_id="i", generation=0),
    ):
        assert rules.member_error(group, event) is E.UNKNOWN_MEMBER_ID


PENDING = [  # member id, instance id, whether the version has MEMBER_ID_REQUIRED, pending members of 3, refused
    ("", None, True, 3, True),
    ("", None, True, 2, False),
    ("m", None, True, 3, False),
    ("", "i", True, 3, False),
    ("", None, False, 3, False),
]


@pytest.mark.parametrize(("member_id", "instance_id", "required", "pending", "refused"), PENDING)
def test_only_joins_that_get_an_id_count_as_pending(member_id, instance_id, required, pending, refused):
    event = replace(join_of("consumer", []), member_id=member_id, instance_id=instance_id, require_member_id=required)
    assert rules.exceeds_pending_members(event, pending, 3) is refused

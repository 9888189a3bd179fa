"""The decision tables, row by row; sections are numbered as in test_classic.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tools.play import Play

from kwire import ErrorCode as E
from mockbroker.calls import Ticket
from mockbroker.group import rules
from mockbroker.group.events import Commit, Heartbeat, Join, Sync
from mockbroker.group.state import Group, Member, State

EMPTY, PREPARING, COMPLETING, STABLE = State
TICKET = Ticket(1, 1, 0, 0)

HEARTBEATS = [  # state, member, generation beside the group's, instance id, answer
    pytest.param(EMPTY, "a", 0, None, E.UNKNOWN_MEMBER_ID, id="4.2-8 empty"),
    pytest.param(PREPARING, "a", 0, None, E.REBALANCE_IN_PROGRESS, id="4.2-9 preparing"),
    pytest.param(COMPLETING, "a", 0, None, E.NONE, id="4.2-10 completing"),
    pytest.param(STABLE, "a", 0, None, E.NONE, id="4.2-10 stable"),
    *(
        pytest.param(state, "z", 0, None, E.UNKNOWN_MEMBER_ID, id=f"4.2-6 unknown, {state.name}")
        for state in (PREPARING, COMPLETING, STABLE)
    ),
    pytest.param(STABLE, "a", 0, "i", E.UNKNOWN_MEMBER_ID, id="4.2-6 instance"),
    pytest.param(STABLE, "", 0, None, E.UNKNOWN_MEMBER_ID, id="4.2-6 no id"),
    *(
        pytest.param(state, "a", 1, None, E.ILLEGAL_GENERATION, id=f"4.2-7 later generation, {state.name}")
        for state in (PREPARING, COMPLETING, STABLE)
    ),
    pytest.param(STABLE, "a", -1, None, E.ILLEGAL_GENERATION, id="4.2-7 earlier generation"),
    pytest.param(STABLE, "z", 1, None, E.UNKNOWN_MEMBER_ID, id="10.32 25 before 22"),
]


@pytest.mark.parametrize(("state", "member_id", "beside", "instance_id", "answer"), HEARTBEATS)
def test_heartbeat(state, member_id, beside, instance_id, answer):
    play = Play()
    play.in_state(state)
    assert play.heartbeat(member_id, play.group.generation + beside, instance_id=instance_id) is answer


def test_every_state_has_a_line_in_the_tables():
    assert set(rules.HEARTBEAT) == set(rules.COMMIT) == set(State)


SYNCS = [  # state, member, generation beside the group's, type, name, answer; None: parked
    pytest.param(EMPTY, "a", 0, None, None, E.UNKNOWN_MEMBER_ID, id="4.1-6 empty"),
    pytest.param(STABLE, "z", 0, None, None, E.UNKNOWN_MEMBER_ID, id="4.1-8 unknown"),
    pytest.param(STABLE, "a", 1, None, None, E.ILLEGAL_GENERATION, id="4.1-9 generation"),
    pytest.param(STABLE, "a", 0, "connect", None, E.INCONSISTENT_GROUP_PROTOCOL, id="4.1-10 type"),
    pytest.param(STABLE, "a", 0, None, "roundrobin", E.INCONSISTENT_GROUP_PROTOCOL, id="4.1-10 name"),
    pytest.param(STABLE, "a", 0, "consumer", "range", E.NONE, id="4.1-10 the same"),
    pytest.param(PREPARING, "a", 0, None, None, E.REBALANCE_IN_PROGRESS, id="4.1-11 preparing"),
    pytest.param(COMPLETING, "b", 0, None, None, None, id="4.1-12 follower parked"),
    pytest.param(COMPLETING, "a", 0, None, None, E.NONE, id="4.1-13 leader"),
    pytest.param(STABLE, "b", 0, None, None, E.NONE, id="4.1-14 stable"),
    pytest.param(STABLE, "z", 1, "connect", None, E.UNKNOWN_MEMBER_ID, id="10.32 25 before 22"),
    pytest.param(STABLE, "a", 1, "connect", None, E.ILLEGAL_GENERATION, id="10.32 22 before 23"),
    pytest.param(PREPARING, "a", 0, "connect", None, E.INCONSISTENT_GROUP_PROTOCOL, id="10.32 23 before 27"),
]


@pytest.mark.parametrize(("state", "member_id", "beside", "protocol_type", "name", "answer"), SYNCS)
def test_sync(state, member_id, beside, protocol_type, name, answer):
    play = Play()
    play.in_state(state)
    generation = play.group.generation + beside
    ask = play.sync(member_id, generation=generation, protocol_type=protocol_type, protocol_name=name)
    assert (None if ask.parked else ask.error) is answer


def test_sync_names_an_instance():
    play = Play()
    play.in_state(STABLE)
    assert play.sync("a", instance_id="i").error is E.UNKNOWN_MEMBER_ID


COMMITS = [  # state, member, generation (None: the group's), instance, answer
    pytest.param(EMPTY, "", -1, None, E.NONE, id="4.4-5 simple"),
    pytest.param(EMPTY, "who", -1, None, E.NONE, id="10.5 any member id"),
    pytest.param(EMPTY, "", -1, "i", E.NONE, id="4.4-5 any instance"),
    pytest.param(EMPTY, "a", 1, None, E.UNKNOWN_MEMBER_ID, id="10.14 empty, with a generation"),
    pytest.param(STABLE, "a", None, None, E.NONE, id="4.4-10 stable"),
    pytest.param(PREPARING, "a", None, None, E.NONE, id="4.4 preparing"),
    pytest.param(COMPLETING, "a", None, None, E.REBALANCE_IN_PROGRESS, id="4.4-8 completing"),
    pytest.param(STABLE, "z", None, None, E.UNKNOWN_MEMBER_ID, id="10.11 unknown id"),
    pytest.param(STABLE, "a", 0, None, E.ILLEGAL_GENERATION, id="10.11 generation 0"),
    pytest.param(STABLE, "a", -1, None, E.ILLEGAL_GENERATION, id="4.4-6 member id, no generation"),
    pytest.param(STABLE, "", None, None, E.UNKNOWN_MEMBER_ID, id="4.4-6 generation, no member id"),
    pytest.param(STABLE, "", -1, "i", E.UNKNOWN_MEMBER_ID, id="4.4-6 instance only"),
    pytest.param(STABLE, "", -1, None, E.UNKNOWN_MEMBER_ID, id="4.4-7 stable, no identity"),
    pytest.param(PREPARING, "", -1, None, E.UNKNOWN_MEMBER_ID, id="4.4-7 preparing, no identity"),
    pytest.param(COMPLETING, "", -1, None, E.UNKNOWN_MEMBER_ID, id="10.9 25 before 27"),
    pytest.param(COMPLETING, "a", 9, None, E.ILLEGAL_GENERATION, id="4.4 22 before 27"),
]


@pytest.mark.parametrize(("state", "member_id", "generation", "instance_id", "answer"), COMMITS)
def test_commit(state, member_id, generation, instance_id, answer):
    play = Play()
    play.in_state(state)
    number = play.group.generation if generation is None else generation
    assert play.commit(member_id, number, instance_id) is answer


def member(member_id: str, *names: str) -> Member:
    return Member(
        member_id=member_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10.0,
        rebalance_timeout=60.0,
        protocols=tuple((name, b"m") for name in names),
    )


def group_of(*offers: tuple[str, ...], protocol_type: str = "consumer") -> Group:
    group = Group(group_id="g", initial_delay=0.0, protocol_type=protocol_type)
    for number, names in enumerate(offers):
        group.add(member(f"m{number}", *names))
    return group


FITS = [  # what the members offer, type, names, fits
    pytest.param([], "consumer", ["range"], True, id="3.4 empty group"),
    pytest.param([], "connect", ["range"], True, id="3.4 empty group, another type than before"),
    pytest.param([], "", ["range"], False, id="3.4 empty group, no type"),
    pytest.param([], "consumer", [], False, id="3.4 empty group, no protocol"),
    pytest.param([], "consumer", [""], True, id="3.4 a protocol may have an empty name"),
    pytest.param([("range",)], "consumer", ["range"], True, id="3.4 the same"),
    pytest.param([("range",)], "connect", ["range"], False, id="10.12 other type"),
    pytest.param([("range",)], "consumer", ["sticky"], False, id="10.12 unsupported name"),
    pytest.param([("range",)], "consumer", [], False, id="3.4 nothing offered"),
    pytest.param([("range", "sticky"), ("sticky",)], "consumer", ["range"], False, id="3.4 one of two members can"),
    pytest.param([("range", "sticky"), ("sticky",)], "consumer", ["range", "sticky"], True, id="3.4 all can"),
    pytest.param([("range", "range"), ("sticky",)], "consumer", ["range"], False, id="6 said twice counts once"),
]


@pytest.mark.parametrize(("offers", "protocol_type", "names", "fits"), FITS)
def test_protocols_fit(offers, protocol_type, names, fits):
    event = Join(
        ticket=TICKET,
        member_id="",
        fresh_id="new",
        id_required=False,
        client_id="",
        client_host="",
        session_timeout=1.0,
        rebalance_timeout=1.0,
        protocol_type=protocol_type,
        protocols=[(name, b"") for name in names],
    )
    assert rules.protocols_fit(group_of(*offers), event) is fits


VOTES = [  # what the members offer, the winner
    pytest.param([("range",)], "range", id="5 alone"),
    pytest.param([("sticky", "range"), ("sticky", "range")], "sticky", id="5 first wish of both"),
    pytest.param([("a", "b"), ("b", "a"), ("b", "a")], "b", id="5 most votes"),
    pytest.param([("x", "range"), ("range",)], "range", id="5 a wish not all can do is passed over"),
    pytest.param([("range", "roundrobin"), ("roundrobin", "range")], "range", id="10.27 tie"),
    pytest.param([("roundrobin", "range"), ("range", "roundrobin")], "range", id="10.27 tie, joined the other way"),
    pytest.param([("a", "a", "b"), ("b", "a"), ("b", "a")], "b", id="6 said twice is one vote"),
]


@pytest.mark.parametrize(("offers", "winner"), VOTES)
def test_choose_protocol(offers, winner):
    assert rules.choose_protocol(group_of(*offers)) == winner


def test_checks_stand_in_kafkas_order():
    wrong = SimpleNamespace(instance_id=None, member_id="z", generation=99)
    group = group_of(("range",))
    assert rules.member_error(group, wrong) is E.UNKNOWN_MEMBER_ID
    wrong.member_id = "m0"
    assert rules.member_error(group, wrong) is E.ILLEGAL_GENERATION
    assert rules.member_error(group, Heartbeat(ticket=TICKET, member_id="m0", generation=0)) is E.NONE


def test_the_words_for_requests_share_one_order_of_checks():
    group = group_of(("range",))
    for event in (
        Heartbeat(ticket=TICKET, member_id="m0", instance_id="i", generation=0),
        Sync(ticket=TICKET, member_id="m0", instance_id="i", generation=0),
        Commit(member_id="m0", instance_id="i", generation=0),
    ):
        assert rules.member_error(group, event) is E.UNKNOWN_MEMBER_ID

"""The answers of a coordinator in each of its states, as tables; no consumers are involved."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from tools.draft_groups import GROUP, TOPIC, beat, commit, join

from mockbroker.lab.history.draft import Coordinating, Error, Store
from mockbroker.lab.history.draft.actions import Action, Answer, Cut, Keep, Noticed, Write
from mockbroker.lab.history.draft.coordinator import Coordinator
from mockbroker.lab.history.draft.messages import (
    GroupRequest,
    JoinGroupResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Response,
)
from mockbroker.lab.history.draft.rules import Cause
from mockbroker.lab.history.draft.store import GroupRecord

ONE, TWO, NEW, GENERATION = "g-one", "g-two", "g-new", 3
NONE, ILLEGAL, UNKNOWN = Error.NONE, Error.ILLEGAL_GENERATION, Error.UNKNOWN_CONSUMER
STARTING, PROTOCOL = Error.COORDINATOR_STARTUP_NOT_COMPLETE, Error.ILLEGAL_PROTOCOL_STATE
PARKED = None

CATCH_UP, READY = Coordinating.CATCH_UP, Coordinating.READY
PREPARING, REBALANCING, STEADY = Coordinating.PREPARING, Coordinating.REBALANCING, Coordinating.STEADY


def stored() -> Store:
    """Return a store with two members of generation 3, which own two partitions each."""
    store = Store({TOPIC: 4})
    ownership = {ONE: ((TOPIC, 0), (TOPIC, 1)), TWO: ((TOPIC, 2), (TOPIC, 3))}
    store.write(GROUP, GroupRecord(GENERATION, (TOPIC,), "range", 6.0, {ONE: "h1", TWO: "h2"}, ownership))
    return store


def coordinator_in(state: Coordinating, *, took_over: bool = False) -> tuple[Coordinator, Store]:
    """Return a coordinator in a state at time 0, and its store. In REBALANCING, the first of its two members has
    received its answer, and the second has not."""
    store, numbers = stored(), count(1)
    result = Coordinator(GROUP, store, lambda: str(next(numbers)), took_over=took_over, answer_gap=1.0)
    result.elected()
    if state is not CATCH_UP:
        result.loaded(0.0)
    if state is STEADY:
        for consumer_id in (ONE, TWO):
            result.handle(1, beat(consumer_id, GENERATION), 0.0)
    if state in (PREPARING, REBALANCING):
        result.handle(9, join(), 0.0)
    if state is REBALANCING:
        result.disconnected(9, 0.0)
        for connection, consumer_id in ((1, ONE), (2, TWO)):
            written(result.handle(connection, join(consumer_id), 0.0), store)
    assert result.state is state
    return result, store


def written(actions: list[Action], store: Store) -> list[Action]:
    for action in actions:
        if isinstance(action, Write):
            store.write(action.group, action.record)
    return actions


def answer(actions: list[Action], connection: int) -> Response | None:
    """Return the answer on a connection; None while the request is parked."""
    results = [action.response for action in actions if isinstance(action, Answer) and action.connection == connection]
    assert len(results) <= 1
    return results[0] if results else None


def error(coordinator: Coordinator, request: GroupRequest) -> Error | None:
    response = answer(coordinator.handle(50, request, 1.0), 50)
    return None if response is None else response.error


# Columns: the answer to a heartbeat or commit with the current generation, the previous one, a later one, an unknown
# member id, and no member id.
MEMBERS = {
    CATCH_UP: (STARTING, STARTING, STARTING, STARTING, STARTING),
    READY: (NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN),
    STEADY: (NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN),
    REBALANCING: (NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN),  # of a member that has received its answer
}
WHO = [(ONE, 0), (ONE, -1), (ONE, 1), (NEW, 0), (None, 0)]


@pytest.mark.parametrize("state", MEMBERS)
@pytest.mark.parametrize("number", range(len(WHO)))
@pytest.mark.parametrize("request_of", [beat, commit])
def test_answer_to_a_member(state: Coordinating, number: int, request_of: object) -> None:
    coordinator, store = coordinator_in(state)
    assert callable(request_of)
    consumer_id, ahead = WHO[number]
    request = request_of(consumer_id, store.read(GROUP).generation + ahead)
    assert error(coordinator, request) is MEMBERS[state][number]


@pytest.mark.parametrize(("consumer_id", "ahead"), WHO)
def test_every_heartbeat_reports_a_rebalance(consumer_id: str | None, ahead: int) -> None:
    coordinator, _ = coordinator_in(PREPARING)
    expected = ILLEGAL if consumer_id == ONE else UNKNOWN
    assert error(coordinator, beat(consumer_id, GENERATION + ahead)) is expected


COMMITS = [  # state, consumer, generation relative to the stored one, error
    (PREPARING, ONE, 0, NONE),  # before it rejoins, its commits are accepted
    (PREPARING, ONE, 1, ILLEGAL),  # later than the coordinator's generation
    (PREPARING, ONE, -1, ILLEGAL),  # earlier than the stored generation
    (REBALANCING, ONE, 0, NONE),  # it has received its answer
    (REBALANCING, TWO, 0, ILLEGAL),  # it has not received this generation yet
    (REBALANCING, TWO, -1, ILLEGAL),  # its own generation is no longer current
    (STEADY, ONE, 0, NONE),
    (STEADY, ONE, 1, ILLEGAL),
    (STEADY, ONE, -1, ILLEGAL),
]


@pytest.mark.parametrize(("state", "consumer_id", "ahead", "expected"), COMMITS)
def test_commit_in_a_rebalance(state: Coordinating, consumer_id: str, ahead: int, expected: Error) -> None:
    coordinator, store = coordinator_in(state)
    request = commit(consumer_id, store.read(GROUP).generation + ahead, offset=77)
    actions = coordinator.handle(50, request, 1.0)
    response = answer(actions, 50)
    assert response is not None
    assert response.error is expected
    kept = [action.offsets for action in actions if isinstance(action, Keep)]
    assert kept == ([{(TOPIC, 0): 77}] if expected is NONE else [])


JOINS = [  # state, whether the coordinator took over, member id, strategy, error (None: parked)
    (CATCH_UP, False, None, "range", STARTING),
    (CATCH_UP, False, ONE, "range", STARTING),
    (CATCH_UP, True, None, "range", PROTOCOL),
    (CATCH_UP, True, ONE, "range", PROTOCOL),
    *((state, False, None, "range", PARKED) for state in (READY, PREPARING, REBALANCING, STEADY)),
    *((state, False, ONE, "range", PARKED) for state in (READY, PREPARING, REBALANCING, STEADY)),
    *((state, False, NEW, "range", UNKNOWN) for state in (READY, PREPARING, REBALANCING, STEADY)),
    *(
        (state, False, None, "roundrobin", Error.INCONSISTENT_PARTITIONING_STRATEGY)
        for state in (READY, PREPARING, REBALANCING, STEADY)
    ),
    *(
        (state, False, None, "sticky", Error.UNKNOWN_PARTITIONING_STRATEGY)
        for state in (READY, PREPARING, REBALANCING, STEADY)
    ),
]


@pytest.mark.parametrize(("state", "took_over", "consumer_id", "strategy", "expected"), JOINS)
def test_answer_to_a_join(
    state: Coordinating, took_over: bool, consumer_id: str | None, strategy: str, expected: Error | None
) -> None:
    coordinator, _ = coordinator_in(state, took_over=took_over)
    assert error(coordinator, join(consumer_id, strategy)) is expected


@pytest.mark.parametrize("took_over", [False, True])
def test_loading_coordinator_checks_only_joins(took_over: bool) -> None:
    coordinator, _ = coordinator_in(CATCH_UP, took_over=took_over)
    for request in (beat(ONE, GENERATION), commit(ONE, GENERATION), OffsetFetchRequest(group=GROUP, partitions=())):
        assert error(coordinator, request) is STARTING
    assert error(coordinator, join()) is (PROTOCOL if took_over else STARTING)


@pytest.mark.parametrize("state", [READY, STEADY])
@pytest.mark.parametrize("request_", [join(NEW), join(strategy="sticky"), join(strategy="roundrobin")])
def test_refused_join_causes_no_rebalance(state: Coordinating, request_: GroupRequest) -> None:
    coordinator, _ = coordinator_in(state)
    actions = coordinator.handle(50, request_, 1.0)
    assert [type(action) for action in actions] == [Answer]
    assert coordinator.state is state
    assert error(coordinator, beat(ONE, GENERATION)) is NONE


def test_any_client_fetches_offsets_without_uncommitted_ones() -> None:
    coordinator, store = coordinator_in(STEADY)
    store.commit(GROUP, {(TOPIC, 1): 8})
    request = OffsetFetchRequest(group=GROUP, partitions=((TOPIC, 0), (TOPIC, 1)))
    assert answer(coordinator.handle(50, request, 1.0), 50) == OffsetFetchResponse(offsets={(TOPIC, 1): 8})


def test_ready_is_steady_after_every_heartbeat() -> None:
    coordinator, _ = coordinator_in(READY)
    coordinator.handle(1, beat(ONE, GENERATION), 1.0)
    coordinator.handle(1, beat(ONE, GENERATION), 2.0)
    assert coordinator.state is READY
    coordinator.handle(2, beat(TWO, GENERATION), 2.0)
    assert coordinator.state is STEADY


@pytest.mark.parametrize("ahead", [-1, 1])
def test_other_generation_after_a_failover_begins_a_rebalance(ahead: int) -> None:
    coordinator, _ = coordinator_in(READY)
    actions = coordinator.handle(1, beat(ONE, GENERATION + ahead), 1.0)
    assert Noticed(GROUP, Cause.STALE) in actions
    assert coordinator.state is PREPARING
    assert error(coordinator, beat(TWO, GENERATION)) is ILLEGAL


def test_changed_partitions_begin_a_rebalance_after_loading() -> None:
    store = stored()
    store.set_topic(TOPIC, 5)
    coordinator = Coordinator(GROUP, store, lambda: "x")
    coordinator.elected()
    assert Noticed(GROUP, Cause.CHANGE) in coordinator.loaded(0.0)
    assert coordinator.state is PREPARING


def test_unchanged_partitions_start_no_rebalance() -> None:
    coordinator, _ = coordinator_in(READY)
    assert coordinator.topics_changed() == []


def test_answers_follow_the_write_and_each_has_its_own_share() -> None:
    coordinator, _ = coordinator_in(STEADY)
    assert answer(coordinator.handle(1, join(ONE), 1.0), 1) is PARKED
    actions = coordinator.handle(2, join(TWO), 1.0)
    kinds = [type(action) for action in actions]
    assert kinds.index(Write) < kinds.index(Answer)
    (write,) = [action for action in actions if isinstance(action, Write)]
    assert write.record.generation == GENERATION + 1
    first = answer(actions, 1)
    second = answer(coordinator.tick(2.0), 2)
    assert isinstance(first, JoinGroupResponse)
    assert isinstance(second, JoinGroupResponse)
    assert [first.generation, second.generation] == [GENERATION + 1] * 2
    assert [first.partitions, second.partitions] == list(write.record.ownership.values())


def test_session_runs_from_last_heartbeat_not_during_a_join() -> None:
    coordinator, _ = coordinator_in(READY)
    assert coordinator.deadline() == 6.0
    for consumer_id in (ONE, TWO):
        coordinator.handle(1, beat(consumer_id, GENERATION), 4.0)
    coordinator.tick(6.0)  # no session expires
    assert coordinator.deadline() == 10.0
    coordinator.handle(1, join(ONE), 5.0)
    assert coordinator.handle(2, beat(TWO, GENERATION), 5.5)
    assert coordinator.tick(10.0) == []  # the session of the joining member would have expired
    actions = coordinator.tick(11.5)
    assert not coordinator.members.keys() & {TWO}  # only the other member expired, which ended the join phase
    response = answer(actions, 1)
    assert isinstance(response, JoinGroupResponse)
    assert len(response.partitions) == 4
    assert coordinator.deadline() == 17.5  # a whole session timeout after the answer


def test_repeated_join_has_no_session_until_its_response() -> None:
    coordinator, _ = coordinator_in(REBALANCING)
    coordinator.handle(3, join(TWO), 0.5)  # the connection was lost before its answer
    coordinator.tick(1.0)
    assert coordinator.state is PREPARING  # the next round
    coordinator.handle(1, beat(ONE, GENERATION + 1), 5.0)
    assert coordinator.tick(8.0) == []
    actions = coordinator.handle(1, join(ONE), 9.0)
    assert answer(actions, 3) is not None


@pytest.mark.parametrize("also", [Cause.CHANGE, Cause.JOIN])
def test_a_rebalance_that_has_another_cause_is_not_called_off(also: Cause) -> None:
    coordinator, store = coordinator_in(READY)
    coordinator.handle(1, beat(ONE, GENERATION), 0.0)
    coordinator.handle(2, beat(TWO, GENERATION), 3.0)
    assert Noticed(GROUP, Cause.SILENCE) in coordinator.tick(6.0)
    if also is Cause.CHANGE:
        store.set_topic(TOPIC, 5)
        assert coordinator.topics_changed() == [Noticed(GROUP, Cause.CHANGE)]
    else:
        coordinator.handle(3, join(), 6.1)
    assert error(coordinator, beat(ONE, GENERATION)) is ILLEGAL
    assert coordinator.state is PREPARING


def test_a_rebalance_that_has_no_other_cause_is_called_off() -> None:
    coordinator, _ = coordinator_in(READY)
    coordinator.handle(2, beat(TWO, GENERATION), 3.0)
    coordinator.tick(6.0)
    response = answer(coordinator.handle(1, beat(ONE, GENERATION), 6.1), 1)
    assert response is not None
    assert response.error is NONE
    assert coordinator.state is STEADY


def test_a_dead_member_is_cut_off() -> None:
    coordinator, _ = coordinator_in(READY)
    coordinator.handle(1, beat(ONE, GENERATION), 0.0)
    coordinator.handle(2, beat(TWO, GENERATION), 3.0)
    actions = coordinator.tick(6.0)
    assert Cut(1) in actions
    assert Cut(2) not in actions
    assert coordinator.state is PREPARING


def test_heartbeats_without_a_join_do_not_prolong_a_rebalance() -> None:
    coordinator, _ = coordinator_in(STEADY)
    coordinator.handle(1, join(ONE), 0.0)
    for second in range(1, 7):
        coordinator.tick(float(second))
        coordinator.handle(2, beat(TWO, GENERATION), float(second))
    actions = coordinator.tick(7.0)  # a session timeout after its first heartbeat with IllegalGeneration
    assert answer(actions, 1) is not None
    assert TWO not in coordinator.members


def test_lost_connection_drops_its_join_and_session_continues() -> None:
    coordinator, _ = coordinator_in(STEADY)
    coordinator.handle(1, join(ONE), 1.0)
    coordinator.disconnected(1, 2.0)
    coordinator.handle(2, join(TWO), 3.0)
    assert coordinator.state is PREPARING  # the coordinator waits for member ONE again
    actions = coordinator.tick(8.0)
    assert answer(actions, 2) is not None
    assert list(coordinator.members) == [TWO]


def test_second_join_of_a_consumer_replaces_the_first() -> None:
    coordinator, _ = coordinator_in(STEADY)
    coordinator.handle(1, join(ONE), 1.0)
    coordinator.handle(3, join(ONE), 2.0)
    actions = coordinator.handle(2, join(TWO), 3.0)
    assert answer(actions, 1) is None
    assert answer(actions, 3) is not None


def test_pending_joins_get_not_coordinator_after_an_election() -> None:
    coordinator, _ = coordinator_in(REBALANCING)
    coordinator.handle(5, join(), 0.0)
    actions = coordinator.resign()
    assert {a.connection: a.response.error for a in actions if isinstance(a, Answer)} == {
        5: Error.NOT_COORDINATOR_FOR_GROUP,
        2: Error.NOT_COORDINATOR_FOR_GROUP,
    }
    assert coordinator.state is Coordinating.DOWN


def test_partitions_added_during_responses_begin_another_round() -> None:
    coordinator, store = coordinator_in(REBALANCING)
    store.set_topic(TOPIC, 6)
    assert coordinator.topics_changed() == []
    actions = coordinator.tick(1.0)
    assert Noticed(GROUP, Cause.CHANGE) in actions
    assert coordinator.state is PREPARING


def test_a_sole_member_may_change_its_strategy() -> None:
    store = stored()
    record = store.read(GROUP)
    store.write(GROUP, replace(record, hosts={ONE: "h1"}, ownership={ONE: tuple((TOPIC, n) for n in range(4))}))
    coordinator = Coordinator(GROUP, store, lambda: "x")
    coordinator.elected()
    coordinator.loaded(0.0)
    response = answer(coordinator.handle(1, join(ONE, "roundrobin"), 1.0), 1)
    assert response is not None
    assert response.error is NONE
    assert coordinator.record.strategy == "roundrobin"

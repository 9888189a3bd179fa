"""The tables of states: every transition in them occurs, and a transition that is not in them raises an exception."""

from __future__ import annotations

import pytest
from golden import ROOT
from tools.draft_groups import GROUP, TOPIC, WARM, last_heartbeat, settled

from mockbroker.lab.history.draft import Consuming, Coordinating, DraftCluster, DraftSettings, Options, Store
from mockbroker.lab.history.draft.consumer import Consumer
from mockbroker.lab.history.draft.coordinator import Coordinator
from mockbroker.lab.history.draft.failover import STEPS, sent_generation
from mockbroker.lab.history.draft.rules import CONSUMER, COORDINATOR, Cause, ConsumerEvent, IllegalTransition, move
from mockbroker.lab.history.draft.store import GroupRecord


@pytest.mark.parametrize("state", Consuming)
@pytest.mark.parametrize("why", ConsumerEvent)
def test_consumer_follows_its_transition_table(state: Consuming, why: ConsumerEvent) -> None:
    if (state, why) in CONSUMER:
        assert move(CONSUMER, state, why) is CONSUMER[state, why]
    else:
        with pytest.raises(IllegalTransition, match=why.value):
            move(CONSUMER, state, why)


@pytest.mark.parametrize("state", Coordinating)
@pytest.mark.parametrize("why", Cause)
def test_coordinator_follows_its_transition_table(state: Coordinating, why: Cause) -> None:
    if (state, why) in COORDINATOR:
        assert move(COORDINATOR, state, why) is COORDINATOR[state, why]
    else:
        with pytest.raises(IllegalTransition, match=why.value):
            move(COORDINATOR, state, why)


def test_machines_refuse_transitions_not_in_tables() -> None:
    consumer = Consumer("c", GROUP, [TOPIC], [0])
    with pytest.raises(IllegalTransition):
        consumer.end()  # it was never started
    consumer.start(0.0)
    with pytest.raises(IllegalTransition):
        consumer.start(0.0)
    coordinator = Coordinator(GROUP, Store(), lambda: "x")
    with pytest.raises(IllegalTransition):
        coordinator.loaded(0.0)  # it was not elected
    coordinator.elected()
    with pytest.raises(IllegalTransition):
        coordinator.elected()


def test_the_tables_of_the_docs_are_those_that_run() -> None:
    lines = (ROOT / "docs" / "draft.md").read_text("utf-8").splitlines()
    rows = [
        line for line in lines if line.startswith(tuple(f"| {state.value} |" for state in (*Consuming, *Coordinating)))
    ]
    tables = [*CONSUMER.items(), *COORDINATOR.items()]
    assert rows == [f"| {state.value} | {why.value} | {then.value} |" for (state, why), then in tables]


# --- groups that take every transition ---


def plain() -> DraftCluster:
    """Let members join, leave, be slow and return, and let all crash and join again."""
    cluster = settled(2)
    cluster.run(WARM + 15)
    cluster.add(GROUP, [TOPIC])
    cluster.at(WARM + 16, cluster.work, "c2", 30.0)
    cluster.run(WARM + 50)
    for consumer in ("c1", "c2", "c3"):
        cluster.crash(consumer)
    cluster.run(WARM + 70)
    cluster.start("c1")
    cluster.run(WARM + 80)
    cluster.set_topic(TOPIC, 5)
    cluster.run(WARM + 90)
    cluster.leave("c1")
    cluster.add("another", [TOPIC])
    cluster.run(WARM + 91)
    cluster.crash("c4")
    return cluster


def called_off() -> DraftCluster:
    """Let c2 expire, and return before another heartbeat arrives."""
    cluster = settled(2, delays={"c2": 0.1})
    cluster.pause("c2", last_heartbeat(cluster, "c2") + 6.1 - WARM)
    cluster.run(WARM + 20)
    return cluster


def refused() -> DraftCluster:
    cluster = settled(1)
    cluster.add(GROUP, [TOPIC], Options(strategy="sticky"))
    cluster.run(WARM + 5)
    return cluster


def refused_later() -> DraftCluster:
    """Let a member get IllegalGeneration, and rejoin with a strategy that no broker knows."""
    cluster = settled(1)
    member = cluster.consumers["c1"]
    member.options = Options(strategy="sticky")
    cluster.set_topic(TOPIC, 5)
    cluster.run(WARM + 5)
    return cluster


def failing() -> list[DraftCluster]:
    """Let the coordinator fail at each step of rebalances of each cause."""
    results = []
    for step in STEPS.values():
        for change in ("grow", "join", "die"):
            cluster = settled(3, 6, settings=DraftSettings(load=0.5), delays={"c2": 0.05, "c3": 0.1})
            cluster.strike(step)
            if change == "grow":
                cluster.set_topic(TOPIC, 7)
            elif change == "join":
                cluster.add(GROUP, [TOPIC])
            else:
                cluster.crash("c3")
            cluster.run(WARM + 40)
            results.append(cluster)
    return results


def dies_in(state: Coordinating) -> DraftCluster:
    """Let the broker fail as soon as the coordinator is in this state."""
    cluster = settled(2)
    cluster.add(GROUP, [TOPIC])
    if state in (Coordinating.CATCH_UP, Coordinating.READY):
        cluster.fail_coordinator(GROUP)
    cluster.strike(lambda moment: (moment.kind, moment.what) == ("became", state.value))
    cluster.run(WARM + 20)
    return cluster


def ends_in(state: Consuming) -> DraftCluster:
    """Let the process of c1 end as soon as c1 is in this state."""
    cluster = settled(2)
    if state is Consuming.STARTING:
        cluster.crash("c1")
        cluster.start("c1")
    elif state is Consuming.REDISCOVERING:
        cluster.fail_coordinator(GROUP)
    else:
        cluster.set_topic(TOPIC, 5)
    while cluster.consumers["c1"].state is not state:
        cluster.run(cluster.now + 0.0005)
    cluster.crash("c1")
    return cluster


def stale() -> DraftCluster:
    """Let a member send the next coordinator a generation that differs from the stored one."""
    cluster = settled(2)
    record = cluster.store.read(GROUP)
    cluster.fail_coordinator(GROUP)
    cluster.store.write(GROUP, GroupRecord(9, record.topics, "range", 6.0, record.hosts, record.ownership))
    cluster.run(WARM + 10)
    return cluster


def silent_after_failover() -> DraftCluster:
    cluster = settled(2)
    cluster.crash("c2", silent=True)
    cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 20)
    return cluster


def late() -> DraftCluster:
    """Let c1 be notified of a rebalance, pause until it is evicted, and commit as an unknown member."""
    cluster = settled(2)
    cluster.set_topic(TOPIC, 5)
    while cluster.consumers["c1"].state is not Consuming.STOPPED:
        cluster.run(cluster.now + 0.0005)
    cluster.pause("c1", 20.0)
    cluster.run(WARM + 40)
    return cluster


def forgotten() -> DraftCluster:
    """Let the group move to another coordinator while c2 is paused, rebalance without c2, and move back to the
    coordinator to which c2 is connected."""
    cluster = settled(2)
    home = cluster.coordinator_node(GROUP)
    cluster.pause("c2", 25.0)
    cluster.move_group(GROUP, (home + 1) % 3)
    cluster.at(WARM + 15, cluster.move_group, GROUP, home)
    cluster.run(WARM + 40)
    return cluster


def dies_while_answers_go_out() -> DraftCluster:
    cluster = settled(2, settings=DraftSettings(answer_gap=0.5))
    cluster.set_topic(TOPIC, 5)
    cluster.strike(sent_generation)
    cluster.run(WARM + 20)
    return cluster


@pytest.fixture(scope="module")
def reached() -> set[tuple[Coordinating, Cause] | tuple[Consuming, ConsumerEvent]]:
    clusters = [
        plain(),
        called_off(),
        refused(),
        refused_later(),
        stale(),
        silent_after_failover(),
        late(),
        forgotten(),
    ]
    clusters += [*failing(), dies_while_answers_go_out()]
    clusters += [dies_in(state) for state in Coordinating if state is not Coordinating.DOWN]
    clusters += [ends_in(state) for state in (Consuming.STARTING, Consuming.REDISCOVERING, Consuming.STOPPED)]
    return set().union(*(cluster.reached for cluster in clusters))


def test_groups_at_work_reach_every_transition_of_a_consumer(
    reached: set[tuple[Coordinating, Cause] | tuple[Consuming, ConsumerEvent]],
) -> None:
    assert {step for step in reached if isinstance(step[0], Consuming)} == set(CONSUMER)


def test_groups_at_work_reach_every_transition_of_a_coordinator(
    reached: set[tuple[Coordinating, Cause] | tuple[Consuming, ConsumerEvent]],
) -> None:
    assert {step for step in reached if isinstance(step[0], Coordinating)} == set(COORDINATOR)

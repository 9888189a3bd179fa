"""Scheme 2: the coordinator of a group watches ZooKeeper and assigns partitions, with a strategy that the brokers were
started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kwire.assignors import Assignment, Assignor, RangeAssignor, RoundRobinAssignor, Subscriptions, Topics
from mockbroker.lab.history import experiments
from mockbroker.lab.history.assigning import COORDINATOR, STRATEGIES, Assigning, Consumer, UnknownStrategy
from mockbroker.lab.history.comparison import Run, measure
from mockbroker.lab.history.experiments import RESTED, herd, settled, split
from mockbroker.lab.history.scheme import BROKER
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LEAVE, Step, Story
from mockbroker.lab.history.watching import ids_of
from mockbroker.lab.simulation.watching import Broken

GROUP = experiments.GROUP
SESSION = 6.0


class Reversed(RoundRobinAssignor):
    """A strategy that the brokers do not have."""

    name = "reversed"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        result = super().assign(topics, members)
        names = sorted(result)
        return {name: result[other] for name, other in zip(names, reversed(names), strict=True)}


def scheme(run: Run) -> Assigning:
    assert isinstance(run.scheme, Assigning)
    return run.scheme


def started(strategy: str, strategies: Mapping[str, type[Assignor]] = STRATEGIES, members: int = 2) -> Run:
    """Run a group whose consumers are configured with this strategy until it is at rest."""
    names = [f"c{number}" for number in range(members)]
    story = Story(topics={"s": 3, "t": 3}, groups=dict.fromkeys(names, GROUP), steps=(), end=RESTED)

    class Configured(Assigning):
        def __init__(self, *what: Any) -> None:
            super().__init__(*what, strategies=strategies, strategy=strategy)

    run = Run(Configured, story)
    for name in names:
        run.do(Step(1.0, JOIN, name))
    run.until(RESTED)
    return run


@pytest.mark.parametrize("members", range(2, 21))
def test_only_coordinators_watch(members):
    """There are as many watchers as coordinators, whatever the number of consumers; only one of them watches the
    group."""
    run = settled("server", members, members)
    watching = [session for session in run.scheme.zookeeper.watchers if session.role != BROKER]
    assert {session.role for session in watching} == {COORDINATOR}
    assert len(watching) == run.story.brokers
    assert run.scheme.zookeeper.of("consumer").watches == 0
    watched = [path for server in run.scheme.zookeeper.servers for path in server.child_watches if "ids" in path]
    assert watched == [ids_of(GROUP)]


def test_groups_are_split_over_coordinators():
    """Each group has one coordinator, and each coordinator has some of the groups."""
    names = [f"c{number}" for number in range(12)]
    groups = {name: f"group-{number}" for number, name in enumerate(names)}
    run = Run(Assigning, Story(topics={"t": 2}, groups=groups, steps=(), end=60.0))
    for name in names:
        run.do(Step(1.0, JOIN, name))
    run.until(20.0)
    assert run.ledger.whole
    parts = [
        {name for name, group in coordinator.groups.items() if group.watched}
        for coordinator in scheme(run).coordinators
    ]
    assert all(parts)
    assert sorted(name for part in parts for name in part) == sorted(groups.values())


def test_a_change_of_zookeeper_starts_the_rebalance():
    """A consumer that joins or leaves changes a node in ZooKeeper; the coordinator's watch fires, and it begins a
    generation."""
    run = settled("server", 2, 4)
    coordinator = scheme(run).coordinator_of(GROUP)
    for kind, who, members in ((JOIN, "c00", 3), (LEAVE, "c01", 2), (CRASH, "c02", 1)):
        del coordinator.log[:]
        at = run.queue.now
        run.do(Step(at, kind, who))
        run.until(at + RESTED)
        (fired, path, what), generation = coordinator.log[0].split(), coordinator.log[1]
        assert (path, what) == (ids_of(GROUP), "children")
        assert generation.split()[1:3] == [GROUP, "generation"]
        assert generation.endswith(f": {members} members")
        assert at < float(fired) < float(generation.split()[0])
        assert len(coordinator.log) == 2
        assert run.ledger.whole


@pytest.mark.parametrize("members", range(2, 21))
def test_no_herd_effect_with_a_coordinator(members):
    """One change causes one notification, whatever the size of the group."""
    for change in (JOIN, LEAVE, CRASH, GROW):
        assert herd("server", members, change) == 1
    assert herd("server", members, BROKER) == 0


@pytest.mark.parametrize("lag", [0.0, 1.0, 2.0, 3.0, 8.0])
def test_no_split_brain_with_a_coordinator(lag):
    """The coordinator and one of its consumers are connected to the server that lags."""
    run = settled("server", 4, 4)
    assert scheme(run).coordinators.index(scheme(run).coordinator_of(GROUP)) == 2
    result = split("server", lag)
    assert (result.double, result.overlaps) == (0.0, ())
    assert result.unread < 0.1  # of four partitions, whatever the lag
    assert split("zookeeper", 3.0).unread > 100 * result.unread


def test_lagging_changes_arrive_later():
    run = settled("server", 4, 4)
    run.do(Step(RESTED, LAG, value=3.0))
    run.do(Step(RESTED + 1.0, JOIN, "c00"))
    run.until(RESTED + 1.0 + 2.9)
    assert run.ledger.readers(GROUP)["t", 0] == ["c01"]
    run.until(RESTED + 1.0 + 3.1)
    assert run.ledger.readers(GROUP)["t", 0] == ["c00"]


def test_checker_detects_two_readers(monkeypatch):
    """A consumer reports that it has stopped, but continues to read."""
    begin = Consumer.begin

    def says_so(self: Consumer, generation: int) -> None:
        self.scheme.send("from", self.coordinator.stopped, self, generation)

    monkeypatch.setattr(Consumer, "stop", says_so)
    monkeypatch.setattr(Consumer, "begin", lambda self, share: begin(self, share) if len(share) != 1 else None)
    steps = (*(Step(1.0, JOIN, name) for name in ("c1", "c2")), Step(20.0, JOIN, "c0"))
    story = Story(topics={"t": 4}, groups=dict.fromkeys(("c0", "c1", "c2"), GROUP), steps=steps, end=60.0)
    with pytest.raises(Broken, match=r"under scheme server a partition had several readers: Overlap\(group='A'"):
        measure("server", story)


def test_strategies_of_the_server():
    """Consumers can use the strategies that the brokers have."""
    ranged, in_turn = started("range"), started("roundrobin")
    for run, kind in ((ranged, RangeAssignor), (in_turn, RoundRobinAssignor)):
        assert run.ledger.whole
        assert kind.name in scheme(run).coordinators[0].strategies
    shares = [
        sorted(sum(who == [name] for who in run.ledger.readers(GROUP).values()) for name in ("c0", "c1"))
        for run in (ranged, in_turn)
    ]
    assert shares == [[2, 4], [3, 3]]


def test_unknown_strategy_is_refused_with_the_known_ones():
    """The error lists the known strategies, and the consumers are rejected."""
    run = started("reversed")
    why = "unknown strategy 'reversed': the brokers were started with range, roundrobin"
    assert [consumer.refused for consumer in scheme(run).consumers.values()] == [why, why]
    assert set(map(tuple, run.ledger.readers(GROUP).values())) == {()}
    assert run.scheme.zookeeper.leader.tree.nodes[ids_of(GROUP)].children == {}
    with pytest.raises(UnknownStrategy, match="range, roundrobin"):
        scheme(run).coordinators[0].strategy("reversed")


def test_one_with_another_strategy_than_its_group_is_refused():
    run = started("range")
    other = scheme(run).consumers["c1"]
    run.do(Step(50.0, LEAVE, "c1"))
    other.strategy = "roundrobin"
    run.do(Step(60.0, JOIN, "c1"))
    run.until(80.0)
    assert other.refused == "the group uses 'range', not 'roundrobin'"
    assert set(map(tuple, run.ledger.readers(GROUP).values())) == {("c0",)}


def test_new_strategy_requires_a_broker_restart():
    """The table of strategies is copied at the start; a strategy that is added later is unknown until the brokers are
    restarted."""
    table: dict[str, type[Assignor]] = dict(STRATEGIES)
    run = started("reversed", table)
    table["reversed"] = Reversed
    for name in ("c0", "c1"):
        run.do(Step(50.0, JOIN, name))
    run.until(70.0)
    assert all(consumer.refused for consumer in scheme(run).consumers.values())
    scheme(run).restart(table)
    for name in ("c0", "c1"):
        run.do(Step(80.0, JOIN, name))
    run.until(100.0)
    assert [consumer.refused for consumer in scheme(run).consumers.values()] == ["", ""]
    assert run.ledger.readers(GROUP)["s", 0] == ["c1"]
    assert run.ledger.whole


def test_a_restart_stops_every_group():
    """A restart also stops the groups that do not use the new strategy."""
    run = settled("server", 3, 6)
    before = run.ledger.stopped, run.scheme.rebalances
    scheme(run).restart({**STRATEGIES, "reversed": Reversed})
    run.until(2 * RESTED)
    assert run.ledger.whole
    assert run.scheme.rebalances == before[1] + 1
    assert run.ledger.stopped > before[0]
    assert run.ledger.overlaps == []


def test_late_response_is_not_one_to_the_next_rebalance(monkeypatch):
    """A consumer's report that it has stopped arrives late, after the coordinator has let the consumer read again."""
    run = settled("server", 2, 2)
    slow, queue = scheme(run).consumers["c02"], run.queue
    usual, stops = slow.stop, []

    def late(generation: int) -> None:
        stops.append(generation)
        if len(stops) == 1:  # it stops at once, but its report takes longer than a session timeout
            slow.read([])
            queue.after(SESSION + 1.0, slow.scheme.send, "late", slow.coordinator.stopped, slow, generation)
        else:
            queue.after(3.0, usual, generation)

    monkeypatch.setattr(slow, "stop", late)
    run.do(Step(RESTED, JOIN, "c00"))
    run.do(Step(RESTED + SESSION + 0.5, LEAVE, "c00"))
    run.until(2 * RESTED)
    assert len(stops) == 2
    assert run.ledger.whole
    assert run.ledger.overlaps == []


def test_each_rebalance_has_its_own_patience(monkeypatch):
    run = settled("server", 2, 2)
    run.do(Step(RESTED, JOIN, "c00"))
    run.until(RESTED + 4.0)
    monkeypatch.setattr(scheme(run).consumers["c02"], "stop", lambda _: None)
    run.do(Step(RESTED + 4.0, LEAVE, "c00"))
    run.until(RESTED + SESSION + 1.0)
    assert run.ledger.readers(GROUP)["t", 0] == []
    run.until(RESTED + 4.0 + SESSION + 0.1)
    assert run.ledger.readers(GROUP)["t", 0] == ["c01"]


def test_silent_consumer_delays_others_at_most_a_session(monkeypatch):
    run = settled("server", 2, 2)
    silent = scheme(run).consumers["c02"]
    monkeypatch.setattr(silent, "stop", lambda _: None)
    run.do(Step(RESTED, JOIN, "c00"))
    run.until(RESTED + SESSION - 0.1)
    assert run.ledger.readers(GROUP)["t", 0] == []
    run.until(RESTED + SESSION + 0.1)
    assert run.ledger.readers(GROUP)["t", 0] == ["c00"]

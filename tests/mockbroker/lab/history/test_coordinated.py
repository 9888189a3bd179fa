"""Scheme 3 and later: the group protocols of the broker itself. Clients choose the strategies, and groups do not use
ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.assignors import Assignment, RangeAssignor, RoundRobinAssignor, Subscriptions, Topics
from mockbroker.lab.history.comparison import SCHEMES, Run
from mockbroker.lab.history.coordinated import Classic, Coordinated
from mockbroker.lab.history.experiments import GROUP, RESTED, herd, settled, slow, split
from mockbroker.lab.history.scheme import BROKER, BROKERS, TOPICS
from mockbroker.lab.history.story import CRASH, DEFAULT, GROW, JOIN, LAG, LEAVE, Step, Story

SINCE_09 = ("classic", "cooperative", "consumer")


class Mine(RoundRobinAssignor):
    """A strategy that assigns all partitions to the member with the highest id."""

    name = "mine"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        everything = [(topic, number) for topic in topics for number in range(len(topics[topic]))]
        last = max(members)
        return {member: Assignment(everything if member == last else []) for member in members}


def scheme(run: Run) -> Coordinated:
    assert isinstance(run.scheme, Coordinated)
    return run.scheme


@pytest.mark.parametrize("name", SCHEMES)
def test_example_of_two_groups(name):
    """Four members of one group read one partition each; two members of another group read two partitions each."""
    groups = {**{f"a{n}": "A" for n in range(4)}, "b0": "B", "b1": "B"}
    run = Run(SCHEMES[name], Story(topics={"t": 4}, groups=groups, steps=(), end=RESTED))
    for who in groups:
        run.do(Step(1.0, JOIN, who))
    run.until(RESTED)
    for group, shares in (("A", [1, 1, 1, 1]), ("B", [2, 2])):
        readers = run.ledger.readers(group)
        assert all(len(who) == 1 for who in readers.values())
        names = [who for who, its in groups.items() if its == group]
        assert [sum(who == [each] for who in readers.values()) for each in names] == shares


@pytest.mark.parametrize("name", SCHEMES)
def test_cluster_with_offsets_in_zookeeper(name):
    """The brokers register in ZooKeeper, and all its servers have the brokers, and the topics with their partition
    counts."""
    run = settled(name, 2, 4)
    run.do(Step(RESTED, GROW, "t", 6))
    run.until(2 * RESTED)
    assert len(run.scheme.zookeeper.servers) == 3
    for server in run.scheme.zookeeper.servers:
        assert sorted(server.tree.nodes[BROKERS].children) == ["0", "1", "2"]
        assert server.tree.nodes[f"{TOPICS}/t"].data == "6"
    if name in SINCE_09:
        cluster = scheme(run).shell.broker.cluster
        assert sorted(cluster.nodes) == [0, 1, 2]
        assert len(cluster.topics["t"].partitions) == 6
    assert len(run.ledger.readers(GROUP)) == 6


def test_strategies_are_configured_at_clients_alone():
    """Members can use a strategy that the broker does not know, without a change of the broker."""
    story = Story(topics={"s": 3, "t": 3}, groups={"c0": GROUP, "c1": GROUP}, steps=(), end=200.0)
    run = Run(SCHEMES["classic"], story)
    broker, settings = scheme(run).shell.broker, scheme(run).shell.broker.settings
    shares: list[list[int]] = []
    for number, kind in enumerate((RangeAssignor, RoundRobinAssignor, Mine)):
        for name, client in scheme(run).clients.items():
            assert isinstance(client, Classic)
            client.assignor = kind()
            run.do(Step(1.0 + 60.0 * number, JOIN, name))
        run.until(30.0 + 60.0 * number)
        assert run.ledger.whole
        assert broker.groups[GROUP].protocol == kind.name  # type: ignore[union-attr]
        shares.append([sum(who == [name] for who in run.ledger.readers(GROUP).values()) for name in ("c0", "c1")])
        for name in scheme(run).clients:
            run.do(Step(40.0 + 60.0 * number, LEAVE, name))
        run.until(55.0 + 60.0 * number)
    assert shares == [[4, 2], [3, 3], [0, 6]]
    assert scheme(run).shell.broker is broker
    assert broker.settings is settings


@pytest.mark.parametrize("name", ["zookeeper", "server", *SINCE_09])
def test_groups_send_nothing_to_zookeeper(name):
    """Groups use ZooKeeper before 0.9, and not at all since 0.9; brokers continue to use it."""
    run = Run(SCHEMES[name], DEFAULT)
    for step in DEFAULT.steps:
        run.do(step)
    run.until(DEFAULT.end)
    of_groups = {role: traffic for role, traffic in run.scheme.zookeeper.traffic.items() if role != BROKER}
    if name in SINCE_09:
        assert of_groups == {}
        assert run.scheme.notifications == 0
        assert not any(path.startswith("/consumers") for path in run.scheme.zookeeper.leader.tree.nodes)
    else:
        assert sum(traffic.messages for traffic in of_groups.values()) > 1_000
        assert run.scheme.notifications > 10
    brokers = run.scheme.zookeeper.of(BROKER)
    assert brokers.writes == 3 + 1 + 1  # three brokers registered, one topic was created and got more partitions
    assert brokers.notifications == 1


@pytest.mark.parametrize("name", SINCE_09)
@pytest.mark.parametrize("change", [JOIN, LEAVE, CRASH, GROW, BROKER])
def test_no_watch_fires(name, change):
    assert herd(name, 6, change) == 0


@pytest.mark.parametrize("name", SINCE_09)
def test_zookeeper_lag_does_not_affect_groups(name):
    quiet, lags = split(name, 0.0), split(name, 8.0)
    assert quiet == lags
    assert lags.overlaps == ()


def test_evicted_live_member_reads_until_it_is_notified():
    """No scheme can prevent this, because a disconnected consumer cannot be notified."""
    run = settled("classic", 2, 2)
    cut = scheme(run).clients["c02"]
    cut.link.clogged = True
    run.until(RESTED + 12.0)
    readers = run.ledger.readers(GROUP)
    assert readers["t", 1] == ["c01", "c02"]
    scheme(run).shell.network.free(cut.link)
    run.until(2 * RESTED)
    assert run.ledger.whole
    assert run.ledger.overlaps[0].readers == ("c01", "c02")


@pytest.mark.parametrize(("name", "most"), [("classic", 8), ("cooperative", 2), ("consumer", 2)])
def test_join_moves_and_stops_partitions(name, most):
    """Eager members stop all partitions; other members stop only the partitions that move."""
    run = settled(name, 3, 8)
    before = run.ledger.moved
    stopped: set[tuple[str, int]] = set()
    run.do(Step(RESTED, JOIN, "c00"))
    while run.queue.now < 2 * RESTED:
        run.until(run.queue.now + 0.001)
        stopped |= {place for place, who in run.ledger.readers(GROUP).items() if not who}
    assert len(stopped) == most
    assert run.ledger.moved > before
    assert run.ledger.whole


@pytest.mark.parametrize("name", ["draft", "classic"])
def test_slow_member_delays_all_members(name):
    """The six partitions of the three other members stop for as long as the slow member is busy."""
    assert slow(name, 0.0) < 1.0
    assert slow(name, 5.0) - slow(name, 3.0) == pytest.approx(6 * 2.0, abs=0.2)


@pytest.mark.parametrize("name", ["zookeeper", "server", "cooperative", "consumer"])
def test_slow_consumer_does_not_delay_others(name):
    """The consumer rebalances in another thread (0.8), or only partitions that move are stopped."""
    assert slow(name, 5.0) == pytest.approx(slow(name, 0.0), abs=0.1)


@pytest.mark.parametrize(
    ("name", "number"), [("classic", "generation"), ("cooperative", "generation"), ("consumer", "epoch")]
)
def test_rebalances_are_generations(name, number):
    run = settled(name, 3, 6)
    for step in (Step(40.0, JOIN, "c00"), Step(60.0, CRASH, "c01"), Step(80.0, GROW, "t", 8)):
        run.do(step)
    run.until(100.0)
    assert run.scheme.rebalances == getattr(scheme(run).shell.broker.groups[GROUP], number) >= 4


def test_lag_is_a_step_of_every_story():
    assert any(step.kind == LAG and step.value for step in DEFAULT.steps)
    assert {JOIN, LEAVE, CRASH, GROW} <= {step.kind for step in DEFAULT.steps}

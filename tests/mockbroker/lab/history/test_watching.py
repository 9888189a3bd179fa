"""Scheme 1: consumers that watch ZooKeeper, and measurements of its two problems: herd effect and split brain."""

from __future__ import annotations

import pytest

from kwire.assignors import Subscription, assignor, without_racks
from mockbroker.lab.history import experiments
from mockbroker.lab.history.comparison import Run
from mockbroker.lab.history.experiments import RESTED, herd, settled, split
from mockbroker.lab.history.scheme import BROKER, BROKERS
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LAGGING, LEAVE, Step
from mockbroker.lab.history.watching import BACKOFF, MOST_TRIES, Consumer, Watching, ids_of, owner_of
from mockbroker.lab.history.zookeeper import DELETED, Change, Session, Then

GROUP = experiments.GROUP
SESSION = 6.0


def nodes(run: Run, server: int = 0) -> dict[str, str]:
    return {path: node.data for path, node in run.scheme.zookeeper.servers[server].tree.nodes.items()}


def below(run: Run, path: str) -> list[str]:
    return sorted(run.scheme.zookeeper.leader.tree.nodes[path].children)


def consumer(run: Run, name: str) -> Consumer:
    assert isinstance(run.scheme, Watching)
    return run.scheme.consumers[name]


def test_consumers_register_themselves():
    """Each consumer has an ephemeral node, which is deleted at once when the consumer leaves, and at the end of its
    session when it crashes."""
    run = settled("zookeeper", 3, 3)
    assert below(run, ids_of(GROUP)) == ["c01-1", "c02-1", "c03-1"]
    assert nodes(run)[f"{ids_of(GROUP)}/c01-1"] == "t"
    run.do(Step(50.0, LEAVE, "c01"))
    run.until(50.1)
    assert below(run, ids_of(GROUP)) == ["c02-1", "c03-1"]
    run.do(Step(60.0, CRASH, "c02"))
    run.until(60.0 + SESSION / 2)
    assert below(run, ids_of(GROUP)) == ["c02-1", "c03-1"]
    run.until(60.0 + SESSION + 0.1)
    assert below(run, ids_of(GROUP)) == ["c03-1"]
    run.do(Step(70.0, JOIN, "c02"))
    run.until(70.1)
    assert below(run, ids_of(GROUP)) == ["c02-2", "c03-1"]


def test_each_consumer_watches_members_and_brokers_every_time():
    """A watch fires once and is set again with each rebalance, so each change notifies equally many consumers."""
    run = settled("zookeeper", 4, 4)
    watching = [session for session in run.scheme.zookeeper.watchers if session.role != BROKER]
    assert len(watching) == 4
    for path in (ids_of(GROUP), BROKERS):
        waiting = [server.child_watches.get(path, {}) for server in run.scheme.zookeeper.servers]
        assert sum(map(len, waiting)) == 4
    notifications = []
    for at, change in ((40, "start"), (60, "stop"), (80, "start")):
        run.until(at)
        before = run.scheme.notifications
        getattr(run.scheme.registry, change)(3)
        run.until(at + 10)
        notifications.append(run.scheme.notifications - before)
    assert notifications == [4, 4, 4]
    before = run.scheme.notifications
    run.do(Step(100.0, LEAVE, "c01"))
    run.do(Step(120.0, JOIN, "c01"))
    run.until(130.0)
    assert run.scheme.notifications - before == 3 + 3


@pytest.mark.parametrize("members", [1, 3, 5])
def test_each_consumer_works_out_its_own_range_and_claims_it(members):
    """All consumers compute the same assignment without messages to each other, and own partitions by nodes in
    ZooKeeper."""
    run = settled("zookeeper", members, 4)
    ids = {name: f"{name}-1" for name in run.scheme.consumers if name != "c00"}
    plan = assignor("range").assign(without_racks({"t": 4}), {each: Subscription(["t"]) for each in ids.values()})
    for name, each in ids.items():
        assert [place for place, who in run.ledger.readers(GROUP).items() if who == [name]] == plan[each].partitions
        for place in plan[each].partitions:
            assert nodes(run)[owner_of(GROUP, place)] == each
    worked = run.scheme.rebalances
    run.do(Step(RESTED, GROW, "t", 5))
    run.until(2 * RESTED)
    assert run.scheme.rebalances - worked >= members


@pytest.mark.parametrize("members", range(2, 21))
def test_one_change_notifies_all_consumers(members):
    """Each change causes as many notifications as there are consumers; since 0.9, it causes none."""
    for change in (JOIN, GROW, BROKER):
        assert herd("zookeeper", members, change) == members
    assert herd("classic", members, GROW) == 0


@pytest.mark.parametrize("members", [2, 7, 20])
def test_leaving_consumer_notifies_all_others(members):
    assert herd("zookeeper", members, LEAVE) == members - 1
    assert herd("zookeeper", members, CRASH) == members - 1


def test_requests_of_one_change_grow_quadratically():
    """Each consumer reads the node of every other consumer; a coordinator reads each node once."""
    results: dict[str, list[int]] = {"zookeeper": [], "server": []}
    for scheme, line in results.items():
        for members in (5, 10, 20):
            run = settled(scheme, members, members)
            requests = sum(traffic.requests for traffic in run.scheme.zookeeper.traffic.values())
            run.do(Step(RESTED, GROW, "t", members + 1))
            run.until(2 * RESTED)
            line.append(sum(traffic.requests for traffic in run.scheme.zookeeper.traffic.values()) - requests)
    for members, herds, server in zip((5, 10, 20), *results.values(), strict=True):
        assert herds > members**2
        assert server <= members + 10


def test_no_two_readers_without_a_lag():
    """Without a lag, the same steps give no overlap, and partitions are without a reader only for a short time."""
    result = split("zookeeper", 0.0)
    assert result.unread < 0.5
    assert (result.double, result.overlaps) == (0.0, ())


@pytest.mark.parametrize("lag", [1.0, 2.0, 3.0])
def test_stale_data_leaves_partitions_without_a_reader(lag):
    """One consumer keeps partitions according to stale data; the others cannot claim these, and release all of
    theirs."""
    run = settled("zookeeper", 4, 4)
    run.do(Step(RESTED, LAG, value=lag))
    run.do(Step(RESTED + 1.0, JOIN, "c00"))
    run.until(RESTED + 1.0 + lag / 2)
    behind = [name for name in run.scheme.consumers if consumer(run, name).server == LAGGING]
    assert behind == ["c03"]
    assert "c00-1" in consumer(run, "c01").seen
    assert "c00-1" not in consumer(run, "c03").seen  # two consumers see different members at the same moment
    assert run.ledger.readers(GROUP)["t", 2] == ["c03"]  # in the data of the others, it is c02's now
    assert [] in run.ledger.readers(GROUP).values()
    run.until(3 * RESTED)
    assert run.ledger.whole
    result = split("zookeeper", lag)
    assert result.unread > 3 * lag
    assert result.overlaps == ()


def test_partition_with_two_owners_is_not_settled():
    """The leader ends the session of a live consumer that continues to read, and another consumer claims its
    partitions."""
    result = split("zookeeper", 8.0)
    assert result.double > 3.0
    assert len({overlap.place for overlap in result.overlaps}) == len(result.overlaps) > 0
    for overlap in result.overlaps:
        assert "c03" in overlap.readers
        assert len(overlap.readers) == 2
        assert overlap.begin > RESTED + SESSION * 2 / 3  # its last ping may have been sent just before the lag
        assert overlap.end - overlap.begin < 8.0
    assert result.double == pytest.approx(sum(overlap.end - overlap.begin for overlap in result.overlaps))


def test_zookeeper_has_one_owner_while_two_read():
    run = settled("zookeeper", 4, 4)
    run.do(Step(RESTED, LAG, value=8.0))
    while not any(len(who) > 1 for who in run.ledger.readers(GROUP).values()):
        assert run.queue.now < RESTED + 10.0
        run.queue.step()
    place, who = next((place, who) for place, who in run.ledger.readers(GROUP).items() if len(who) > 1)
    assert who[-1] == "c03"
    assert nodes(run)[owner_of(GROUP, place)] == f"{who[0]}-1"
    assert nodes(run, LAGGING)[owner_of(GROUP, place)] == "c03-1"  # in the data of the server that c03 is connected to
    assert consumer(run, "c03").expiries == 0
    run.until(2 * RESTED)
    assert consumer(run, "c03").expiries == 1


def test_expired_consumer_deletes_no_node_of_others(monkeypatch):
    """The partitions of the expired consumer have new owners, and its requests in the expired session are refused."""
    run = settled("zookeeper", 4, 4)
    zookeeper = run.scheme.zookeeper
    decide, deleted = zookeeper._decide, []

    def looked_at(session: Session, change: Change, then: Then) -> None:
        node = zookeeper.leader.tree.nodes.get(change.path)
        decide(session, change, then)
        if change.kind == DELETED and change.path not in zookeeper.leader.tree.nodes and node is not None:
            deleted.append(change.path)
            assert node.owner == session.number

    monkeypatch.setattr(zookeeper, "_decide", looked_at)
    run.do(Step(RESTED, LAG, value=8.0))
    run.until(2 * RESTED)
    assert consumer(run, "c03").expiries == 1
    assert deleted
    assert run.ledger.whole


def test_consumer_that_cannot_claim_stops_after_its_retries():
    """An owner does not release a partition in time: after four attempts, the consumer waits until something
    changes."""
    run = settled("zookeeper", 2, 2)
    stranger: list[str] = []
    zookeeper = run.scheme.zookeeper
    held = owner_of(GROUP, ("t", 2))
    session = zookeeper.connect(
        BROKER, 0, 600.0, lambda session: session.create(held, lambda _: stranger.append("there")), lambda: None
    )
    run.until(RESTED + 1.0)
    assert stranger == ["there"]
    run.do(Step(50.0, GROW, "t", 3))
    run.until(50.0 + MOST_TRIES * BACKOFF + 1.0)
    failed = [name for name in ("c01", "c02") if consumer(run, name).failed]
    assert len(failed) == 1
    worked = run.scheme.rebalances
    session.delete(held, lambda _: None)
    run.until(100.0)
    assert run.scheme.rebalances == worked  # consumers do not watch the nodes of owners
    assert not run.ledger.whole
    run.scheme.registry.start(3)
    run.until(120.0)
    assert run.ledger.whole


def test_without_brokers_nothing_is_shared_out():
    run = settled("zookeeper", 2, 2)
    for number in range(run.story.brokers):
        run.scheme.registry.stop(number)
    run.until(RESTED + 10.0)
    assert set(map(tuple, run.ledger.readers(GROUP).values())) == {()}
    run.scheme.registry.start(0)
    run.until(RESTED + 20.0)
    assert run.ledger.whole

"""The draft of 0.9 in the stories of all schemes; the tests of its state machines are in the folder draft."""

from __future__ import annotations

from mockbroker.lab.history.comparison import Run
from mockbroker.lab.history.drafted import OF_GROUPS, Drafted
from mockbroker.lab.history.experiments import GROUP, RESTED, herd, settled, split
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LEAVE, Step


def scheme(run: Run) -> Drafted:
    assert isinstance(run.scheme, Drafted)
    return run.scheme


def test_ledger_equals_the_draft_ownership():
    run = settled("draft", 3, 6)
    for step in (
        Step(40.0, JOIN, "c00"),
        Step(60.0, CRASH, "c01"),
        Step(80.0, GROW, "t", 8),
        Step(100.0, LEAVE, "c02"),
    ):
        run.do(step)
        run.until(step.at + 19.0)
        assert run.ledger.whole
        assert scheme(run).cluster.is_settled(GROUP)
        for place, (reader,) in run.ledger.readers(GROUP).items():
            assert place in scheme(run).cluster.consumers[reader].partitions
    assert run.ledger.overlaps == []


def test_only_the_coordinator_is_notified():
    assert [herd("draft", members, GROW) for members in (2, 10, 20)] == [1, 1, 1]
    assert herd("draft", 10, JOIN) == 0


def test_leave_is_noticed_like_a_crash():
    """The draft has no LeaveGroup request."""
    seconds = []
    for kind in (LEAVE, CRASH):
        run = settled("draft", 3, 6)
        run.do(Step(RESTED, kind, "c01"))
        run.until(2 * RESTED)
        seconds.append(run.ledger.changed - RESTED)
    assert seconds[0] == seconds[1] > 4.0


def test_messages_are_those_of_groups():
    run = settled("draft", 2, 2)
    report = scheme(run)
    assert report.notifications == 0
    run.do(Step(RESTED, GROW, "t", 3))
    run.until(2 * RESTED)
    assert report.notifications == 1
    counts = [report.cluster.messages[f"{name}{answer}"] for name in OF_GROUPS for answer in ("", " answer")]
    assert report.messages == sum(counts) + 2 * (report.cluster.store.reads + report.rebalances) + 1
    assert report.heartbeats == sum(report.cluster.messages[name] for name in ("Heartbeat", "Heartbeat answer"))
    assert report.heartbeats < report.messages < sum(report.cluster.messages.values())
    assert report.rebalances == len(report.cluster.rebalances) > 0


def test_partition_never_has_two_readers_with_a_coordinator():
    assert split("draft", 8.0) == split("draft", 0.0)
    assert split("draft", 0.0).overlaps == ()

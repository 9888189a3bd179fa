"""Groups of the consumer protocol under any sequence of requests, lost answers and times: nobody reads what another
reads, and in the end everything is read. And mutants that must be caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tools.consumers import Consumers

from kwire import ErrorCode as E
from mockbroker.group import consumer, reconcile
from mockbroker.group.consumer_state import NOTHING, ConsumerGroup, MemberState

NAMES = ["a", "b", "c", "d"]
SUBSCRIPTIONS = [["t"], ["t"], ["t", "u"], ["u"], [], ["t", "missing"]]
TIMES = [0.0, 0.5, 2.0, 5.0, 7.0]
CONFIG = {"group.consumer.session.timeout.ms": 6_000}

who = st.sampled_from(NAMES)
subscription = st.sampled_from(SUBSCRIPTIONS)


class ConsumerMachine(RuleBasedStateMachine):
    """``reads``: what each client reads. It gives up at once what it must, in its own time, and only then takes more."""

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor):
        self.desk = Consumers(topics={"t": 4, "u": 2}, config=CONFIG | {"group.consumer.assignors": assignor})
        self.reads: dict[str, frozenset] = {}
        self.told: dict[str, frozenset] = {}
        self.epochs: dict[str, int] = {}
        self.topics: dict[str, list[str]] = {}
        self.lost: set[str] = set()

    @rule(name=who, topics=subscription, timeout=st.sampled_from([1_000, 60_000]))
    def join(self, name, topics, timeout):
        """A process begins, or begins anew: it reads nothing."""
        self.reads[name], self.told[name], self.topics[name] = frozenset(), frozenset(), topics
        answer = self.desk.beat(
            name, member_epoch=0, rebalance_timeout_ms=timeout, subscribed_topic_names=topics, topic_partitions=[]
        )
        assert answer.error_code == E.NONE
        assert answer.assignment is not None
        self.lost.discard(name)
        self._hear(name, answer)

    @rule(name=who, heard=st.booleans(), says=st.booleans())
    def beat(self, name, heard, says):
        """A heartbeat, whose answer may get lost; a client repeats what it owns then."""
        if name in self.reads:
            owned = self.desk.lines(self.reads[name]) if says else None
            self._ask(name, heard, topic_partitions=owned)

    @rule(name=who, topics=subscription, heard=st.booleans())
    def subscribe(self, name, topics, heard):
        if name in self.reads:
            self.topics[name] = topics
            self._ask(name, heard, subscribed_topic_names=topics)

    @rule(name=who)
    def give_up(self, name):
        """A client stops to read what it must not read any more, and takes what it was given."""
        if name in self.reads:
            self.reads[name] = self.told[name]

    @rule(name=who)
    def leave(self, name):
        if name in self.reads:
            self.desk.beat(name, member_epoch=-1)
            self._gone(name)

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds):
        self.desk.wait(seconds)
        for name in set(self.reads) - set(self._group().members):
            self._gone(name)  # it was put out; what it reads until it notices is its own affair, as at Kafka

    @rule()
    def grow(self):
        cluster = self.desk.broker.cluster
        if len(cluster.topics["t"].partitions) < 6:
            cluster.grow(cluster.topics["t"], [[0]])

    def _ask(self, name, heard, **fields):
        """After an answer that was lost a client says everything again, and is told everything."""
        if name in self.lost:
            owned, topics = self.desk.lines(self.reads[name]), self.topics[name]
            fields = {"topic_partitions": owned, "subscribed_topic_names": topics, "rebalance_timeout_ms": 60_000}
        self.lost.discard(name) if heard else self.lost.add(name)
        answer = self.desk.beat(name, member_epoch=self.epochs[name], **fields)
        if heard and answer.error_code == E.NONE:
            self._hear(name, answer)
        elif answer.error_code == E.FENCED_MEMBER_EPOCH and heard:
            self.join(name, ["t"], 60_000)  # what clients do: give up everything and begin anew

    def _hear(self, name, answer):
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.told[name] = self.desk.read(answer.assignment.topic_partitions)
        if self.reads[name] <= self.told[name]:
            self.reads[name] = self.told[name]  # nothing to give up

    def _gone(self, name):
        del self.reads[name], self.told[name], self.epochs[name], self.topics[name]
        self.lost.discard(name)

    def _group(self):
        return self.desk.broker.groups.get("g", ConsumerGroup(group_id="g"))

    @invariant()
    def nobody_reads_what_another_reads(self):
        if hasattr(self, "desk"):
            everything = [partition for reads in self.reads.values() for partition in reads]
            assert len(everything) == len(set(everything)), self.reads

    @invariant()
    def state_adds_up(self):
        if not hasattr(self, "desk"):
            return
        group = self._group()
        held = [p for member in group.members.values() for p in (*member.assigned, *member.revoking)]
        assert len(held) == len(set(held)) == len(group.owners)
        assert set(held) == set(group.owners)
        assert group.assignment_epoch <= group.epoch
        assert set(group.names) == {name for member in group.members.values() for name in member.topics}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch
            assert (member.state is MemberState.UNREVOKED_PARTITIONS) == bool(member.revoking)
            assert ("session", member.member_id) in group.waits

    def teardown(self):
        """Everybody beats and does as told: soon nobody moves any more, and every partition that is wanted is read."""
        if not hasattr(self, "desk"):
            return
        for _ in range(3 * len(NAMES)):
            for name in list(self.reads):
                self._ask(name, True, topic_partitions=self.desk.lines(self.reads[name]))
                self.reads[name] = self.told[name]
            self.nobody_reads_what_another_reads()
        group = self._group()
        assert group.state_name == ("Stable" if self.reads else "Empty")
        topics = self.desk.broker.cluster.topics
        names = {name for topics in self.topics.values() for name in topics} - {"missing"}
        wanted = {(name, index) for name in names for index in range(len(topics[name].partitions))}
        assert {partition for reads in self.reads.values() for partition in reads} == wanted


QUICK = settings(max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))


def test_machine():
    run_state_machine_as_test(ConsumerMachine, settings=QUICK)


# --- what the machine must notice -------------------------------------------------------------------------------


def hand_out_what_is_not_free(patch):
    real = reconcile._moved
    patch.setattr(reconcile, "_moved", lambda member, goal: real(member, replace(goal, owners={})))


def null_means_nothing(patch):
    real = reconcile.next_step
    patch.setattr(
        consumer,
        "next_step",
        lambda m, goal: real(m, replace(goal, owned=NOTHING if goal.owned is None else goal.owned)),
    )


def forget_what_is_given_up(patch):
    patch.setattr(ConsumerGroup, "_release", lambda *_: None)


def never_a_new_target(patch):
    patch.setattr(ConsumerGroup, "look", lambda *_: False)


def sessions_never_begin(patch):
    patch.setattr(consumer, "session_of", lambda member_id: ("other", member_id))


def revoke_at_once(patch):
    def moved(member, goal):
        wants = replace(goal, owned=NOTHING)
        return real(member, wants)

    real = reconcile._moved
    patch.setattr(reconcile, "_moved", moved)


MUTANTS = [
    hand_out_what_is_not_free,
    null_means_nothing,
    forget_what_is_given_up,
    never_a_new_target,
    sessions_never_begin,
    revoke_at_once,
]
HUNT = settings(
    QUICK, max_examples=5_000, derandomize=True, database=None, phases=[Phase.generate], report_multiple_bugs=False
)


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_machine_catches(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(ConsumerMachine, settings=HUNT)

"""Groups of the consumer protocol under any sequence of requests, lost answers and times: nobody reads what another
reads, and in the end everything is read. And mutants that must be caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from effort import amount
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tools.consumer_group_harness import ConsumerGroupHarness

from kwire import ErrorCode as E
from kwire.messages.leave_group import LeaveGroupRequest
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer import reconcile
from mockbroker.groups.consumer.state import AWAY, JOINING, NOTHING, ConsumerGroup, MemberState

NAMES = ["a", "b", "c", "d"]
INSTANCES = ["i", "j"]
SUBSCRIPTIONS = [["t"], ["t"], ["t", "u"], ["u"], [], ["t", "missing"]]
TIMES = [0.0, 0.5, 2.0, 5.0, 7.0]
CONFIG = {"group.consumer.session.timeout.ms": 6_000}

who = st.sampled_from(NAMES)
instance = st.sampled_from(INSTANCES)
subscription = st.sampled_from(SUBSCRIPTIONS)


class ConsumerMachine(RuleBasedStateMachine):
    """``reads``: what each client reads. It gives up at once what it must, in its own time, and only then takes more."""

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor: Any) -> None:
        self.harness = ConsumerGroupHarness(
            topics={"t": 4, "u": 2}, config=CONFIG | {"group.consumer.assignors": assignor}
        )
        self.reads: dict[str, frozenset] = {}
        self.told: dict[str, frozenset] = {}
        self.epochs: dict[str, int] = {}
        self.topics: dict[str, list[str]] = {}
        self.lost: set[str] = set()
        self.instances: dict[str, str] = {}
        self.two_were_one = False

    @rule(name=who, topics=subscription, timeout=st.sampled_from([1_000, 60_000]))
    def join(self, name: str, topics: Any, timeout: Any) -> None:
        """A process begins, or begins anew: it reads nothing."""
        self._begin(name, topics, self._join(name, topics, timeout, None))

    @rule(name=who, named=instance, topics=subscription, timeout=st.sampled_from([1_000, 60_000]))
    def join_static(self, name: str, named: Any, topics: Any, timeout: Any) -> None:
        """The same, by the name of an instance; whoever has it must be away, and none may have taken another since."""
        two = name in self._group().members and self._group().static.get(named, name) != name
        answer = self._join(name, topics, timeout, named)
        self.two_were_one |= two and answer.error_code == E.NONE
        if answer.error_code == E.NONE:
            self._begin(name, topics, answer)
            self.instances[name] = named
            return
        holder = self._group().static[named]
        assert (answer.error_code == E.UNRELEASED_INSTANCE_ID) == (holder in self._group().members)
        assert answer.error_code in (E.UNRELEASED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID)

    @rule(name=who, named=instance)
    def call_itself(self, name: str, named: Any) -> None:
        """A heartbeat with any instance: the member's own, one it had, somebody else's or nobody's."""
        if name in self.reads and name not in self.lost:
            answer = self.harness.beat(name, member_epoch=self.epochs[name], instance_id=named)
            if answer.error_code == E.NONE:
                self.instances[name] = named
                self._hear(name, answer)

    @rule(name=who, named=instance, epoch=st.sampled_from([-1, -2]))
    def leave_by_instance(self, name: str, named: Any, epoch: int) -> None:
        """For good, or for a while: then what it had stays with it until it is back or its session is over."""
        if name in self.reads and self.harness.beat(name, member_epoch=epoch, instance_id=named).error_code == E.NONE:
            self._gone(name)

    @rule(name=who, other=who, topics=subscription)
    def restart(self, name: str, other: Any, topics: Any) -> None:
        """A static process goes for a while and is back, perhaps under another id."""
        if named := self.instances.get(name):
            self.leave_by_instance(name, named, -2)
            self.join_static(other, named, topics, 60_000)

    @rule(named=instance)
    def put_out(self, named: Any) -> None:
        """An administrator takes an instance out."""
        holder = self._group().static.get(named)
        there = holder in self._group().members
        if self._group().members:
            leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(group_instance_id=named)])
            (line,) = self.harness.ask(leave, 5).members
            assert line.error_code == (E.NONE if there else E.UNKNOWN_MEMBER_ID)
            if holder in self.reads:
                self._gone(holder)

    def _join(self, name: str, topics: Any, timeout: Any, named: Any) -> Any:
        return self.harness.beat(
            name,
            member_epoch=0,
            instance_id=named,
            rebalance_timeout_ms=timeout,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )

    def _begin(self, name: str, topics: Any, answer: Any) -> None:
        assert answer.error_code == E.NONE
        assert answer.assignment is not None
        self.reads[name], self.told[name], self.topics[name] = frozenset(), frozenset(), topics
        self.lost.discard(name)
        self._hear(name, answer)

    @rule(name=who, heard=st.booleans(), says=st.booleans())
    def beat(self, name: str, heard: Any, says: Any) -> None:
        """A heartbeat, whose answer may get lost; a client repeats what it owns then."""
        if name in self.reads:
            owned = self.harness.lines(self.reads[name]) if says else None
            self._ask(name, heard, topic_partitions=owned)

    @rule(name=who, topics=subscription, heard=st.booleans())
    def subscribe(self, name: str, topics: Any, heard: Any) -> None:
        if name in self.reads:
            self.topics[name] = topics
            self._ask(name, heard, subscribed_topic_names=topics)

    @rule(name=who)
    def give_up(self, name: str) -> None:
        """A client stops to read what it must not read any more, and takes what it was given."""
        if name in self.reads:
            self.reads[name] = self.told[name]

    @rule(name=who)
    def leave(self, name: str) -> None:
        if name in self.reads:
            self.harness.beat(name, member_epoch=-1)
            self._gone(name)

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)
        for name in set(self.reads) - set(self._group().members):
            self._gone(name)  # it was put out; what it reads until it notices is its own affair, as at Kafka

    @rule()
    def grow(self) -> None:
        cluster = self.harness.broker.cluster
        if len(cluster.topics["t"].partitions) < 6:
            cluster.add_partitions(cluster.topics["t"], [[0]])

    def _ask(self, name: str, heard: Any, **fields: Any) -> None:
        """After an answer that was lost a client says everything again, and is told everything."""
        if name in self.lost:
            owned, topics = self.harness.lines(self.reads[name]), self.topics[name]
            fields = {"topic_partitions": owned, "subscribed_topic_names": topics, "rebalance_timeout_ms": 60_000}
        self.lost.discard(name) if heard else self.lost.add(name)
        answer = self.harness.beat(name, member_epoch=self.epochs[name], **fields)
        if heard and answer.error_code == E.NONE:
            self._hear(name, answer)
        elif answer.error_code == E.FENCED_MEMBER_EPOCH and heard:
            self.join(name, ["t"], 60_000)  # what clients do: give up everything and begin anew

    def _hear(self, name: str, answer: Any) -> None:
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.told[name] = self.harness.read(answer.assignment.topic_partitions)
        if self.reads[name] <= self.told[name]:
            self.reads[name] = self.told[name]  # nothing to give up

    def _gone(self, name: str) -> None:
        del self.reads[name], self.told[name], self.epochs[name], self.topics[name]
        self.lost.discard(name)
        self.instances.pop(name, None)

    def _group(self) -> Any:
        return self.harness.broker.groups.get("g", ConsumerGroup(group_id="g"))

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        if hasattr(self, "harness"):
            everything = [partition for reads in self.reads.values() for partition in reads]
            assert len(everything) == len(set(everything)), self.reads

    @invariant()
    def state_adds_up(self) -> None:
        if not hasattr(self, "harness"):
            return
        group = self._group()
        held = [p for member in group.members.values() for p in (*member.assigned, *member.revoking)]
        assert len(held) == len(set(held)) == len(group.owners)
        assert set(held) == set(group.owners)
        assert group.assignment_epoch <= group.epoch
        assert set(group.names) == {name for member in group.members.values() for name in member.topics}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch
            revokes = member.state is MemberState.UNREVOKED_PARTITIONS
            assert revokes == bool(member.revoking) or member.epoch in (AWAY, JOINING)
            assert member.instance_id is None or group.static[member.instance_id] == member.member_id
            assert self.instances.get(member.member_id, member.instance_id) == member.instance_id
            assert ("session", member.member_id) in group.waits

    def teardown(self) -> None:
        """Everybody beats and does as told: soon nobody moves any more, and every partition that is wanted is read."""
        if not hasattr(self, "harness"):
            return
        for _ in range(3):  # who is away is out then
            for name in list(self.reads):
                self._ask(name, True, topic_partitions=self.harness.lines(self.reads[name]))
                self.reads[name] = self.told[name]
            self.wait(3.0)
        if self.two_were_one or not all(member.topics for member in self._group().members.values()):
            self._new_epoch()
        for _ in range(3 * len(NAMES)):
            for name in list(self.reads):
                self._ask(name, True, topic_partitions=self.harness.lines(self.reads[name]))
                self.reads[name] = self.told[name]
            self.nobody_reads_what_another_reads()
        group = self._group()
        assert group.state_name == ("Stable" if self.reads else "Empty")
        topics = self.harness.broker.cluster.topics
        names = {name for topics in self.topics.values() for name in topics} - {"missing"}
        wanted = {(name, index) for name in names for index in range(len(topics[name].partitions))}
        assert {partition for reads in self.reads.values() for partition in reads} == wanted

    def _new_epoch(self) -> None:
        """Somebody comes and goes. For two things leave partitions to nobody until the next epoch, at Kafka too: a
        member without topics that joins when a target is due (test_consumer.py), and one that takes the place of another
        while it has one of its own."""
        assert self._join("passer-by", ["t"], 60_000, None).error_code == E.NONE
        assert self.harness.beat("passer-by", member_epoch=-1).error_code == E.NONE


QUICK = settings(
    max_examples=amount(40, 150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_machine():
    run_state_machine_as_test(ConsumerMachine, settings=QUICK)


# --- what the machine must notice -------------------------------------------------------------------------------


def hand_out_what_is_not_free(patch: Any) -> None:
    real = reconcile._moved
    patch.setattr(reconcile, "_moved", lambda member, goal: real(member, replace(goal, owners={})))


def null_means_nothing(patch: Any) -> None:
    real = reconcile.next_step
    patch.setattr(
        consumer,
        "next_step",
        lambda m, goal: real(m, replace(goal, owned=NOTHING if goal.owned is None else goal.owned)),
    )


def forget_what_is_given_up(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "_release", lambda *_: None)


def never_a_new_target(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "refresh_topics", lambda *_: False)


def sessions_never_begin(patch: Any) -> None:
    patch.setattr(consumer, "session_of", lambda member_id: ("other", member_id))


def revoke_at_once(patch: Any) -> None:
    def moved(member: Any, goal: Any) -> Any:
        wants = replace(goal, owned=NOTHING)
        return real(member, wants)

    real = reconcile._moved
    patch.setattr(reconcile, "_moved", moved)


def an_instance_has_a_member(patch: Any) -> None:
    patch.setattr(consumer, "known_member", lambda group, member_id: group.members[member_id])


def who_is_replaced_stays(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "replace_static", lambda group, _, new: group.put(new))


MUTANTS = [
    an_instance_has_a_member,
    who_is_replaced_stays,
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


@pytest.mark.long
@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_machine_catches(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(ConsumerMachine, settings=HUNT)

"""Invariants of a consumer group under random requests, lost responses and delays, and planted bugs to be caught.

No two members read the same partition, and in the end every subscribed partition is read.
"""

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
from mockbroker.groups.consumer.state import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    MemberState,
)
from mockbroker.groups.events import Evict, Rebalance
from mockbroker.groups.partition_sets import NO_PARTITIONS

NAMES = ["a", "b", "c", "d"]
INSTANCES = ["i", "j"]
SUBSCRIPTIONS = [["t"], ["t"], ["t", "u"], ["u"], [], ["t", "missing"]]
TIMES = [0.0, 0.5, 2.0, 5.0, 7.0]
CONFIG = {"group.consumer.session.timeout.ms": 6_000}

who = st.sampled_from(NAMES)
instance = st.sampled_from(INSTANCES)
subscription = st.sampled_from(SUBSCRIPTIONS)


class ConsumerMachine(RuleBasedStateMachine):
    """Random requests of members that revoke partitions at a random time, and start to read new ones only afterwards.

    Attributes:
        reads: Partitions that each member reads.
        assigned: Latest assignment that each member received.
        lost: Members that lost their last response.
        instances: Instance id of each static member.
        two_were_one: Whether a member took the instance id of another member while it had its own.
    """

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor: Any) -> None:
        self.harness = ConsumerGroupHarness(
            topics={"t": 4, "u": 2}, config=CONFIG | {"group.consumer.assignors": assignor}
        )
        self.reads: dict[str, frozenset] = {}
        self.assigned: dict[str, frozenset] = {}
        self.epochs: dict[str, int] = {}
        self.topics: dict[str, list[str]] = {}
        self.lost: set[str] = set()
        self.instances: dict[str, str] = {}
        self.two_were_one = False

    @rule(name=who, topics=subscription, timeout=st.sampled_from([1_000, 60_000]))
    def join(self, name: str, topics: Any, timeout: Any) -> None:
        """Start or restart a dynamic member, which reads nothing."""
        self._begin(name, topics, self._join(name, topics, timeout, None))

    @rule(name=who, named=instance, topics=subscription, timeout=st.sampled_from([1_000, 60_000]))
    def join_static(self, name: str, named: Any, topics: Any, timeout: Any) -> None:
        """Start or restart a static member. The instance id must be free, or its member must have left temporarily."""
        two = name in self._group().members and self._group().static_members.get(named, name) != name
        answer = self._join(name, topics, timeout, named)
        self.two_were_one |= two and answer.error_code == E.NONE
        if answer.error_code == E.NONE:
            self._begin(name, topics, answer)
            self.instances[name] = named
            return
        holder = self._group().static_members[named]
        assert (answer.error_code == E.UNRELEASED_INSTANCE_ID) == (holder in self._group().members)
        assert answer.error_code in (E.UNRELEASED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID)

    @rule(name=who, named=instance)
    def beat_with_instance(self, name: str, named: Any) -> None:
        """Send a heartbeat with any instance id: the member's, a former one, another member's, or an unknown one."""
        if name in self.reads and name not in self.lost:
            answer = self.harness.beat(name, member_epoch=self.epochs[name], instance_id=named)
            if answer.error_code == E.NONE:
                self.instances[name] = named
                self._receive(name, answer)

    @rule(name=who, named=instance, epoch=st.sampled_from([-1, -2]))
    def leave_by_instance(self, name: str, named: Any, epoch: int) -> None:
        """Leave, or leave temporarily: partitions remain assigned until the member rejoins or its session expires."""
        if name in self.reads and self.harness.beat(name, member_epoch=epoch, instance_id=named).error_code == E.NONE:
            self._forget(name)

    @rule(name=who, other=who, topics=subscription)
    def restart(self, name: str, other: Any, topics: Any) -> None:
        """Restart a static member, which may get another member id."""
        if named := self.instances.get(name):
            self.leave_by_instance(name, named, -2)
            self.join_static(other, named, topics, 60_000)

    @rule(named=instance)
    def remove_instance(self, named: Any) -> None:
        """Remove a static member, as an administrator."""
        holder = self._group().static_members.get(named)
        there = holder in self._group().members
        if self._group().members:
            leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(group_instance_id=named)])
            (line,) = self.harness.ask(leave, 5).members
            assert line.error_code == (E.NONE if there else E.UNKNOWN_MEMBER_ID)
            if holder in self.reads:
                self._forget(holder)

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
        self.reads[name], self.assigned[name], self.topics[name] = frozenset(), frozenset(), topics
        self.lost.discard(name)
        self._receive(name, answer)

    @rule(name=who, received=st.booleans(), reports_owned=st.booleans())
    def beat(self, name: str, received: Any, reports_owned: Any) -> None:
        """Send a heartbeat, whose response may be lost; then the member sends all fields again."""
        if name in self.reads:
            owned = self.harness.lines(self.reads[name]) if reports_owned else None
            self._ask(name, received, topic_partitions=owned)

    @rule(name=who, topics=subscription, received=st.booleans())
    def subscribe(self, name: str, topics: Any, received: Any) -> None:
        if name in self.reads:
            self.topics[name] = topics
            self._ask(name, received, subscribed_topic_names=topics)

    @rule(name=who)
    def revoke(self, name: str) -> None:
        """Revoke partitions that are not assigned any more, and start to read new ones."""
        if name in self.reads:
            self.reads[name] = self.assigned[name]

    @rule(name=who)
    def leave(self, name: str) -> None:
        if name in self.reads:
            self.harness.beat(name, member_epoch=-1)
            self._forget(name)

    @rule(name=who)
    def evict(self, name: str) -> None:
        self.harness.administer("g", Evict(name, "evicted by an administrator"))
        assert name not in self._group().members
        if name in self.reads:
            self._forget(name)  # the broker does not control what the member reads until the member notices

    @rule()
    def rebalance(self) -> None:
        before = self._group()
        epoch = before.epoch
        self.harness.administer("g", Rebalance("on request"))
        assert self._group().epoch == epoch + bool(before.members)

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)
        for name in set(self.reads) - set(self._group().members):
            self._forget(name)  # the member was removed; the broker does not control its reads until the member notices

    @rule()
    def add_partition(self) -> None:
        cluster = self.harness.broker.cluster
        if len(cluster.topics["t"].partitions) < 6:
            cluster.add_partitions(cluster.topics["t"], [[0]])

    def _ask(self, name: str, received: Any, **fields: Any) -> None:
        """Send a heartbeat; after a lost response, with all fields."""
        if name in self.lost:
            owned, topics = self.harness.lines(self.reads[name]), self.topics[name]
            fields = {"topic_partitions": owned, "subscribed_topic_names": topics, "rebalance_timeout_ms": 60_000}
        self.lost.discard(name) if received else self.lost.add(name)
        answer = self.harness.beat(name, member_epoch=self.epochs[name], **fields)
        if received and answer.error_code == E.NONE:
            self._receive(name, answer)
        elif answer.error_code == E.FENCED_MEMBER_EPOCH and received:
            self.join(name, ["t"], 60_000)  # as clients do: revoke all partitions and rejoin

    def _receive(self, name: str, answer: Any) -> None:
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.assigned[name] = self.harness.read(answer.assignment.topic_partitions)
        if self.reads[name] <= self.assigned[name]:
            self.reads[name] = self.assigned[name]  # nothing to revoke

    def _forget(self, name: str) -> None:
        del self.reads[name], self.assigned[name], self.epochs[name], self.topics[name]
        self.lost.discard(name)
        self.instances.pop(name, None)

    def _group(self) -> Any:
        return self.harness.broker.groups.get("g", ConsumerGroup(group_id="g"))

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        if hasattr(self, "harness"):
            everything = [partition for reads in self.reads.values() for partition in reads]
            assert len(everything) == len(set(everything)), self.reads

    @invariant()
    def state_agrees_with_members(self) -> None:
        if not hasattr(self, "harness"):
            return
        group = self._group()
        held = [p for member in group.members.values() for p in (*member.assigned, *member.pending_revocation)]
        assert len(held) == len(set(held)) == len(group.partition_epochs)
        assert set(held) == set(group.partition_epochs)
        assert group.assignment_epoch <= group.epoch
        assert set(group.subscribed_names) == {name for member in group.members.values() for name in member.topics}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch
            revokes = member.state is MemberState.UNREVOKED_PARTITIONS
            assert revokes == bool(member.pending_revocation) or member.epoch in (STATIC_LEAVE_EPOCH, JOIN_EPOCH)
            assert member.instance_id is None or group.static_members[member.instance_id] == member.member_id
            assert self.instances.get(member.member_id, member.instance_id) == member.instance_id
            assert ("session", member.member_id) in group.timers

    def teardown(self) -> None:
        """Check that all members reconcile: the group becomes Stable, and every subscribed partition is read."""
        if not hasattr(self, "harness"):
            return
        for _ in range(3):  # afterwards, the members that left temporarily have expired
            for name in list(self.reads):
                self._ask(name, True, topic_partitions=self.harness.lines(self.reads[name]))
                self.reads[name] = self.assigned[name]
            self.wait(3.0)
        if self.two_were_one or not all(member.topics for member in self._group().members.values()):
            self._new_epoch()
        for _ in range(3 * len(NAMES)):
            for name in list(self.reads):
                self._ask(name, True, topic_partitions=self.harness.lines(self.reads[name]))
                self.reads[name] = self.assigned[name]
            self.no_partition_has_two_readers()
        group = self._group()
        assert group.state_name == ("Stable" if self.reads else "Empty")
        topics = self.harness.broker.cluster.topics
        names = {name for topics in self.topics.values() for name in topics} - {"missing"}
        wanted = {(name, index) for name in names for index in range(len(topics[name].partitions))}
        assert {partition for reads in self.reads.values() for partition in reads} == wanted

    def _new_epoch(self) -> None:
        """Start a new epoch with a member that joins and leaves.

        In two cases partitions are not assigned until the next epoch, as in Kafka: a member without topics joins while
        the target is outdated (test_machine.py), and a member takes another member's instance id while it has its own.
        """
        assert self._join("visitor", ["t"], 60_000, None).error_code == E.NONE
        assert self.harness.beat("visitor", member_epoch=-1).error_code == E.NONE


QUICK = settings(
    max_examples=amount(40, 150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_machine():
    run_state_machine_as_test(ConsumerMachine, settings=QUICK)


# --- planted bugs -------------------------------------------------------------------------------------------------


def owned_partitions_are_assigned(patch: Any) -> None:
    real = reconcile._compute_next_assignment
    patch.setattr(
        reconcile, "_compute_next_assignment", lambda member, goal: real(member, replace(goal, partition_epochs={}))
    )


def null_means_no_owned_partitions(patch: Any) -> None:
    real = reconcile.reconciled_member
    patch.setattr(
        consumer,
        "reconciled_member",
        lambda m, goal: real(
            m, replace(goal, owned_partitions=NO_PARTITIONS if goal.owned_partitions is None else goal.owned_partitions)
        ),
    )


def partition_epochs_are_not_removed(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "_remove_partition_epochs", lambda *_: None)


def metadata_is_not_refreshed(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "refresh_metadata", lambda *_: False)


def sessions_do_not_start(patch: Any) -> None:
    patch.setattr(consumer, "session_timer", lambda member_id: ("other", member_id))


def revocation_is_not_awaited(patch: Any) -> None:
    def compute(member: Any, goal: Any) -> Any:
        wants = replace(goal, owned_partitions=NO_PARTITIONS)
        return real(member, wants)

    real = reconcile._compute_next_assignment
    patch.setattr(reconcile, "_compute_next_assignment", compute)


def removed_members_are_not_checked(patch: Any) -> None:
    patch.setattr(consumer, "get_member", lambda group, member_id: group.members[member_id])


def replaced_member_is_not_removed(patch: Any) -> None:
    patch.setattr(ConsumerGroup, "replace_static_member", lambda group, _, new: group.put_member(new))


MUTANTS = [
    removed_members_are_not_checked,
    replaced_member_is_not_removed,
    owned_partitions_are_assigned,
    null_means_no_owned_partitions,
    partition_epochs_are_not_removed,
    metadata_is_not_refreshed,
    sessions_do_not_start,
    revocation_is_not_awaited,
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

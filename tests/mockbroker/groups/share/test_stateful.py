"""Invariants of a share group under random requests, delays, topics and coordinators, and planted bugs to be caught.

Members have only initialized partitions of topics to which they subscribe, and in the end each of these partitions
is assigned to the same number of members.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from effort import amount
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from mockbroker.broker import failover
from mockbroker.groups.events import Evict, Rebalance
from mockbroker.groups.share import initialization, machine
from mockbroker.groups.share.state import (
    ShareGroup,
)
from mockbroker.share.state import StateKey
from mockbroker.topics.model import OFFSETS_TOPIC

NAMES = ["a", "b", "c", "d", "e"]
SUBSCRIPTIONS = [["t"], ["t"], ["t", "u"], ["u"], ["t", "late"], ["missing"]]
TIMES = [0.0, 0.5, 2.0, 5.0, 7.0]
CONFIG = {"group.share.session.timeout.ms": 6_000, "offsets.topic.replication.factor": 2}

who = st.sampled_from(NAMES)
subscription = st.sampled_from(SUBSCRIPTIONS)


class ShareMachine(RuleBasedStateMachine):
    """Random requests of members, some of whose responses are lost.

    Attributes:
        topics: Subscription of each member.
        epochs: Epoch of the last response that each member received.
        last_epoch: Last group epoch that was seen.
    """

    @initialize()
    def begin(self) -> None:
        self.harness = ShareGroupHarness(topics={"t": 3, "u": 2}, brokers=2, config=CONFIG)
        self.topics: dict[str, list[str]] = {}
        self.epochs: dict[str, int] = {}
        self.last_epoch = 0

    @rule(name=who, topics=subscription, lost=st.booleans())
    def join(self, name: str, topics: list[str], lost: bool) -> None:
        self.topics[name] = topics
        self._beat(name, lost, member_epoch=0, subscribed_topic_names=topics)

    @rule(name=who, lost=st.booleans())
    def beat(self, name: str, lost: bool) -> None:
        if epoch := self.epochs.get(name):
            self._beat(name, lost, member_epoch=epoch)

    @rule(name=who, topics=subscription)
    def subscribe(self, name: str, topics: list[str]) -> None:
        if name in self.epochs and self._beat(name, member_epoch=self.epochs[name], subscribed_topic_names=topics):
            self.topics[name] = topics

    @rule(name=who)
    def leave(self, name: str) -> None:
        if name in self.epochs:
            self.harness.beat(name, member_epoch=-1)
            self._forget(name)

    @rule(name=who)
    def evict(self, name: str) -> None:
        self.harness.administer("g", Evict(name, "evicted"))

    @rule()
    def rebalance(self) -> None:
        self.harness.administer("g", Rebalance("wanted"))

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)

    @rule(name=st.sampled_from(["t", "u", "late"]), create=st.booleans())
    def change_topics(self, name: str, create: bool) -> None:
        cluster = self.harness.broker.cluster
        topic = cluster.topics.get(name)
        if topic is None and create:
            cluster.create_topic(name, cluster.place(2, 1))
        elif topic is not None and create and len(topic.partitions) < 6:
            cluster.add_partitions(topic, cluster.place(1, 1))
        elif topic is not None and not create:
            self.harness.broker.delete_topics([topic])
        self.harness.finish([])  # the records are written, as after any request

    @rule()
    def move_coordinator(self) -> None:
        partition = self.harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
        harness = self.harness
        harness.finish(failover.move_leader(harness.broker, partition, 1 - partition.leader, harness.now))

    @invariant()
    def members_have_initialized_partitions_of_their_topics(self) -> None:
        group = self._group()
        if group is None:
            return
        for member in group.members.values():
            for topic_id, index in member.assigned:
                topic = self.harness.broker.cluster.by_id.get(topic_id)
                if topic is not None:  # otherwise, the next heartbeat revokes it
                    assert topic.name in member.topics
                    assert index in group.initialized[topic_id].partitions

    @invariant()
    def initialized_partitions_have_a_state(self) -> None:
        group = self._group()
        for topic_id, shared in ({} if group is None else group.initialized).items():
            for index in shared.partitions:
                assert self.harness.broker.share_states.summary(StateKey("g", topic_id, index)) is not None

    @invariant()
    def epochs_do_not_decrease(self) -> None:
        group = self._group()
        if group is not None:
            assert group.assignment_epoch <= group.epoch
            assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
            assert self.last_epoch <= group.epoch
            self.last_epoch = group.epoch

    def teardown(self) -> None:
        """Check that every partition of a subscribed topic is assigned, to the same number of members each."""
        if not hasattr(self, "harness") or not self.epochs:
            return
        names = list(self.epochs)
        for _ in range(12):
            for name in names:
                if not self._beat(
                    name, member_epoch=self.epochs.get(name, 0), subscribed_topic_names=self.topics[name]
                ):
                    self._beat(name, member_epoch=0, subscribed_topic_names=self.topics[name])
        group = self._group()
        assert group is not None
        cluster = self.harness.broker.cluster
        counts = Counter(partition for member in group.members.values() for partition in member.assigned)
        for name in {name for member in group.members.values() for name in member.topics} & cluster.topics.keys():
            topic = cluster.topics[name]
            assert all(counts[topic.topic_id, index] for index in range(len(topic.partitions))), name
        if group.homogeneous:
            sizes = [len(member.assigned) for member in group.members.values()]
            assert max(sizes) - min(sizes) <= 1
        assert {member.epoch for member in group.members.values()} == {group.epoch}

    def _beat(self, name: str, lost: bool = False, **fields: Any) -> bool:
        answer = self.harness.beat(name, **fields)
        if answer.error_code == E.NONE:
            if not lost:
                self.epochs[name] = answer.member_epoch
            elif name not in self.epochs:
                self.epochs[name] = 0
            return True
        if answer.error_code == E.FENCED_MEMBER_EPOCH:
            self.epochs[name] = 0  # it is still a member, and rejoins
        else:
            assert answer.error_code == E.UNKNOWN_MEMBER_ID
            self._forget(name)
        return False

    def _forget(self, name: str) -> None:
        self.epochs.pop(name, None)

    def _group(self) -> ShareGroup | None:
        return self.harness.broker.groups.get_as("g", ShareGroup)


QUICK = settings(
    max_examples=amount(30, 150),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
HUNT = settings(
    QUICK,
    max_examples=1_000,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


class TestShareGroup(ShareMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = QUICK


def assigns_uninitialized(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareGroup, "set_shared_topics", _initialized_at_once(ShareGroup.set_shared_topics))


def _initialized_at_once(real: Any) -> Any:
    def set_shared_topics(group: ShareGroup, **topics: Any) -> None:
        if topics.get("initializing"):
            topics["initialized"] = initialization.combined(group.initialized, topics["initializing"])
            topics["initializing"] = {}
        real(group, **topics)

    return set_shared_topics


def keeps_unsubscribed_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "topic_ids", lambda _, cluster: list(cluster.by_id))


def forgets_pending_assignments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(initialization, "is_assignment_pending", lambda _: False)


def keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    real = machine._reconciled

    def reconciled(group: ShareGroup, member: Any, context: Any, *, forced: bool) -> Any:
        return replace(real(group, member, context, forced=forced), epoch=member.epoch)

    patch.setattr(machine, "_reconciled", reconciled)


def never_refreshes_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareGroup, "refresh_metadata", lambda *_: False)
    patch.setattr(initialization, "begin", _only_first(initialization.begin))


def _only_first(real: Any) -> Any:
    def begin(group: ShareGroup, context: Any, now: float) -> None:
        if not group.initialized:
            real(group, context, now)

    return begin


def keeps_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(initialization, "remove_topics", lambda *_: None)


PLANTED = [
    assigns_uninitialized,
    keeps_unsubscribed_topics,
    forgets_pending_assignments,
    keeps_the_epoch,
    never_refreshes_metadata,
    keeps_deleted_topics,
]


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_caught(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(ShareMachine, settings=HUNT)

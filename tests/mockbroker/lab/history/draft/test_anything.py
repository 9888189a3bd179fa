"""Random sequences of events in groups of the draft: the invariants always hold, and the groups recover."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tools.draft_groups import TOPIC

from mockbroker.lab.history.draft import Consuming, DraftCluster, Options, owners
from mockbroker.lab.history.draft.failover import STEPS

GROUPS = ["g", "h"]
BROKERS, MOST = 3, 6
consumers = st.integers(0, MOST - 1)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = DraftCluster({TOPIC: 3}, brokers=BROKERS)
        self.partitions = 3
        self.read: dict[tuple[str, tuple[str, int]], int] = {}  # the next offset, by group and partition
        self.seen = 0  # number of records that were checked

    def named(self, number: int) -> str | None:
        names = list(self.cluster.consumers)
        return names[number % len(names)] if names else None

    def living(self, number: int) -> str | None:
        name = self.named(number)
        return name if name and self.cluster.consumers[name].state is not Consuming.DOWN else None

    @rule(group=st.sampled_from(GROUPS), delay=st.sampled_from([0.001, 0.02, 0.3]), asks_first=st.booleans())
    def add(self, group: str, delay: float, asks_first: bool) -> None:
        if len(self.cluster.consumers) < MOST:
            name = f"c{len(self.cluster.consumers) + 1}"
            self.cluster.delays[name] = delay
            self.cluster.add(group, [TOPIC], Options(asks_first=asks_first), name)

    @rule(number=consumers, silent=st.booleans())
    def crash(self, number: int, silent: bool) -> None:
        if name := self.living(number):
            self.cluster.crash(name, silent=silent)

    @rule(number=consumers)
    def leave(self, number: int) -> None:
        if name := self.living(number):
            self.cluster.leave(name)

    @rule(number=consumers)
    def start(self, number: int) -> None:
        name = self.named(number)
        if name and not self.living(number):
            self.cluster.start(name)

    @rule(number=consumers, seconds=st.sampled_from([0.5, 3.0, 6.5, 9.0]))
    def pause(self, number: int, seconds: float) -> None:
        if name := self.living(number):
            self.cluster.pause(name, seconds)

    @rule(more=st.integers(1, 3))
    def grow(self, more: int) -> None:
        self.partitions = min(self.partitions + more, 12)
        self.cluster.set_topic(TOPIC, self.partitions)

    @rule(node=st.integers(0, BROKERS - 1), silent=st.booleans())
    def fail(self, node: int, silent: bool) -> None:
        if node in self.cluster.brokers:
            self.cluster.fail(node, silent=silent)

    @rule(step=st.sampled_from(sorted(STEPS)))
    def fail_at(self, step: str) -> None:
        self.cluster.strike(STEPS[step])

    @rule(node=st.integers(0, BROKERS - 1))
    def recover(self, node: int) -> None:
        if node not in self.cluster.brokers:
            self.cluster.recover(node)

    @rule(group=st.sampled_from(GROUPS), node=st.integers(0, BROKERS - 1))
    def move_group(self, group: str, node: int) -> None:
        former = self.cluster.coordinator_node(group)
        if node != former and {node, former} <= self.cluster.brokers.keys():
            self.cluster.move_group(group, node)

    @rule(seconds=st.sampled_from([0.01, 0.3, 2.0, 7.0]))
    def run(self, seconds: float) -> None:
        self.cluster.run(self.cluster.now + seconds)

    @invariant()
    def nobody_has_what_another_of_its_generation_has(self) -> None:
        members = [one for one in self.cluster.consumers.values() if one.owned]
        held = Counter((one.group, one.generation, partition) for one in members for partition in one.owned)
        assert not held or max(held.values()) == 1

    @invariant()
    def no_generation_is_given_twice(self) -> None:
        for group in GROUPS:
            given = [number for _, of, number in self.cluster.rebalances if of == group]
            assert given == list(range(1, len(given) + 1))

    @invariant()
    def what_is_stored_is_whole(self) -> None:
        for group in self.cluster.store.dump()["groups"].values():
            assert {member["id"] for member in group["members"]} == group["ownership"].keys()
            shared = [tuple(partition) for share in group["ownership"].values() for partition in share]
            assert sorted(shared) == ([(TOPIC, number) for number in range(len(shared))])
            assert bool(shared) == bool(group["members"])

    @invariant()
    def nothing_is_read_beyond_what_was_read(self) -> None:
        for _, consumer, partition, offset in self.cluster.records[self.seen :]:
            key = (self.cluster.consumers[consumer].group, partition)
            assert offset <= self.read.get(key, 0)
            self.read[key] = max(self.read.get(key, 0), offset + 1)
        self.seen = len(self.cluster.records)
        for group in GROUPS:
            for partition, offset in self.cluster.store.offsets(group).items():
                assert offset <= self.read.get((group, partition), 0)

    @invariant()
    def who_stopped_owns_nothing(self) -> None:
        for one in self.cluster.consumers.values():
            assert not one.owned or one.state in (Consuming.MEMBER, Consuming.REDISCOVERING)

    def teardown(self) -> None:
        """Stop all faults; then every group settles, and every partition has one owner."""
        cluster = self.cluster
        cluster.strike(lambda _: False)
        for node in range(BROKERS):
            if node not in cluster.brokers:
                cluster.recover(node)
        cluster.run(cluster.now + 60)
        for group in GROUPS:
            running = {
                one.name for one in cluster.consumers.values() if one.group == group and one.state is not Consuming.DOWN
            }
            if running:
                assert cluster.is_settled(group)
                result = owners(cluster.spans, group, cluster.now)
                assert sorted(result) == [(TOPIC, number) for number in range(self.partitions)]
                assert all(len(who) == 1 for who in result.values())
                assert {who for (who,) in result.values()} <= running


def test_anything_may_happen_to_groups() -> None:
    run_state_machine_as_test(Groups, settings=settings(max_examples=60, stateful_step_count=40))

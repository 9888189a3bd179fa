"""Real clients whose coordinator is killed: the fifteen scenarios of scenarios.py, each with three clients.

Scenarios spend their time waiting, so several run at once, each with its own cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import effort
import pytest
from interop.raw import Connection
from interop.stage import CONFIG, CONSUMER_HEARTBEAT_MS, LIMIT, MARKS, OURS, Member, Stage, need_client, stage_of
from scenarios import SCENARIOS, Scenario
from tools.coordinator_kill import CoordinatorKill, arm_kill

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import ThreadCluster, run_cluster

pytestmark = MARKS
AT_ONCE = 4  # number of scenarios that run at once
STANDING = {"classic": ("confluent-kafka", "kafka-python"), "consumer": ("confluent-kafka", "confluent-kafka")}
ACTORS = {"classic": ("confluent-kafka", "kafka-python", "aiokafka"), "consumer": ("confluent-kafka",)}
BUILT = ("java", "franz-go")  # actors in other languages than Python
SESSION_MS = 5_000  # librdkafka rejoins after this time without a response, also on a slow machine
CONDITIONS: dict[str, dict[str, Any]] = {  # what else happens to the cluster
    "at once": {},
    "read for a second": {"config": {"mockbroker.coordinator.load.ms": 1_000}},
    "noticed a second late": {"noticed_after": 1.0},
    "stale metadata for a second": {"stale": True},
}


@dataclass(frozen=True)
class Play:
    """A scenario with real clients. ``request``: one of the step's requests; ``actor``: family of its client."""

    scenario: Scenario
    request: str
    actor: str
    protocol: str = "classic"
    condition: str = "at once"

    @property
    def name(self) -> str:
        return f"{self.protocol}: {self.scenario.name}: {self.request}, {self.actor}, {self.condition}"

    @property
    def families(self) -> list[str]:
        """Return the families of its clients."""
        return [self.actor, *STANDING[self.protocol]]


def each(protocol: str, scenario: Scenario, actor: str, condition: str = "at once") -> list[Play]:
    """Return a play for each request of the step."""
    return [Play(scenario, request, actor, protocol, condition) for request in getattr(scenario.step, protocol)]


def usual() -> Iterator[Play]:
    """Yield plays of all scenarios in turn by protocol, actor and condition; in make test-long, in both protocols."""
    conditions = list(CONDITIONS)
    for parity, (protocol, actors) in enumerate(ACTORS.items()):
        turns = (*actors, *BUILT)
        for number, scenario in enumerate(SCENARIOS):
            if number % 2 != parity and not effort.LONG:
                continue
            turn = number + number // 3
            condition = conditions[turn % len(conditions)] if scenario.moment == "during" else conditions[0]
            yield from each(protocol, scenario, turns[turn % len(turns)], condition)


def every() -> Iterator[Play]:
    """Yield plays of all scenarios with all actors in all conditions."""
    for protocol, actors in ACTORS.items():
        for scenario in SCENARIOS:
            for actor in (*actors, *BUILT, OURS):
                for condition in CONDITIONS:
                    yield from each(protocol, scenario, actor, condition)


def play(play: Play) -> None:
    """Run a play. Raises: AssertionError with a report of all events, if a check fails."""
    for family in play.families:
        need_client(family)
    condition = CONDITIONS[play.condition]
    config = {
        **CONFIG,
        "default.replication.factor": 3,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.heartbeat.interval.ms": CONSUMER_HEARTBEAT_MS,
        **condition.get("config", {}),
    }
    with (
        run_cluster(brokers=3, topics={Stage.topic: Stage.partitions}, config=config) as cluster,
        stage_of(cluster) as stage,
    ):
        stage.session_ms = SESSION_MS
        Failing(stage, play).run()


class Failing:
    """A running play on a stage."""

    def __init__(self, stage: Stage, play: Play) -> None:
        self.stage, self.play = stage, play
        self.produced: list[str] = []
        self.members: list[Member] = []
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.families: dict[str, str] = {}  # by the name of the member

    def run(self) -> None:
        self.begin()
        self.act()
        self.check_written()
        self.recovers()
        self.comes_back()

    # --- the steps ---

    def begin(self) -> None:
        """Start two members, or three if the step has no newcomer; let them read and commit all records."""
        families = list(STANDING[self.play.protocol])
        self.newcomer = self.play.actor
        if not self.play.scenario.step.newcomer:
            families = [self.play.actor, *families]
        elif self.play.request == "SyncGroup":  # the leader, which is the first member, sends this request
            self.newcomer, families[0] = families[0], self.play.actor
        self.commit_nothing()
        self.members = [self.join(family, f"standing-{number}") for number, family in enumerate(families)]
        self.settled()
        self.produce("first", 24)
        self.read()
        self.commit()

    def commit_nothing(self) -> None:
        """Commit offset 0 of all partitions before any record is read.

        Without these commits, librdkafka 2.16 looks up a start offset, and looks it up again half a second later, when
        a timer of the first lookup fires; if a partition lost its leader in between, it reads from the beginning.
        """
        places = [OffsetCommitRequest.Topic.Partition(partition_index=n) for n in range(self.stage.partitions)]
        topics = [OffsetCommitRequest.Topic(name=self.stage.topic, partitions=places)]
        with Connection(self.stage.cluster, self.stage.cluster.coordinator(self.stage.group)) as connection:
            connection.ask(OffsetCommitRequest(group_id=self.stage.group, topics=topics), 5)

    def act(self) -> None:
        """Take the step during which the coordinator is killed."""
        newcomer = self.play.scenario.step.newcomer
        self.name = "newcomer" if newcomer else self.members[0].name
        self.before = self.stage.generation()
        if self.play.request == "OffsetCommit":
            self.produce("second", 24)
            self.read()
        self.printed = {member.name: len(member.records) for member in self.members}
        self.kill = self.arm("" if self.play.request == "SyncGroup" else self.name)
        actor = self.join(self.newcomer, self.name) if newcomer else self.members.pop(0)
        if self.leaves:
            actor.say("leave")
        else:
            self.members.append(actor)
            if self.play.request == "OffsetCommit":
                actor.say("commit")
        assert self.kill.happened.wait(LIMIT), self.stage.report("the coordinator did not die")
        if self.leaves:
            actor.ended()
        if CONDITIONS[self.play.condition].get("stale"):
            time.sleep(1.0)  # during this time, one broker has stale metadata
            self.stage.cluster.thaw_metadata()

    @property
    def leaves(self) -> bool:
        return self.play.request in ("LeaveGroup", "ConsumerGroupHeartbeat, epoch -1")

    def arm(self, client: str) -> CoordinatorKill:
        condition = CONDITIONS[self.play.condition]
        stale = condition.get("stale", False)

        def also(cluster: ThreadCluster, dies: int) -> None:
            if stale:
                cluster.freeze_metadata(next(node.node_id for node in cluster.nodes if node.node_id != dies))

        return arm_kill(
            self.stage.cluster,
            self.stage.group,
            self.play.request,
            self.play.scenario.moment,
            client=client,
            noticed_after=condition.get("noticed_after", 0.0),
            also=also,
        )

    # --- the checks ---

    def check_written(self) -> None:
        """Check that the next coordinator has loaded exactly the records that must be written."""
        loaded = self.stage.wait("the next coordinator", lambda: self.stage.events("load"))[0]
        counts = self.play.protocol in self.play.scenario.counts
        members = {self.stage.client_of(member_id) for member_id in loaded.members}
        there = counts or not self.play.scenario.step.newcomer
        if self.leaves:  # if a member leaves a classic group during a rebalance, nothing is written
            there = not counts or self.play.protocol == "classic"
        assert (self.name in members) == there, self.stage.report(f"{self.name} in {members}")
        if self.play.request == "OffsetCommit" and counts:
            for topic in self.kill.request.topics:
                for each in topic.partitions:
                    place = topic.name or self.stage.topic, each.partition_index
                    self.acknowledged[place] = max(self.acknowledged[place], each.committed_offset)
        if self.play.protocol == "classic":
            expected = self.before + (counts and self.play.scenario.step.newcomer)
            assert loaded.generation == expected, self.stage.report(f"generation {expected} was written")

    def recovers(self) -> None:
        self.settled()
        self.kept()
        self.produce("third", 24)
        self.read()
        self.twice()
        self.commit()
        self.quiet()

    def comes_back(self) -> None:
        """Restart the killed broker, and check that no member rejoins and all members continue."""
        assert self.kill.killed is not None
        generation = self.stage.generation()
        self.stage.cluster.start_broker(self.kill.killed)
        self.produce("fourth", 24)
        self.read()
        self.commit()
        values = [value for member in self.members for value in member.values if value.startswith("fourth")]
        assert len(values) == len(set(values)), self.stage.report("read twice in quiet times")
        assert self.stage.generation() == generation
        self.generations()

    def settled(self) -> None:
        """Wait until the group is Stable with exactly these members, and each partition has an owner."""
        names = {member.name for member in self.members}
        self.stage.wait(f"a stable group of {sorted(names)}", lambda: self.stage.stable_with(names), 2 * LIMIT)
        self.stage.cluster.wait_group(self.stage.group, "Stable", len(names), LIMIT)

    def kept(self) -> None:
        committed = self.stage.cluster.committed(self.stage.group)
        for place, offset in self.acknowledged.items():
            assert committed.get(place, -1) >= offset, self.stage.report(f"{place}: {offset} was acknowledged")

    def twice(self) -> None:
        """Check that records before the offsets that were committed when the coordinator died are not read again."""
        for member in self.stage.members:
            if self.families[member.name] == "aiokafka" and self.got_an_error_for_offsets(member):
                continue
            for topic, partition, offset, _ in member.records[self.printed.get(member.name, 0) :]:
                committed = self.acknowledged.get((topic, partition), 0)
                assert offset >= committed, self.stage.report(f"{topic} {partition}: {offset} read again")

    def got_an_error_for_offsets(self, member: Member) -> bool:
        """Return True if the coordinator has answered OffsetFetch with an error.

        aiokafka 0.14.0 ignores this error, and begins at the offset of auto.offset.reset.
        """
        fetched = [each for each in self.stage.cluster.requests("OffsetFetch") if each.client_id == member.name]
        return any(each.response is not None and each.response.error_code for each in fetched)

    def quiet(self) -> None:
        """Wait until every member has sent a heartbeat of the newest generation after its commit.

        A Java member of the consumer protocol rejoins again and again without a pause while the coordinator is loading,
        so the cluster may have dropped its oldest requests.
        """
        requested = {"classic": "Heartbeat", "consumer": "ConsumerGroupHeartbeat"}[self.play.protocol]
        since = self.stage.cluster.requests()[-1].time_ms

        def missing() -> set[str]:
            newest = self.stage.generation()
            return {member.name for member in self.members} - {
                beat.client_id
                for beat in self.stage.cluster.requests(requested)
                if beat.time_ms > since
                if newest == (beat.body.generation_id if requested == "Heartbeat" else beat.body.member_epoch)
            }

        for _ in range(40):
            if not missing():
                return
            self.stage.wait_a_moment(
                lambda: False
            )  # no call of the cluster here: the broker's thread may be waiting to report an event
        raise AssertionError(self.stage.report(f"{sorted(missing())} do not come to rest"))

    def generations(self) -> None:
        """Check that generations never decrease, and no partition has two owners in a generation."""
        if self.play.protocol == "consumer":
            self.stage.check_owners()
            seen = [event.generation for event in self.stage.events("generation")]
        else:
            self.stage.check_generations()
            seen = [event.generation for event in self.stage.events("assign")]
        assert seen == sorted(seen), self.stage.report("a generation fell")

    # --- the members ---

    def join(self, family: str, name: str) -> Member:
        self.families[name] = family
        return self.stage.member(family, name, protocol=self.play.protocol)

    def produce(self, name: str, number: int) -> None:
        values = [f"{name}-{n}" for n in range(number)]
        self.produced += values
        self.stage.produce(values)

    def read(self) -> None:
        """Wait until every produced record was read by a member, which may have left since."""
        wanted = set(self.produced)
        members = self.stage.members
        self.stage.wait(
            f"{len(wanted)} records", lambda: wanted <= {value for each in members for value in each.values}
        )

    def commit(self) -> None:
        for done in [member.start_commit() for member in self.members]:
            done()
        self.acknowledged = self.stage.cluster.committed(self.stage.group)


# --- the tests ---------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = list(every() if metafunc.config.getoption("--every-failover") else usual())
    metafunc.parametrize("which", wanted, ids=[play.name for play in wanted])


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[dict[Play, Future[None]]]:
    """Return the results of all requested plays."""
    wanted = [item.callspec.params["which"] for item in request.session.items if item.path == request.path]
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {which: pool.submit(play, which) for which in wanted}
    pool.shutdown(cancel_futures=True)  # scenarios whose result is no longer needed


def test_the_group_survives(which: Play, played: dict[Play, Future[None]]) -> None:
    played[which].result()

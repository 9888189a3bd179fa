"""Clients in the simulation that elect leaders, move replicas, unregister brokers, and try to change the voters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from kwire import ErrorCode as E
from kwire.messages.add_raft_voter import AddRaftVoterRequest
from kwire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.messages.unregister_broker import UnregisterBrokerRequest
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.clients.plans import Place, by_topic
from mockbroker.lab.simulation.network import Wire

PREFERRED, UNCLEAN = 0, 1
NO_SUCH_BROKER, NO_SUCH_PARTITION = 1_000, 99
DIRECTORIES = ("/disk-0", "/disk-1")  # setting log.dirs of the brokers
VOTER = UUID(int=7)


class Seen(NamedTuple):
    """The leader of a partition, as Metadata reports it.

    Attributes:
        leader: broker id.
        epoch: leader epoch.
        preferred: broker id of the preferred leader.
    """

    leader: int
    epoch: int
    preferred: int


class LeaderElector(Operator):
    """A client that elects the preferred leaders of partitions, and then checks which leaders the partitions have.

    Metadata must not be stale. If the leader epoch shows that no later election took place, the leader after the
    election is the preferred one.
    """

    own_topic = "elected"
    own_partitions = 2

    def operate(self, wire: Wire) -> None:
        if self.dice.chance(0.15):
            self._elect_invalid(wire)
        else:
            self._look(wire, self._elect)

    def _look(self, wire: Wire, then: Callable[[Wire, dict[Place, Seen]], None]) -> None:
        kind = MetadataRequest.Topic
        topics = [kind(name=name) for name in (self.own_topic, *self.script.topics)]

        def described(answer: Any) -> None:
            partitions = {
                (topic.name, each.partition_index): Seen(each.leader_id, each.leader_epoch, each.replica_nodes[0])
                for topic in answer.topics
                for each in topic.partitions
            }
            if partitions and wire.open:
                then(wire, partitions)

        self.request(wire, MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12, described)

    def _elect(self, wire: Wire, before: dict[Place, Seen]) -> None:
        kind = ElectLeadersRequest.TopicPartition
        lines = [kind(topic=topic, partitions=indexes) for topic, indexes in by_topic(frozenset(before)).items()]

        def elected(answer: Any) -> None:
            self.expect("ElectLeaders", answer.error_code, [E.NONE])
            results = dict.fromkeys(before, int(E.ELECTION_NOT_NEEDED))  # omitted when all partitions were requested
            for topic in answer.replica_election_results:
                results |= {(topic.topic, each.partition_id): each.error_code for each in topic.partition_result}
            possible = [E.NONE, E.ELECTION_NOT_NEEDED, E.PREFERRED_LEADER_NOT_AVAILABLE]
            for (name, index), error in results.items():
                self.expect(f"ElectLeaders of {name}-{index}", error, possible)
            if wire.open:
                self._look(wire, lambda _, after: self._compare(results, before, after))

        all_partitions = self.dice.chance(0.3)
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=None if all_partitions else lines, timeout_ms=1_000
        )
        self.request(wire, request, self.dice.whole(1, 2), elected)

    def _compare(self, results: dict[Place, int], before: dict[Place, Seen], after: dict[Place, Seen]) -> None:
        for place in before:
            old, new, error = before[place], after.get(place), results[place]
            is_moved = new is None or new.preferred != old.preferred  # by a reassignment
            if new is None or is_moved or error not in (E.NONE, E.ELECTION_NOT_NEEDED):
                continue
            changes = 0 if error else 1
            name = f"{place[0]}-{place[1]}"
            if new.epoch == old.epoch + changes:
                self.expect(f"the leader of {name} in epoch {new.epoch}, elected", new.leader, [new.preferred])
            elif changes:
                self.expect(f"the leader epoch of {name} has increased", new.epoch > old.epoch, [True])

    def _elect_invalid(self, wire: Wire) -> None:
        kind = ElectLeadersRequest.TopicPartition
        lines = [kind(topic=self.own_topic, partitions=[NO_SUCH_PARTITION])]
        election, error = self.dice.pick(
            [(PREFERRED, E.UNKNOWN_TOPIC_OR_PARTITION), (UNCLEAN, E.UNKNOWN_TOPIC_OR_PARTITION), (7, E.INVALID_REQUEST)]
        )

        def answered(answer: Any) -> None:
            (topic,) = answer.replica_election_results
            self.expect("an invalid election", topic.partition_result[0].error_code, [error])

        request = ElectLeadersRequest(election_type=election, topic_partitions=lines, timeout_ms=1_000)
        self.request(wire, request, 2, answered)


class ReplicaMover(Operator):
    """A client that moves replicas between the log directories of a broker.

    The register of a replica is the number of the directory in which it is or will be. It is read after a write,
    because the broker chooses the first directory.
    """

    own_topic = "moved"
    own_partitions = 2

    def begin(self) -> None:
        super().begin()
        self._written: set[str] = set()

    def operate(self, wire: Wire) -> None:
        index = self.dice.below(self.own_partitions)
        register = f"directory of {self.own_topic}-{index} on broker {wire.node}"
        if register in self._written and self.dice.chance(0.5):
            self._describe(wire, index, register)
        elif self.dice.chance(0.2):
            self._move_invalid(wire)
        else:
            self._move(wire, index, register)

    def _move(self, wire: Wire, index: int, register: str) -> None:
        number = self.dice.below(len(DIRECTORIES))
        operation = self.began(register, number)

        def moved(answer: Any) -> None:
            error = answer.results[0].partitions[0].error_code
            self.expect("AlterReplicaLogDirs", error, [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION])  # it may have no replica
            self.ended(operation, error)
            if not error:
                self._written.add(register)

        self.request(wire, _move(DIRECTORIES[number], self.own_topic, index), 2, moved)

    def _move_invalid(self, wire: Wire) -> None:
        request, error = self.dice.pick(
            [
                (_move("/no-such-disk", self.own_topic, 0), E.LOG_DIR_NOT_FOUND),
                (_move(DIRECTORIES[0], self.own_topic, NO_SUCH_PARTITION), E.UNKNOWN_TOPIC_OR_PARTITION),
            ]
        )
        self.request(
            wire,
            request,
            self.dice.whole(1, 2),
            lambda answer: self.expect("an invalid move", answer.results[0].partitions[0].error_code, [error]),
        )

    def _describe(self, wire: Wire, index: int, register: str) -> None:
        sent_at, kind = self.queue.now, DescribeLogDirsRequest.Topic

        def described(answer: Any) -> None:
            places: dict[bool, int] = {}  # whether the replica is being moved -> directory
            for each in answer.results:
                for topic in each.topics:
                    for partition in topic.partitions:
                        places[partition.is_future_key] = DIRECTORIES.index(each.log_dir)
            if places:
                self.was_read(register, places.get(True, places.get(False, -1)), sent_at)

        self.request(
            wire, DescribeLogDirsRequest(topics=[kind(topic=self.own_topic, partitions=[index])]), 4, described
        )


def _move(path: str, topic: str, index: int) -> AlterReplicaLogDirsRequest:
    kind = AlterReplicaLogDirsRequest.Dir
    return AlterReplicaLogDirsRequest(dirs=[kind(path=path, topics=[kind.Topic(name=topic, partitions=[index])])])


class Unregisterer(Operator):
    """A client that unregisters brokers, and tries to change the voters of the controller quorum, which are static."""

    def operate(self, wire: Wire) -> None:
        voter, broker = self.dice.pick([1, 3_000]), self.dice.below(3)
        request, version, possible = self.dice.pick(
            [
                (UnregisterBrokerRequest(broker_id=NO_SUCH_BROKER), 0, [E.BROKER_ID_NOT_REGISTERED]),
                (UnregisterBrokerRequest(broker_id=broker), 0, [E.NONE, E.BROKER_ID_NOT_REGISTERED]),
                (_addition(voter), 0, [E.UNSUPPORTED_VERSION]),
                (_addition(voter, "other"), 0, [E.INCONSISTENT_CLUSTER_ID]),
                (_addition(-1), 0, [E.INVALID_REQUEST]),
                (_removal(voter), 0, [E.UNSUPPORTED_VERSION]),
                (_removal(voter, "other"), 0, [E.INCONSISTENT_CLUSTER_ID]),
            ]
        )
        what = type(request).__name__.removesuffix("Request")
        self.request(wire, request, version, lambda answer: self.expect(what, answer.error_code, possible))


def _addition(voter: int, cluster: str | None = None) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster, timeout_ms=1_000, voter_id=voter, voter_directory_id=VOTER, listeners=[]
    )


def _removal(voter: int, cluster: str | None = None) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster, voter_id=voter, voter_directory_id=VOTER)

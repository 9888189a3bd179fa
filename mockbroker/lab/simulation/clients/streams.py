"""A member of a streams group (KIP-1071): one thread of an application with a repartition topic and a state store."""

from __future__ import annotations

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from mockbroker.lab.simulation.clients.client import BACKOFF
from mockbroker.lab.simulation.clients.epoch_member import JOINING, LEAVING, LOST, EpochMember
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import NOT_HERE, NOT_YET

REPARTITIONED = 3  # partitions of the repartition topic, which do not depend on the source topics
THREADS = 2  # members of one process
SOURCE, STORE = "0", "1"  # ids of the subtopologies
Tasks = frozenset[tuple[str, int]]
Request = StreamsGroupHeartbeatRequest
Subtopology = Request.Topology.Subtopology
NOTHING: tuple[Tasks, Tasks] = (frozenset(), frozenset())


def repartition_topic(group: str) -> str:
    """Return the name of the repartition topic of a group."""
    return f"{group}-again"


def topology(group: str, topics: tuple[str, ...]) -> Request.Topology:
    """Return the topology of a group: a stateless subtopology that writes to a repartition topic, and a stateful one
    that reads it.

    Args:
        group: group id.
        topics: source topics of the first subtopology.
    """
    again = Subtopology.TopicInfo(name=repartition_topic(group), partitions=REPARTITIONED)
    changelog = Subtopology.TopicInfo(name=f"{group}-log")
    return Request.Topology(
        epoch=1,
        subtopologies=[
            Subtopology(
                subtopology_id=SOURCE, source_topics=list(topics), repartition_sink_topics=[repartition_topic(group)]
            ),
            Subtopology(subtopology_id=STORE, repartition_source_topics=[again], state_changelog_topics=[changelog]),
        ],
    )


class StreamsClient(EpochMember[StreamsGroupHeartbeatResponse, tuple[Tasks, Tasks]]):
    """A member of a streams group.

    Attributes:
        held: tasks that the member runs: (active, standby).
        target: tasks in the last received assignment: (active, standby).
    """

    def begin(self) -> None:
        super().begin()
        self.held = NOTHING
        self.target = NOTHING

    def ready(self) -> None:
        """Send a heartbeat.

        If the response to the previous heartbeat was lost, rejoin instead, because Kafka 4.2 does not repeat
        assignments.
        """
        if self.beating:
            self._lose()
        self.beating = False
        self.heartbeat()

    def heartbeat(self) -> None:
        if self.beating or self.coordinator is None:
            return
        active, standby = self.held
        request = Request(
            group_id=self.script.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            active_tasks=_lines(active),
            standby_tasks=_lines(standby),
            warmup_tasks=[],
        )
        if self.epoch == JOINING:
            request.rebalance_timeout_ms = round(self.script.rebalance * 1000)
            request.topology = topology(self.script.group, self.topics)
            request.process_id = f"process-{self.script.number // THREADS}"
        self.beating = True
        self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, self._accept)

    def _assigned(self, answer: StreamsGroupHeartbeatResponse) -> tuple[Tasks, Tasks] | None:
        if answer.active_tasks is None:
            return None
        return _tasks(answer.active_tasks), _tasks(answer.standby_tasks or [])

    def _hold(self, assignment: tuple[Tasks, Tasks]) -> None:
        self.held = assignment
        self.own(self._places())

    def _places(self) -> frozenset[Place]:
        """Return the partitions that the active tasks read.

        Task n of a subtopology reads partition n of each of its topics.
        """
        places: set[Place] = set()
        for subtopology, index in self.held[0]:
            names = self.topics if subtopology == SOURCE else (repartition_topic(self.script.group),)
            places |= {(name, index) for name in names if index < self.partitions(name)}
        return frozenset(places)

    def polled(self) -> None:
        """Read also the partitions that were added to the topics of active tasks since the last poll.

        Then advance and commit the positions, as ``Reader.polled`` does.
        """
        if (places := self._places()) != self.owned:
            self.own(places)
        super().polled()

    def _lose(self) -> None:
        """Give up all tasks, because the member was fenced or removed. The next heartbeat joins the group again."""
        self.epoch = JOINING
        self.target = NOTHING
        self._hold(NOTHING)

    def refused(self, error: int) -> None:
        if error in NOT_HERE:
            self.find_later()
        elif error == NOT_YET:
            self.later(BACKOFF, self.heartbeat)
        elif error in LOST:
            self._lose()
            self.later(BACKOFF * self.dice.random(), self.heartbeat)
        elif error != E.STALE_MEMBER_EPOCH:  # of a commit: the next heartbeat returns the new epoch
            self.end(E(error).name)

    def leave(self) -> None:
        self.say("leaves")
        if self.coordinator is None or self.epoch == JOINING:
            self.stop()
            return
        request = Request(group_id=self.script.group, member_id=self.member_id, member_epoch=LEAVING)
        self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, self._left)
        self._lose()
        self.later(BACKOFF * 5, self.stop)

    def _left(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self.stop()


def _lines(tasks: Tasks) -> list[Request.TaskIds]:
    numbers: dict[str, list[int]] = {}
    for name, index in sorted(tasks):
        numbers.setdefault(name, []).append(index)
    return [Request.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in numbers.items()]


def _tasks(lines: list[StreamsGroupHeartbeatResponse.TaskIds]) -> Tasks:
    return frozenset((line.subtopology_id, index) for line in lines for index in line.partitions)

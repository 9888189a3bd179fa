"""A member of a consumer group (KIP-848) in the simulation, dynamic or static."""

from __future__ import annotations

from uuid import UUID

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from mockbroker.lab.simulation.clients.client import BACKOFF
from mockbroker.lab.simulation.clients.epoch_member import JOINING, LEAVING, LOST, EpochMember
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import NOT_HERE, NOT_YET

GOING_AWAY = -2  # member epoch
Share = frozenset[tuple[UUID, int]]
Request = ConsumerGroupHeartbeatRequest


class ConsumerClient(EpochMember[ConsumerGroupHeartbeatResponse, Share]):
    """A member of a consumer group (KIP-848).

    Attributes:
        held: owned partitions, as (topic id, partition).
        target: partitions in the last received assignment, as (topic id, partition).
        reported: owned partitions in the last heartbeat; None before the first heartbeat.
        full: whether the next heartbeat contains all fields.
    """

    def begin(self) -> None:
        super().begin()
        self.held: Share = frozenset()
        self.target: Share = frozenset()
        self.reported: Share | None = None
        self.full = True

    def ready(self) -> None:
        self.beating = False
        self.full = True
        self.heartbeat()

    def heartbeat(self) -> None:
        if self.beating or self.coordinator is None:
            return
        request = Request(
            group_id=self.script.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.script.instance,
        )
        if self.epoch == JOINING or self.full:
            request.rebalance_timeout_ms = round(self.script.rebalance * 1000)
            if regex := self.script.regex:
                request.subscribed_topic_names, request.subscribed_topic_regex = [], regex
            else:
                request.subscribed_topic_names = list(self.topics)
            request.topic_partitions = _lines(self.held)
        elif self.held != self.reported:
            request.topic_partitions = _lines(self.held)
        self.reported, self.full = self.held, False
        self.beating = True
        self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, self._accept)

    def _assigned(self, answer: ConsumerGroupHeartbeatResponse) -> Share | None:
        if answer.assignment is None:
            return None
        lines = answer.assignment.topic_partitions
        return frozenset((line.topic_id, index) for line in lines for index in line.partitions)

    def _hold(self, assignment: Share) -> None:
        self.held = assignment
        names = self.cluster().by_id
        known = [(topic_id, index) for topic_id, index in sorted(assignment) if topic_id in names]
        places: list[Place] = [(names[topic_id].name, index) for topic_id, index in known]
        self.own(frozenset(places))

    def _lose(self) -> None:
        """Give up all partitions, because the member was fenced or removed.

        The next heartbeat joins the group as a new member.
        """
        self.epoch = JOINING
        self.target = frozenset()
        self.reported = None
        self._hold(frozenset())

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to ``topics`` from the next heartbeat on."""
        self.topics = topics
        self.full = True

    def refused(self, error: int) -> None:
        if error in NOT_HERE:
            self.find_later()
        elif error == NOT_YET:
            self.full = True
            self.later(BACKOFF, self.heartbeat)
        elif error in LOST:
            self._lose()
            self.later(BACKOFF * self.dice.random(), self.heartbeat)
        elif error == E.UNRELEASED_INSTANCE_ID:
            self.later(10 * BACKOFF, self.heartbeat)
        elif error != E.STALE_MEMBER_EPOCH:  # of a commit: the next heartbeat returns the new epoch
            self.end(E(error).name)

    def leave(self) -> None:
        self.say("leaves")
        if self.coordinator is None or self.epoch == JOINING:
            self.stop()
            return
        epoch = LEAVING if self.script.instance is None else GOING_AWAY
        request = Request(
            group_id=self.script.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.script.instance,
        )
        self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, self._left)
        self.epoch = JOINING
        self._hold(frozenset())
        self.later(BACKOFF * 5, self.stop)

    def _left(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.stop()


def _lines(share: Share) -> list[Request.TopicPartition]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(share):
        by_topic.setdefault(topic_id, []).append(index)
    return [Request.TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic.items()]

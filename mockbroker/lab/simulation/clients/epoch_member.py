"""The base class of group members with a member epoch (KIP-848, KIP-1071) in the simulation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from kwire import ErrorCode as E
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from mockbroker.lab.simulation.clients.client import BACKOFF
from mockbroker.lab.simulation.clients.reader import Reader

JOINING, LEAVING = 0, -1  # member epochs
LOST = (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND)
Answer = TypeVar("Answer", ConsumerGroupHeartbeatResponse, StreamsGroupHeartbeatResponse)
Assignment = TypeVar("Assignment")


class EpochMember(Reader, Generic[Answer, Assignment]):
    """A member whose heartbeats contain its epoch.

    Attributes:
        held: the part of the assignment that the member has adopted.
        target: the last received assignment.
        member_id: member id, which the client chooses.
        epoch: member epoch.
        beating: whether a heartbeat is in flight.
        interval: heartbeat interval, seconds.
    """

    commit_version = 9
    held: Assignment
    target: Assignment

    def begin(self) -> None:
        super().begin()
        self.member_id = uuid_text(self.dice.uuid())
        self.epoch = JOINING
        self.beating = False
        self.interval = self.script.heartbeat
        self.later(self.script.heartbeat, self._beat)

    @property
    def identity(self) -> tuple[str, int]:
        return self.member_id, self.epoch

    @property
    def may_commit(self) -> bool:
        return self.epoch > 0

    @abstractmethod
    def heartbeat(self) -> None:
        """Send a heartbeat, unless another heartbeat is in flight or the coordinator is unknown."""

    @abstractmethod
    def _assigned(self, answer: Answer) -> Assignment | None:
        """Return the assignment in ``answer``, a heartbeat response, or None if the response has no assignment."""

    @abstractmethod
    def _hold(self, assignment: Assignment) -> None:
        """Adopt an assignment: read its partitions or run its tasks from now on, and store it in ``held``."""

    def _beat(self) -> None:
        self.later(self.interval, self._beat)
        self.heartbeat()

    def _accept(self, answer: Answer) -> None:
        """Handle a heartbeat response (``answer``): store its epoch, its heartbeat interval and its assignment.

        An assignment is adopted after a short random delay. If the response has an error code, only the error is
        handled.
        """
        self.beating = False
        if answer.error_code:
            self.refused(answer.error_code)
            return
        self.epoch = answer.member_epoch
        self.interval = answer.heartbeat_interval_ms / 1000
        if (assignment := self._assigned(answer)) is not None:
            self.target = assignment
            self.later(BACKOFF * self.dice.random(), self._reconcile)

    def _reconcile(self) -> None:
        """At the next poll, adopt the last received assignment.

        If this changes the partitions or tasks, send a heartbeat.
        """
        if not self.polling:
            self.queue.at(self.polls_at, self._now, self.life, self._reconcile, ())
            return
        if self.held != self.target:
            self._hold(self.target)
            self.heartbeat()

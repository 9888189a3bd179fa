"""A member with an epoch (KIP-848, KIP-1071) in the simulation: its id, its epoch and its heartbeats."""

from __future__ import annotations

from abc import abstractmethod

from kwire import ErrorCode as E
from kwire.json.objects import uuid_text
from mockbroker.lab.simulation.clients.reader import Reader

JOINING, LEAVING = 0, -1  # member epochs
LOST = (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND)


class EpochMember(Reader):
    """A member whose heartbeats contain its epoch.

    Attributes:
        member_id: member id, which the client chooses.
        epoch: member epoch.
        beating: whether a heartbeat is in flight.
        interval: heartbeat interval, seconds.
    """

    commit_version = 9

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

    def _beat(self) -> None:
        self.later(self.interval, self._beat)
        self.heartbeat()

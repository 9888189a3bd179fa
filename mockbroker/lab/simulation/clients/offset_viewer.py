"""A client in the simulation that looks up the committed offsets of a group, as kafka-consumer-groups.sh does."""

from __future__ import annotations

from kwire.apikeys import ApiKey
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.clients.reader import NOT_HERE
from mockbroker.lab.simulation.clients.recording import recording_lookup


class OffsetViewer(Client):
    """A client that regularly fetches all committed offsets of a group, with require_stable, without being a member."""

    def begin(self) -> None:
        self.later(self.script.commit * self.dice.random(), self._look_up)

    def _look_up(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._look_up)
        group = OffsetFetchRequest.Group(group_id=self.script.group, member_id=None, member_epoch=-1, topics=None)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        self.ask(ApiKey.OFFSET_FETCH, 9, request, recording_lookup(self, self._looked_up))

    def _looked_up(self, answer: OffsetFetchResponse) -> None:
        if answer.groups[0].error_code in NOT_HERE:
            self.find_later()

"""The base class of clients in the simulation that are not in a group.

Such a client connects directly to the leaders.
"""

from __future__ import annotations

from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.network import Wire


class DirectClient(Client):
    """A client that is in no group and sends its requests to the leaders of its topics.

    Attributes:
        leaders: the leaders of the client's topics, and the connections to the leaders.
    """

    def begin(self) -> None:
        self.leaders = Leaders(self)
        self.leaders.start()

    def find(self) -> None:
        """Do nothing: the client is in no group and needs no coordinator."""

    def broker_ms(self) -> int:
        """Return the time of the broker's clock, which the client's clock follows, in milliseconds since 1970."""
        return int(self.history.broker_time(self.queue.now) * 1000)

    def disconnected(self, connection: Wire) -> None:
        self.leaders.disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.leaders.close()
        super().stop()

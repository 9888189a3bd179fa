"""A request that any broker can answer."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.client.call import OutgoingCall
from mockbroker.client.network import Network


class Question:
    """Requests of one API to the least loaded node, one under way at a time.

    answered: called with each call once it is done.
    under_way: whether a call has no response yet.
    """

    def __init__(self, network: Network, key: int, answered: Callable[[OutgoingCall], None]) -> None:
        self._network, self._key, self._answered = network, key, answered
        self.under_way = False

    def ask(self, build: Callable[[int], object]) -> bool:
        """Send what ``build`` makes of a version; False if no node can be asked now."""
        node = self._network.least_loaded()
        if node is None:
            return False
        self.under_way = not self._network.ask(node, self._key, build, self._done).done
        return True

    def _done(self, call: OutgoingCall) -> None:
        self.under_way = False
        self._answered(call)

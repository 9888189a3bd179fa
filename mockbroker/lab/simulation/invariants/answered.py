"""The checkers of the invariants I7 and I8: every request gets exactly one response, in order and in time."""

from __future__ import annotations

from typing import Any

from kwire import APIS
from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.lab.simulation.watching import Broken, Watcher, has_no_response


class Answered(Watcher):
    """The checker of the invariants I7 and I8.

    Every request is answered exactly once and within its time limit (I7), and the responses of a connection have the
    order of its requests and the right type (I8). Two kinds of requests need no response:

    - a request whose connection was closed
    - the SyncGroup of a removed member, which Kafka drops

    Args:
        longest: maximum time from a request to its response, virtual seconds.
    """

    name = "I7"

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._asked: dict[Ticket, tuple[Call[Any], float]] = {}
        self._last: dict[int, int] = {}  # connection number -> correlation id of the last response

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key == ApiKey.JOIN_GROUP and call.request.member_id:
            self._forget_replaced(call)
        if not has_no_response(call):
            self._asked[call.ticket] = call, now

    def _forget_replaced(self, call: Call[Any]) -> None:
        """Expect no response to an earlier JoinGroup of the same member any more, because a newer JoinGroup has
        replaced it.

        The broker may not have detected yet that the connection of the earlier JoinGroup is closed.

        ``call``: the newer JoinGroup request.
        """
        member = call.request.group_id, call.request.member_id
        for ticket, (other, _) in list(self._asked.items()):
            if ticket.api_key == ApiKey.JOIN_GROUP and (other.request.group_id, other.request.member_id) == member:
                del self._asked[ticket]

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        ticket = call.ticket
        self._asked.pop(ticket, None)
        if ticket.correlation_id <= self._last.get(ticket.connection, -1):
            raise Broken(
                "I8",
                f"the response to request {ticket.correlation_id} of connection {ticket.connection} was sent after the "
                f"response to the later request {self._last[ticket.connection]}",
            )
        self._last[ticket.connection] = ticket.correlation_id
        if not isinstance(response, APIS[ticket.api_key].response):
            raise Broken("I8", f"the response to {APIS[ticket.api_key].name} is a {type(response).__name__}")

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._asked.pop(call.ticket, None)

    def stalled(self, seconds: float) -> None:
        for ticket, (call, since) in self._asked.items():
            self._asked[ticket] = call, since + seconds

    def crashed(self, broker: Broker, now: float) -> None:
        self._asked.clear()

    def inspect(self, broker: Broker, now: float) -> None:
        for ticket, (call, since) in self._asked.items():
            if ticket.fault:  # a fault rule may keep it from being answered
                continue
            if now - since > self._longest and not self._forgotten(broker, call):
                raise self.broken(
                    f"request {ticket.correlation_id} ({APIS[ticket.api_key].name}) of connection {ticket.connection} "
                    f"has had no response for {now - since:.3f} s, above the limit of {self._longest:g} s"
                )

            if ticket.api_key == ApiKey.JOIN_GROUP and not self._is_pending(broker, call):
                raise self.broken(
                    f"request {ticket.correlation_id} (JoinGroup) of connection {ticket.connection} has had no "
                    "response, but is not pending in its group"
                )

    def _is_pending(self, broker: Broker, call: Call[Any]) -> bool:
        """Return whether a JoinGroup request, or a newer JoinGroup of the same member, is pending in its group.

        The result is False if the group does not exist or is not a classic group.

        Args:
            broker: the cluster.
            call: the JoinGroup request.
        """
        group = broker.groups.get_as(call.request.group_id, ClassicGroup)
        if group is None:
            return False
        member = group.members.get(call.request.member_id)
        if member is not None and member.pending_join is not None:
            return True
        return any(each.pending_join == call.ticket for each in group.members.values())

    def _forgotten(self, broker: Broker, call: Call[Any]) -> bool:
        if call.ticket.api_key != ApiKey.SYNC_GROUP:
            return False
        group = broker.groups.get_as(call.request.group_id, ClassicGroup)
        return group is None or call.request.member_id not in group.members

"""The checker of invariant I46: a Fetch without records is answered after its maximum wait, not earlier and not later.

Source: Kafka's DelayedFetch, which waits until ``min_bytes`` are available or ``max_wait_ms`` have passed.
"""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.broker.broker import Broker
from mockbroker.lab.simulation.watching import Watcher

SLACK = 0.002  # tolerance in seconds for early responses: a deadline is rounded to representable times
LATE = 0.1  # tolerance in seconds for late responses, because slices of other requests are handled before
# The tolerance if slices are so small that a Fetch itself has many, and may be read repeatedly. Each slice takes up to
# 5 ms, and slices of a dozen other requests come between them.
LATE_IN_SLICES = 3.0

Place = tuple[str, object, int]  # topic name, topic id and partition


class FetchWaits(Watcher):
    """The checker of invariant I46: a Fetch without records is answered after its maximum wait.

    Responses with errors are not checked: an error is sent immediately.

    Args:
        early: time in seconds by which the buggify point ``wake-early`` may complete a Fetch before its maximum wait.
        late: time in seconds by which a Fetch may be answered after its maximum wait.
    """

    name = "I46"
    apis = (ApiKey.FETCH,)

    def __init__(self, early: float, late: float) -> None:
        self._early = early
        self._late = late
        self._pending: dict[Ticket, tuple[Call[Any], float, float]] = {}  # call, start, and time of stalls
        self._sessions: dict[int, set[Place]] = {}  # partitions of a fetch session, as far as they are known

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._pending[call.ticket] = call, now, 0.0
        request = call.request
        if request.session_epoch > 0 and (session := self._sessions.get(request.session_id)) is not None:
            session |= _places(request.topics)
            session -= {
                (each.topic, each.topic_id, index)
                for each in request.forgotten_topics_data
                for index in each.partitions
            }

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if (pending := self._pending.pop(call.ticket, None)) is None or call.ticket.fault:
            return
        _, since, stalled = pending
        request, waited = call.request, now - since
        if not request.session_epoch and response.session_id:
            self._sessions[response.session_id] = _places(request.topics)
        longest = request.max_wait_ms / 1000
        if waited > longest + stalled + self._late:
            raise self.broken(f"a Fetch was answered after {waited:.3f} s, with a maximum wait of {longest:g} s")
        partitions = [partition for topic in response.responses for partition in topic.partitions]
        is_empty = not response.error_code and not any(each.error_code or each.records for each in partitions)
        places = self._sessions.get(request.session_id) if request.session_epoch > 0 else _places(request.topics)
        if is_empty and request.min_bytes and places and waited < longest - self._early - SLACK:
            raise self.broken(
                f"a Fetch was answered without records after {waited:.3f} s, with a maximum wait of {longest:g} s"
            )

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._pending.pop(call.ticket, None)

    def stalled(self, seconds: float) -> None:
        self._pending = {
            ticket: (call, since, stalled + seconds) for ticket, (call, since, stalled) in self._pending.items()
        }

    def crashed(self, broker: Broker, now: float) -> None:
        self._pending.clear()
        self._sessions.clear()

    def ticked(self, broker: Broker, now: float) -> None:
        for ticket, (call, since, stalled) in self._pending.items():
            longest = call.request.max_wait_ms / 1000
            if not ticket.fault and now - since > longest + stalled + self._late:
                raise self.broken(
                    f"request {ticket.correlation_id} (Fetch) of connection {ticket.connection} has had no response "
                    f"for {now - since:.3f} s, with a maximum wait of {longest:g} s"
                )


def _places(topics: Any) -> set[Place]:
    return {(topic.topic, topic.topic_id, each.partition) for topic in topics for each in topic.partitions}

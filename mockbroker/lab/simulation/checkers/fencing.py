"""The checker of invariant I32: once a request with a producer epoch has succeeded, later requests with a lower epoch
fail.
"""

from __future__ import annotations

from operator import itemgetter

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.history import Fenced

SENT, DONE = 1, 0  # sort order at the same time: responses first


def find_zombie(log: FinalLog) -> str:
    """Return a description of a request that succeeded although a newer producer had fenced its sender.

    The result is "" if no such request succeeded.

    ``log``: the records at the end of the run.
    """
    events: list[tuple[float, int, int, Fenced]] = []
    for number, each in enumerate(log.history.requests):
        events.append((each.sent_at, SENT, number, each))
        events.append((each.done_at, DONE, number, each))
    newest: dict[str, tuple[int, int]] = {}
    at_sending: dict[Fenced, tuple[int, int]] = {}
    for _, kind, _, each in sorted(events, key=itemgetter(0, 1, 2)):
        if kind == SENT:
            at_sending[each] = newest.get(each.transactional_id, each.producer)
        elif each.done_at < float("inf"):
            newest[each.transactional_id] = max(newest.get(each.transactional_id, each.producer), each.producer)
    for each, known in at_sending.items():
        if each.done_at < float("inf") and each.producer < known:
            return (
                f"{each.what} of {each.transactional_id} with the producer id and epoch {each.producer} has succeeded,"
                f" after a request with {known} had succeeded"
            )
    return ""

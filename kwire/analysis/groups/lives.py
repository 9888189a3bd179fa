"""The lives of a group id: a new life begins after deletion, expiry, or loss of the group's state.

In one life, generations and epochs only increase. So a join response belongs to a new life if its generation is lower
than a generation that was received before the join request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from kwire.analysis.events import CLASSIC, GroupEvent
from kwire.analysis.groups.joins import Join, joins_of
from kwire.lazy_dataclass import dataclass

# Events with a member's new generation; confirmations count only if the capture begins in the middle of a life.
NEW_GENERATION = {"join_done", "epoch_change", "assigned"}
CONFIRMS = {"heartbeat", "sync_done"}
_WITH_GENERATION = NEW_GENERATION | CONFIRMS


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a group id, which ends when the group is deleted, expires or loses its state.

    Attributes:
        number: number of the life, from 1.
        events: events of the life, sorted.
        until: start of the next life, in microseconds since 1970; None for the last life.
        remembered: join response with which the life began, if the coordinator still knew the member; None otherwise.
            The coordinator is assumed to know the member if the generation in the response is not 1, and the member had
            joined in an earlier life. Only classic groups have a value.
    """

    number: int
    events: Sequence[GroupEvent]
    until: int | None
    remembered: GroupEvent | None = None


def lives(events: Sequence[GroupEvent]) -> Iterator[Life]:
    """Divide the events of a group id into lives, in order.

    A life ends when the group is deleted, expires or loses its state.

    Args:
        events: all events of the group, sorted.
    """
    begins = list(_later_lives(events))
    place = 0
    for number, (fell, start) in enumerate([(None, None), *begins]):
        until = begins[number][1] if number < len(begins) else None
        end = len(events) if until is None else bisect_left(events, until, place, key=attrgetter("ts"))
        before = events[:place]
        yield Life(number + 1, events[place:end], until, fell if start and fell and _remembers(before, fell) else None)
        place = end


def _later_lives(events: Sequence[GroupEvent]) -> Iterator[tuple[GroupEvent, int]]:
    """Yield the beginning of each life of a group id except the first life.

    Yields: the join response that shows that a new life has begun, because its generation is lower than before; and the
        start of the life, in microseconds since 1970.
    """
    joins = joins_of(events)
    by_answer = {id(join.done): join for join in joins if join.done is not None}
    top, top_ts, first = -1, 0, True
    for n, event in enumerate(events):
        generation = event.generation
        if event.event not in _WITH_GENERATION or event.error_code != 0 or generation is None or generation < 0:
            continue
        if generation > top and (first or event.event in NEW_GENERATION):
            top, top_ts = generation, event.ts
        elif generation < top and event.event == "join_done":
            join = by_answer.get(id(event))
            if join is None or join.sent.ts <= top_ts:
                continue
            yield event, _start(events[:n], joins, join)
            top, top_ts, first = generation, event.ts, False


def _start(before: Iterable[GroupEvent], joins: Iterable[Join], first: Join) -> int:
    """Return the start of a life, in microseconds since 1970.

    The start is the time of the first request to join the generation in the response of ``first``. Requests before the
    last event with a higher generation do not count, because this event belongs to the previous life.

    Args:
        before: events before the response of ``first``.
        joins: all joins of the group id.
        first: join whose response shows that a new life has begun.
    """
    assert first.done is not None
    generation, ts = first.done.generation, first.done.ts
    alive = max(
        event.ts
        for event in before
        if event.error_code == 0 and event.event in _WITH_GENERATION and (event.generation or 0) > (generation or 0)
    )
    together = [
        join.asked
        for join in joins
        if join.done is not None
        and join.done.event == "join_done"
        and join.done.generation == generation
        and alive < join.asked <= ts <= join.done.ts
    ]
    return min([*together, first.sent.ts])


def _remembers(before: Iterable[GroupEvent], fell: GroupEvent) -> bool:
    if fell.protocol != CLASSIC or fell.generation == 1:
        return False
    return any(event.event == "join_done" and event.member_id == fell.member_id for event in before)

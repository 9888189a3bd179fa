"""The lives of a group: it begins anew when it was deleted, when it expired, or when its coordinator has no memory.

Generations and epochs only count up as long as a group lives. Who joins and is told a lower one than somebody was told
before it asked has joined another group of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kwire.analysis.events import CLASSIC, GroupEvent
from kwire.analysis.groups.joins import Join, joins_of

# What tells a member its generation; what only confirms it counts where the capture begins in the middle of a life.
TELLS = {"join_done", "epoch_change", "assigned"}
CONFIRMS = {"heartbeat", "sync_done"}


@dataclass(frozen=True, slots=True)
class Life:
    """``until``: when the next one began, None for the last. ``remembered``: the first answer of this life, if it is

    one that no new group gives: a lower generation that is not the first, to a member of the life before.
    """

    number: int
    events: Sequence[GroupEvent]
    until: int | None
    remembered: GroupEvent | None = None


def lives(events: Sequence[GroupEvent]) -> Iterator[Life]:
    """The lives, in order. ``events``: all of a group's, sorted; each is in one life."""
    begins = list(_begins(events))
    place = 0
    for number, (fell, start) in enumerate([(None, None), *begins]):
        until = begins[number][1] if number < len(begins) else None
        end = place
        while end < len(events) and (until is None or events[end].ts < until):
            end += 1
        before = events[:place]
        yield Life(number + 1, events[place:end], until, fell if start and fell and _remembers(before, fell) else None)
        place = end


def _begins(events: Sequence[GroupEvent]) -> Iterator[tuple[GroupEvent, int]]:
    """The answer that shows each further life, and when that life began: the first join that got into it."""
    joins = joins_of(events)
    by_answer = {id(join.done): join for join in joins if join.done is not None}
    top, told, first = -1, 0, True
    for n, event in enumerate(events):
        generation = event.generation
        if event.error_code != 0 or generation is None or event.event not in TELLS | CONFIRMS:
            continue
        if generation > top and (first or event.event in TELLS):
            top, told = generation, event.ts
        elif generation < top and event.event == "join_done":
            join = by_answer.get(id(event))
            if join is None or join.sent.ts <= told:
                continue
            yield event, _start(events[:n], joins, join)
            top, told, first = generation, event.ts, False


def _start(before: Iterable[GroupEvent], joins: Iterable[Join], first: Join) -> int:
    """When the first of those asked that were let in together; not before the life that ended was last confirmed."""
    assert first.done is not None
    generation, ts = first.done.generation, first.done.ts
    alive = max(
        event.ts
        for event in before
        if event.error_code == 0 and event.event in TELLS | CONFIRMS and (event.generation or 0) > (generation or 0)
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

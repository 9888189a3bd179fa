"""The checks of the demo. Each check compares one claim with the recorded events. The functions are pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field

from kwire.lazy_dataclass import dataclass
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, PARTITIONS, SESSION_S, TOPIC


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: claim that was checked.
        held: whether the claim is true.
        detail: measured numbers, as text.
    """

    name: str
    held: bool
    detail: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class Story:
    """The observations of one run of the demo.

    Attributes:
        events: events of the journal.
        produced: number of produced records; their values are 0, 1, 2, ...
        read: kind of client -> record values that the client read.
        committed: partition -> committed offset at the end; None if no offset was committed.
        ends: partition -> log end offset.
        stopped: kind of the client that was stopped; "" before that.
        stopped_at: journal time of the stop, milliseconds.
        killed: kind of the client that was killed; "" before that.
        killed_at: journal time of the kill, milliseconds.
        failure: reason why the demo was aborted; "" if the demo ran to its end.
    """

    events: list[Event] = field(default_factory=list)
    produced: int = 0
    read: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    committed: Mapping[int, int | None] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    stopped: str = ""
    stopped_at: int = 0
    killed: str = ""
    killed_at: int = 0
    failure: str = ""


def assignments(events: Sequence[Event]) -> dict[int, dict[str, list[int]]]:
    """Return the assigned partitions in each generation that has an assignment: generation -> client -> partitions.

    ``events``: events of the journal.
    """
    assigned: dict[int, dict[str, list[int]]] = {}
    for event in events:
        if event.event == EventKind.ASSIGN:
            partitions = (event.assignment or {}).get(TOPIC, [])
            assigned.setdefault(event.generation, {})[event.client] = sorted(partitions)
    return assigned


def check_all(story: Story) -> list[Check]:
    """Return the results of all checks of a demo run, in the order of the demo's steps.

    If the run was aborted, the first result is that of a failed check with the reason.

    ``story``: the observations of the run.
    """
    checks = [
        _all_kinds_together(story),
        _owned_once(story),
        _all_read(story),
        _left_at_once(story),
        _evicted_in_time(story),
        _commits_kept(story),
    ]
    if story.failure:
        checks.insert(0, Check("the demo ran to its end", False, story.failure))
    return checks


def _all_kinds_together(story: Story) -> Check:
    together = [number for number, owners in assignments(story.events).items() if set(owners) == set(KINDS)]
    return Check(
        "three kinds of client shared one generation",
        bool(together),
        f"generation {together[0]}" if together else "no generation had all three",
    )


def _owned_once(story: Story) -> Check:
    assigned = assignments(story.events)
    wrong = [
        number
        for number, owners in assigned.items()
        if sorted(partition for owned in owners.values() for partition in owned) != list(range(PARTITIONS))
    ]
    detail = f"{len(assigned)} generations" if not wrong else f"not in generations {wrong}"
    return Check("every partition was owned exactly once in each generation", bool(assigned) and not wrong, detail)


def _all_read(story: Story) -> Check:
    seen = [number for numbers in story.read.values() for number in numbers]
    missing = set(range(story.produced)) - set(seen)
    repeated = len(seen) - len(set(seen))
    shares = ", ".join(f"{kind} {len(numbers)}" for kind, numbers in story.read.items())
    detail = f"{story.produced} produced; {shares}; {repeated} read again"
    if missing:
        detail += f"; {len(missing)} missing, first {min(missing)}"
    return Check("every record was read", story.produced > 0 and not missing, detail)


def _left_at_once(story: Story) -> Check:
    left = next((e.time_ms for e in story.events if e.event == EventKind.LEAVE and e.client == story.stopped), None)
    held = left is not None and left - story.stopped_at < SESSION_S * 1000
    detail = f"{story.stopped} did not leave" if left is None else f"{story.stopped} after {left - story.stopped_at} ms"
    return Check("a member that stops leaves at once", held, detail)


def _evicted_in_time(story: Story) -> Check:
    """Check that the member of the killed client was evicted by its session timeout, 1 to 3 s after the kill.

    ``story``: the observations of the demo run.
    """
    evicted = next((e.time_ms for e in story.events if e.event == EventKind.EXPIRE and e.client == story.killed), None)
    if evicted is None:
        return Check("a member that is killed is evicted after its session", False, f"{story.killed} was not evicted")
    after = evicted - story.killed_at
    held = SESSION_S * 500 < after < SESSION_S * 1000 + 1000
    return Check(
        "a member that is killed is evicted after its session",
        held,
        f"{story.killed} after {after} ms; the session timeout is {SESSION_S:g} s from its last heartbeat",
    )


def _commits_kept(story: Story) -> Check:
    held = bool(story.ends) and dict(story.committed) == dict(story.ends)
    shown = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(story.committed.items()))
    return Check("the offsets read back are those committed", held, shown or "no offsets were read")

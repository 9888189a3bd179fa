"""What the demo claims, checked against what happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, PARTITIONS, SESSION_S, TOPIC


@dataclass(frozen=True, slots=True)
class Check:
    """``name``: what should hold; ``detail``: the numbers behind the verdict."""

    name: str
    held: bool
    detail: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class Story:
    """What was seen: how many numbers were ``produced``, which were ``read`` by which kind of client.

    ``committed``: offsets read back, by partition; ``ends``: where the logs end. ``stopped_at`` and ``killed_at``:
    milliseconds of the journal when that client was told to stop, or was killed. ``failure``: why it broke off.
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
    """Partitions by client, by generation, of the generations that were assigned."""
    found: dict[int, dict[str, list[int]]] = {}
    for event in events:
        if event.event == EventKind.ASSIGN:
            partitions = (event.assignment or {}).get(TOPIC, [])
            found.setdefault(event.generation, {})[event.client] = sorted(partitions)
    return found


def check_all(story: Story) -> list[Check]:
    """Every check, in the order of the story."""
    checks = [
        _all_kinds_together(story),
        _owned_once(story),
        _all_read(story),
        _left_at_once(story),
        _evicted_in_time(story),
        _commits_kept(story),
    ]
    if story.failure:
        checks.insert(0, Check("the story was played to its end", False, story.failure))
    return checks


def _all_kinds_together(story: Story) -> Check:
    together = [number for number, owners in assignments(story.events).items() if set(owners) == set(KINDS)]
    return Check(
        "three kinds of client shared one generation",
        bool(together),
        f"generation {together[0]}" if together else "in none",
    )


def _owned_once(story: Story) -> Check:
    found = assignments(story.events)
    wrong = [
        number
        for number, owners in found.items()
        if sorted(partition for owned in owners.values() for partition in owned) != list(range(PARTITIONS))
    ]
    detail = f"{len(found)} generations" if not wrong else f"not in generations {wrong}"
    return Check("every partition was owned exactly once in each generation", bool(found) and not wrong, detail)


def _all_read(story: Story) -> Check:
    seen = [number for numbers in story.read.values() for number in numbers]
    missing = set(range(story.produced)) - set(seen)
    twice = len(seen) - len(set(seen))
    shares = ", ".join(f"{kind} {len(numbers)}" for kind, numbers in story.read.items())
    detail = f"{story.produced} produced; {shares}; {twice} read again"
    if missing:
        detail += f"; {len(missing)} missing, first {min(missing)}"
    return Check("every record was read", story.produced > 0 and not missing, detail)


def _left_at_once(story: Story) -> Check:
    left = next((e.time_ms for e in story.events if e.event == EventKind.LEAVE and e.client == story.stopped), None)
    held = left is not None and left - story.stopped_at < SESSION_S * 1000
    detail = "it did not leave" if left is None else f"{story.stopped} after {left - story.stopped_at} ms"
    return Check("a member that stops leaves at once", held, detail)


def _evicted_in_time(story: Story) -> Check:
    """Not before the session is over, and not long after it."""
    gone = next((e.time_ms for e in story.events if e.event == EventKind.EXPIRE and e.client == story.killed), None)
    if gone is None:
        return Check("a member that is killed is evicted after its session", False, "it was not evicted")
    after = gone - story.killed_at
    held = SESSION_S * 500 < after < SESSION_S * 1000 + 1000
    return Check(
        "a member that is killed is evicted after its session",
        held,
        f"{story.killed} after {after} ms, session {SESSION_S:g} s counted from its last heartbeat",
    )


def _commits_kept(story: Story) -> Check:
    held = bool(story.ends) and dict(story.committed) == dict(story.ends)
    shown = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(story.committed.items()))
    return Check("the offsets read back are those committed", held, shown or "none were read")

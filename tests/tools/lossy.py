"""Captures with lost and truncated packets, of groups whose history is known from the broker's journal.

The stories are in virtual time and seeded, so each run gives the same counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.pcap import packets, pcap, shaken
from tools.story import TOPIC, Story
from tools.trouble import group, restart

from kwire.analysis.columns import Row
from kwire.cli.analysed import analysed

WHOLE = 262_144  # the snap length of tcpdump: no packet is cut
MSS = 1448


@dataclass
class Score:
    """A comparison of the tables of a capture with the journal, for one kind of object.

    ``known``: number of objects in the journal; ``found``: number of them in the tables; ``wrong``: number of rows that
    differ from the journal; ``unmarked``: number of wrong rows that are not marked ``incomplete``.
    """

    known: int = 0
    found: int = 0
    wrong: int = 0
    unmarked: int = 0

    def add(self, other: Score) -> None:
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Scores:
    """Scores of a capture: of generations with their members, of member ids, and of commits of partitions."""

    generations: Score = field(default_factory=Score)
    members: Score = field(default_factory=Score)
    commits: Score = field(default_factory=Score)

    def add(self, other: Scores) -> None:
        self.generations.add(other.generations)
        self.members.add(other.members)
        self.commits.add(other.commits)


def known_story(number: int) -> Story:
    """Return a story of a group with eight members that restart, leave and stop. Odd numbers have a KIP-848 group."""
    story, members = group(number, 8, modern=number % 2 == 1, config={"topics": {TOPIC: 24}})
    restart(story, members[0], story.rng.uniform(20, 25), 2.0)
    story.at(story.rng.uniform(35, 40), lambda: members[1].freeze(1e6))
    story.member("worker-8", story.rng.uniform(60, 65), modern=number % 2 == 1)
    story.at(story.rng.uniform(75, 80), members[2].leave)
    restart(story, members[3], story.rng.uniform(90, 95), 2.0)
    story.run(120)
    return story


def degraded(story: Story, lost: float, snap: int) -> bytes:
    """Return a pcap of a story. ``lost``: share of the packets with a payload that are lost; ``snap``: snap length."""
    kept = shaken(story.segments(mss=MSS), 1, lost=lost)
    return pcap(((time_us, data[:snap], size) for time_us, data, size in packets(kept)), snaplen=snap)


def scores(story: Story, content: bytes, folder: Path) -> Scores:
    """Compare the tables of ``kwire groups`` for a capture of a story with the journal."""
    file = folder / "degraded.pcap"
    file.write_bytes(content)
    tables, _ = analysed([str(file)], "degraded", frames=False)
    generations = {
        event.generation: frozenset(event.members)
        for event in story.journal.events
        if event.event in ("generation", "empty")
    }
    members = frozenset[str]().union(*generations.values())
    return Scores(
        _generations(generations, tables["rebalances"]),
        _members(members, tables["members"]),
        _commits(_committed(story), tables["offset_commits"]),
    )


def _generations(known: dict[int, frozenset[str]], rows: Iterable[Row]) -> Score:
    found, wrong = set(), []
    for row in rows:
        number = row["to_generation"]
        if number is None:
            continue
        if known.get(number) == frozenset(row["members_after"] or ()):
            found.add(number)
        else:
            wrong.append(row)
    return Score(len(known), len(found), len(wrong), sum(not row["incomplete"] for row in wrong))


def _members(known: frozenset[str], rows: Iterable[Row]) -> Score:
    seen: dict[str, bool] = {}
    for row in rows:
        seen[row["member_id"]] = seen.get(row["member_id"], True) and row["incomplete"]
    wrong = seen.keys() - known
    return Score(len(known), len(seen.keys() & known), len(wrong), sum(not seen[one] for one in wrong))


def _committed(story: Story) -> Counter[tuple[Any, ...]]:
    return Counter(
        (event.member_id, event.generation, topic, partition, offset)
        for event in story.journal.events
        if event.event == "commit"
        for topic, partitions in event.offsets.items()
        for partition, offset in partitions.items()
    )


def _commits(known: Counter[tuple[Any, ...]], rows: Iterable[Row]) -> Score:
    seen = Counter(
        (row["member_id"], row["generation"], row["topic"], row["partition"], row["offset"])
        for row in rows
        if row["outcome"] == "committed"
    )
    wrong = (seen - known).total()
    return Score(known.total(), (seen & known).total(), wrong, wrong)

"""A group of real clients changes its protocol while it reads, member by member, and back (KIP-848, online migration)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from effort import usual_and_long
from interop.matrix import MIGRATIONS
from interop.stage import CONSUMER_HEARTBEAT_MS, MARKS, Member, Stage

pytestmark = MARKS


class Story:
    """Members come and go, and at every turn records are written: some while the group changes, some once it is calm."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.there: list[Member] = []
        self.values: list[str] = []  # all that was written
        self.settled: Counter[str] = Counter()  # how often each was read that is committed
        stage.heartbeat_ms = CONSUMER_HEARTBEAT_MS
        stage.commit_start()

    def comes(self, family: str, protocol: str) -> Member:
        (member,) = self.come(family, protocol, 1)
        return member

    def come(self, family: str, protocol: str, number: int) -> list[Member]:
        first = len(self.stage.members)
        names = [f"{family}-{protocol}-{index}" for index in range(first, first + number)]
        members = [self.stage.member(family, name, protocol=protocol) for name in names]
        self.there += members
        self._turn(f"{', '.join(names)} come")
        return members

    def goes(self, member: Member) -> None:
        self.there.remove(member)
        self._write(f"{member.name} is about to go")
        member.leave()
        self._turn(f"{member.name} goes")

    def _turn(self, what: str) -> None:
        self._write(f"{what}, meanwhile")
        self.stage.wait_stable({member.name for member in self.there})
        self.stage.wait_held(*self.there)
        self.stage.wait(f"every record when {what}", lambda: self._seen() >= set(self.values))
        calm = self._write(f"{what}, afterwards")
        self._wait_once(calm)
        for done in [member.start_commit() for member in self.there]:
            done()
        self._check_read_again(what)

    def _check_read_again(self, what: str) -> None:
        """What was committed before is not read again, whatever the group has become."""
        read = Counter(value for member in self.stage.members for value in member.values)
        again = [value for value, times in self.settled.items() if read[value] > times]
        assert not again, self.stage.report(f"{len(again)} records were read again after {what}: {again[:5]}")
        self.settled = read

    def _write(self, what: str) -> Sequence[str]:
        written = [f"{what}: {number}" for number in range(self.stage.partitions)]
        self.stage.produce(written)
        self.values += written
        return written

    def _wait_once(self, values: Sequence[str]) -> None:
        """Each was read by exactly one, its owner."""
        self.stage.wait("the records of a calm group", lambda: self._seen() >= set(values))
        counted = Counter(value for member in self.there for value in member.values if value in values)
        assert set(counted.values()) == {1}, self.stage.report("a record was read twice in a calm group")
        for member in self.there:
            results = {(topic, partition) for topic, partition, _, value in member.records if value in values}
            assert results == member.held, self.stage.report(f"{member.name} did not read what it owns")

    def _seen(self) -> set[str]:
        return {value for member in self.stage.members for value in member.values}


@pytest.mark.scenario("migrates and returns")
@pytest.mark.parametrize(("classic", "consumer"), usual_and_long(MIGRATIONS[:2], MIGRATIONS[2:]))
def test_there_and_back(consumer_stage: Stage, classic: str, consumer: str) -> None:
    """Classic members, then also such of the consumer protocol, then only these; and all the way back."""
    stage = consumer_stage
    story = Story(stage)
    old = story.come(classic, "classic", 2)
    assert kinds(stage) == ("classic", [])
    new = [story.comes(consumer, "consumer")]
    assert kinds(stage) == ("consumer", ["upgrade"])
    story.goes(old[0])
    new.append(story.comes(consumer, "consumer"))
    story.goes(old[1])
    assert kinds(stage) == ("consumer", ["upgrade"])
    assert committed(stage) == len(story.values)

    back = [story.comes(classic, "classic")]
    story.goes(new[0])
    back.append(story.comes(classic, "classic"))
    assert kinds(stage) == ("consumer", ["upgrade"])
    story.goes(new[1])
    assert kinds(stage) == ("classic", ["upgrade", "downgrade"])
    stage.check_owners()
    assert committed(stage) == len(story.values)
    assert not stage.events("expire")
    for member in back:
        member.leave()
    assert stage.events()[-1].event == "empty"
    assert committed(stage) == len(story.values), "nothing is forgotten"


def kinds(stage: Stage) -> tuple[str, list[str]]:
    """The type of the group, and how it changed until now."""
    changes = [event.event for event in stage.events() if event.event in ("upgrade", "downgrade")]
    return stage.cluster.groups()[stage.group].group_type, changes


def committed(stage: Stage) -> int:
    """Over all partitions."""
    return sum(stage.cluster.committed(stage.group).values())

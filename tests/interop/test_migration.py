"""A group of real clients migrates to another protocol and back while it reads, member by member (KIP-848)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from effort import usual_and_long
from interop.matrix import MIGRATIONS
from interop.stage import CONSUMER_HEARTBEAT_MS, MARKS, Member, Stage

pytestmark = MARKS


class Story:
    """A group whose members join and leave; records are written during each change and after it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.there: list[Member] = []
        self.values: list[str] = []  # of all written records
        self.settled: Counter[str] = Counter()  # how often each committed record was read
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
        """Check that no record that was committed before is read again after a change of the group."""
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
        """Wait until each record is read, and check that only the owner of its partition has read it, once."""
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
    """Members of the consumer protocol replace the classic members one by one, and then the other way round."""
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
    """Return the type of the group, and its upgrades and downgrades so far."""
    changes = [event.event for event in stage.events() if event.event in ("upgrade", "downgrade")]
    return stage.cluster.groups()[stage.group].group_type, changes


def committed(stage: Stage) -> int:
    """Return the sum of the committed offsets of all partitions."""
    return sum(stage.cluster.committed(stage.group).values())

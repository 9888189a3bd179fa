"""A stage without a journal, for mockbroker and real brokers: its checks use only the reports of the members and the
records that they read.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import inf

from interop.ground import Ground
from interop.stage import CONSUMER_HEARTBEAT_MS, EVENTS, LIMIT, Member, Owned, Stage, all_ended

from mockbroker import Event


class Gathering(Stage):
    """A group on a ground. ``there``: members that should be in the group after the requested operations."""

    heartbeat_ms = CONSUMER_HEARTBEAT_MS

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.cluster = ground  # members connect to its address
        self.members: list[Member] = []
        self.there: list[Member] = []
        self.changed = threading.Condition()
        self.group = ground.name("players")
        self.topic = ground.name("orders")
        ground.create_topic(self.topic, self.partitions)
        self._batches = 0
        self._written: set[str] = set()
        self._committed: dict[str, int] = {}  # number in EVENTS after the commit, by value

    def happened(self) -> list[Event]:
        """Return no events: a real broker has no journal."""
        return []

    def come(self, *families: str, **how: str) -> list[Member]:
        """Start members at the same time, and wait until each has its assignment."""
        members = [self.member(family, f"{family}-{len(self.members)}", **how) for family in families]
        self.there += members
        self.wait_fair()
        return members

    def go(self, member: Member) -> None:
        """Let a member leave, and wait until the other members have its partitions."""
        self.there.remove(member)
        member.leave()
        self.wait_fair()

    def shares_held(self) -> dict[str, list[Owned]]:
        """Return the partitions by member name, as the rebalance callbacks reported them."""
        return {member.name: sorted(member.held) for member in self.there}

    def is_fair(self) -> bool:
        """Return True if each partition has one owner, and shares differ by at most one partition."""
        shares = self.shares_held()
        sizes = [len(share) for share in shares.values()]
        owned = sorted(one for share in shares.values() for one in share)
        return owned == self.all_partitions() and max(sizes) - min(sizes) <= 1

    def wait_fair(self) -> None:
        self.wait(f"a fair share for {[member.name for member in self.there]}", self.is_fair, 2 * LIMIT)

    def check_reading(self) -> None:
        """Check that the owner of each partition reads the new records once; then let all members commit.

        A rebalance before the commit is allowed: a member whose session expires on a busy machine rejoins, and the
        records are read again from the committed offset. Kafka promises at-least-once.
        """
        self._batches += 1
        batch = [f"batch {self._batches}: {number}" for number in range(4 * self.partitions)]
        values = set(batch)
        self.produce(batch)
        self._written |= values

        done: set[Owned] = set()  # partitions with all their records committed

        def is_read() -> bool:
            all_read = values <= {value for member in self.members for value in member.values}
            if not (all_read and self.is_fair()):
                return False
            last = self._last_offsets(values)
            return all(member.held <= done | positions(member, last) for member in self.there)

        while done < set(self.all_partitions()):
            self.wait("the owners to read every record", is_read, 2 * LIMIT)
            assert self.read_twice() == [], self.report("read twice")
            for committed in [member.start_commit() for member in self.there]:
                committed()
            offsets = self.ground.committed(self.group)
            with self.changed:
                done = {owned for owned, last in self._last_offsets(values).items() if offsets.get(owned, 0) > last}
        self._committed |= dict.fromkeys(values, next(EVENTS))

    def _last_offsets(self, values: Collection[str]) -> dict[Owned, int]:
        """Return by partition the last offset at which a member read a record with one of these values."""
        offsets: dict[Owned, int] = {}
        for member in self.members:
            for topic, partition, offset, value in member.records:
                if value in values:
                    offsets[topic, partition] = max(offset, offsets.get((topic, partition), 0))
        return offsets

    def read_twice(self) -> list[str]:
        """Return the values that were read again without a reason.

        A reason is that their partition was assigned again since and they were not committed before.
        """
        times: dict[str, list[tuple[int, int]]] = defaultdict(list)
        with self.changed:
            for member in self.members:
                for value, read in zip(member.values, member.times, strict=True):
                    times[value].append(read)
        return [value for value, reads in times.items() if _is_twice(sorted(reads), self._committed.get(value, inf))]

    def check_none_lost_or_twice(self) -> None:
        """Check that every written record was read, and none was read twice without a reason."""
        assert {value for member in self.members for value in member.values} == self._written, self.report(
            "a record is lost"
        )
        assert self.read_twice() == [], self.report("read twice")

    def report(self, problem: str) -> str:
        lines = [f"{member.name} holds {sorted(member.held)}, {member.plans[-1:]}" for member in self.there]
        return "\n".join([super().report(problem), *lines])


def positions(member: Member, last: Mapping[Owned, int]) -> set[Owned]:
    """Return the partitions that a member has read to the last offset since their last assignment."""
    return {
        (topic, partition)
        for (topic, partition, offset, _), (_, assigned) in zip(member.records, member.times, strict=True)
        if offset == last.get((topic, partition)) and assigned == member.assigned_at.get((topic, partition), 0)
    }


def _is_twice(reads: Sequence[tuple[int, int]], committed: float) -> bool:
    """Return whether a record was read again without a reason.

    ``reads``: number of each time it was read, and of the last assignment of its partition before it; ``committed``:
    number of its commit.
    """
    return any(at > committed or assigned < before for (before, _), (at, assigned) in pairwise(reads))


def planned(member: Member) -> dict[str, Sequence[Owned]]:
    """Return the last assignment that a leader made, by the client id with which the member ids begin."""
    return {who[: -len("-00000000-0000-0000-0000-000000000000")]: share for who, share in member.plans[-1].items()}


@contextmanager
def gathering_on(ground: Ground) -> Iterator[Gathering]:
    """Yield a Gathering, and end its members afterwards."""
    gathering = Gathering(ground)
    with all_ended(gathering.members):
        yield gathering

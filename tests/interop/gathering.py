"""A stage without a journal, for mockbroker and real brokers: it is judged by the reports of the members and the
records that they read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from interop.ground import Ground
from interop.stage import CONSUMER_HEARTBEAT_MS, LIMIT, Member, Owned, Stage, all_ended

from mockbroker import Event


class Gathering(Stage):
    """``there``: members that should be in the group now, according to the requested operations."""

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

    def happened(self) -> list[Event]:
        """Nothing that anybody could be asked."""
        return []

    def come(self, *families: str, **how: str) -> list[Member]:
        """Start members at the same time, and wait until each has its assignment."""
        members = [self.member(family, f"{family}-{len(self.members)}", **how) for family in families]
        self.there += members
        self.wait_fair()
        return members

    def go(self, member: Member) -> None:
        """It leaves; waits until the others have its share."""
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
        """Check that new records of every partition are read once, by the owner; then let all members commit."""
        self._batches += 1
        values = [f"batch {self._batches}: {number}" for number in range(4 * self.partitions)]
        self.produce(values)
        self._written |= set(values)
        self.wait("every record", lambda: set(values) <= {v for member in self.members for v in member.values})
        counted = Counter(value for member in self.members for value in member.values)
        assert [value for value in values if counted[value] != 1] == [], self.report("read twice")
        assert self.is_fair(), self.report("the group did not stay calm")
        for member in self.there:
            positions = {(topic, partition) for topic, partition, _, value in member.records if value in values}
            assert positions == member.held, self.report(f"{member.name} did not read what it owns")
        for committed in [member.start_commit() for member in self.there]:
            committed()

    def check_none_lost_or_twice(self) -> None:
        """Of all that was written, to the end."""
        counted = Counter(value for member in self.members for value in member.values)
        assert counted == Counter(self._written), self.report("not each record once")

    def report(self, problem: str) -> str:
        lines = [f"{member.name} holds {sorted(member.held)}, {member.plans[-1:]}" for member in self.there]
        return "\n".join([super().report(problem), *lines])


def planned(member: Member) -> dict[str, Sequence[Owned]]:
    """What it planned last, by the client that a member id begins with."""
    return {who[: -len("-00000000-0000-0000-0000-000000000000")]: share for who, share in member.plans[-1].items()}


@contextmanager
def gathering_on(ground: Ground) -> Iterator[Gathering]:
    """Yield a Gathering, and end its members afterwards."""
    gathering = Gathering(ground)
    with all_ended(gathering.members):
        yield gathering

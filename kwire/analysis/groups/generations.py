"""The generations of a classic group, from JoinGroup and SyncGroup responses.

The first JoinGroup response with a new generation id ends the join phase of that generation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field

from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.joins import Join
from kwire.lazy_dataclass import dataclass

COOPERATIVE_PROTOCOLS = ("cooperative", "stream")  # assignors whose members keep partitions during a rebalance


@dataclass(slots=True)
class Phase:
    """A generation of a classic group.

    Attributes:
        generation: generation id.
        done_ts: time of the first JoinGroup response of the generation, in microseconds since 1970.
        joins: JoinGroup requests whose responses contain the new generation id, with these responses.
        members: member ids, including static members that returned during the generation.
        leader: member id of the leader; None if unknown.
        protocol: name of the assignor; None if unknown.
        received: first successful SyncGroup response, by member id.
        planned: partitions in the leader's SyncGroup request, by member id.
    """

    generation: int
    done_ts: int
    joins: list[Join] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    leader: str | None = None
    protocol: str | None = None
    received: dict[str, GroupEvent] = field(default_factory=dict)
    planned: dict[str, list[str]] = field(default_factory=dict)

    @property
    def cooperative(self) -> bool:
        """Whether the protocol is cooperative: members continue to read their partitions during a rebalance."""
        return any(word in (self.protocol or "") for word in COOPERATIVE_PROTOCOLS)

    def shares(self) -> dict[str, list[str]]:
        """Return the assignment of the generation, as partitions by member id.

        If the SyncGroup response of a member was not captured, the assignment from the leader's SyncGroup request is
        used. The result is empty if no member received an assignment.
        """
        if not self.received:
            return {}
        partitions = {
            member: event.partitions for member, event in self.received.items() if event.partitions is not None
        }
        return {
            member: partitions.get(member, self.planned.get(member, [])) for member in {**self.planned, **partitions}
        }

    def ended_ts(self) -> int | None:
        """Return the time at which the last waiting member received its assignment, in microseconds since 1970.

        The result is None if no member received an assignment.
        """
        waited = {join.member_id for join in self.joins}
        return max((event.ts for member, event in self.received.items() if member in waited), default=None)

    def incomplete(self) -> bool:
        """Return whether a member that waited for the generation never received its assignment."""
        return any(join.member_id not in self.received for join in self.joins)


def phases_of(events: Iterable[GroupEvent], joins: Iterable[Join]) -> list[Phase]:
    """Return all generations with a successful JoinGroup response, in order."""
    phases: list[Phase] = []
    answered = [join for join in joins if join.done is not None and join.done.event == "join_done"]
    for join in sorted(answered, key=lambda join: join.done.key if join.done else (0, "", 0, 0)):
        done = join.done
        assert done is not None
        generation = done.generation or 0
        current = phases[-1] if phases else None
        if current is None or generation > current.generation:
            current = Phase(generation, done.ts)
            phases.append(current)
        if generation != current.generation or join.sent.ts > current.done_ts:
            continue  # a response in flight, or one to a member that rejoined a stable group
        current.joins.append(join)
        current.leader, current.protocol = done.leader, done.protocol_name
        if done.member_id and done.member_id not in current.members:
            current.members.append(done.member_id)
        for member in done.members or []:
            if member not in current.members:
                current.members.append(member)
    _add_responses(phases, events)
    return phases


def _add_responses(phases: Sequence[Phase], events: Iterable[GroupEvent]) -> None:
    moments = [phase.done_ts for phase in phases]
    for event in events:
        if event.event not in ("sync_done", "planned") or not event.member_id:
            continue
        place = bisect_right(moments, event.ts)
        for phase in reversed(phases[:place]):
            if phase.generation == event.generation:
                if event.event == "sync_done":
                    phase.received.setdefault(event.member_id, event)
                elif event.partitions is not None:
                    phase.planned.setdefault(event.member_id, event.partitions)
                break

"""After a SyncGroup: compare the assignment with the subscription, apply it, and call the user's listener.

Source: ConsumerCoordinator.onJoinComplete of kafka-clients.
"""

from __future__ import annotations

from kwire.assignors import COOPERATIVE, Assignment
from mockbroker.client.classic.assignments import decode_assignment
from mockbroker.client.classic.lead import Leading
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.errors import ConsumerError
from mockbroker.client.flow import POLL, ListenerCall, Steps
from mockbroker.client.interest import Mode
from mockbroker.client.parts import Parts


class Completing:
    """The end of a rebalance of one member."""

    def __init__(self, parts: Parts, status: MemberStatus, leading: Leading, protocol: str) -> None:
        self._parts, self._status, self._leading, self._protocol = parts, status, leading, protocol

    def complete(self) -> Steps:
        """Apply the assignment with the user's next poll, unless the generation ended before.

        Raises: ConsumerError for an assignment that cannot be read; the first error of assignor and listener.
        """
        status = self._status
        synced = status.identity
        yield POLL
        if synced != status.identity or status.state is not ClassicState.STABLE:
            status.rejoin("the generation ended before it was taken up")
            return
        try:
            assignor = self._leading.assignor
            assignment = decode_assignment(status.assignment or b"")
        except ConsumerError:
            status.rejoin("the assignment could not be read")
            raise
        finally:
            status.assignment = None
        if foreign := self._not_subscribed(assignment):
            status.rejoin(f"the assignment has topics that are not subscribed to: {', '.join(sorted(foreign))}")
            return
        first: Exception | None = None
        before = tuple(self._parts.positions)
        try:
            assignor.on_assignment(assignment, status.generation)
        except Exception as failure:  # of the user's assignor: it is raised once the assignment is applied
            first = failure
        yield from self._apply(assignment, before, first)

    def _not_subscribed(self, assignment: Assignment) -> set[str]:
        """Return the assigned topics that are not subscribed to; those that match the pattern become subscribed."""
        interest, metadata = self._parts.interest, self._parts.metadata
        foreign = {topic for topic, _ in assignment.partitions} - interest.topics
        if foreign and interest.mode is Mode.PATTERN and interest.pattern:
            matching = {topic for topic in foreign if interest.pattern.fullmatch(topic)}
            foreign -= matching
            if matching:
                metadata.refresh()  # the leader has newer metadata
                interest.set_topics(interest.topics | matching)
                self._status.subscription_version = interest.version
        return foreign

    def _apply(self, assignment: Assignment, before: tuple[tuple[str, int], ...], first: Exception | None) -> Steps:
        positions, owned = self._parts.positions, set(before)
        given = set(assignment.partitions)
        added = tuple(p for p in assignment.partitions if p not in owned)
        gone = tuple(p for p in before if p not in given)
        if gone and self._protocol == COOPERATIVE:
            positions.keep(given)
            raised = yield ListenerCall("revoked", gone)
            first = first or raised
            self._status.rejoin("partitions were given up")
        positions.assign(assignment.partitions)
        if self._status.watched is None:  # not the leader, which needs the topics of all members
            self._parts.metadata.want(self._parts.interest.topics)
        raised = yield ListenerCall("assigned", added)
        if first := first or raised:
            raise first

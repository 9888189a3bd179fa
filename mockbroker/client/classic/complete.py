"""The completion of a rebalance: compares the assignment in the SyncGroup response with the subscription, and applies
the assignment.

Source: ConsumerCoordinator.onJoinComplete of kafka-clients.
"""

from __future__ import annotations

from kwire.assignors import Assignment
from mockbroker.client.classic.assignments import decode_assignment
from mockbroker.client.classic.lead import Leading
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.components import Components
from mockbroker.client.errors import ConsumerError
from mockbroker.client.flow import POLL, ListenerCall, Steps


class Completing:
    """The last part of a rebalance in one member: apply the assignment, and call the user's rebalance listener.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        leading: The tasks of the member while it is the leader.
    """

    def __init__(self, components: Components, status: MemberStatus, leading: Leading) -> None:
        self._components, self._status, self._leading = components, status, leading

    def complete(self) -> Steps:
        """Apply the assignment during the next poll of the user.

        A rebalance is requested instead in three cases: the generation has ended before this poll, the assignment
        cannot be decoded, or it contains a topic without a subscription.

        The generator yields the condition under which it is resumed: a poll, or the end of a call of the listener (see
        flow.py).

        Raises: ConsumerError if the assignment cannot be decoded. An exception of the assignor or of the listener is
        raised too; if there are several, the first exception.
        """
        status = self._status
        yield POLL
        if status.state is not ClassicState.STABLE:
            return  # the generation has ended, and a rebalance is requested already
        try:
            assignor = self._leading.assignor
            assignment = decode_assignment(status.assignment or b"")
        except ConsumerError:
            status.rejoin("the assignment is invalid")
            raise
        finally:
            status.assignment = None
        if unsubscribed := self._not_subscribed(assignment):
            status.rejoin(f"the assignment has topics without a subscription: {', '.join(sorted(unsubscribed))}")
            return
        first: Exception | None = None
        before = tuple(self._components.positions)
        try:
            assignor.on_assignment(assignment, status.generation)
        except Exception as failure:  # of the user's assignor; raised after the assignment is applied
            first = failure
        yield from self._apply(assignment, before, first)

    def _not_subscribed(self, assignment: Assignment) -> set[str]:
        """Return the unsubscribed topics of an assignment.

        Topics that match the subscribed pattern are first added to the subscription, because the leader's metadata may
        be newer. The metadata of these topics is then requested.
        ``assignment``: the new assignment.
        """
        subscription = self._components.subscription
        unsubscribed = {topic for topic, _ in assignment.partitions} - subscription.topics
        if subscription.pattern:
            matching = {topic for topic in unsubscribed if subscription.pattern.fullmatch(topic)}
            unsubscribed -= matching
            if matching:
                subscription.set_topics(subscription.topics | matching)
                self._status.subscription_version = subscription.version
        return unsubscribed

    def _apply(self, assignment: Assignment, before: tuple[tuple[str, int], ...], first: Exception | None) -> Steps:
        positions, owned = self._components.positions, set(before)
        given = set(assignment.partitions)
        added = tuple(p for p in assignment.partitions if p not in owned)
        revoked = tuple(p for p in before if p not in given)
        if revoked:  # an eager member has revoked all partitions before
            positions.keep_only(given)
            raised = yield ListenerCall("revoked", revoked)
            first = first or raised
            self._status.rejoin("partitions were revoked")
        positions.assign(assignment.partitions)
        if self._status.assignment_snapshot is None:  # the leader needs the topics of all members
            self._components.metadata.require_topics(self._components.subscription.topics)
        raised = yield ListenerCall("assigned", added)
        if first := first or raised:
            raise first

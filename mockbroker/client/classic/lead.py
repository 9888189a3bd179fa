"""The tasks of the leader of a classic group: the assignment, and the detection of changed topics."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors import Assignment, Assignor
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.client.classic.assignments import assign, subscriptions
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.components import Components
from mockbroker.client.errors import UnknownAssignor
from mockbroker.client.flow import WAIT, Waiting


class Leading:
    """The tasks of one member while it is the leader of the group.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        assignors: Supported assignors by name.
        protocol: Rebalance protocol, eager or cooperative.
    """

    def __init__(
        self, components: Components, status: MemberStatus, assignors: Mapping[str, Assignor], protocol: str
    ) -> None:
        self._components, self._status = components, status
        self._assignors, self._protocol = assignors, protocol
        self._topics: frozenset[str] = frozenset()  # of all members
        self._compared_version = -1  # the version of the metadata that the assignment was compared with

    @property
    def assignor(self) -> Assignor:
        """The assignor that the group chose. Raises: UnknownAssignor if the member does not support this assignor."""
        chosen = self._status.protocol_name
        assignor = self._assignors.get(chosen or "")
        if assignor is None:
            own = ", ".join(self._assignors)
            raise UnknownAssignor(
                f"the group chose the assignor {chosen!r}, but this member supports only {own}: "
                f"add {chosen!r} to assignors"
            )
        return assignor

    def assign(self, response: JoinGroupResponse) -> Waiting[Mapping[str, Assignment]]:
        """Wait until the metadata contains the topics to which any member has subscribed. Return the assignments by
        member id.

        The result is empty for a static leader that rejoins, because the assignment of the group does not change
        (KIP-814).

        The generator yields the condition under which it is resumed (see flow.py).

        ``response``: the JoinGroup response, which contains the subscriptions.

        Raises: ConsumerError, AssignorError, exceptions of the assignor.
        """
        components, status = self._components, self._status
        metadata = components.metadata
        assignor = self.assignor
        members = subscriptions(response.members)
        self._topics = frozenset(topic for member in members.values() for topic in member.topics)
        metadata.require_topics(self._topics | components.subscription.topics)
        while status.state is ClassicState.COMPLETING_REBALANCE and not metadata.covers(self._topics):
            yield WAIT
            metadata.require_topics(self._topics | components.subscription.topics)  # the user may have subscribed again
        topics = metadata.for_assignor(self._topics)
        assignments = {} if response.skip_assignment else assign(assignor, topics, members, self._protocol)
        status.assignment_snapshot = metadata.partitions_and_racks(self._topics)
        return assignments

    def rejoin_if_topics_changed(self) -> None:
        """Request a rebalance if a partition count or rack of the group's topics has changed since the assignment."""
        metadata, snapshot = self._components.metadata, self._status.assignment_snapshot
        if snapshot is None or self._compared_version == metadata.version:
            return
        self._compared_version = metadata.version
        if metadata.partitions_and_racks(self._topics) != snapshot:
            self._status.rejoin("partitions of the group's topics have changed")

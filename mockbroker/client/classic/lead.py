"""What the leader of a classic group does: it assigns the partitions, and watches the topics that it assigned by."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors import Assignment, Assignor
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.client.classic.assignments import assign, subscriptions
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.errors import UnknownAssignor
from mockbroker.client.flow import WAIT, Waiting
from mockbroker.client.parts import Parts


class Leading:
    """Assignment of one generation, by the assignor that the group chose among ``assignors``."""

    def __init__(self, parts: Parts, status: MemberStatus, assignors: Mapping[str, Assignor], protocol: str) -> None:
        self._parts, self._status = parts, status
        self._assignors, self._protocol = assignors, protocol
        self._topics: frozenset[str] = frozenset()  # of all members
        self._compared = -1  # the version of the metadata that the assignment was compared with

    @property
    def assignor(self) -> Assignor:
        """The assignor that the group chose. Raises: UnknownAssignor."""
        chosen = self._status.protocol_name
        assignor = self._assignors.get(chosen or "")
        if assignor is None:
            raise UnknownAssignor(f"the group chose {chosen!r}, this member has {', '.join(self._assignors)}")
        return assignor

    def assign(self, response: JoinGroupResponse) -> Waiting[Mapping[str, Assignment]]:
        """Return what each member gets, by member id, once the topics of all members are known.

        A static leader that came back assigns nothing: the group keeps what it has.
        """
        parts, status = self._parts, self._status
        metadata = parts.metadata
        assignor = self.assignor
        members = subscriptions(response.members)
        self._topics = frozenset(topic for member in members.values() for topic in member.topics)
        metadata.want(self._topics | parts.interest.topics)
        while status.state is ClassicState.COMPLETING_REBALANCE and not metadata.covers(self._topics):
            yield WAIT
            metadata.want(self._topics | parts.interest.topics)  # the user may have subscribed again
        topics = metadata.for_assignor(self._topics)
        shares = {} if response.skip_assignment else assign(assignor, topics, members, self._protocol)
        status.watched = metadata.counts(self._topics)
        return shares

    def rejoin_if_topics_changed(self) -> None:
        """Begin a rebalance if the topics have other partitions, or other racks, than those assigned by."""
        metadata, watched = self._parts.metadata, self._status.watched
        if watched is None or self._compared == metadata.version:
            return
        self._compared = metadata.version
        if metadata.counts(self._topics) != watched:
            self._status.rejoin("partitions of the group's topics have changed")

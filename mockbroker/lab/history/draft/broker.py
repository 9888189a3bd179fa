"""The broker of the draft protocol: it looks up the coordinator of any group, and coordinates some groups itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import inf

from kwire.java import partition_for
from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.actions import Actions, Answer
from mockbroker.lab.history.draft.coordinator import Coordinator
from mockbroker.lab.history.draft.messages import (
    ConsumerMetadataRequest,
    ConsumerMetadataResponse,
    Error,
    Request,
    answer_to,
)
from mockbroker.lab.history.draft.store import Store

SUBSETS = 50  # number of subsets of groups; each subset has a coordinator. As offsets.topic.num.partitions


def subset_of(group: str) -> int:
    return partition_for(group, SUBSETS)


@dataclass(slots=True)
class Election:
    """The election of a broker as coordinator for a subset of the groups.

    Attributes:
        took_over: whether another coordinator of the subset has failed or resigned before.
        ready_at: time at which the groups will be loaded, seconds; inf after they were loaded.
        coordinators: group id -> coordinator.
    """

    took_over: bool
    ready_at: float
    coordinators: dict[str, Coordinator] = field(default_factory=dict)


class Broker:
    """A broker of the draft protocol.

    A hash of the group id assigns each group to one of SUBSETS subsets; all groups of a subset have the same
    coordinating broker. The methods return actions (``actions.py``), which the caller must perform in order.

    Args:
        node: broker id.
        store: the model of ZooKeeper that all brokers share.
        uuid: function that returns a new UUID for a consumer id.
        load: time for loading the groups of a subset, seconds.
        answer_gap: time between two JoinGroup responses of a coordinator, seconds.

    Attributes:
        metadata: subset -> id of the coordinating broker, according to the last metadata update.
        elections: subset -> election, for the subsets that this broker coordinates.
    """

    def __init__(
        self, node: int, store: Store, uuid: Callable[[], str], *, load: float = 0.0, answer_gap: float = 0.0
    ) -> None:
        self.node = node
        self.metadata: dict[int, int] = {}
        self.elections: dict[int, Election] = {}
        self._store = store
        self._uuid = uuid
        self._load = load
        self._answer_gap = answer_gap

    def elect(self, subset: int, now: float, *, took_over: bool) -> Actions:
        """Make this broker the coordinator of a subset of the groups, and return the actions.

        The broker loads the groups of the subset before it handles requests for them.

        Args:
            subset: number of the subset.
            now: virtual time, seconds.
            took_over: whether another coordinator of the subset has failed or resigned before.
        """
        election = self.elections[subset] = Election(took_over, now + self._load)
        groups = [group for group in self._store.groups() if subset_of(group) == subset]
        return [action for group in groups for action in self._coordinator(election, group).elected()]

    def resign(self, subset: int) -> Actions:
        """Stop coordinating a subset of the groups, because another broker was elected for it. Return the actions."""
        return [action for one in self.elections.pop(subset).coordinators.values() for action in one.resign()]

    def lost(self) -> Actions:
        """Stop all coordinators on this broker, because the broker process has failed.

        Return the coordinators' actions.
        """
        elections = self.elections.values()
        return [action for election in elections for one in election.coordinators.values() for action in one.lost()]

    def coordinator(self, group: str) -> Coordinator | None:
        """Return the coordinator of a group; None if this broker does not coordinate the group, or the group never had
        a member.
        """
        election = self.elections.get(subset_of(group))
        return election.coordinators.get(group) if election else None

    def handle(self, connection: int, request: Request, now: float) -> Actions:
        """Handle a request, and return the actions.

        Every broker handles ConsumerMetadata. All other requests are handled only by the coordinator of the group; the
        response of another broker has the error NOT_COORDINATOR_FOR_GROUP.

        Args:
            connection: connection number.
            request: the request.
            now: virtual time, seconds.
        """
        subset = subset_of(request.group)
        if isinstance(request, ConsumerMetadataRequest):
            return [Answer(connection, ConsumerMetadataResponse(node=self.metadata[subset]))]
        election = self.elections.get(subset)
        if election is None:
            return [Answer(connection, answer_to(request, Error.NOT_COORDINATOR_FOR_GROUP))]
        if request.group in election.coordinators:
            return election.coordinators[request.group].handle(connection, request, now)
        coordinator = self._coordinator(election, request.group)  # the group had no members
        elected = coordinator.elected()
        loaded = coordinator.loaded(now) if election.ready_at == inf else []
        return elected + loaded + coordinator.handle(connection, request, now)

    def topic_changed(self) -> Actions:
        return [action for one in self._serving() for action in one.topics_changed()]

    def disconnected(self, connection: int, now: float) -> Actions:
        return [action for one in self._serving() for action in one.disconnected(connection, now)]

    def tick(self, now: float) -> Actions:
        actions: Actions = []
        for election in self.elections.values():
            if election.ready_at <= now:
                election.ready_at = inf
                actions += [action for one in election.coordinators.values() for action in one.loaded(now)]
        return actions + [action for one in self._serving() for action in one.tick(now)]

    def deadline(self) -> float:
        ready = min((election.ready_at for election in self.elections.values()), default=inf)
        return min([ready, *(one.deadline() for one in self._serving())])

    def _serving(self) -> list[Coordinator]:
        """Return the coordinators on this broker whose groups are loaded."""
        return [
            coordinator
            for election in self.elections.values()
            if election.ready_at == inf
            for coordinator in election.coordinators.values()
        ]

    def _coordinator(self, election: Election, group: str) -> Coordinator:
        coordinator = election.coordinators[group] = Coordinator(
            group, self._store, self._uuid, took_over=election.took_over, answer_gap=self._answer_gap
        )
        return coordinator

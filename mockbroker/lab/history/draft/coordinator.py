"""The coordinator of one group, sans-IO: its inputs are requests, timeouts and topic changes, its outputs are actions.

A coordinator reads from the store directly, and writes with actions. Joined members, dead members and unsent responses
are in memory only: they are lost when the broker of the coordinator fails. All times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.lab.history.draft.actions import Actions, Answer, Became, Cut, Keep, Noticed, Watch, Write
from mockbroker.lab.history.draft.messages import (
    Error,
    GroupRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    answer_to,
)
from mockbroker.lab.history.draft.rules import COORDINATOR, LOADING, Cause, Coordinating, move
from mockbroker.lab.history.draft.store import GroupRecord, Store
from mockbroker.lab.history.draft.strategies import STRATEGIES, assign

NONE = Error.NONE


@dataclass(slots=True)
class Member:
    """A member of a group of the draft protocol.

    Attributes:
        generation: last generation that was sent to the member; -1 if none was sent.
        connection: number of the connection on which the last heartbeat or JoinGroup of the member arrived; None before
            a heartbeat after a load.
        dead: whether the member's session has expired.
        warned: whether a heartbeat of the member has been answered with IllegalGeneration in this rebalance.
    """

    generation: int
    connection: int | None = None
    dead: bool = False
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Parked:
    """A pending JoinGroup request. ``connection``: connection number."""

    connection: int
    request: JoinGroupRequest


class Coordinator:
    """The coordinator of one group.

    Args:
        group: group id.
        store: the model of ZooKeeper that all brokers share.
        uuid: function that returns a new UUID for a consumer id.
        took_over: whether another coordinator of this group failed or resigned before.
        answer_gap: delay between two JoinGroup responses, seconds.

    Attributes:
        state: current state.
        record: last stored generation, members and ownership.
        members: consumer id -> member.
        parked: pending JoinGroup requests.
    """

    def __init__(
        self, group: str, store: Store, uuid: Callable[[], str], *, took_over: bool = False, answer_gap: float = 0.0
    ) -> None:
        self.group = group
        self.state = Coordinating.DOWN
        self.record = GroupRecord()
        self.members: dict[str, Member] = {}
        self.parked: list[Parked] = []
        self._store = store
        self._uuid = uuid
        self._took_over = took_over
        self.answer_gap = answer_gap
        self._sessions: Deadlines[str] = Deadlines()
        self._heard: set[str] = set()  # members that sent a heartbeat in the state Ready
        self._former: set[str] = set()  # members of the generation that is being replaced
        self._causes: set[Cause] = set()
        self._notified = False  # whether a member got IllegalGeneration in this rebalance
        self._outbox: list[tuple[Parked, JoinGroupResponse]] = []
        self._next_answer = inf

    # --- beginning and end ---

    def elected(self) -> Actions:
        """Handle the election of this coordinator, and return the actions.

        Requests are answered with an error until ``loaded`` is called.
        """
        return [self._move(Cause.ELECTED)]

    def loaded(self, now: float) -> Actions:
        """Load the group from the store, and start the sessions of its members. Return the actions.

        The actions set watches on the topics of the group. They also start a rebalance if the partitions of the topics
        differ from the assigned partitions.

        ``now``: virtual time, seconds.
        """
        actions: Actions = [self._move(Cause.LOADED)]
        self.record = self._store.read(self.group)
        self.members = {consumer_id: Member(self.record.generation) for consumer_id in self.record.hosts}
        for consumer_id in self.members:
            self._sessions.set(consumer_id, now + self.record.session_timeout)
        actions += [Watch(topic) for topic in self.record.topics]
        return actions + self.topics_changed()

    def resign(self) -> Actions:
        """Stop coordinating the group, because another coordinator was elected. Return the actions.

        The actions answer pending requests with NotCoordinatorForGroup.
        """
        waiting = [*self.parked, *(parked for parked, _ in self._outbox)]
        elsewhere = JoinGroupResponse(error=Error.NOT_COORDINATOR_FOR_GROUP)
        return [*self.lost(), *(Answer(parked.connection, elsewhere) for parked in waiting)]

    def lost(self) -> Actions:
        """Stop this coordinator, because its broker failed or another coordinator was elected. Return the actions."""
        return [self._move(Cause.LOST)]

    # --- requests ---

    def handle(self, connection: int, request: GroupRequest, now: float) -> Actions:
        if self.state is Coordinating.CATCH_UP:
            return [Answer(connection, answer_to(request, LOADING[type(request)][self._took_over]))]
        match request:
            case JoinGroupRequest():
                return self._join(connection, request, now)
            case HeartbeatRequest():
                error, actions = self._heartbeat(connection, request, now)
                return [*actions, Answer(connection, HeartbeatResponse(error=error))]
            case OffsetCommitRequest():
                error = self._commit_error(request)
                kept: Actions = [] if error is not NONE else [Keep(self.group, request.offsets)]
                return [*kept, Answer(connection, OffsetCommitResponse(error=error))]
            case OffsetFetchRequest():
                offsets = self._store.offsets(self.group)
                committed = {partition: offsets[partition] for partition in request.partitions if partition in offsets}
                return [Answer(connection, OffsetFetchResponse(offsets=committed))]

    def _join(self, connection: int, request: JoinGroupRequest, now: float) -> Actions:
        if (error := self._join_error(request)) is not NONE:
            return [Answer(connection, JoinGroupResponse(error=error))]
        consumer_id = request.consumer_id
        if consumer_id is not None:
            self._sessions.forget(consumer_id)  # no session timeout while a JoinGroup is pending
            self.parked = [parked for parked in self.parked if parked.request.consumer_id != consumer_id]
        self.parked.append(Parked(connection, request))
        return self._prepare(Cause.JOIN) + self._rebalance_if_all_joined(now)

    def _join_error(self, request: JoinGroupRequest) -> Error:
        """Return the error with which a JoinGroup request is rejected, or NONE if the request is accepted.

        An accepted request starts a rebalance, or joins the rebalance in progress.
        """
        if request.strategy not in STRATEGIES:
            return Error.UNKNOWN_PARTITIONING_STRATEGY
        if request.consumer_id is not None and request.consumer_id not in self.members.keys() | self._former:
            return Error.UNKNOWN_CONSUMER
        if self._strategies_of_others(request) - {request.strategy}:
            return Error.INCONSISTENT_PARTITIONING_STRATEGY
        return NONE

    def _strategies_of_others(self, request: JoinGroupRequest) -> set[str]:
        joined = {p.request.strategy for p in self.parked if p.request.consumer_id != request.consumer_id}
        others = (member for consumer_id, member in self.members.items() if consumer_id != request.consumer_id)
        if self.record.strategy is not None and any(not member.dead for member in others):
            joined.add(self.record.strategy)
        return joined

    def _heartbeat(self, connection: int, request: HeartbeatRequest, now: float) -> tuple[Error, Actions]:
        consumer_id = request.consumer_id or ""
        if (error := self._identity_error(consumer_id)) is not NONE:
            return error, []
        member = self.members[consumer_id]
        member.connection = connection
        good = self._is_current(request.generation, member)
        match self.state:
            case Coordinating.PREPARING:
                return self._heartbeat_of_a_rebalance(consumer_id, good, now)
            case Coordinating.READY if not good:
                member.warned = True
                self._renew(consumer_id, now)
                return Error.ILLEGAL_GENERATION, self._prepare(Cause.STALE)
            case _ if not good:
                return Error.ILLEGAL_GENERATION, []
        self._renew(consumer_id, now)
        self._heard.add(consumer_id)
        if self.state is Coordinating.READY and self._heard >= self.members.keys():
            return NONE, [self._move(Cause.ALL_HEARD)]
        return NONE, []

    def _heartbeat_of_a_rebalance(self, consumer_id: str, good: bool, now: float) -> tuple[Error, Actions]:
        """Handle a heartbeat in the state PREPARING (a rebalance waits for members). Return the error of the response,
        and the actions.

        The response has the error IllegalGeneration, with one exception. If the sender's session has expired, expired
        sessions are the only cause of the rebalance, and no heartbeat has received this error yet, then the sender
        counts as alive again. If no other session has expired, the rebalance is cancelled, and the response has no
        error.

        The first error that a live sender gets restarts its session.

        Args:
            consumer_id: consumer id of the sender.
            good: whether the heartbeat contains the current generation; only such a heartbeat can cancel the rebalance.
            now: virtual time, seconds.
        """
        member = self.members[consumer_id]
        if good and member.dead and self._causes == {Cause.SILENCE} and not self._notified:
            member.dead = False
            self._renew(consumer_id, now)
            if not any(other.dead for other in self.members.values()):
                return NONE, [self._move(Cause.RECOVERED)]
        self._notified = True
        if not member.dead and not member.warned:  # once: a member that never joins must not delay the others
            member.warned = True
            self._renew(consumer_id, now)
        return Error.ILLEGAL_GENERATION, []

    def _commit_error(self, request: OffsetCommitRequest) -> Error:
        consumer_id = request.consumer_id or ""
        if (error := self._identity_error(consumer_id)) is not NONE:
            return error
        if not self._is_current(request.generation, self.members[consumer_id]):
            return Error.ILLEGAL_GENERATION
        return NONE

    def _identity_error(self, consumer_id: str) -> Error:
        if consumer_id in self.members:
            return NONE
        return Error.ILLEGAL_GENERATION if consumer_id in self._former else Error.UNKNOWN_CONSUMER

    def _is_current(self, generation: int, member: Member) -> bool:
        """Return whether a request contains the current generation, and the member has received this generation from
        JoinGroup.

        Args:
            generation: generation in the request.
            member: the member that sent the request.
        """
        return generation == self.record.generation == member.generation

    # --- other events ---

    def topics_changed(self) -> Actions:
        """Start a rebalance if the partitions of the group's topics differ from the assigned partitions.

        Return the actions.
        """
        wanted = {(topic, number) for topic in self.record.topics for number in range(self._store.partitions(topic))}
        owned = {partition for share in self.record.ownership.values() for partition in share}
        return self._prepare(Cause.CHANGE) if self.members and wanted != owned else []

    def disconnected(self, connection: int, now: float) -> Actions:
        """Handle a closed connection: discard its pending JoinGroup requests. Return the actions.

        The session timeout of the members that sent these requests starts again. The next generation begins if all
        remaining members have joined.

        Args:
            connection: connection number.
            now: virtual time, seconds.
        """
        gone = [parked for parked in self.parked if parked.connection == connection]
        for parked in gone:
            self.parked.remove(parked)
            if parked.request.consumer_id in self.members:
                self._renew(parked.request.consumer_id, now)
        return self._rebalance_if_all_joined(now) if gone else []

    def tick(self, now: float) -> Actions:
        """Handle all due timers, and return the actions. ``now``: virtual time, seconds."""
        actions: Actions = []
        if self._next_answer <= now:
            actions += self._answer(now)
        while (consumer_id := self._sessions.pop_due(now)) is not None:
            actions += self._dead(consumer_id, now)
        return actions

    def deadline(self) -> float:
        return min(self._sessions.earliest, self._next_answer)

    # --- steps of a rebalance ---

    def _dead(self, consumer_id: str, now: float) -> Actions:
        member = self.members[consumer_id]
        member.dead = True
        waiting = {parked.connection for parked in self.parked}  # also of members that joined without their id
        actions = self._prepare(Cause.SILENCE)
        if member.connection is not None and member.connection not in waiting:
            actions.append(Cut(member.connection))
        return actions + self._rebalance_if_all_joined(now)

    def _prepare(self, cause: Cause) -> Actions:
        """Start a rebalance, and return the actions.

        If a rebalance has started and waits for members, only record the cause. If JoinGroup responses are being sent
        (state REBALANCING), do nothing. While the rebalance waits for members (state PREPARING), heartbeats are
        answered with IllegalGeneration; ``_heartbeat_of_a_rebalance`` describes the exception.

        ``cause``: cause of the rebalance.
        """
        noticed = Noticed(self.group, cause)
        match self.state:
            case Coordinating.REBALANCING:
                return []
            case Coordinating.PREPARING:
                known = cause in {*self._causes, Cause.JOIN}  # every member joins in this state
                self._causes.add(cause)
                return [] if known else [noticed]
            case _:
                self._causes, self._notified = {cause}, False
                return [noticed, self._move(cause)]

    def _rebalance_if_all_joined(self, now: float) -> Actions:
        """Begin the next generation if every member has joined or is dead (its session has expired). Return the
        actions.

        If all members are dead and no consumer has joined, the next generation has no members. If a member rejoins
        without its consumer id, the member with the old id counts as missing until its session expires.

        ``now``: virtual time, seconds.
        """
        if self.state is not Coordinating.PREPARING:
            return []
        joined = {parked.request.consumer_id for parked in self.parked}
        if any(not member.dead and consumer_id not in joined for consumer_id, member in self.members.items()):
            return []
        return self._rebalance(now) if self.parked else self._write_empty()

    def _write_empty(self) -> Actions:
        self._begin({}, replace(self.record, generation=self.record.generation + 1, hosts={}, ownership={}))
        self._former = set()
        return [Write(self.group, self.record), self._move(Cause.NO_MEMBER)]

    def _rebalance(self, now: float) -> Actions:
        """Begin the next generation, and return the actions.

        The coordinator assigns partitions to the joined members, writes the group to the store, and sends the JoinGroup
        responses.

        ``now``: virtual time, seconds.
        """
        round_, self.parked = self.parked, []
        ids = [parked.request.consumer_id or f"{self.group}-{self._uuid()}" for parked in round_]
        record = self._next_record({i: parked.request for i, parked in zip(ids, round_, strict=True)})
        actions: Actions = [self._move(Cause.ALL_JOINED)]
        actions += [Watch(topic) for topic in record.topics if topic not in self.record.topics]
        generations = {consumer_id: member.generation for consumer_id, member in self.members.items()}
        self._begin({i: Member(generations.get(i, -1), p.connection) for i, p in zip(ids, round_, strict=True)}, record)
        self._outbox = [
            (parked, JoinGroupResponse(consumer_id=i, generation=record.generation, partitions=record.ownership[i]))
            for i, parked in zip(ids, round_, strict=True)
        ]
        return [*actions, Write(self.group, record), *self._answer(now)]

    def _next_record(self, asked: dict[str, JoinGroupRequest]) -> GroupRecord:
        topics = tuple(dict.fromkeys(topic for request in asked.values() for topic in request.topics))
        strategy = next(iter(asked.values())).strategy
        subscriptions = {consumer_id: request.topics for consumer_id, request in asked.items()}
        return GroupRecord(
            generation=self.record.generation + 1,  # even if the members are the same
            topics=topics,
            strategy=strategy,
            session_timeout=max(request.session_timeout for request in asked.values()),
            hosts={consumer_id: request.host for consumer_id, request in asked.items()},
            ownership=assign(strategy, subscriptions, {topic: self._store.partitions(topic) for topic in topics}),
        )

    def _begin(self, members: dict[str, Member], record: GroupRecord) -> None:
        self._former = set(self.members)
        self.members, self.record = members, record
        for consumer_id in self._former:
            self._sessions.forget(consumer_id)

    def _answer(self, now: float) -> Actions:
        """Send the due JoinGroup responses, and return the actions.

        Restart the sessions of the answered members, except of those that have sent a further JoinGroup. Events that
        occur while responses are pending are handled after the last response.

        Args:
            now: virtual time in seconds.
        """
        actions: Actions = []
        while self._outbox:
            parked, response = self._outbox.pop(0)
            consumer_id = response.consumer_id or ""
            self.members[consumer_id].generation = response.generation
            if all(other.request.consumer_id != consumer_id for other in self.parked):
                self._renew(consumer_id, now)
            actions.append(Answer(parked.connection, response))
            if self._outbox and self.answer_gap:
                self._next_answer = now + self.answer_gap
                return actions
        self._next_answer = inf
        return [*actions, self._move(Cause.ANSWERED), *self._next_round(now)]

    def _next_round(self, now: float) -> Actions:
        """Handle the events that occurred while JoinGroup responses were sent, and return the actions.

        Former members that joined in this time keep their ids.

        ``now``: virtual time, seconds.
        """
        late = {parked.request.consumer_id for parked in self.parked} & self._former
        self._former = set()
        for consumer_id in late - self.members.keys():
            if consumer_id is not None:
                self.members[consumer_id] = Member(-1)
        actions: Actions = []
        if self.parked:
            actions += self._prepare(Cause.JOIN)
        actions += self.topics_changed()
        if any(member.dead for member in self.members.values()):
            actions += self._prepare(Cause.SILENCE)
        return actions + self._rebalance_if_all_joined(now)

    def _renew(self, consumer_id: str, now: float) -> None:
        self._sessions.set(consumer_id, now + self.record.session_timeout)

    def _move(self, cause: Cause) -> Became:
        before, self.state = self.state, move(COORDINATOR, self.state, cause)
        return Became(self.group, before, cause, self.state)

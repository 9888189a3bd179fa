"""A consumer of the classic protocol in the simulation: eager or cooperative, dynamic or static."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mockbroker.lab.simulation.clients import plans
from mockbroker.lab.simulation.clients.client import BACKOFF
from mockbroker.lab.simulation.clients.reader import NOT_HERE, NOT_YET, Reader

JOIN_SLACK = 5.0  # seconds that a JoinGroup may take beyond the rebalance timeout, as in Kafka's client
AWAY, JOINING, SYNCING, STABLE = "away", "joining", "syncing", "stable"
LOST = (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION)  # errors after which the member owns no partition


class ClassicClient(Reader):
    """A member of a classic group.

    A static member keeps ``seen_in``, ``gave_up_in`` and ``reported`` when it restarts, because it rejoins without a
    rebalance. A dynamic member resets these attributes together with its member id.

    Attributes:
        state: AWAY, JOINING, SYNCING or STABLE.
        beating: whether a heartbeat is in flight.
        outdated: True if the member has to rejoin once the JoinGroup or SyncGroup in flight is answered.
        seen_in: generation -> topic -> number of partitions when the member joined this generation. Entries are kept
            until a generation is stable, because a new coordinator may go back to the previous generation if the latest
            was not written.
        gave_up_in: generation in which the member revoked partitions and therefore has to rejoin; -1 without such a
            generation.
        reported: partitions that the group leader believes the member owns.
    """

    member_id = ""
    seen_in: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    gave_up_in = -1
    reported: frozenset[plans.Place] = frozenset()

    def begin(self) -> None:
        super().begin()
        self.state = AWAY
        self._forget_id()
        self.generation = -1
        self.asked_for = self.topics
        self.reports: frozenset[plans.Place] = frozenset()  # partitions owned when the last JoinGroup was sent
        self.there: dict[str, int] = {}  # topic -> number of partitions when the last JoinGroup was sent
        self.owned_since = -1  # generation of the assignment; -1 for none
        self.beating = False
        self.rejoin_due = False
        self.enforced = False
        self.outdated = False
        self.later(self.script.heartbeat, self._beat)

    @property
    def cooperates(self) -> bool:
        return self.script.kind == "cooperative"

    @property
    def strategy(self) -> str:
        """The assignment strategy of the member, eager or cooperative. It is the protocol name in JoinGroup."""
        return self.script.kind

    @property
    def identity(self) -> tuple[str, int]:
        return self.member_id, self.generation

    @property
    def may_commit(self) -> bool:
        return self.state == STABLE

    def ready(self) -> None:
        self.beating = False
        if self.state == STABLE:
            self.fetch_positions()
        else:
            self.join()

    # --- join and sync ---

    @property
    def rebalancing(self) -> bool:
        """Whether a JoinGroup or a SyncGroup is in flight. As in Kafka's client, there is never more than one."""
        waiting = self.coordinator.waiting if self.coordinator is not None else ()
        return any(call.ticket.api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) for call, _, _ in waiting)

    def join(self) -> None:
        self.rejoin_due = False
        self.outdated = self.rebalancing
        if self.outdated:
            return
        if self.coordinator is None:
            self.state = AWAY
            return
        self.state = JOINING
        if not self.cooperates and self.owned:
            self.own(frozenset())  # eager: all partitions are revoked before JoinGroup
        since = self.owned_since if self.cooperates else -1
        subscription = plans.Subscription(self.topics, self.owned, since)
        self.there = {topic: self.partitions(topic) for topic in self.topics}
        self.asked_for, self.reports = self.topics, self.owned
        self.reported |= self.owned
        protocol = JoinGroupRequest.Protocol(name=self.strategy, metadata=subscription.encoded())
        request = JoinGroupRequest(
            group_id=self.script.group,
            session_timeout_ms=round(self.script.session * 1000),
            rebalance_timeout_ms=round(self.script.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.script.instance,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.ask(ApiKey.JOIN_GROUP, self.script.version, request, self._joined, self.script.rebalance + JOIN_SLACK)

    def join_later(self) -> None:
        """Send JoinGroup after a random backoff. Do nothing if a JoinGroup is already scheduled."""
        if not self.rejoin_due:
            self.rejoin_due = True
            self.later(BACKOFF * self.dice.random(), self._join_if_due)

    def _join_if_due(self) -> None:
        if not self.rejoin_due:
            return
        if not self.polling:
            self.queue.at(self.polls_at, self._now, self.life, self._join_if_due, ())
        else:
            self.join()

    def _joined(self, answer: JoinGroupResponse) -> None:
        if self.outdated:
            self.join()
            return
        match answer.error_code:
            case E.NONE:
                if self.member_id:
                    self.reported = self.reports  # replaces the earlier process's partitions
                if self.generation == answer.generation_id and answer.leader != answer.member_id:
                    # the leader decides whether to rebalance
                    self.seen_in = {**self.seen_in, self.generation: self.there}
                if not answer.leader:  # a consumer group: the JoinGroup is a step of the reconciliation
                    self.gave_up_in = -1
                self.member_id, self.generation = answer.member_id, answer.generation_id
                self.see(self.there)
                self._sync(answer)
            case E.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                self.join()
            case error:
                self.refused(error)

    def _sync(self, joined: JoinGroupResponse) -> None:
        self.state = SYNCING
        assignments: list[SyncGroupRequest.Assignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            plan = self._plan(joined)
            assignments = [
                SyncGroupRequest.Assignment(member_id=name, assignment=plans.encoded_share(share))
                for name, share in plan.items()
            ]
        request = SyncGroupRequest(
            group_id=self.script.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.script.instance,
            protocol_type="consumer",
            protocol_name=joined.protocol_name or self.strategy,
            assignments=assignments,
        )
        self.ask(ApiKey.SYNC_GROUP, 5, request, self._synced, self.script.rebalance + JOIN_SLACK)

    def _plan(self, joined: JoinGroupResponse) -> dict[str, frozenset[plans.Place]]:
        subscriptions = {member.member_id: plans.decoded_subscription(member.metadata) for member in joined.members}
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        partitions = {topic: self.partitions(topic) for topic in topics}
        self.see(partitions)
        return (plans.cooperative if self.cooperates else plans.round_robin)(subscriptions, partitions)

    def see(self, partitions: Mapping[str, int]) -> None:
        """Store the number of partitions of each topic at the start of this generation, to detect later changes.

        ``partitions``: topic -> number of partitions. If a number is already stored for a topic in this generation, the
        stored number remains.
        """
        self.seen_in = {**self.seen_in, self.generation: {**partitions, **self.seen}}

    @property
    def seen(self) -> Mapping[str, int]:
        """The numbers of partitions at the start of the current generation, by topic."""
        return self.seen_in.get(self.generation, {})

    def _synced(self, answer: SyncGroupResponse) -> None:
        if self.outdated:
            self.join()
            return
        if answer.error_code:
            self.refused(answer.error_code)
            return
        self.state = STABLE
        self.seen_in = {self.generation: self.seen}
        share = plans.decoded_share(answer.assignment)
        if self.cooperates and not self.reported <= share:
            self.gave_up_in = self.generation
        self.reported = self.reports
        gives_up = self.gave_up_in == self.generation
        self.owned_since = self.generation
        self.own(share)
        if gives_up or self.asked_for != self.topics or self.enforced:
            self.enforced = False
            self.join_later()  # to release the revoked partitions, or to send the new subscription

    # --- heartbeats ---

    def _beat(self) -> None:
        self.later(self.script.heartbeat, self._beat)
        if self.state != STABLE or self.beating or self.coordinator is None:
            return
        self.beating = True
        request = HeartbeatRequest(
            group_id=self.script.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.script.instance,
        )
        self.ask(ApiKey.HEARTBEAT, 4, request, self._beaten)
        if self.seen != {topic: self.partitions(topic) for topic in self.seen}:
            self.join_later()  # a topic has more partitions now

    def _beaten(self, answer: HeartbeatResponse) -> None:
        self.beating = False
        if answer.error_code and self.state == STABLE:
            self.refused(answer.error_code)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to ``topics``, and rejoin if the member is stable."""
        self.topics = topics
        if self.state == STABLE:
            self.join_later()

    def enforce_rebalance(self) -> None:
        """Rejoin as soon as the member is stable. If the member is the group leader, the rejoin starts a rebalance."""
        if self.state == STABLE:
            self.join_later()
        else:
            self.enforced = True

    def refused(self, error: int) -> None:
        if error in NOT_HERE:
            if self.state != STABLE:
                self.state = AWAY
            self.find_later()
        elif error == NOT_YET:
            if self.state != STABLE:
                self.state = AWAY
                self.join_later()
        elif error in LOST:
            if error == E.UNKNOWN_MEMBER_ID:
                self._forget_id()
            self.generation = self.owned_since = -1
            self.own(frozenset())
            self.join_later()
        elif error == E.REBALANCE_IN_PROGRESS:
            self.join_later()
        else:
            self.end(E(error).name)

    def _forget_id(self) -> None:
        self.member_id = ""
        if self.script.instance is None:
            self.seen_in, self.gave_up_in, self.reported = {}, -1, frozenset()

    def leave(self) -> None:
        """Send LeaveGroup, and stop after its response or after a timeout.

        A static member stops without LeaveGroup, as Kafka's client does. So does a member without member id, or without
        a connection to the coordinator.
        """
        self.say("leaves")
        if self.coordinator is not None and self.member_id and self.script.instance is None:
            line = LeaveGroupRequest.Member(member_id=self.member_id, reason="closing")
            request = LeaveGroupRequest(group_id=self.script.group, members=[line])
            self.ask(ApiKey.LEAVE_GROUP, 5, request, self._left)
            self.state = AWAY
            self.member_id = ""
            self.later(BACKOFF * 5, self.stop)
        else:
            self.stop()

    def _left(self, answer: LeaveGroupResponse) -> None:
        self.stop()

"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what each answer makes of it.

What only the user's polls may do (telling of partitions that come and go) waits for them; joining and syncing go on
without. Source: AbstractCoordinator and ConsumerCoordinator of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal

from kwire.assignors import (
    COOPERATIVE,
    Assignment,
    Assignor,
    by_name,
    common_protocol,
)
from kwire.errorcodes import ErrorCode
from kwire.messages.heartbeat import HEARTBEAT, HeartbeatRequest
from kwire.messages.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LEAVE_GROUP, LeaveGroupRequest
from kwire.messages.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupResponse
from mockbroker.client.call import Call, Failure
from mockbroker.client.committing import LATE, POLL_FIRST, Identity
from mockbroker.client.coordinator import ELSEWHERE
from mockbroker.client.errors import (
    CommitFailed,
    ConsumerError,
    FencedInstance,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnjoinedGroup,
    UnknownAssignor,
    UnsupportedVersion,
    broker_error,
)
from mockbroker.client.flow import POLL, WAIT, Flow, Steps, Tell, Wait
from mockbroker.client.heartbeat import Beat, Heartbeat, MemberState
from mockbroker.client.interest import Mode
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.parts import Parts
from mockbroker.client.shares import offers, read_share, shared_out, subscriptions, written

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
LONGER_THAN_REBALANCE = 5.0  # seconds that a JoinGroup may take beyond the rebalance timeout
STATIC_JOIN, STATIC_SYNC, STATIC_HEARTBEAT = 5, 3, 3  # the versions that have instance ids


Waiting = Generator[Wait | Tell, Exception | None, Any]


class Classic:
    """``assignors``: that the member carries, in order of preference. The rest is shared with the whole consumer."""

    lowest_commit = 0

    def __init__(self, assignors: Sequence[Assignor], parts: Parts) -> None:
        settings = parts.settings
        self._group, self._settings, self._interest = parts.group or "", settings, parts.interest
        self._coordinator, self._metadata, self._positions = parts.coordinator, parts.metadata, parts.positions
        self._committer, self._time, self._backoff = parts.committer, parts.time, parts.backoff
        self._assignors = by_name(assignors)
        self._protocol = common_protocol(assignors)
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol_name: str | None = None
        self.beat = Heartbeat(settings, parts.backoff)
        self.failure: Exception | None = None
        self._flow: Flow | None = None
        self._prepared = False
        self._wanted: str | None = "a new member"  # why a rebalance is to begin
        self._joined_version = -1  # of the interest
        self._watched: Mapping[str, object] | None = None  # what the leader assigned by
        self._compared = -1  # the version of the metadata that it was held against
        self._group_topics: frozenset[str] = frozenset()  # that the leader watches
        self._left: Call | None = None
        self._given: bytes | None = None  # the assignment that SyncGroup answered, until a poll takes it up
        self._resting_until = 0.0  # between two tries to join
        parts.coordinator.found = lambda: self.beat.renew(parts.time.now)

    # What the rest of the consumer asks

    @property
    def identity(self) -> Identity:
        return Identity(self.generation, self.member_id, self._settings.group_instance_id)

    @property
    def tell(self) -> Tell | None:
        return self._flow.tell if self._flow else None

    @property
    def settled(self) -> bool:
        return self._flow is None and self.state is MemberState.STABLE and self._wanted is None

    @property
    def leading(self) -> bool:
        """True for the member that assigned the partitions of this generation."""
        return self._watched is not None

    @property
    def leaving(self) -> bool:
        return self._left is not None and not self._left.done

    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def polled(self, *, waits: bool = False) -> None:
        self.beat.polled(self._time.now, waits=waits)

    def told(self, error: Exception | None) -> None:
        flow = self._flow
        assert flow
        self._move(lambda: flow.told(error), polling=True)

    def rejoin(self, reason: str) -> None:
        if self._wanted is None:
            self._wanted = reason

    @property
    def commit_barred(self) -> ConsumerError | None:
        if not self._interest.subscribed or (self.state is MemberState.STABLE and self._given is None):
            return None
        return CommitFailed(LATE) if self.state is MemberState.UNJOINED else RebalanceInProgress(POLL_FIRST)

    def commit_refused(self, code: int) -> None:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:  # else it is joining already
                self.rejoin("a commit met a rebalance")
        else:
            self._reset(code, "OffsetCommit")

    def step(self, *, polling: bool) -> None:
        """Raises: ConsumerError, AssignorError, what a listener or an assignor raises."""
        self._heartbeat()
        self._look_around()
        if polling and self.failure:
            failure = self.failure
            if not isinstance(failure, FencedInstance):  # who is fenced stays so: to join again would fence the other
                self.failure = None
            raise failure
        if self._flow is None and polling and self._wanted is not None and self._interest.subscribed:
            self._flow = Flow(self._rebalance())
        if flow := self._flow:
            self._move(lambda: flow.advance(polling=polling), polling=polling)

    def _move(self, how: Callable[[], None], *, polling: bool) -> None:
        try:
            how()
        except Exception as error:  # also of the user's assignor; only a poll can tell the user
            if self.state is not MemberState.STABLE:
                self.rejoin("the rebalance failed")
            if polling:
                raise
            self.failure = error
        finally:
            if self._flow and self._flow.done:
                self._flow = None

    def due(self) -> float:
        rested = self._resting_until if self._resting_until > self._time.now else float("inf")
        return min(rested, self.beat.due(self.state, coordinator_known=self._coordinator.node is not None))

    def leave(self, reason: str) -> None:
        if self._flow:
            self._flow.close()
            self._flow = None
        self._left = self._say_goodbye(reason)
        self._forget()
        self._prepared = False
        self._given = self.failure = None
        self._wanted = "a new member"

    # Heartbeats

    def _heartbeat(self) -> None:
        now = self._time.now
        match self.beat.verdict(now, self.state, coordinator_known=self._coordinator.node is not None):
            case Beat.SESSION_EXPIRED:
                self._coordinator.hang_up()
            case Beat.LEAVE:
                self._left = self._say_goodbye("the user has not polled for max.poll.interval")
                self._forget()
                self.rejoin("polls were too far apart")
            case Beat.SEND:
                sent = self.identity
                lowest = STATIC_HEARTBEAT if sent.instance_id is not None else 0
                request = HeartbeatRequest(
                    group_id=self._group,
                    generation_id=sent.generation,
                    member_id=sent.member_id,
                    group_instance_id=sent.instance_id,
                )
                call = self._coordinator.ask(
                    HEARTBEAT.key, lambda _: request, lambda call: self._beaten(call, sent), versions=(lowest, None)
                )
                if call is None:
                    self.beat.failed(now)
                elif not call.done:
                    self.beat.sent(now)

    def _beaten(self, call: Call, sent: Identity) -> None:
        now = self._time.now
        self.beat.in_flight = False
        if call.failure is not None:
            self.beat.failed(now)
            self._coordinator.unknown()
            return
        code = call.answer.error_code
        if sent != self.identity:  # said of a member that is no more
            return
        match code:
            case ErrorCode.NONE:
                self.beat.renew(now)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.beat.renew(now)
                if self.state is MemberState.STABLE:
                    self.rejoin("the group rebalances")
            case _ if code in ELSEWHERE:
                self.beat.failed(now)
                self._coordinator.unknown()
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self._reset(code, "Heartbeat")
            case _:
                self.beat.failed(now)

    def _reset(self, code: int, where: str) -> None:
        """The coordinator no longer has this member, or not in this generation."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._fence(where)
            return
        member_id = self.member_id if code == ErrorCode.ILLEGAL_GENERATION else ""
        self._forget()
        self.member_id = member_id
        self.rejoin(f"{where} was answered {ErrorCode(code).name}")

    def _fence(self, where: str) -> Exception:
        self.failure = broker_error(ErrorCode.FENCED_INSTANCE_ID, where)
        self._forget()
        return self.failure

    def _forget(self) -> None:
        self.state, self.generation, self.member_id = MemberState.UNJOINED, NO_GENERATION, ""
        self._watched = None

    def _look_around(self) -> None:
        """What was subscribed to, and what the leader assigned by, may have changed."""
        if self.state is not MemberState.STABLE:
            return
        metadata = self._metadata
        if self._joined_version != self._interest.version:
            self.rejoin("the subscription has changed")
        if self._watched is not None and self._compared != metadata.version:
            self._compared = metadata.version
            if metadata.counts(self._group_topics) != self._watched:
                self.rejoin("partitions of the group's topics have changed")

    # A rebalance

    def _rebalance(self) -> Steps:
        failures = 0
        while self._wanted is not None:
            if not self._prepared and self._interest.mode is Mode.PATTERN:
                yield from self._look_for_topics()
            while not self._prepared or (self.generation == NO_GENERATION and len(self._positions)):
                yield from self._prepare()  # a second time if what is owned is lost now, and nobody was told
                self._prepared = True
            reason, self._wanted = self._wanted or "again", None
            self._joined_version = self._interest.version
            try:
                pause = yield from self._join(reason)
            except UnjoinedGroup as error:
                reason, pause = str(error), True
            if pause is None:
                failures = 0
                yield from self._complete()
            else:
                self.rejoin(reason)
                if pause:
                    self._resting_until = self._time.now + self._backoff.after(failures)
                    failures += 1
                    while self._time.now < self._resting_until:
                        yield WAIT

    def _look_for_topics(self) -> Steps:
        """What a pattern matches is asked for anew: else each member that finds a topic later is one more rebalance."""
        known = self._metadata.version
        self._metadata.refresh()
        while self._interest.mode is Mode.PATTERN and (self._metadata.version == known or not self._metadata.knows_all):
            yield WAIT

    def _prepare(self) -> Steps:
        """Once a rebalance: commit, and give up what cannot be kept."""
        if self._protocol != COOPERATIVE:
            self._positions.keep(())  # nothing is handed out behind the commit
        if self._settings.enable_auto_commit and self.generation != NO_GENERATION:
            commit = self._committer.commit(self._positions.to_commit(), self._settings.max_poll_interval, retried=True)
            while not commit.done and self.generation != NO_GENERATION:
                yield WAIT
        yield POLL
        owned = self.owned()
        what: Literal["lost", "revoked"] = "revoked"
        gone = owned
        if self.generation == NO_GENERATION or not self.member_id:
            what = "lost"
        elif self._protocol == COOPERATIVE:
            gone = tuple(p for p in owned if p[0] not in self._interest.topics)
        if not gone and (what == "lost" or self._protocol == COOPERATIVE):
            return
        kept = set(owned) - set(gone)
        self._positions.keep(kept)
        error = yield Tell(what, gone)
        self._positions.assign([p for p in owned if p in kept])
        self._prepared = True
        if error:
            raise error

    def _join(self, reason: str) -> Waiting:
        """JoinGroup and SyncGroup. None when the group has assigned, else whether to pause before the next try."""
        self.state = MemberState.PREPARING_REBALANCE
        self._watched = None
        self._given = None
        call = yield from self._ask(
            JOIN_GROUP.key,
            lambda version: self._join_request(reason, version),
            lowest=STATIC_JOIN,
            timeout=max(self._settings.request_timeout, self._settings.max_poll_interval + LONGER_THAN_REBALANCE),
        )
        if call is None:
            return True
        answer: JoinGroupResponse = call.answer
        if answer.error_code:
            return self._join_refused(answer)
        if self.state is not MemberState.PREPARING_REBALANCE:
            raise UnjoinedGroup("the member was out of the group before it had joined")
        if answer.protocol_type not in (None, PROTOCOL_TYPE):
            raise InconsistentGroupProtocol(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group is of type {answer.protocol_type!r}"
            )
        self.state = MemberState.COMPLETING_REBALANCE
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.protocol_name = answer.protocol_name
        self.beat.enable(self._time.now)
        shares: Mapping[str, Assignment] = {}
        if answer.leader == answer.member_id:
            shares = yield from self._lead(answer)
        return (yield from self._sync(shares))

    def _join_request(self, reason: str, version: int) -> JoinGroupRequest:
        owned = self.owned() if self._protocol == COOPERATIVE else ()
        rack, topics = self._settings.client_rack, sorted(self._interest.topics)
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=round(self._settings.session_timeout * 1000),
            rebalance_timeout_ms=round(self._settings.max_poll_interval * 1000) if version else -1,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=offers(self._assignors.values(), topics, owned, self.generation, rack),
            reason=reason,
        )

    def _join_refused(self, answer: JoinGroupResponse) -> bool:
        code = answer.error_code
        match code:
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return True
            case _ if code in ELSEWHERE:
                self._coordinator.unknown()
                return True
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id, self.generation = answer.member_id, NO_GENERATION
                return False
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation = "", NO_GENERATION
                return False
            case ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            case ErrorCode.FENCED_INSTANCE_ID:
                raise self._fence("JoinGroup")
        where = f"JoinGroup of {self._group}"
        if code == ErrorCode.UNSUPPORTED_VERSION:
            raise UnsupportedVersion(f"{where}: the broker is too old for a group instance id; leave it out")
        raise broker_error(code, where)

    def _lead(self, answer: JoinGroupResponse) -> Waiting:
        """What every member gets, by member id."""
        assignor = self._assignor()
        members = subscriptions(answer.members)
        self._group_topics = frozenset(topic for member in members.values() for topic in member.topics)
        self._metadata.want(self._group_topics | self._interest.topics)
        while self.state is MemberState.COMPLETING_REBALANCE and not self._metadata.covers(self._group_topics):
            yield WAIT
            self._metadata.want(self._group_topics | self._interest.topics)  # the user may have subscribed anew
        topics = self._metadata.for_assignor(self._group_topics)
        if answer.skip_assignment:  # a static leader came back: the group keeps what it has
            self._watched = self._metadata.counts(self._group_topics)
            return {}
        shares = shared_out(assignor, topics, members, self._protocol)
        self._watched = self._metadata.counts(self._group_topics)
        return shares

    def _assignor(self) -> Assignor:
        assignor = self._assignors.get(self.protocol_name or "")
        if assignor is None:
            carried = ", ".join(self._assignors)
            raise UnknownAssignor(f"the group chose {self.protocol_name!r}, this member has {carried}")
        return assignor

    def _sync(self, shares: Mapping[str, Assignment]) -> Waiting:
        if self.state is not MemberState.COMPLETING_REBALANCE:
            return False  # a heartbeat was told so while the leader waited for metadata
        sent = self.identity
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=written(shares),
        )
        call = yield from self._ask(SYNC_GROUP.key, lambda _: request, lowest=STATIC_SYNC)
        if call is None:
            return True
        answer: SyncGroupResponse = call.answer
        if answer.error_code:
            return self._sync_refused(answer.error_code)
        if sent != self.identity or self.state is not MemberState.COMPLETING_REBALANCE:
            return False  # a heartbeat was told meanwhile that the generation is over
        if answer.protocol_type not in (None, PROTOCOL_TYPE) or (
            answer.protocol_name is not None and answer.protocol_name != self.protocol_name
        ):
            raise InconsistentGroupProtocol(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"SyncGroup answers {answer.protocol_type!r} {answer.protocol_name!r}, not {self.protocol_name!r}",
            )
        self.state = MemberState.STABLE
        self._prepared = False
        self._given = answer.assignment
        return None

    def _sync_refused(self, code: int) -> bool:
        match code:
            case _ if code in ELSEWHERE:
                self._coordinator.unknown()
                return True
            case ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID:
                self._reset(code, "SyncGroup")
                return False
            case ErrorCode.FENCED_INSTANCE_ID:
                raise self._fence("SyncGroup")
        raise broker_error(code, f"SyncGroup of {self._group}")

    def _complete(self) -> Steps:
        """Take what the group assigned, and tell the user."""
        synced = self.identity
        yield POLL
        if synced != self.identity or self.state is not MemberState.STABLE:
            self.rejoin("the generation ended before it was taken up")
            return
        try:
            assignor = self._assignor()
            assignment = read_share(self._given or b"")
        except ConsumerError:
            self.rejoin("the assignment could not be read")
            raise
        finally:
            self._given = None
        given = set(assignment.partitions)
        foreign = {topic for topic, _ in given} - self._interest.topics
        if foreign and self._interest.mode is Mode.PATTERN and self._interest.pattern:
            matching = {topic for topic in foreign if self._interest.pattern.fullmatch(topic)}
            foreign -= matching
            if matching:
                self._metadata.refresh()  # the leader has seen them first
                self._interest.found(self._interest.topics | matching)
                self._joined_version = self._interest.version
        if foreign:
            self.rejoin(f"the assignment has topics that are not subscribed to: {', '.join(sorted(foreign))}")
            return
        owned = self.owned()
        before = set(owned)
        added = tuple(p for p in assignment.partitions if p not in before)
        gone = tuple(p for p in owned if p not in given)
        first: Exception | None = None
        try:
            assignor.on_assignment(assignment, self.generation)
        except Exception as failure:  # the user's own; it is raised, and what is assigned is assigned
            first = failure
        if gone and self._protocol == COOPERATIVE:
            self._positions.keep(given)
            raised = yield Tell("revoked", gone)
            first = first or raised
            self.rejoin("partitions were given up")
        self._positions.assign(assignment.partitions)
        if not self.leading:
            self._metadata.want(self._interest.topics)
        raised = yield Tell("assigned", added)
        if first := first or raised:
            raise first

    def _ask(self, key: int, build: Any, *, lowest: int, timeout: float | None = None) -> Waiting:
        """The call once it is answered; None if it was not. Waits for the coordinator first."""
        versions = (0 if self._settings.group_instance_id is None else lowest), None
        while True:
            call = self._coordinator.ask(key, build, timeout=timeout, versions=versions)
            if call is not None:
                break
            yield WAIT
        while not call.done:
            yield WAIT
        if call.failure is Failure.UNSUPPORTED:
            raise UnsupportedVersion(call.reason)
        if call.failure is not None:
            self._coordinator.unknown()
            return None
        return call

    def _say_goodbye(self, reason: str) -> Call | None:
        """LeaveGroup, of a dynamic member that has an id: static ones come back."""
        member_id, instance_id = self.member_id, self._settings.group_instance_id
        if not member_id or instance_id is not None:
            return None

        def build(version: int) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=self._group, member_id=member_id)
            member = LeaveGroupRequest.Member(member_id=member_id, reason=reason)
            return LeaveGroupRequest(group_id=self._group, members=[member])

        return self._coordinator.ask(LEAVE_GROUP.key, build)

"""A member of a group of the consumer protocol (KIP-848): one heartbeat says and brings everything.

The coordinator assigns; the member moves towards that in steps that the user's polls allow, and says what it has.
Source: ConsumerMembershipManager, AbstractMembershipManager and ConsumerHeartbeatRequestManager of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mockbroker.client.call import OutgoingCall
from mockbroker.client.committing import LATE, Identity
from mockbroker.client.coordinator import ELSEWHERE
from mockbroker.client.errors import CommitFailed, ConsumerError, broker_error
from mockbroker.client.flow import POLL, WAIT, Flow, ListenerCall, Steps
from mockbroker.client.interest import Mode
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.parts import Parts

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2  # member epochs
Ids = frozenset[tuple[UUID, int]]
Wanted = ConsumerGroupHeartbeatRequest

FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerState(Enum):
    """Of a member, as it sees itself."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"  # also one that left because the user did not poll: it comes back with the next poll


class ConsumerMembership:
    """``member_id``: for its whole life, unlike any other. The rest is shared with the whole consumer."""

    lowest_commit = 9

    def __init__(self, member_id: str, parts: Parts) -> None:
        settings = parts.settings
        self._group, self._settings, self._interest = parts.group or "", settings, parts.interest
        self._coordinator, self._metadata, self._positions = parts.coordinator, parts.metadata, parts.positions
        self._committer, self._time, self._backoff = parts.committer, parts.time, parts.backoff
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = JOIN
        self.failure: Exception | None = None
        self.interval = settings.heartbeat_interval  # until the coordinator says one
        self._target: Ids = frozenset()
        self._agreed: tuple[Ids, int, int] | None = None  # target and versions by which it has what it shall have
        self._flow: Flow | None = None
        self._next = 0.0  # when a heartbeat is due
        self._poll = float("inf")  # when the user has not polled for too long
        self._flying = False
        self._failures = 0
        self._said: Mapping[str, object] = {}  # what the coordinator knows: fields of the last one that was answered
        self._declared: tuple[TopicPartition, ...] = ()  # what it says that it owns
        self._repeat = False  # say everything in the next one
        self._life = 0  # grows when what was asked before is no longer this member's
        self._left: OutgoingCall | None = None

    # What the rest of the consumer asks

    @property
    def identity(self) -> Identity:
        if self.state in (ConsumerState.UNSUBSCRIBED, ConsumerState.FENCED) or self.epoch <= 0:
            return Identity()
        return Identity(self.epoch, self.member_id, self._settings.group_instance_id)

    @property
    def listener_call(self) -> ListenerCall | None:
        return self._flow.listener_call if self._flow else None

    @property
    def settled(self) -> bool:
        return self._flow is None and self.state is ConsumerState.STABLE

    @property
    def leaving(self) -> bool:
        return self._left is not None and not self._left.done

    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def polled(self, *, waits: bool = False) -> None:
        self._poll = float("inf") if waits else self._time.now + self._settings.max_poll_interval

    def listener_returned(self, error: Exception | None) -> None:
        flow = self._flow
        assert flow
        try:
            flow.listener_returned(error)
        finally:
            if flow.done and self._flow is flow:
                self._flow = None

    def rejoin(self, reason: str) -> None:  # noqa: ARG002 - nobody is told
        """Say everything once more, at once."""
        self._repeat, self._next = True, 0.0

    @property
    def commit_barred(self) -> ConsumerError | None:
        return CommitFailed(LATE) if self._interest.subscribed and self.epoch <= 0 else None

    def commit_refused(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._fenced()

    def maintain(self, *, polling: bool) -> None:
        """Raises: ConsumerError, what a listener raises."""
        if polling and self.failure:
            failure, self.failure = self.failure, None
            raise failure
        self._look_around()
        if self._interest.subscribed and polling and self.state is ConsumerState.UNSUBSCRIBED:
            self._begin()
        if self.state is not ConsumerState.UNSUBSCRIBED and self._poll <= self._time.now:
            self._poll = float("inf")
            if self.state is not ConsumerState.FENCED:
                self._left = self._say_goodbye()
                self._fenced()
        if self._flow is None:
            if self.state is ConsumerState.FENCED:
                self._flow = Flow(self._lose())
            elif self.state in (ConsumerState.RECONCILING, ConsumerState.STABLE) and self._differs():
                self.state = ConsumerState.RECONCILING
                self._flow = Flow(self._reconcile())
        if self._flow:
            self._flow.advance(polling=polling)
            if self._flow and self._flow.done:
                self._flow = None
        self._heartbeat()

    def due(self) -> float:
        if self.state is ConsumerState.UNSUBSCRIBED:
            return float("inf")
        sending = self.state is not ConsumerState.FENCED and not self._flying and not self._looks_for_topics
        return min(self._poll, max(self._next, self._time.now) if sending and self._coordinator.node else float("inf"))

    def leave(self, reason: str) -> None:  # noqa: ARG002 - nobody is told
        if self.state not in (ConsumerState.UNSUBSCRIBED, ConsumerState.FENCED):
            self._left = self._say_goodbye()
        self.failure = None
        self._end(ConsumerState.UNSUBSCRIBED)

    # Where it stands

    def _begin(self) -> None:
        self.state, self.epoch, self._said, self._next = ConsumerState.JOINING, JOIN, {}, 0.0

    def _end(self, state: ConsumerState) -> None:
        if self._flow:
            self._flow.close()
            self._flow = None
        self.state, self.epoch, self._target, self._said = state, JOIN, frozenset(), {}
        self._declared = ()
        self._life += 1
        self._flying = False

    def _fenced(self) -> None:
        self._end(ConsumerState.FENCED)

    @property
    def _looks_for_topics(self) -> bool:
        """True before a join, while it is not known what the pattern matches."""
        return self.epoch == JOIN and self._interest.mode is Mode.PATTERN and not self._metadata.knows_all

    def _look_around(self) -> None:
        said = self._said.get("subscribed_topic_names")
        if said is not None and said != sorted(self._interest.topics):
            self._next = 0.0

    # Towards the target

    def _resolved(self) -> set[TopicPartition]:
        """The target by name; topics that are not known yet are asked for and left out."""
        found = set()
        for topic_id, number in self._target:
            name = self._metadata.names.get(topic_id)
            if name is None:
                self._metadata.retry_later()
            else:
                found.add((name, number))
        return found

    def _differs(self) -> bool:
        by = self._target, self._metadata.version, self._positions.version
        if by != self._agreed:
            if self._resolved() != set(self._positions):
                return True
            self._agreed = by
        return False

    def _reconcile(self) -> Steps:
        yield POLL  # what was handed out is not done before that
        self._positions.keep(self._resolved())  # nothing is handed out behind the commit
        if self._settings.enable_auto_commit and len(self._positions):
            commit = self._committer.commit(self._positions.to_commit(), self._settings.max_poll_interval, retried=True)
            while not commit.done:
                yield WAIT
        yield POLL
        target, owned = self._resolved(), self.owned()
        gone = tuple(p for p in owned if p not in target)
        added = tuple(sorted(target - set(owned)))
        self._positions.keep(target)
        first: Exception | None = None
        if gone:
            first = yield ListenerCall("revoked", gone)
        kept = [p for p in owned if p in target]
        self._positions.assign([*kept, *added])
        error: Exception | None = None
        if added:
            error = yield ListenerCall("assigned", added)
        self._declared = self.owned()
        self.state = ConsumerState.ACKNOWLEDGING
        self._next = 0.0
        if first or error:
            raise first or error  # type: ignore[misc]

    def _lose(self) -> Steps:
        yield POLL
        error: Exception | None = None
        if owned := self.owned():
            self._positions.keep(())
            error = yield ListenerCall("lost", owned)
            self._positions.assign(())
        if self._interest.subscribed:
            self._begin()
        if error:
            raise error

    # Heartbeats

    def _heartbeat(self) -> None:
        now = self._time.now
        quiet = self.state in (ConsumerState.UNSUBSCRIBED, ConsumerState.FENCED)
        if quiet or self._flying or self._looks_for_topics or self._next > now or self._coordinator.node is None:
            return
        said = self._everything()
        full = self.epoch == JOIN or not self._said or self._repeat
        news = said if full else {name: value for name, value in said.items() if self._said.get(name) != value}
        life = self._life
        acknowledged = self.state is ConsumerState.ACKNOWLEDGING

        def answered(call: OutgoingCall) -> None:
            if life == self._life:
                self._beaten(call, said, acknowledged=acknowledged)

        call = self._coordinator.ask(
            CONSUMER_GROUP_HEARTBEAT.key, lambda _: self._request(self.epoch, news, full=full), answered
        )
        if call is None:
            self._next = now + self._backoff.after(0)
        elif not call.done:
            self._flying, self._repeat = True, False

    def _everything(self) -> Mapping[str, object]:
        ids: dict[UUID, list[int]] = {}
        for topic, number in sorted(self._declared):
            ids.setdefault(self._metadata.topic_id(topic), []).append(number)
        return {
            "subscribed_topic_names": sorted(self._interest.topics),
            "topic_partitions": [Wanted.TopicPartition(topic_id=id_, partitions=ps) for id_, ps in ids.items()],
        }

    def _request(self, epoch: int, news: Mapping[str, object], *, full: bool) -> Wanted:
        settings = self._settings
        request = Wanted(
            group_id=self._group, member_id=self.member_id, member_epoch=epoch, instance_id=settings.group_instance_id
        )
        if full:
            request.rack_id = settings.client_rack or None
            request.rebalance_timeout_ms = round(settings.max_poll_interval * 1000)
            request.server_assignor = settings.group_remote_assignor
        for name, value in news.items():
            setattr(request, name, value)
        if epoch == JOIN:
            request.topic_partitions = []
        return request

    def _beaten(self, call: OutgoingCall, said: Mapping[str, object], *, acknowledged: bool) -> None:
        now = self._time.now
        self._flying = False
        if unsupported := call.unsupported:
            self._fatal(unsupported)
            return
        if call.failure is not None:
            self._coordinator.unknown()
            self._again()
            return
        answer: ConsumerGroupHeartbeatResponse = call.answer
        code = answer.error_code
        if code:
            self._refused(code, answer.error_message)
            return
        self._failures = 0
        self._said = said
        self.epoch = answer.member_epoch
        self.interval = answer.heartbeat_interval_ms / 1000 or self.interval
        late = self._repeat or (self.state is ConsumerState.ACKNOWLEDGING and not acknowledged)  # came up meanwhile
        self._next = now if late else now + self.interval
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self._target = frozenset((topic.topic_id, number) for topic in parts for number in topic.partitions)
        if self.state is ConsumerState.JOINING or (acknowledged and self.state is ConsumerState.ACKNOWLEDGING):
            self.state = ConsumerState.STABLE
        if self.state is ConsumerState.STABLE and self._differs():
            self.state = ConsumerState.RECONCILING

    def _refused(self, code: int, message: str | None) -> None:
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._again()
        elif code in ELSEWHERE:
            self._coordinator.unknown()
            self._again()
        elif code in FENCED:
            self._fenced()
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.failure = broker_error(code, f"ConsumerGroupHeartbeat of {self._group}")
            self._again()
        else:
            told = f": {message}" if message else ""
            self._fatal(broker_error(code, f"ConsumerGroupHeartbeat of {self._group}{told}"))

    def _again(self) -> None:
        self._said = {}
        self._next = self._time.now + self._backoff.after(self._failures)
        self._failures += 1

    def _fatal(self, error: ConsumerError) -> None:
        self.failure = error
        self._fenced()

    def _say_goodbye(self) -> OutgoingCall | None:
        epoch = LEAVE if self._settings.group_instance_id is None else LEAVE_FOR_A_WHILE
        request = self._request(epoch, {}, full=False)
        return self._coordinator.ask(CONSUMER_GROUP_HEARTBEAT.key, lambda _: request)

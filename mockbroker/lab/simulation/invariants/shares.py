"""The checkers of the invariants I22 to I26 about share groups: acquired records, delivery counts, start offsets and
share sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.lab.simulation.watching import Watcher
from mockbroker.share.sessions import SessionKey
from mockbroker.share.state import StateKey

RENEW = 4  # type of acknowledgement that extends the lock of a record
COMPLETE = frozenset({0, 1, 3})  # types of acknowledgement after which a record is not delivered again
APIS = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})


class Acknowledged(NamedTuple):
    """The acknowledgement of one record.

    Attributes:
        key: the share partition.
        offset: offset of the record.
        kind: acknowledgement type in the request.
    """

    key: StateKey
    offset: int
    kind: int


def acknowledged_in(request: Any) -> Iterator[Acknowledged]:
    """Yield the acknowledgements in a ShareFetch or ShareAcknowledge request, one for each offset."""
    for topic in request.topics:
        for partition in topic.partitions:
            key = StateKey(request.group_id, topic.topic_id, partition.partition_index)
            for batch in partition.acknowledgement_batches:
                types = batch.acknowledge_types
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    yield Acknowledged(key, offset, types[offset - batch.first_offset if len(types) > 1 else 0])


def accepted_in(call: Call[Any], response: Any) -> list[Acknowledged]:
    """Return the acknowledgements of a request for partitions without an error in the response.

    Args:
        call: the ShareFetch or ShareAcknowledge request.
        response: the response body.
    """
    if response.error_code:
        return []
    fetched = call.ticket.api_key == ApiKey.SHARE_FETCH
    good = {
        (topic.topic_id, partition.partition_index)
        for topic in response.responses
        for partition in topic.partitions
        if not (partition.acknowledge_error_code if fetched else partition.error_code)
    }
    return [each for each in acknowledged_in(call.request) if (each.key.topic_id, each.key.partition) in good]


def acquired_in(call: Call[Any], response: Any) -> Iterator[tuple[StateKey, int, int]]:
    """Yield (share partition, offset, delivery count) for each record that a ShareFetch response delivers.

    For responses of other APIs, yield nothing.

    Args:
        call: the request.
        response: the response body.
    """
    if call.ticket.api_key != ApiKey.SHARE_FETCH or response.error_code:
        return
    for topic in response.responses:
        for partition in topic.partitions:
            key = StateKey(call.request.group_id, topic.topic_id, partition.partition_index)
            for each in partition.acquired_records:
                for offset in range(each.first_offset, each.last_offset + 1):
                    yield key, offset, each.delivery_count


def described(key: StateKey) -> str:
    """Return a share partition (``key``) as text for the description of a violation."""
    return f"share partition {key.partition} of topic id {key.topic_id} in group {key.group_id}"


def state_epoch(broker: Broker, key: StateKey) -> int:
    """Return the state epoch of a share partition, or -1 if the share partition is not initialized.

    Args:
        broker: the cluster.
        key: the share partition.
    """
    state = broker.share_states.state(key)
    return -1 if state is None else state.state_epoch


@dataclass(slots=True)
class Holder:
    """The acquisition of a record by a member.

    Attributes:
        member_id: member id.
        until: end of the acquisition lock, broker time in seconds.
        session: the member's share session at the acquisition.
        node: broker id of the leader.
        leader: share partition object of the leader at the acquisition; an object that is loaded later has no acquired
            records.
        number: number of the acquisition; the acquisitions of a run are numbered from 1.
        leaving: whether a request that may release the record is being handled.
    """

    member_id: str
    until: float
    session: object
    node: int
    leader: object
    number: int
    leaving: bool = False


class OneHolder(Watcher):
    """The checker of invariant I22: no record is acquired by two members at once.

    An acquisition ends with the acknowledgement, the end of the lock, the end of the member's share session, or a
    change of the leader.
    """

    name = "I22"
    apis = APIS

    def __init__(self) -> None:
        self._holders: dict[tuple[StateKey, int], Holder] = {}
        self._acquired = 0  # number of the last acquisition
        # ticket -> number of the last acquisition before the request, and the records that its sender had acquired
        self._held: dict[Ticket, tuple[int, set[tuple[StateKey, int]]]] = {}

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._held[call.ticket] = self._acquired, self._mark(call, leaving=True)

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._held.pop(call.ticket, None)

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        lock = broker.share_group_settings(call.request.group_id).record_lock_duration_ms / 1000
        self._mark(call, leaving=False)
        last, held = self._held.pop(call.ticket, (self._acquired, set()))
        if response.error_code:  # the records may have been acknowledged before the error
            for each in held:
                self._holders.pop(each, None)
        for key, offset, kind in accepted_in(call, response):
            holder = self._holders.get((key, offset))
            if holder is None:
                continue
            if holder.member_id != call.request.member_id:
                if holder.number <= last:  # else this request released it, and then the holder acquired it
                    self._check(broker, key, offset, holder, f"acknowledged by {call.request.member_id}", now)
            elif kind == RENEW and call.ticket.received_at < holder.until:  # else the lock had expired
                holder.until = max(holder.until, call.ticket.received_at + lock)
            else:
                del self._holders[key, offset]
        session = broker.share_sessions(call.client.node).get(SessionKey(call.request.group_id, call.request.member_id))
        for key, offset, _ in acquired_in(call, response):
            holder = self._holders.get((key, offset))
            if holder is not None:
                self._check(broker, key, offset, holder, f"acquired by {call.request.member_id}", now)
            leader = broker.share_partitions.loaded.get(key)
            until = call.ticket.received_at + lock  # a request in slices acquires before its response is made
            self._acquired += 1
            self._holders[key, offset] = Holder(
                call.request.member_id, until, session, call.client.node, leader, self._acquired
            )

    def _mark(self, call: Call[Any], *, leaving: bool) -> set[tuple[StateKey, int]]:
        """Set ``Holder.leaving`` for the records that a request acknowledges and that its sender has acquired.

        Args:
            call: the request.
            leaving: True before the request is handled, False after it.

        Returns: the records, as (share partition, offset).
        """
        marked: set[tuple[StateKey, int]] = set()
        for key, offset, _ in acknowledged_in(call.request):
            holder = self._holders.get((key, offset))
            if holder is not None and holder.member_id == call.request.member_id:
                holder.leaving = leaving
                marked.add((key, offset))
        return marked

    def _check(self, broker: Broker, key: StateKey, offset: int, holder: Holder, what: str, now: float) -> None:
        """Check that a member no longer has a record acquired, because another request has acquired or acknowledged the
        record.

        Args:
            broker: the cluster.
            key: share partition of the record.
            offset: offset of the record.
            holder: the acquisition by the member.
            what: event that happened to the record, for the error text.
            now: broker time, seconds.

        Raises: Broken if the member still has the record.
        """
        session = broker.share_sessions(holder.node).get(SessionKey(key.group_id, holder.member_id))
        lost = holder.leaving or now >= holder.until or session is not holder.session
        if not lost and session is not None and holder.leader is broker.share_partitions.loaded.get(key):
            raise self.broken(
                f"offset {offset} of {described(key)} is {what}, although member {holder.member_id} has acquired it "
                f"until {holder.until:g} s"
            )

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._holders = {each: holder for each, holder in self._holders.items() if each[0].group_id != event.group}

    def crashed(self, broker: Broker, now: float) -> None:
        self._holders.clear()
        self._held.clear()


class DeliveryCounts(Watcher):
    """The checker of invariant I23: a record's delivery count grows by one with each delivery, up to the limit.

    A new leader knows only stored delivery counts: deliveries without a later acknowledgement may be missing. If the
    leader changes during a request, it is unknown which of the leaders has counted the delivery.
    """

    name = "I23"
    apis = (ApiKey.SHARE_FETCH,)

    def __init__(self) -> None:
        self._counts: dict[tuple[StateKey, int], tuple[int, object]] = {}
        self._leaders: dict[Ticket, dict[StateKey, object]] = {}  # at the start of each request

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._leaders[call.ticket] = dict(broker.share_partitions.loaded)

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._leaders.pop(call.ticket, None)

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        limit = broker.settings.group_share_delivery_count_limit
        leaders = self._leaders.pop(call.ticket, {})
        for key, offset, count in acquired_in(call, response):
            leader = leaders.get(key)
            if leader is not broker.share_partitions.loaded.get(key):
                leader = None
            before, former = self._counts.get((key, offset), (0, None))
            self._counts[key, offset] = count, leader
            record = f"offset {offset} of {described(key)}"
            if count > limit:
                raise self.broken(f"the delivery count {count} of {record} is above the limit of {limit}")
            if former is leader is not None and before and count != before + 1:
                raise self.broken(f"the delivery count of {record} is {count}, expected {before + 1}")
            if count < 1:
                raise self.broken(f"the delivery count of {record} is {count}, expected at least 1")

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._counts = {each: count for each, count in self._counts.items() if each[0].group_id != event.group}

    def crashed(self, broker: Broker, now: float) -> None:
        self._counts.clear()
        self._leaders.clear()


class NeverAgain(Watcher):
    """The checker of invariant I24: an accepted or rejected record is never delivered again, not even after a failover.

    A crash may undo acknowledgements whose responses were not sent.
    """

    name = "I24"
    apis = APIS

    def __init__(self) -> None:
        self._complete: dict[StateKey, dict[int, int]] = defaultdict(dict)  # state epoch by offset
        self._durable: dict[StateKey, dict[int, int]] = defaultdict(dict)

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        for key, offset, kind in accepted_in(call, response):
            if kind in COMPLETE:
                self._complete[key][offset] = state_epoch(broker, key)
        for key, offset, _ in acquired_in(call, response):
            if self._complete[key].get(offset) == state_epoch(broker, key):
                raise self.broken(
                    f"offset {offset} of {described(key)} is delivered again after it was accepted or rejected"
                )

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        for key, offset, kind in accepted_in(call, response):
            if kind in COMPLETE and offset in self._complete[key]:
                self._durable[key][offset] = self._complete[key][offset]

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            for key in [key for key in self._complete if key.group_id == event.group]:
                self._complete.pop(key)
                self._durable.pop(key, None)

    def crashed(self, broker: Broker, now: float) -> None:
        self._complete = defaultdict(dict, {key: dict(offsets) for key, offsets in self._durable.items()})


class StartOffsets(Watcher):
    """The checker of invariant I25: the start offset of a share partition never moves back.

    AlterShareGroupOffsets may move the stored start offset of a group back, in the same state epoch.
    """

    name = "I25"
    apis = APIS | {ApiKey.ALTER_SHARE_GROUP_OFFSETS}

    def __init__(self) -> None:
        self._altered: set[str] = set()  # groups whose offsets an administrator has altered
        self._starts: dict[StateKey, tuple[int, object]] = {}
        self._stored: dict[StateKey, tuple[int, int]] = {}  # state epoch and start offset

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key == ApiKey.ALTER_SHARE_GROUP_OFFSETS:
            self._altered.add(call.request.group_id)

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        self.inspect(broker, now)

    def inspect(self, broker: Broker, now: float) -> None:
        for key, leader in broker.share_partitions.loaded.items():
            known = self._starts.get(key)
            if known is None or known[1] is not leader:
                self._starts[key] = leader.start, leader
            elif known[0] != leader.start:
                self._starts[key] = leader.start, leader
                if leader.start < known[0]:
                    raise self.broken(
                        f"the start offset of {described(key)} moved back from {known[0]} to {leader.start}"
                    )
        for key, state in broker.share_states.items():
            stored = self._stored.get(key)
            now_stored = state.state_epoch, state.start_offset
            if stored == now_stored:
                continue
            self._stored[key] = now_stored
            if key.group_id in self._altered:
                continue
            if stored is not None and stored[0] == state.state_epoch and state.start_offset < stored[1]:
                raise self.broken(
                    f"the stored start offset of {described(key)} moved back from {stored[1]} to {state.start_offset}"
                )

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._stored = {key: stored for key, stored in self._stored.items() if key.group_id != event.group}

    def crashed(self, broker: Broker, now: float) -> None:
        self._starts.clear()
        self._stored.clear()


class ShareSessionEpochs(Watcher):
    """The checker of invariant I26: a share session accepts only the next epoch, and each epoch once."""

    name = "I26"
    apis = APIS

    def __init__(self) -> None:
        self._last: dict[tuple[int, str, str], int] = {}

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        request = call.request
        if response.error_code or request.share_session_epoch < 0:
            return
        session = call.client.node, request.group_id, request.member_id
        last = self._last.get(session, -1)
        if request.share_session_epoch not in (0, last + 1):
            raise self.broken(
                f"the session of member {request.member_id} of group {request.group_id} with broker {call.client.node} "
                f"accepted epoch {request.share_session_epoch}, expected 0 or {last + 1}"
            )
        self._last[session] = request.share_session_epoch

    def crashed(self, broker: Broker, now: float) -> None:
        self._last.clear()

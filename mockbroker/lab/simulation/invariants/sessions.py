"""The checker of invariant I10: a member without heartbeats is evicted when its session times out, not earlier and not
much later.
"""

from __future__ import annotations

from math import inf
from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.watching import Offsets, Watcher

BEGINNING = (EventKind.GENERATION, EventKind.UPGRADE, EventKind.DOWNGRADE)  # events that renew all sessions of a group
ALIVE = (E.NONE, E.REBALANCE_IN_PROGRESS)
SLACK = 0.05  # tolerance in seconds: journal times are whole milliseconds, and a deadline is handled in a later tick


class Sessions(Watcher):
    """The checker of invariant I10: a member without heartbeats is evicted when its session times out.

    For each member, the checker stores two times: the last time at which a request certainly renewed the session, and
    the last time at which a request may have renewed the session. A SyncGroup in the state Stable renews the session
    only before Kafka 4.0. A commit renews the session only in a classic group.
    """

    name = "I10"

    def __init__(self) -> None:
        self._renewed: dict[tuple[str, str], float] = {}
        self._renewed_at_latest: dict[tuple[str, str], float] = {}
        self._sessions: dict[tuple[str, str], float] = {}
        self._classic: dict[tuple[str, str], float] = {}  # session timeouts in JoinGroup requests
        # Group and assigned member id -> time at which the unused id expires.
        self._unused: dict[tuple[str, str], float] = {}

    def _record_renewal(self, group: str, member_id: str, now: float, *, certain: bool) -> None:
        self._renewed_at_latest[group, member_id] = now
        if certain:
            self._renewed[group, member_id] = now

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        request = call.request
        if member_id := getattr(request, "member_id", ""):
            self._renewed_at_latest[request.group_id, member_id] = now

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        request = call.request
        match call.ticket.api_key:
            case ApiKey.JOIN_GROUP:
                session = request.session_timeout_ms / 1000
                if response.error_code == E.MEMBER_ID_REQUIRED:
                    self._unused[request.group_id, response.member_id] = now + session
                elif not response.error_code:
                    key = request.group_id, response.member_id
                    self._sessions[key] = self._classic[key] = session
                    # a follower that rejoins in Stable gets the current generation, without a renewed session
                    self._record_renewal(request.group_id, response.member_id, now, certain=False)
            case ApiKey.HEARTBEAT:
                if response.error_code in ALIVE:
                    key = request.group_id, request.member_id
                    self._sessions[key] = self._classic.get(key, inf)
                    self._record_renewal(request.group_id, request.member_id, now, certain=True)
            case ApiKey.SYNC_GROUP:
                # also if a rebalance interrupted the SyncGroup
                self._record_renewal(request.group_id, request.member_id, now, certain=False)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                if not response.error_code:
                    key = request.group_id, response.member_id
                    self._sessions[key] = broker.settings.group_consumer_session_timeout_ms / 1000
                    self._record_renewal(*key, now, certain=request.member_epoch >= 0)
            case ApiKey.STREAMS_GROUP_HEARTBEAT:
                if not response.error_code:
                    key = request.group_id, response.member_id
                    self._sessions[key] = broker.settings.group_streams_session_timeout_ms / 1000
                    self._record_renewal(*key, now, certain=request.member_epoch >= 0)
            case _:
                pass

    def stored(self, broker: Broker, call: Call[Any], offsets: Offsets, now: float) -> None:
        request = call.request
        if request.member_id:
            classic = broker.groups.get_as(request.group_id, ClassicGroup) is not None
            self._record_renewal(request.group_id, request.member_id, now, certain=classic)

    def journaled(self, broker: Broker, event: Event) -> None:
        key = event.group, event.member_id
        now = event.time_ms / 1000
        if event.event == EventKind.EXPIRE and event.reason.startswith("no heartbeat"):
            session = self._sessions.get(key)
            since = self._renewed.get(key)
            if session is not None and since is not None and now - since < session - SLACK:
                raise self.broken(
                    f"member {event.member_id} of group {event.group} expired {now - since:.3f} s after its last "
                    f"session renewal, with a session timeout of {session} s"
                )
        elif event.event == EventKind.EXPIRE and event.reason == "member id was never used":
            at = self._unused.get(key)
            if at is not None and now < at - SLACK:
                raise self.broken(
                    f"the unused member id {event.member_id} of group {event.group} expired {at - now:.3f} s too early"
                )
        if event.event == EventKind.LOAD:  # sessions start again with a new coordinator
            consumers = broker.groups.get_as(event.group, ConsumerGroup) is not None
            for member_id in event.members:
                self._renewed_at_latest[event.group, member_id] = now
                if consumers:  # also those of classic members, until their next request
                    timeout = broker.settings.group_consumer_session_timeout_ms / 1000
                    self._sessions[event.group, member_id] = timeout
            return
        if event.event in BEGINNING:  # sessions of all members begin again, also of static ones that left
            for member_id in event.members:
                self._renewed_at_latest[event.group, member_id] = now
                if event.event == EventKind.DOWNGRADE:  # a load had set that of consumer groups
                    self._sessions[event.group, member_id] = self._classic.get((event.group, member_id), inf)
        if event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            for kept in (self._renewed, self._renewed_at_latest, self._unused):
                kept.pop(key, None)
        elif event.event == EventKind.REJOIN:
            self._unused.pop(key, None)
        elif event.event == EventKind.JOIN:
            self._unused.pop(key, None)
            self._renewed.pop(key, None)

    def ticked(self, broker: Broker, now: float) -> None:
        self.inspect(broker, now)

    def inspect(self, broker: Broker, now: float) -> None:
        if broker.deadlines.earliest <= now:
            return  # due deadlines have not been handled yet
        for group_id, group in broker.groups.items():
            classic = broker.groups.get_as(group_id, ClassicGroup)
            for member_id in group.members:
                if classic is not None and (
                    classic.members[member_id].pending_join or classic.members[member_id].pending_sync
                ):
                    self._renewed_at_latest[group_id, member_id] = now
                    continue
                since = self._renewed_at_latest.get((group_id, member_id))
                session = self._sessions.get((group_id, member_id))
                if since is not None and session is not None and now - since > session + SLACK:
                    silence = f"{now - since:.3f} s without a heartbeat, with a session timeout of {session} s"
                    raise self.broken(f"member {member_id} of group {group_id} was not evicted after {silence}")
            if classic is not None:
                for member_id in classic.pending_members:
                    at = self._unused.get((group_id, member_id))
                    if at is not None and now > at + SLACK:
                        raise self.broken(
                            f"the unused member id {member_id} of group {group_id} "
                            f"should have expired {now - at:.3f} s ago"
                        )
                    if at is None:
                        raise self.broken(
                            f"member id {member_id} of group {group_id} is pending, "
                            "but the coordinator did not assign this id"
                        )

    def emptied(self, broker: Broker, now: float) -> None:
        for group_id, group in broker.groups.items():
            if group.members:
                raise self.broken(f"group {group_id} still has members after all session timeouts")
            if not group.empty:
                raise self.broken(
                    f"group {group_id} has no members after all session timeouts, but is not in state Empty"
                )

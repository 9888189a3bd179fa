"""All groups of the cluster, of both protocols: who is asked, what a group becomes, when it is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import ceil, inf
from typing import TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.json.objects import uuid_text
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effect, Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.base.timers import SWEEP, Due
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic import phases
from mockbroker.groups.classic.rules import is_identified, member_error
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer.machine import Refused, World, refused_heartbeat
from mockbroker.groups.consumer.regex import TopicMatches
from mockbroker.groups.consumer.state import JOINING, Becomes, ConsumerGroup
from mockbroker.groups.events import Commit, ConsumerHeartbeat, Event, Join
from mockbroker.groups.expiry import expire, is_over, next_expiry
from mockbroker.groups.migration import convert as migration
from mockbroker.groups.migration import mixed
from mockbroker.groups.offsets import Offsets
from mockbroker.topics.model import Cluster

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup
G = TypeVar("G", bound=ClassicGroup | ConsumerGroup)


class Groups(dict[str, AnyGroup]):
    """Groups by id. ``java_coordinator``: whether classic groups are as since Kafka 4.0, ``uniform``: the
    release whose assignor of this name assigns the others (release.py).

    ``touched``: ids of groups that may have changed, or gone, since somebody looked.
    ``pending_ids``: how many member ids were given out and not yet used, in all groups.
    ``settle``: how long an initial delay lasts at least after the last JoinGroup, in seconds. ``quiet_until``: it is
    known that no request comes before this time, so that sweeps may be left out that would find nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        waits: Deadlines[Due],
        new_uuid: Callable[[], UUID],
        *,
        java_coordinator: bool,
        uniform: str,
    ) -> None:
        super().__init__()
        self.touched: dict[str, None] = {}
        self.pending_ids = 0
        self._pending: dict[str, int] = {}  # the same by group, of groups that have some
        self._cluster = cluster
        self._matches = TopicMatches()
        self._settings = settings
        self._waits = waits
        self._new_uuid = new_uuid
        self._java_coordinator = java_coordinator
        self._uniform = uniform
        self.settle = settings.mockbroker_join_settle_ms / 1000
        self.quiet_until = -inf

    def tell(self, group_id: str, event: Event, now: float) -> Effects:
        """What an event of the classic protocol does to a group; a JoinGroup without member id makes the group."""
        group = self.get(group_id)
        if isinstance(group, ConsumerGroup) and not (group.empty and isinstance(event, Join)):
            return self._tell_consumer_group(group, event, now)
        if isinstance(event, Join) and self._refuses_id(event):
            return [phases.join_error(event.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")]
        if isinstance(group, ConsumerGroup) and isinstance(event, Join) and not event.member_id:
            offsets = group.offsets
            group = self.make(group_id, now)
            group.offsets = offsets
        if not isinstance(group, ClassicGroup):
            if not isinstance(event, Join) or event.member_id:
                return classic.absent(event)
            group = self.make(group_id, now)
            group.begun = self._java_coordinator
        group.settle = self.settle
        effects = classic.step(group, event, now)
        self._schedule(group)
        return effects

    def _refuses_id(self, event: Join) -> bool:
        """True if a member id would have to be given out, and too many were that no client has used."""
        needs_id = event.id_required and not event.member_id and event.instance_id is None
        return needs_id and self.pending_ids >= self._settings.mockbroker_max_pending_members

    def _tell_consumer_group(self, group: ConsumerGroup, event: Event, now: float) -> Effects:
        if isinstance(event, Join) and not event.member_id:
            event = replace(event, fresh_id=uuid_text(self._new_uuid()))  # not in the form of classic groups
        return self._settle(group, mixed.step(group, event, self._world(), now))

    def heartbeat(self, group_id: str, event: ConsumerHeartbeat, now: float) -> Effects:
        """What a heartbeat of the consumer protocol does. Raises: consumer.Refused."""
        group = self.get(group_id)
        if event.epoch < 0:
            if group is None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            if not isinstance(group, ConsumerGroup):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            return self._settle(group, consumer.leave(group, event, self._world(), now))
        if not event.member_id:
            event = replace(event, member_id=uuid_text(self._new_uuid()))
        if group is not None and not isinstance(group, ConsumerGroup) and not group.empty:
            return self._upgrade(group, event, now)
        if not isinstance(group, ConsumerGroup):
            _check_joins(group_id, group, event)
            group = ConsumerGroup(group_id=group_id, offsets=Offsets() if group is None else group.offsets)
        effects = consumer.heartbeat(group, event, self._world(), now)
        self._put(group)
        return self._settle(group, effects)

    def _upgrade(self, group: ClassicGroup, event: ConsumerHeartbeat, now: float) -> Effects:
        """A member of the consumer protocol joins a classic group with members. Who is parked in it is told to join
        again before it is known whether it can be converted, as at Kafka. Raises: Refused, if it is not even tried."""
        _check_joins(group.group_id, group, event)
        try:
            migration.check_upgrade(group, self._settings)
        except migration.NoUpgrade as why:
            raise Refused(why.error, why.text) from None
        told = phases.turn_away(group, ErrorCode.REBALANCE_IN_PROGRESS)
        try:
            new = migration.upgraded(group, self._cluster, now)
            effects = consumer.heartbeat(new, event, self._world(), now)
        except migration.NoUpgrade as why:
            return [*told, refused_heartbeat(event.ticket, Refused(why.error, why.text))]
        except Refused as refused:
            return [*told, refused_heartbeat(event.ticket, refused)]
        members = tuple(member_id for member_id in new.members if member_id in group.members)
        told.append(Note(event=EventKind.UPGRADE, group=group.group_id, generation=group.generation, members=members))
        return told + self._settle(self._put(new), effects)

    def _settle(self, group: AnyGroup, effects: Iterable[Effect | Becomes]) -> Effects:
        """Keep what a group has become, and when it is due; the effects for the others."""
        found: Effects = []
        for effect in effects:
            if isinstance(effect, Becomes):
                group = self._put(effect.group)
            else:
                found.append(effect)
        self._schedule(group)
        return found

    def _world(self) -> World:
        return World(self._cluster, self._settings, self._uniform, migration.downgrade_without, self._matches)

    def _put(self, group: G) -> G:
        self[group.group_id] = group
        return group

    def make(self, group_id: str, now: float) -> ClassicGroup:
        """A new group of the classic protocol, Empty since ``now``."""
        return self._put(
            ClassicGroup.configured(group_id, self._settings, now, java_coordinator=self._java_coordinator)
        )

    def drop(self, group_id: str) -> None:
        """A group is gone, with its offsets; it must have no members."""
        self.let_go(group_id)
        self.touch(group_id)

    def let_go(self, group_id: str) -> None:
        """The group is not in memory any more; what is written of it stays."""
        del self[group_id]
        self._count_pending(group_id, 0)
        self._waits.forget(group_id)
        self.touched.pop(group_id, None)

    def take_in(self, group: AnyGroup) -> None:
        """A group that was made of what is written of it."""
        self[group.group_id] = group
        self._waits.set(group.group_id, group.waits.next())

    def touch(self, group_id: str) -> None:
        """Something of the group may have changed."""
        self.touched[group_id] = None

    def sweep(self, now: float) -> Effects:
        """Drop offsets that have expired, and groups of which nothing is left; the next sweep is set."""
        effects: Effects = []
        retention = self._settings.offsets_retention_minutes * 60.0
        for group in list(self.values()):
            for topic, partition in expire(group, now, retention):
                reason = f"offset of {topic} {partition} expired"
                effects.append(Note(event=EventKind.OFFSET_EXPIRE, group=group.group_id, reason=reason))
                self.touch(group.group_id)
            if is_over(group):
                self.drop(group.group_id)
                effects.append(Note(event=EventKind.DELETE, group=group.group_id, reason="empty and without offsets"))
        self.schedule_sweep(now)
        return effects

    def schedule_sweep(self, now: float) -> None:
        """Set the next sweep. In a time without requests it is the next that can find something."""
        every = self._settings.offsets_retention_check_interval_ms / 1000
        steps = 1
        if self.quiet_until > now:
            retention = self._settings.offsets_retention_minutes * 60.0
            expiries = [next_expiry(group, retention) for group in self.values()]
            quiet_until = min(self.quiet_until, self._waits.next(), *expiries)
            steps = max(1, ceil((quiet_until - now) / every))
        self._waits.set(SWEEP, now + steps * every)

    def may_commit(self, group: AnyGroup, event: Commit, now: float) -> ErrorCode:
        """Whether the group takes a commit from this client, which is then stored."""
        self.touch(group.group_id)
        if isinstance(group, ConsumerGroup):
            return mixed.commit_error(group, event)
        error = classic.commit(group, event, now)
        self._schedule(group)
        return error

    def may_commit_in_transaction(self, group_id: str, event: Commit) -> ErrorCode:
        """Whether the group takes offsets that hold when a transaction is committed (KIP-447)."""
        group = self.get(group_id)
        if isinstance(group, ConsumerGroup):
            error = mixed.commit_error(group, event) if is_identified(event) else ErrorCode.NONE
            return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error
        if group is None and event.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION if self._java_coordinator else ErrorCode.UNKNOWN_MEMBER_ID
        return member_error(group, event) if group is not None and is_identified(event) else ErrorCode.NONE

    def tick(self, group_id: str, now: float) -> Effects:
        """Everything that is due in a group."""
        group = self[group_id]
        if isinstance(group, ConsumerGroup):
            return self._settle(group, consumer.tick(group, self._world(), now))
        return self._settle(group, classic.tick(group, now))

    def _schedule(self, group: AnyGroup) -> None:
        self.touched[group.group_id] = None
        self._count_pending(group.group_id, len(group.pending) if isinstance(group, ClassicGroup) else 0)
        self._waits.set(group.group_id, group.waits.next())

    def _count_pending(self, group_id: str, number: int) -> None:
        self.pending_ids += number - self._pending.pop(group_id, 0)
        if number:
            self._pending[group_id] = number


def _check_joins(group_id: str, group: ClassicGroup | None, event: ConsumerHeartbeat) -> None:
    """Only who joins can make a consumer group. Raises: Refused."""
    if event.epoch != JOINING:
        missing, other = f"Consumer group {group_id} not found.", f"Group {group_id} is not a consumer group."
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, missing if group is None else other)

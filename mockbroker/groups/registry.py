"""All groups of the cluster by id: which one an event is for, when something is due in it, and when it is gone."""

from __future__ import annotations

from math import ceil, inf
from typing import TypeVar

from kwire import ErrorCode
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import SWEEP, Due
from mockbroker.groups.coordinated import Becomes, CoordinatedGroup, Turn, typed
from mockbroker.groups.events import Commit
from mockbroker.groups.expiry import expire, next_expiry
from mockbroker.groups.group_type import Context, GroupTypes, RetentionStart

G = TypeVar("G", bound=CoordinatedGroup)


class Groups(dict[str, CoordinatedGroup]):
    """Groups by id, of any type.

    Attributes:
        types: the types of groups that are served.
        context: what groups know of the cluster.
        touched: ids of groups that may have changed, or gone, since their records were written.
        quiet_until: it is known that no request comes before this time, so that sweeps may be left out that would
            find nothing.
    """

    def __init__(self, types: GroupTypes, context: Context, waits: Deadlines[Due]) -> None:
        super().__init__()
        self.types = types
        self.context = context
        self.touched: dict[str, None] = {}
        self.quiet_until = -inf
        self._waits = waits
        self._unused: dict[str, int] = {}  # member ids that no member uses yet, of groups that have some
        context.conversions = types.conversions

    @property
    def settle(self) -> float:
        """How long an initial rebalance delay lasts at least after the last JoinGroup, in seconds."""
        return self.context.settle

    # --- requests and time ---

    def receive(self, group_id: str, event: object, now: float) -> Effects:
        """Return what an event does to the group; it may make one. Raises: Refused."""
        kind, group, context = self.types.by_event[type(event)], self.get(group_id), self.context
        if group is not None and group.type_name == kind.name:
            return self._settle(group, kind.receive(group, event, context, now))
        crossing = None if group is None or group.empty else self.types.crossing(group, kind)
        if crossing is not None:
            return self._settle(group, crossing(group, event, context, now))
        return self._settle(group, kind.receive_without_group(group_id, group, event, context, now))

    def tick(self, group_id: str, now: float) -> Effects:
        """Return everything that is due in a group."""
        group = self[group_id]
        return self._settle(group, self.types.of(group).tick(group, self.context, now))

    def _settle(self, group: CoordinatedGroup | None, turn: Turn) -> Effects:
        """Keep what the group has become, and when it is due next. Return the effects that are left."""
        effects: Effects = []
        for effect in turn:
            if isinstance(effect, Becomes):
                group = self[effect.group.group_id] = effect.group
            else:
                effects.append(effect)
        if group is not None:
            self._schedule(group)
        return effects

    def _schedule(self, group: CoordinatedGroup) -> None:
        group_id, unused = group.group_id, group.unused_ids
        self.touched[group_id] = None
        if unused or group_id in self._unused:
            self._count_unused(group_id, unused)
        self._waits.set(group_id, group.waits.next())

    def _count_unused(self, group_id: str, number: int) -> None:
        self.context.unused_ids += number - self._unused.pop(group_id, 0)
        if number:
            self._unused[group_id] = number

    # --- groups that come and go ---

    def typed(self, group_id: str, kind: type[G]) -> G | None:
        """Return a group if it is of this class; None if there is none, or it is of another type."""
        return typed(self.get(group_id), kind)

    def make(self, group_id: str, now: float) -> CoordinatedGroup:
        """Make a group for offsets that a client commits without being a member."""
        group: CoordinatedGroup = self.types.default.new(group_id, self.context, now)
        self[group_id] = group
        return group

    def drop(self, group_id: str) -> None:
        """A group is gone, with its offsets; it must have no members."""
        self.unload(group_id)
        self.touch(group_id)

    def unload(self, group_id: str) -> None:
        """The group is not in memory any more; its records stay."""
        del self[group_id]
        self._count_unused(group_id, 0)
        self._waits.forget(group_id)
        self.touched.pop(group_id, None)

    def load(self, group: CoordinatedGroup) -> None:
        """Keep a group that was made of its records, or schedule it again."""
        self[group.group_id] = group
        self._waits.set(group.group_id, group.waits.next())

    def touch(self, group_id: str) -> None:
        """Something of the group may have changed."""
        self.touched[group_id] = None

    # --- offsets ---

    def commit_error(self, group: CoordinatedGroup, event: Commit, now: float) -> ErrorCode:
        """Return why an OffsetCommit is refused, or NONE; then it counts as a sign of life of the member."""
        error = self.types.of(group).commit_error(group, event, now)
        self._schedule(group)
        return error

    def transactional_commit_error(self, group_id: str, event: Commit) -> ErrorCode:
        """Return why offsets that hold when a transaction is committed are refused, or NONE (KIP-447)."""
        group = self.get(group_id)
        if group is not None:
            return self.types.of(group).transactional_commit_error(group, event)
        if event.generation >= 0:
            unknown = self.context.quirks.txn_commit_to_missing_group_is_unknown_member
            return ErrorCode.UNKNOWN_MEMBER_ID if unknown else ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def sweep(self, now: float) -> Effects:
        """Drop offsets that have expired, and groups of which nothing is left; the next sweep is set."""
        effects: Effects = []
        retention = self.context.settings.offsets_retention_minutes * 60.0
        for group in list(self.values()):
            for topic, partition in expire(group.offsets, self._starts(group), now, retention):
                reason = f"offset of {topic} {partition} expired"
                effects.append(Note(event=EventKind.OFFSET_EXPIRE, group=group.group_id, reason=reason))
                self.touch(group.group_id)
            if group.is_over:
                self.drop(group.group_id)
                effects.append(Note(event=EventKind.DELETE, group=group.group_id, reason="empty and without offsets"))
        self.schedule_sweep(now)
        return effects

    def schedule_sweep(self, now: float) -> None:
        """Set the next sweep. In a time without requests it is the next that can find something."""
        every = self.context.settings.offsets_retention_check_interval_ms / 1000
        steps = 1
        if self.quiet_until > now:
            retention = self.context.settings.offsets_retention_minutes * 60.0
            expiries = [next_expiry(group.offsets, self._starts(group), retention) for group in self.values()]
            quiet_until = min(self.quiet_until, self._waits.next(), *expiries)
            steps = max(1, ceil((quiet_until - now) / every))
        self._waits.set(SWEEP, now + steps * every)

    def _starts(self, group: CoordinatedGroup) -> RetentionStart:
        return self.types.of(group).retention_starts(group)

"""The registry of all groups of the cluster: passes events to groups, schedules their timers, deletes groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from math import ceil, inf
from typing import TypeVar
from uuid import UUID

from kwire import ErrorCode
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import SWEEP, Due
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup, as_type
from mockbroker.groups.events import AdminEvent, Commit
from mockbroker.groups.expiry import delete_expired, next_expiry
from mockbroker.groups.group_type import Context, GroupTypes, RetentionStart

CHECKED_OFFSETS = 5_000  # offsets that are checked for expiration at once; if all expire, they take about 10 ms
G = TypeVar("G", bound=CoordinatedGroup)


class Groups(dict[str, CoordinatedGroup]):
    """The groups of all types, by group id.

    Args:
        deadlines: the deadlines of the groups, such as the ends of sessions.

    Attributes:
        types: the group types that the coordinator serves.
        context: the cluster, settings and other data that groups use.
        dirty: ids of groups that were created, changed or deleted since their records were written.
        quiet_until: time in seconds. No request arrives before this time, because a manual clock is being advanced.
            Checks for expired offsets before this time are skipped if no offset can have expired.
        watched: ids of groups that may have changed since the control page last read this set, including loaded and
            deleted groups. The control page replaces the set with an empty set. None without a control page.
    """

    def __init__(self, types: GroupTypes, context: Context, deadlines: Deadlines[Due]) -> None:
        super().__init__()
        self.types = types
        self.context = context
        self.dirty: dict[str, None] = {}
        self.quiet_until = -inf
        self.watched: set[str] | None = None
        self._deadlines = deadlines
        self._unchecked: deque[str] = deque()  # ids of the groups that the current check for expired offsets has left
        self._pending_members: dict[str, int] = {}  # number of pending members, of groups that have any
        context.conversions = types.conversions

    @property
    def join_settle(self) -> float:
        """The minimum time in seconds between the last JoinGroup and the end of an initial rebalance delay."""
        return self.context.join_settle

    # --- requests and time ---

    def receive(self, group_id: str, event: object, now: float) -> Effects:
        """Pass an event to a group. If the group does not exist, the event may create it.

        Return the effects: responses and journal events.

        An AdminEvent (an eviction or a rebalance) applies to groups of all types. It has no effect if the group does
        not exist.

        Args:
            group_id: group id.
            event: the event.
            now: the current time in seconds.

        Raises: Refused if the request gets an error response.
        """
        group_type, group, context = self.types.by_event.get(type(event)), self.get(group_id), self.context
        if group_type is None:
            assert isinstance(event, AdminEvent)
            if group is None:
                return []
            return self._apply(group, self.types.of(group).administer(group, event, context, now))
        if group is not None and group.type_name == group_type.name:
            return self._apply(group, group_type.receive(group, event, context, now))
        handler = None if group is None or group.empty else self.types.cross_type_handler(group, group_type)
        if handler is not None:
            return self._apply(group, handler(group, event, context, now))
        return self._apply(group, group_type.receive_without_group(group_id, group, event, context, now))

    def tick(self, group_id: str, now: float) -> Effects:
        """Handle the due timers of a group. ``now``: the current time in seconds.

        Return the effects: responses and journal events.
        """
        group = self[group_id]
        return self._apply(group, self.types.of(group).tick(group, self.context, now))

    def _apply(self, group: CoordinatedGroup | None, group_effects: GroupEffects) -> Effects:
        """Register new groups, and schedule the next timer of the group. Return all effects except RegisterGroup.

        Args:
            group: The group that handled the event or timer; None if the group did not exist.
            group_effects: The effects of the event or timer; they may register a new group.
        """
        effects: Effects = []
        for effect in group_effects:
            if isinstance(effect, RegisterGroup):
                group = self[effect.group.group_id] = effect.group
                self.mark_dirty(group.group_id)
            else:
                effects.append(effect)
        if group is not None:
            self._schedule(group)
        return effects

    def _schedule(self, group: CoordinatedGroup) -> None:
        group_id, pending = group.group_id, group.pending_member_count
        if group.has_unwritten_changes:
            self.dirty[group_id] = None
        if self.watched is not None:
            self.watched.add(group_id)
        if pending or group_id in self._pending_members:
            self._count_pending_members(group_id, pending)
        self._deadlines.set(group_id, group.timers.earliest)

    def schedule_session(self, group: CoordinatedGroup) -> None:
        """Schedule the next timer of a group after a session was renewed and nothing else in the group has changed."""
        if self.watched is not None:
            self.watched.add(group.group_id)
        self._deadlines.set(group.group_id, group.timers.earliest)

    def _count_pending_members(self, group_id: str, number: int) -> None:
        self.context.pending_member_count += number - self._pending_members.pop(group_id, 0)
        if number:
            self._pending_members[group_id] = number

    # --- creating, deleting and loading groups ---

    def get_as(self, group_id: str, group_class: type[G]) -> G | None:
        """Return a group, or None if the group does not exist or its class is not exactly ``group_class``.

        Args:
            group_id: The group id.
            group_class: Class of the group.
        """
        return as_type(self.get(group_id), group_class)

    def create(self, group_id: str, now: float) -> CoordinatedGroup:
        """Create a group without members, so that a client that is not a member can commit offsets.

        Return the group.

        Args:
            group_id: The group id.
            now: The current time in seconds.
        """
        group: CoordinatedGroup = self.types.default.new(group_id, self.context, now)
        self[group_id] = group
        return group

    def delete_on_request(self, group_id: str, now: float) -> ErrorCode:
        """Delete a group for an administrator. The group must exist, and must have no members.

        Return NONE; COORDINATOR_NOT_AVAILABLE if the share state of the group cannot be deleted now. After the error,
        the group still exists.

        Args:
            group_id: the group id.
            now: the current time in seconds.
        """
        group = self[group_id]
        error = self.types.of(group).prepare_deletion(group, self.context, now)
        if error:
            self.mark_dirty(group_id)
        else:
            self.delete(group_id)
        return error

    def delete_topics_in_slices(self, topics: Mapping[UUID, str], size: int) -> Iterator[None]:
        """Remove deleted topics, and their offsets, from all groups.

        The generator does the work in slices (parts of limited size), and yields between two slices.

        Args:
            topics: The deleted topics: topic id -> name.
            size: Number of offsets, or of groups without such offsets, in a slice.
        """
        names = set(topics.values())
        handled = 0
        for group_id in list(self) if topics else ():
            group = self.get(group_id)
            if group is None:  # deleted since the last slice
                continue
            self.types.of(group).delete_topics(group, topics.keys())
            partitions = group.offsets.of_topics(names)
            for start in range(0, max(len(partitions), 1), size):
                if handled >= size:
                    yield
                    handled = 0
                part = partitions[start : start + size]
                for topic_partition in part:
                    group.offsets.delete(*topic_partition)
                if group.has_unwritten_changes:
                    self.mark_dirty(group_id)
                handled += max(len(part), 1)

    def delete(self, group_id: str) -> None:
        """Delete a group that has no members, and its committed offsets."""
        self.unload(group_id)
        self.mark_dirty(group_id)

    def unload(self, group_id: str) -> None:
        """Remove a group from memory. Its records remain in the offsets topic."""
        del self[group_id]
        self._count_pending_members(group_id, 0)
        self._deadlines.forget(group_id)
        self.dirty.pop(group_id, None)
        if self.watched is not None:
            self.watched.add(group_id)

    def load(self, group: CoordinatedGroup) -> None:
        """Register a group that was loaded from its records, and schedule its timers."""
        self[group.group_id] = group
        if self.watched is not None:
            self.watched.add(group.group_id)
        self._deadlines.set(group.group_id, group.timers.earliest)

    def mark_dirty(self, group_id: str) -> None:
        """Record that a group may have changed. Its changed records are written after the current request or timer."""
        self.dirty[group_id] = None
        if self.watched is not None:
            self.watched.add(group_id)

    # --- offsets ---

    def commit_error(self, group: CoordinatedGroup, event: Commit, now: float) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE if the request is valid.

        An accepted commit renews the session of a classic member. After the result NONE, the caller must store the
        offsets.

        Args:
            group: the group.
            event: the request.
            now: the current time in seconds.
        """
        error = self.types.of(group).commit_error(group, event, now)
        self._schedule(group)
        if not error:
            self.mark_dirty(group.group_id)  # the caller stores the offsets
        return error

    def transactional_commit_error(self, group_id: str, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE if the request is valid (KIP-447).

        A group that does not exist accepts only a commit without a generation. Otherwise the error is
        ILLEGAL_GENERATION, or UNKNOWN_MEMBER_ID in the releases with the quirk
        ``txn_commit_to_missing_group_is_unknown_member``.

        Args:
            group_id: the group id.
            event: the request.
        """
        group = self.get(group_id)
        if group is not None:
            return self.types.of(group).transactional_commit_error(group, event)
        if event.generation >= 0:
            unknown = self.context.quirks.txn_commit_to_missing_group_is_unknown_member
            return ErrorCode.UNKNOWN_MEMBER_ID if unknown else ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def delete_expired_offsets(self, now: float) -> Effects:
        """Delete expired offsets, then delete groups without members and offsets. Return the journal events.

        Many groups are checked in slices (parts of limited size) of about CHECKED_OFFSETS offsets: then a deadline that
        is due at once continues with the next slice. After the last slice, the method schedules the next check.

        ``now``: the current time in seconds.
        """
        effects: Effects = []
        retention = self.context.settings.offsets_retention_minutes * 60.0
        remaining = self._unchecked = self._unchecked or deque(self)
        checked = 0
        while remaining and checked < CHECKED_OFFSETS:
            group = self.get(remaining.popleft())
            if group is None:  # deleted since the last slice
                continue
            checked += 1 + len(group.offsets.committed)
            for topic, partition in delete_expired(group.offsets, self._retention_start(group), now, retention):
                reason = f"offset of {topic} {partition} expired"
                effects.append(Note(event=EventKind.OFFSET_EXPIRE, group=group.group_id, reason=reason))
                self.mark_dirty(group.group_id)
            if group.is_deletable:
                self.delete(group.group_id)
                effects.append(Note(event=EventKind.DELETE, group=group.group_id, reason="empty and without offsets"))
        if remaining:
            self._deadlines.set(SWEEP, now)
        else:
            self.schedule_offset_expiration(now)
        return effects

    def schedule_offset_expiration(self, now: float) -> None:
        """Schedule the next check for expired offsets.

        While a manual clock is advanced, checks are skipped until the first of these times: ``quiet_until``, the next
        deadline, and the next expiration of an offset.

        ``now``: the current time in seconds.
        """
        every = self.context.settings.offsets_retention_check_interval_ms / 1000
        steps = 1
        if self.quiet_until > now:
            retention = self.context.settings.offsets_retention_minutes * 60.0
            expiries = [next_expiry(group.offsets, self._retention_start(group), retention) for group in self.values()]
            quiet_until = min(self.quiet_until, self._deadlines.earliest, *expiries)
            steps = max(1, ceil((quiet_until - now) / every))
        self._deadlines.set(SWEEP, now + steps * every)

    def _retention_start(self, group: CoordinatedGroup) -> RetentionStart:
        return self.types.of(group).retention_start(group)

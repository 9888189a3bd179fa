"""The interface of a group type, and the table of group types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from mockbroker.base.effects import Effects
from mockbroker.base.release import Quirks
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects
from mockbroker.groups.events import AdminEvent, Commit
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import Cluster

G = TypeVar("G", bound=CoordinatedGroup)
T = TypeVar("T")
TopicNames: TypeAlias = Mapping[UUID, str]  # names of the known topics, by topic id
TopicAssignment: TypeAlias = Mapping[str, list[int]]  # partitions by topic name

# From topic and committed offset to the start of the retention time in seconds; None if the offset does not expire now.
RetentionStart: TypeAlias = Callable[[str, Committed], float | None]


class _AllTopics:
    """The set of all topics."""

    def __contains__(self, topic: object) -> bool:
        return True


ALL_TOPICS: Container[str] = _AllTopics()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The part of a group snapshot that depends on the group type.

    Attributes:
        protocol: The selected assignment strategy; None if none is selected.
        leader: Member id of the leader; empty if there is none.
        assignments: Assignments by member id; None for an assignment that cannot be decoded.
    """

    protocol: str | None
    leader: str = ""
    assignments: Mapping[str, TopicAssignment | None]


@dataclass(slots=True)
class Context:
    """Data that all groups of a cluster use.

    Attributes:
        cluster: The topics and brokers.
        settings: The settings of the brokers.
        new_uuid: Function that returns a new UUID.
        quirks: Behaviors in which the coordinator of the emulated release differs (release.py).
        uniform_release: The release whose ``uniform`` assignor is used (release.py).
        join_settle: Minimum time in seconds between the last JoinGroup and the end of an initial rebalance delay.
        pending_member_count: Number of pending members in all groups.
        conversions: Functions that may convert a group to another type when members leave, by name of its type.
    """

    cluster: Cluster
    settings: Settings
    new_uuid: Callable[[], UUID]
    quirks: Quirks
    uniform_release: str
    join_settle: float = 0.0
    pending_member_count: int = 0
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    _shared_objects: dict[type, Any] = field(default_factory=dict)

    def shared(self, kind: type[T]) -> T:
        """Return the instance of a class that all groups share; the first call creates the instance.

        Args:
            kind: The class, whose constructor needs no arguments.
        """
        instance = self._shared_objects.get(kind)
        if instance is None:
            instance = self._shared_objects[kind] = kind()
        return instance

    def convert_without(
        self, group: CoordinatedGroup, leaving: Collection[Any], now: float, reason: str
    ) -> GroupEffects | None:
        """Convert a group to another type because members leave, if this is possible.

        Args:
            group: The group; its members have not been removed.
            leaving: The members that leave.
            now: The current time in seconds.
            reason: Why the members leave.

        Returns:
            The effects, among them the registration of the new group, without the leaving members; None if the group is
            not converted.
        """
        convert = self.conversions.get(group.type_name)
        return None if convert is None else convert(group, leaving, self, now, reason)


Conversion: TypeAlias = Callable[[Any, Collection[Any], Context, float, str], GroupEffects | None]
# Handles an event of one type in a group of another type: group, event, context, now. Raises: Refused.
CrossTypeHandler: TypeAlias = Callable[[Any, Any, Context, float], GroupEffects]


class Refused(Exception):
    """An error response to a request, after which the group is unchanged.

    Attributes:
        error: Error code.
        message: Error message; None for a response without a message.
    """

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class GroupType(ABC, Generic[G]):
    """A group type: the state machine, records, descriptions and commit rules of its groups.

    Attributes:
        name: Name of the type, as ListGroups reports it.
        states: Names of the states of a group.
        events: Classes of the events that the state machine handles.
        record_keys: Classes of the record keys.
    """

    name: ClassVar[str]
    states: ClassVar[Sequence[str]]
    events: ClassVar[Sequence[type]]
    record_keys: ClassVar[Sequence[type]]

    # --- requests and time ---

    @abstractmethod
    def new(self, group_id: str, context: Context, now: float) -> G:
        """Return a new group without members; ``now``: the current time in seconds."""

    @abstractmethod
    def receive(self, group: G, event: Any, context: Context, now: float) -> GroupEffects:
        """Handle an event in a group of this type; return the effects. Raises: Refused."""

    @abstractmethod
    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Any, context: Context, now: float
    ) -> GroupEffects:
        """Handle an event for a group id without a group of this type; return the effects.

        A new group may be among the effects.

        Args:
            group_id: The group id.
            other: The group of another type with this id; None if no group exists.
            event: The event.
            context: The context.
            now: The current time in seconds.

        Raises:
            Refused: The event is answered with an error.
        """

    @abstractmethod
    def administer(self, group: G, event: AdminEvent, context: Context, now: float) -> GroupEffects:
        """Evict a member or start a rebalance; return the effects, none if the member or all members are missing."""

    @abstractmethod
    def tick(self, group: G, context: Context, now: float) -> GroupEffects:
        """Handle the due timers; return the effects.

        Afterwards the next deadline is later than ``now``, unless work remains for the next call.
        """

    # --- failover ---

    def unload(self, group: G) -> Effects:  # noqa: ARG002
        """Answer pending requests, because another broker coordinates the group now; return the effects."""
        return []

    def load(self, group: G, now: float) -> Effects:  # noqa: ARG002
        """Return the effects of loading a group from its records, such as a rebalance."""
        return []

    # --- records ---

    @abstractmethod
    def group_id_of(self, key: Any) -> str:
        """Return the group id in the key of a record."""

    @abstractmethod
    def records(self, group: G, wall: WallClock) -> Iterable[Record]:
        """Return all records of a group, except the records of its offsets."""

    @abstractmethod
    def changed_records(self, group: G, wall: WallClock) -> Iterable[Change]:
        """Return the records that ``group.changes`` affects, with tombstones for removed members and assignments.

        Unchanged records may be among the returned records.
        """

    def keys_to_delete(self, group: G, image: Image) -> Iterable[bytes]:  # noqa: ARG002
        """Return the keys for which tombstones are written when a group is deleted.

        Args:
            group: The group.
            image: The group's records as written last.
        """
        return image

    @abstractmethod
    def from_records(
        self, group_id: str, entries: Sequence[tuple[Any, Any]], context: Context, wall: WallClock, now: float
    ) -> G | None:
        """Create a group from its records, without offsets. Sessions restart at ``now``.

        Args:
            group_id: The group id.
            entries: Keys and values of the records.
            context: The context.
            wall: The clock of the timestamps in records.
            now: The current time in seconds.

        Returns:
            The group; None if the record of the group itself is missing.

        Raises:
            DecodeError: A value is not valid.
        """

    # --- commit rules ---

    @abstractmethod
    def commit_error(self, group: G, event: Commit, now: float) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE. An accepted commit may renew the session of the member."""

    @abstractmethod
    def transactional_commit_error(self, group: G, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE (KIP-447)."""

    def fetch_error(self, group: G, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002
        """Return the error of an OffsetFetch by a member, or NONE."""
        return ErrorCode.NONE

    @abstractmethod
    def retention_start(self, group: G) -> RetentionStart:
        """Return a function from topic and committed offset to the start of the offset's retention time in seconds.

        The function returns None for an offset that does not expire in the current state of the group.
        """

    @abstractmethod
    def subscribed_topics(self, group: G) -> Container[str] | None:
        """Return the subscribed topics, whose offsets OffsetDelete does not delete.

        Return None if the group does not allow OffsetDelete in its current state.
        """

    # --- description ---

    @abstractmethod
    def describe(self, group: G, response: type[T], context: Context) -> T | None:
        """Return the group as an element of a response; None if the API does not describe groups of this type.

        Args:
            group: The group.
            response: Class of the element, such as ``DescribeGroupsResponse.Group``.
            context: The context.
        """

    @abstractmethod
    def view(self, group: G, context: Context) -> GroupView:
        """Return the part of a group snapshot that depends on the group type."""

    @abstractmethod
    def to_json(self, group: G, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:
        """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets."""


class GroupTypes:
    """The table of the group types that a coordinator serves.

    Args:
        types: The group types. The first is used for a group that consists only of offsets. If the log contains records
            of several types for one group id, the last of these types is loaded.
        cross_type_handlers: Handlers of an event of one type in a group of another type, by the name of the group's
            type and that of the event's type. Without a handler the event is handled as if no group existed.
        conversions: Functions that may convert a group to another type when members leave, by name of its type.

    Attributes:
        default: The first type.
        types: All types.
        conversions: Functions that may convert a group to another type, by name of its type.
        by_event: Types by the class of the event.
    """

    def __init__(
        self,
        types: Sequence[GroupType[Any]],
        cross_type_handlers: Mapping[tuple[str, str], CrossTypeHandler] | None = None,
        conversions: Mapping[str, Conversion] | None = None,
    ) -> None:
        self.default = types[0]
        self.types = tuple(types)
        self.conversions = conversions or {}
        self._by_name = {each.name: each for each in types}
        self.by_event: Mapping[type, GroupType[Any]] = {event: each for each in types for event in each.events}
        self._by_record = {key: each for each in types for key in each.record_keys}
        self._cross_type_handlers = cross_type_handlers or {}

    def of(self, group: CoordinatedGroup) -> GroupType[Any]:
        """Return the type of a group."""
        return self._by_name[group.type_name]

    def of_record(self, key: object) -> GroupType[Any] | None:
        """Return the type whose records use keys of this class; None if there is no such type."""
        return self._by_record.get(type(key))

    def cross_type_handler(self, group: CoordinatedGroup, event_type: GroupType[Any]) -> CrossTypeHandler | None:
        """Return the handler of the events of ``event_type`` in a group of another type, or None."""
        return self._cross_type_handlers.get((group.type_name, event_type.name))

    def states(self) -> list[str]:
        """Return the names of the states of all types, each once."""
        return list(dict.fromkeys(state for each in self.types for state in each.states))

"""The interface of a group type, and the table of group types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Effects
from mockbroker.base.release import Quirks
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects
from mockbroker.groups.events import AdminEvent, Commit
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.group_configs import number
from mockbroker.topics.model import ClusterState

if TYPE_CHECKING:
    from mockbroker.share.states import ShareStates

G = TypeVar("G", bound=CoordinatedGroup)
T = TypeVar("T")
TopicNames: TypeAlias = Mapping[UUID, str]  # names of the known topics, by topic id
TopicAssignment: TypeAlias = Mapping[str, list[int]]  # partitions by topic name

# From topic and committed offset to the start of the retention time in seconds; None if the offset does not expire now.
RetentionStart: TypeAlias = Callable[[str, Committed], float | None]


class _AllTopics:
    """A container that contains every topic name."""

    def __contains__(self, topic: object) -> bool:
        return True


ALL_TOPICS: Container[str] = _AllTopics()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The fields of a group snapshot that each group type computes in its own way.

    Attributes:
        protocol: The selected assignment strategy; None if none is selected.
        leader: Member id of the leader; "" without a leader.
        assignments: Assignments by member id; None for an assignment that cannot be decoded.
    """

    protocol: str | None
    leader: str = ""
    assignments: Mapping[str, TopicAssignment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The fields of a group that the control API shows, without members.

    Attributes:
        protocol: The selected assignment strategy; None if none is selected.
        leader: Member id of the leader; "" without a leader.
        epoch: The group epoch; None in a classic group.
    """

    protocol: str | None
    leader: str = ""
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member as the control API shows it.

    Attributes:
        member_id: Member id.
        client_id: The ``client.id`` of the client.
        client_host: Address of the client, as DescribeGroups returns it.
        session_timeout_ms: Session timeout in milliseconds.
        instance_id: The ``group.instance.id``; None for a dynamic member.
        subscription: Subscribed topics; None if unknown.
        assignment: Assigned partition indexes by topic; None if the assignment cannot be decoded.
        regex: Subscribed regular expression; "" if the member has none; None if the group type does not support regular
            expressions.
        epoch: The member epoch; None in a classic group.
        state: Name of the member's reconciliation state; None if members of the group type have no such state.
        process_id: Id of the process in which the member runs; None if the group is not a streams group.
        tasks: Task type (active, standby or warmup) -> subtopology id -> task numbers; None if the group is not a
            streams group.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    instance_id: str | None = None
    subscription: Sequence[str] | None = None
    assignment: TopicAssignment | None = None
    regex: str | None = None
    epoch: int | None = None
    state: str | None = None
    process_id: str | None = None
    tasks: Mapping[str, Mapping[str, list[int]]] | None = None


class NewTopic(Protocol):
    """The interface of a topic that a group wants to create."""

    @property
    def name(self) -> str:
        """Topic name."""
        ...

    @property
    def partitions(self) -> int:
        """Number of partitions of the topic."""
        ...

    @property
    def replication_factor(self) -> int:
        """Replication factor; 0 for the default of the brokers."""
        ...

    @property
    def configs(self) -> Mapping[str, str]:
        """Configurations of the topic, by name."""
        ...


# Creates topics: topics, current time, seconds until a failed creation is tried again. Returns the errors of earlier
# attempts that have not expired, by topic name.
TopicCreator: TypeAlias = Callable[[Iterable[NewTopic], float, float], Mapping[str, str]]


def create_no_topics(topics: Iterable[NewTopic], now: float, error_ttl: float) -> Mapping[str, str]:  # noqa: ARG001
    """Return {} without creating topics.

    A Context that is only used to load groups has this function as ``create_topics``.
    """
    return {}


@dataclass(slots=True)
class Context:
    """The data and functions that all groups of a cluster share.

    Attributes:
        cluster: the topics and brokers.
        settings: the settings of the brokers.
        new_uuid: function that returns a new UUID.
        quirks: differences of the emulated release's coordinator (release.py).
        uniform_release: the release whose ``uniform`` assignor is used (release.py).
        get_share_states: function that returns the share coordinator; None if groups are only read from records.
        create_topics: function that creates the internal topics of streams groups. Its arguments are the topics, the
            current time in seconds, and the number of seconds for which errors are stored. It stores the errors of this
            attempt, and returns the stored errors of earlier attempts by topic name.
        join_settle: minimum time in seconds between the last JoinGroup and the end of an initial rebalance delay.
        pending_member_count: number of pending members in all groups.
        conversions: by group type name, the function that may convert a group to another type when members leave.
    """

    cluster: ClusterState
    settings: Settings
    new_uuid: Callable[[], UUID]
    quirks: Quirks
    uniform_release: str
    get_share_states: Callable[[], ShareStates] | None = None
    create_topics: TopicCreator = create_no_topics
    join_settle: float = 0.0
    pending_member_count: int = 0
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    _shared_objects: dict[type, Any] = field(default_factory=dict)

    @property
    def share_states(self) -> ShareStates | None:
        """The share coordinator; None if groups are only read from records."""
        return None if self.get_share_states is None else self.get_share_states()

    def shared(self, kind: type[T]) -> T:
        """Return the shared instance of a class. The first call with this class creates the instance.

        Args:
            kind: The class, whose constructor needs no arguments.
        """
        instance = self._shared_objects.get(kind)
        if instance is None:
            instance = self._shared_objects[kind] = kind()
        return instance

    def group_milliseconds(self, group_id: str, name: str) -> int:
        """Return the effective value of a configuration of a group, in milliseconds.

        Args:
            group_id: The group id.
            name: Name of the configuration, such as ``share.session.timeout.ms``.
        """
        return number(self.cluster.group_configs.get(group_id), name, self.settings)

    def convert_without(
        self, group: CoordinatedGroup, leaving: Collection[Any], now: float, reason: str
    ) -> GroupEffects | None:
        """Convert a group to another type, if this is possible, because members leave.

        Args:
            group: The group; its members have not been removed.
            leaving: The members that leave.
            now: The current time in seconds.
            reason: Why the members leave.

        Returns:
            The effects, including the registration of the new group without the leaving members; None if the group is
            not converted.
        """
        convert = self.conversions.get(group.type_name)
        return None if convert is None else convert(group, leaving, self, now, reason)


Conversion: TypeAlias = Callable[[Any, Collection[Any], Context, float, str], GroupEffects | None]
# Handles an event of one type in a group of another type: group, event, context, now. Raises: Refused.
CrossTypeHandler: TypeAlias = Callable[[Any, Any, Context, float], GroupEffects]


class Refused(Exception):
    """The error that a request gets in its response. A method that raises this exception has not changed the group.

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

    The methods of a subclass have the arguments, results and errors that are described here. A subclass describes only
    what it adds.

    Attributes:
        name: Name of the type, as ListGroups reports it.
        states: Names of the states of a group.
        events: Classes of the events that the state machine handles.
        record_keys: Names of the classes of the record keys, in ``kwire.blobs.offsets_topic``.
    """

    name: ClassVar[str]
    states: ClassVar[Sequence[str]]
    events: ClassVar[Sequence[type]]
    record_keys: ClassVar[Sequence[str]]

    # --- requests and time ---

    @abstractmethod
    def new(self, group_id: str, context: Context, now: float) -> G:
        """Return a new group without members.

        Args:
            group_id: The group id.
            context: Data and functions shared by all groups.
            now: The current time in seconds.
        """

    @abstractmethod
    def receive(self, group: G, event: Any, context: Context, now: float) -> GroupEffects:
        """Handle an event in a group of this type.

        Return the effects: responses, journal events, and new groups to register.

        Args:
            group: the group.
            event: the event.
            context: data and functions shared by all groups.
            now: the current time in seconds.

        Raises: Refused if the request gets an error response.
        """

    @abstractmethod
    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Any, context: Context, now: float
    ) -> GroupEffects:
        """Handle an event for a group id without a group of this type.

        Return the effects: responses, journal events, and new groups to register.

        A new group may be among the effects.

        Args:
            group_id: the group id.
            other: the group of another type with this id; None if no group exists.
            event: the event.
            context: data and functions shared by all groups.
            now: the current time in seconds.

        Raises:
            Refused: The event is answered with an error.
        """

    @abstractmethod
    def administer(self, group: G, event: AdminEvent, context: Context, now: float) -> GroupEffects:
        """Evict a member or start a rebalance, as the control API requests.

        Return the effects: responses, journal events, and new groups to register.

        If the member is unknown, or the group of a rebalance has no members, nothing changes, and the result is empty.

        Args:
            group: the group.
            event: the request of the control API.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """

    @abstractmethod
    def tick(self, group: G, context: Context, now: float) -> GroupEffects:
        """Handle the due timers, and return the effects: responses, journal events, and new groups to register.

        After the call, no deadline is due, unless the group divides its work into several calls and has work left.

        Args:
            group: the group.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """

    def delete_topics(self, group: G, topic_ids: AbstractSet[UUID]) -> None:  # noqa: ARG002
        """Remove deleted topics from the state of a group, except its offsets. ``topic_ids``: ids of the topics.

        The method of this class does nothing.
        """
        return

    def share_partitions(self, group: G) -> Mapping[UUID, Sequence[int]]:  # noqa: ARG002
        """Return the partitions whose share state the group has initialized: topic id -> partition indexes.

        The result is {} for groups of other types than ``share``.
        """
        return {}

    def prepare_deletion(self, group: G, context: Context, now: float) -> ErrorCode:  # noqa: ARG002
        """Delete the state that a group has outside of the group coordinator.

        The method is called before an administrator deletes the group.

        Return NONE, or an error with which the group is not deleted. The method of this class returns NONE.

        Args:
            group: the group.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        return ErrorCode.NONE

    # --- failover ---

    def unload(self, group: G) -> Effects:  # noqa: ARG002
        """Answer the pending requests of a group that is unloaded, because another broker now coordinates it.

        Return the responses. The method of this class returns no responses.
        """
        return []

    def load(self, group: G, now: float) -> Effects:  # noqa: ARG002
        """Make the changes that a group needs after it was loaded from its records, such as starting a rebalance.

        Return the effects: responses and journal events. The method of this class changes nothing.

        Args:
            group: the group.
            now: the current time in seconds.
        """
        return []

    # --- records ---

    def group_id_of(self, key: Any) -> str:
        """Return the group id in a record key. ``key``: the decoded key, of a class in ``record_keys``."""
        group_id: str = key.group_id
        return group_id

    @abstractmethod
    def records(self, group: G, wall: WallClock) -> Iterable[Record]:
        """Return all records of a group, except the records of its offsets.

        Args:
            group: The group.
            wall: The clock of the timestamps in records.
        """

    @abstractmethod
    def changed_records(self, group: G, wall: WallClock) -> Iterable[Change]:
        """Return the records for the changes in ``group.changes``, with tombstones for removed members and assignments.

        The result may also contain records that have not changed.

        Args:
            group: The group.
            wall: The clock of the timestamps in records.
        """

    def keys_to_delete(self, group: G, image: Image) -> Iterable[bytes]:  # noqa: ARG002
        """Return the encoded keys for which tombstones are written when a group is deleted.

        The method of this class returns all keys in ``image``.

        Args:
            group: the group.
            image: the group's last written records: encoded key -> encoded value.
        """
        return image

    @abstractmethod
    def from_records(
        self, group_id: str, entries: Sequence[tuple[Any, Any]], context: Context, wall: WallClock, now: float
    ) -> G | None:
        """Create a group from its records, without offsets. Sessions restart at ``now``.

        Args:
            group_id: the group id.
            entries: decoded keys and latest values of the group's records, without deleted keys; at least one.
            context: data and functions shared by all groups.
            wall: the clock of the timestamps in records.
            now: the current time in seconds.

        Returns:
            The group; None if the record of the group itself is missing.

        Raises:
            DecodeError: A value is not valid.
        """

    # --- commit rules ---

    @abstractmethod
    def commit_error(self, group: G, event: Commit, now: float) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE if the request is valid.

        An accepted commit may renew the session of the member.

        Args:
            group: The group.
            event: The request.
            now: The current time in seconds.
        """

    @abstractmethod
    def transactional_commit_error(self, group: G, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE if the request is valid (KIP-447).

        Args:
            group: The group.
            event: The request.
        """

    def fetch_error(self, group: G, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002
        """Return the error of an OffsetFetch by a member, or NONE if the request is valid.

        The method of this class returns NONE.

        Args:
            group: the group.
            member_id: member id in the request; None if the request has no member id.
            epoch: member epoch in the request; negative if the request has no member epoch.
        """
        return ErrorCode.NONE

    @abstractmethod
    def retention_start(self, group: G) -> RetentionStart:
        """Return a function that computes the start of an offset's retention time, in seconds.

        The arguments of this function are the topic and the committed offset. The function returns None for an offset
        that does not expire in the current state of the group.
        """

    def offset_delete_error(self, group: G) -> ErrorCode:  # noqa: ARG002
        """Return the error of an OffsetDelete request for the group, or NONE if the request is valid.

        The method of this class returns NONE.
        """
        return ErrorCode.NONE

    @abstractmethod
    def subscribed_topics(self, group: G) -> Container[str] | None:
        """Return the topics whose offsets OffsetDelete must not delete, because members subscribe to them.

        Return None if OffsetDelete is not allowed for the group in its current state.
        """

    # --- description ---

    @abstractmethod
    def describe(self, group: G, response: type[T], context: Context) -> T | None:
        """Return the group as an element of a response, or None if the API does not describe groups of this type.

        Args:
            group: The group.
            response: Class of the element, such as ``DescribeGroupsResponse.Group``.
            context: Data and functions shared by all groups.
        """

    @abstractmethod
    def view(self, group: G, context: Context) -> GroupView:
        """Return the fields of a group snapshot that each group type computes in its own way.

        Args:
            group: The group.
            context: Data and functions shared by all groups.
        """

    @abstractmethod
    def to_json(self, group: G, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:
        """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets.

        Args:
            group: The group.
            topics: Topic names by topic id.
            settings: The settings of the brokers.
        """

    @abstractmethod
    def summary(self, group: G, context: Context) -> GroupSummary:
        """Return the fields of a group that the control API shows, without members.

        Args:
            group: The group.
            context: Data and functions shared by all groups.
        """

    @abstractmethod
    def describe_members(
        self, group: G, member_ids: Iterable[str], topics: TopicNames, context: Context
    ) -> list[MemberDescription]:
        """Return members as the control API shows them.

        Args:
            group: The group.
            member_ids: Ids of the members; ids of unknown members are ignored.
            topics: Topic names by topic id.
            context: Data and functions shared by all groups.
        """


class GroupTypes:
    """The table of the group types that a coordinator serves.

    Args:
        types: The group types. The first type is used for groups that have only offsets. If the log contains records of
            several types for one group id, the group is loaded as the type that comes last in ``types``.
        cross_type_handlers: Handlers for an event of one type in a group of another type. The key is (name of the
            group's type, name of the event's type). Without a handler, the event is handled as if the group did not
            exist.
        conversions: By group type name, the function that may convert a group to another type when members leave.

    Attributes:
        default: The first type.
        types: All group types of the coordinator.
        conversions: By group type name, the function that may convert a group to another type when members leave.
        by_event: By class of an event, the group type that handles the event.
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
        """Return the group type to which a record belongs, or None if the record belongs to no group type.

        ``key``: the decoded key of the record.
        """
        return self._by_record.get(type(key).__name__)

    def cross_type_handler(self, group: CoordinatedGroup, event_type: GroupType[Any]) -> CrossTypeHandler | None:
        """Return the handler for an event of one group type in a group of another type, or None without a handler.

        An example is a JoinGroup in a consumer group.

        Args:
            group: The group.
            event_type: The group type to which the event belongs.
        """
        return self._cross_type_handlers.get((group.type_name, event_type.name))

    def states(self) -> list[str]:
        """Return the names of the states of all group types, without duplicates."""
        return list(dict.fromkeys(state for each in self.types for state in each.states))

"""What a type of groups implements, and the table of the types that a coordinator serves."""

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
from mockbroker.groups.coordinated import CoordinatedGroup, Turn
from mockbroker.groups.events import Commit
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import Wall
from mockbroker.topics.model import Cluster

G = TypeVar("G", bound=CoordinatedGroup)
T = TypeVar("T")
Topics: TypeAlias = Mapping[UUID, str]  # names by topic id, of the topics that are known
Assigned: TypeAlias = Mapping[str, list[int]]  # topic name to partitions


# Topic and committed offset to the time in seconds; None while the group still needs the offset.
RetentionStart: TypeAlias = Callable[[str, Committed], float | None]


class _Everything:
    """All topics."""

    def __contains__(self, topic: object) -> bool:
        return True


EVERYTHING: Container[str] = _Everything()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """What snapshots show of a group besides what every group has.

    ``protocol``: the assignment strategy in force, None before there is one. ``leader``: a member id, or "".
    ``assignments``: by member id; None for an assignment that cannot be read.
    """

    protocol: str | None
    leader: str = ""
    assignments: Mapping[str, Assigned | None]


@dataclass(slots=True)
class Context:
    """What groups know of the cluster that they are in.

    ``quirks``: where the coordinator of the release differs. ``uniform``: the release whose ``uniform`` assignor
    is used (release.py). ``settle``: how long an initial rebalance delay lasts at least after the last JoinGroup, in
    seconds. ``unused_ids``: how many member ids were given out that no member uses yet, in all groups.
    ``conversions``: by name of a type, what may turn its groups into groups of another type.
    """

    cluster: Cluster
    settings: Settings
    new_uuid: Callable[[], UUID]
    quirks: Quirks
    uniform: str
    settle: float = 0.0
    unused_ids: int = 0
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    _shared: dict[type, Any] = field(default_factory=dict)

    def shared(self, kind: type[T]) -> T:
        """Return the one object of this class that all groups use, made without arguments when first asked for."""
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind()
        return found

    def converted(self, group: CoordinatedGroup, leaving: Collection[Any], now: float, reason: str) -> Turn | None:
        """Return what a group becomes when these members leave; None if it keeps its type, and has them still."""
        convert = self.conversions.get(group.type_name)
        return None if convert is None else convert(group, leaving, self, now, reason)


Conversion: TypeAlias = Callable[[Any, Collection[Any], Context, float, str], Turn | None]
# What an event of one type does to a group of another type: group, event, context, now. Raises: Refused.
Crossing: TypeAlias = Callable[[Any, Any, Context, float], Turn]


class Refused(Exception):
    """A request that is answered with an error; the group is what it was. ``text``: None if there is nothing to say.

    One exception: requests that were parked in a classic group which could not be converted after all have been
    answered, as at Kafka (migration/convert.py).
    """

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


class GroupType(ABC, Generic[G]):
    """One type of groups: a folder of its own, with the state machine, records, description and commit rules.

    ``name``: as ListGroups has it. ``states``: names of the states that its groups can be in. ``events``: classes of
    the events that its state machine understands. ``record_keys``: classes of the keys of its records.
    """

    name: ClassVar[str]
    states: ClassVar[Sequence[str]]
    events: ClassVar[Sequence[type]]
    record_keys: ClassVar[Sequence[type]]

    # --- requests and time ---

    @abstractmethod
    def new(self, group_id: str, context: Context, now: float) -> G:
        """Return a group without members."""

    @abstractmethod
    def receive(self, group: G, event: Any, context: Context, now: float) -> Turn:
        """Return what an event of this type does to a group. Raises: Refused."""

    @abstractmethod
    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Any, context: Context, now: float
    ) -> Turn:
        """Return what an event does where no group of this type is: it may make one, or be refused.

        ``other``: the group of another type that has the id. Raises: Refused.
        """

    @abstractmethod
    def tick(self, group: G, context: Context, now: float) -> Turn:
        """Return what is due. Afterwards the next deadline lies after ``now``, unless work is left for another turn."""

    # --- failover ---

    def unload(self, group: G) -> Effects:  # noqa: ARG002
        """Return the answers to pending requests, as another broker coordinates the group now."""
        return []

    def load(self, group: G, now: float) -> Effects:  # noqa: ARG002
        """Return what follows for a group that was just made of its records."""
        return []

    # --- records ---

    @abstractmethod
    def group_id_of(self, key: Any) -> str:
        """Return the id of the group that a record is of, by its key."""

    @abstractmethod
    def records(self, group: G, wall: Wall) -> Iterable[Record]:
        """Return everything that is kept of a group besides its offsets."""

    @abstractmethod
    def changed(self, group: G, wall: Wall) -> Iterable[Change]:
        """Return the records of what ``group.changes`` says, and tombstones of what is gone.

        Records that are as they were written last may be among them.
        """

    def keys_to_delete(self, group: G, image: Image) -> Iterable[bytes]:  # noqa: ARG002
        """Return the keys of the tombstones of a group that is gone. ``image``: what was written of it last."""
        return image

    @abstractmethod
    def rebuilt(
        self, group_id: str, found: Sequence[tuple[Any, Any]], context: Context, wall: Wall, now: float
    ) -> G | None:
        """Return the group of these keys and values, without offsets; None if its own record is missing.

        Sessions begin again at ``now``. Raises: DecodeError for what cannot be.
        """

    # --- commit rules ---

    @abstractmethod
    def commit_error(self, group: G, event: Commit, now: float) -> ErrorCode:
        """Return why an OffsetCommit is refused, or NONE; then it counts as a sign of life of the member."""

    @abstractmethod
    def transactional_commit_error(self, group: G, event: Commit) -> ErrorCode:
        """Return why a TxnOffsetCommit is refused, or NONE (KIP-447)."""

    def fetch_error(self, group: G, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002
        """Return why an OffsetFetch of a member is refused, or NONE."""
        return ErrorCode.NONE

    @abstractmethod
    def retention_starts(self, group: G) -> RetentionStart:
        """Return a function of topic and offset: from when on the retention of a committed offset is counted."""

    @abstractmethod
    def subscribed(self, group: G) -> Container[str] | None:
        """Return the topics that members read, whose offsets OffsetDelete keeps; None if it may not be asked now."""

    # --- description ---

    @abstractmethod
    def described(self, group: G, response: type[T], context: Context) -> T | None:
        """Return the group as the response of an API describes it; None if that API is of other types of groups."""

    @abstractmethod
    def view(self, group: G, context: Context) -> GroupView:
        """Return what snapshots show."""

    @abstractmethod
    def to_json(self, group: G, topics: Topics, settings: Settings) -> Mapping[str, Any]:
        """Return the group, without id and offsets, as ``mockbroker import`` prints it."""


class GroupTypes:
    """The types of groups that a coordinator serves.

    Args:
        types: the first is the type of a group of which only offsets are known; records are looked through in the
            opposite order.
        crossings: what an event of a type does to a group of another, by the names of the two types, the group's
            first. Without an entry the event finds no group of its type.
        conversions: by name of a type, what may turn its groups into groups of another type when members leave.

    Attributes:
        by_event: the type that an event belongs to, by the class of the event.
    """

    def __init__(
        self,
        types: Sequence[GroupType[Any]],
        crossings: Mapping[tuple[str, str], Crossing] | None = None,
        conversions: Mapping[str, Conversion] | None = None,
    ) -> None:
        self.default = types[0]
        self.types = tuple(types)
        self.conversions = conversions or {}
        self._by_name = {each.name: each for each in types}
        self.by_event: Mapping[type, GroupType[Any]] = {event: each for each in types for event in each.events}
        self._by_record = {key: each for each in types for key in each.record_keys}
        self._crossings = crossings or {}

    def of(self, group: CoordinatedGroup) -> GroupType[Any]:
        """Return the type of a group."""
        return self._by_name[group.type_name]

    def of_record(self, key: object) -> GroupType[Any] | None:
        """Return the type whose record has this key; None if no type has such records."""
        return self._by_record.get(type(key))

    def crossing(self, group: CoordinatedGroup, kind: GroupType[Any]) -> Crossing | None:
        """Return what events of a type do to a group of another type, if they do anything."""
        return self._crossings.get((group.type_name, kind.name))

    def states(self) -> list[str]:
        """Return the names of all states, each once."""
        return list(dict.fromkeys(state for each in self.types for state in each.states))

"""The comparison of rules with requests, with the elements of batched requests, and with new connections."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.json.objects import to_json
from kwire.lazy_dataclass import dataclass
from kwire.messages import api_named
from kwire.schema import ALL_VERSIONS, ZERO_UUID, Versions
from mockbroker.base.effects import Call
from mockbroker.faults.globs import compile_glob
from mockbroker.faults.identifiers import (
    GROUP,
    MEMBER_ID,
    PARTITION,
    TERMS,
    TOPIC,
    Batch,
    Identifier,
    Level,
    request_level,
)
from mockbroker.faults.rule import Match
from mockbroker.faults.where import compile_where

WITH_SESSIONS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})  # whose requests name only partitions that changed
ELEMENTS_SEARCHED = 1_000  # of a request, for the names in it
Path: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = str | int
Criteria: TypeAlias = Mapping[str, Callable[[Any], bool]]  # by term


@dataclass(frozen=True, slots=True)
class Element:
    """A part of a request that matches a rule, such as one partition in a Produce request.

    Attributes:
        path: Field names and element indexes that lead to the part, such as ``("topics", 0)``; empty for the whole
            request. None for a part that the request implies but does not contain: a topic in a request for all topics,
            or a partition of a fetch session.
        values: Names that apply to the part, such as topic and partition, by kind of name. Names in the structs that
            contain the part are included.
    """

    path: Path | None
    values: Mapping[str, Value]


WHOLE_REQUEST = Element((), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """Functions that look up values in the broker's state, for conditions on values that the request does not contain.

    Attributes:
        topic_name: Function that returns the name of a topic, by topic id; None if there is no such topic.
        topic_id: Function that returns the id of a topic, by name; None if there is no such topic.
        topics: Function that returns the names of all topics, for a request about all topics.
        principal: Function that returns the principal of a connection, by its number.
        fetch_partitions: Function that gets a Fetch or ShareFetch request. If the request continues a fetch session or
            share session, the function returns topic and index of each partition that the request reads; otherwise
            None.
    """

    topic_name: Callable[[UUID], str | None] = lambda _: None
    topic_id: Callable[[str], UUID | None] = lambda _: None
    topics: Callable[[], Iterable[str]] = tuple
    principal: Callable[[int], str] = lambda _: "User:ANONYMOUS"
    fetch_partitions: Callable[[Call[Any]], Iterable[tuple[str, int]] | None] = lambda _: None


class Subject:
    """A request that is compared with rules. A value that several rules need is computed only once.

    Attributes:
        call: The request.
        lookups: Functions that look up values in the broker's state.
        level: The fields of the request that contain names, such as group ids.
    """

    def __init__(self, call: Call[Any], lookups: Lookups) -> None:
        self.call = call
        self.lookups = lookups
        self.level = request_level(call.ticket.api_key, call.ticket.version)

    @cached_property
    def body(self) -> dict[str, Any]:
        """The request body in the JSON form."""
        return to_json(self.call.request, self.call.ticket.version)

    @cached_property
    def principal(self) -> str:
        return self.lookups.principal(self.call.ticket.connection)

    @cached_property
    def fetch_partitions(self) -> Sequence[tuple[str, int]] | None:
        if self.call.ticket.api_key not in WITH_SESSIONS:
            return None
        partitions = self.lookups.fetch_partitions(self.call)
        return None if partitions is None else tuple(partitions)


@dataclass(frozen=True, slots=True)
class NewConnection:
    """A new connection that is compared with rules.

    Attributes:
        node: Id of the broker whose listener accepted it.
        listener: Name of the listener.
        address: Address of the client, without port.
    """

    node: int
    listener: str
    address: str


class Matcher:
    """The compiled conditions of a rule.

    Attributes:
        match: The conditions.
        keys: API keys of the requests that can match; empty if requests of all APIs can match.

    Raises: ValueError if a condition is not valid.
    """

    def __init__(self, match: Match) -> None:
        self.match = match
        self.keys = frozenset(api_named(name).key for name in match.api)
        self._versions = Versions.parse(match.version) if match.version else ALL_VERSIONS
        self._listener, self._address = _optional_glob(match.listener), _optional_glob(match.address)
        self._client_id, self._principal = _optional_glob(match.client_id), _optional_glob(match.principal)
        self._where = compile_where(match.where) if match.where else None
        self._criteria = {term: _criterion(value) for term, value in criteria(match).items()}

    def matches_connection(self, connection: NewConnection) -> bool:
        return (
            self.match.broker in (None, connection.node)
            and (self._listener is None or self._listener(connection.listener))
            and (self._address is None or self._address(connection.address))
        )

    def elements(self, subject: Subject) -> list[Element]:
        """Return the matching elements of a request; an empty list if the request does not match.

        If the rule has no conditions on elements, the whole request is the only element.
        """
        call = subject.call
        if (
            (self.keys and call.ticket.api_key not in self.keys)
            or call.ticket.version not in self._versions
            or self.match.broker not in (None, call.client.node)
            or (self._listener is not None and not self._listener(call.client.listener))
            or (self._client_id is not None and not self._client_id(call.client.client_id))
            or (self._principal is not None and not self._principal(subject.principal))
        ):
            return []
        found = self._matching_elements(subject) if self._criteria else [WHOLE_REQUEST]
        if found and self._where is not None and not self._where(subject.body):
            return []
        return found

    def _matching_elements(self, subject: Subject) -> list[Element]:
        if not subject.level.terms.issuperset(self._criteria):
            return []
        if subject.fetch_partitions is not None:
            return list(_in_session(subject, subject.fetch_partitions, self._criteria))
        found = _in_struct(subject, subject.level, subject.call.request, self._criteria, (), {})
        if self.match.partition is None:
            return list(found)
        return [Element(each.path, {PARTITION: self.match.partition, **each.values}) for each in found]


def criteria(match: Match) -> dict[str, Value]:
    """Return the conditions of a rule about names in the request body, such as the topic: kind of name -> condition.

    ``match``: all conditions of the rule.
    """
    return {term: value for term in TERMS if (value := getattr(match, term)) is not None}


def names_in(subject: Subject, term: str, most: int) -> list[str]:
    """Return the names of one kind that a request contains, such as its groups, without duplicates.

    The list is empty without such names. Only the first ELEMENTS_SEARCHED elements of the request are searched.

    Args:
        subject: The request.
        term: Kind of the names, one of TERMS.
        most: Maximum number of names; further names are omitted.
    """
    if term not in subject.level.terms:
        return []
    everything: Criteria = {term: lambda _: True}
    if subject.fetch_partitions is not None:
        elements = _in_session(subject, subject.fetch_partitions, everything)
    else:
        elements = _in_struct(subject, subject.level, subject.call.request, everything, (), {})
    names = dict.fromkeys(str(each.values[term]) for each in islice(elements, ELEMENTS_SEARCHED))
    return list(names)[:most]


def only_name(subject: Subject, elements: Sequence[Element], term: str) -> str:
    """Return the name of one kind, such as the group, that the matching elements of a request have; "" if they have no
    such name, or several.

    Args:
        subject: The request.
        elements: The matching elements.
        term: Kind of the name, one of TERMS.
    """
    if term not in subject.level.terms:
        return ""
    names = {str(each.values[term]) for each in elements if term in each.values} or names_in(subject, term, 2)
    return next(iter(names)) if len(names) == 1 else ""


def elements_naming(subject: Subject, term: str, names: Container[str]) -> list[Element]:
    """Return the elements of a request that contain one of the given names, such as the partitions of certain topics.

    Args:
        subject: The request.
        term: Kind of the names, one of TERMS.
        names: The names to search for.
    """
    criteria: Criteria = {term: names.__contains__}
    if subject.fetch_partitions is not None:
        return list(_in_session(subject, subject.fetch_partitions, criteria))
    return list(_in_struct(subject, subject.level, subject.call.request, criteria, (), {}))


def members_in(subject: Subject, elements: Sequence[Element]) -> list[tuple[str, str]]:
    """Return the group id and the member id of each member that the matching elements of a request name, without
    duplicates.

    An element also names the members in the structs that contain it, and in its own arrays.

    Args:
        subject: The request.
        elements: The matching elements.
    """
    everyone: Criteria = {MEMBER_ID: lambda _: True}
    found = _in_struct(subject, subject.level, subject.call.request, everyone, (), {})
    members = {
        (str(each.values.get(GROUP, "")), str(each.values[MEMBER_ID])): None
        for each in found
        if any(_overlap(each.path or (), element.path or ()) for element in elements)
    }
    return list(members)


def _overlap(one: Path, other: Path) -> bool:
    """Return whether one of two parts of a request contains the other. The arguments are the paths of the parts."""
    common = min(len(one), len(other))
    return one[:common] == other[:common]


def _optional_glob(glob: str | None) -> Callable[[str], bool] | None:
    return None if glob is None else compile_glob(glob)


def _criterion(value: Value) -> Callable[[Any], bool]:
    return compile_glob(value) if isinstance(value, str) else lambda other: other == value


def _in_session(subject: Subject, partitions: Iterable[tuple[str, int]], criteria: Criteria) -> Iterator[Element]:
    """Yield the matching partitions of a fetch session or share session; the whole request if no criterion is about
    partitions.

    Args:
        subject: The request.
        partitions: Topic and index of each partition that the request reads.
        criteria: The conditions, by kind of name.
    """
    values = {each.term: getattr(subject.call.request, each.field) for each in subject.level.identifiers}
    for term, value in values.items():
        if term in criteria and (value is None or not criteria[term](value)):
            return
    if criteria.keys() <= values.keys():
        yield Element((), values)
        return
    topic, partition = criteria.get(TOPIC), criteria.get(PARTITION)
    for name, index in partitions:
        if (topic is None or topic(name)) and (partition is None or partition(index)):
            yield Element(None, {**values, TOPIC: name, PARTITION: index})


def _in_struct(
    subject: Subject, level: Level, struct: Any, criteria: Criteria, path: Path, around: Mapping[str, Value]
) -> Iterator[Element]:
    """Yield the matching elements of a struct.

    The struct itself is yielded if it meets all criteria. Otherwise, the matching elements of its arrays are yielded.

    Args:
        subject: The request.
        level: Identifiers of the struct.
        struct: The struct.
        criteria: Conditions about names that no enclosing struct contains: kind of name -> function that returns
            whether a name meets the condition.
        path: Path of the struct in the request.
        around: Names in the structs that contain ``struct``, by kind of name.
    """
    values = dict(around)
    for identifier in level.identifiers:
        value = _value(subject, identifier, struct, getattr(struct, identifier.field))
        if value is not None:
            values.setdefault(identifier.term, value)
    remaining: dict[str, Callable[[Any], bool]] = {}
    for term, criterion in criteria.items():
        if term not in values:
            remaining[term] = criterion
        elif not criterion(values[term]):
            return
    if not remaining:
        yield Element(path, values)
        return
    for batch in level.batches:
        if batch.terms.issuperset(remaining):
            yield from _in_batch(subject, batch, struct, remaining, (*path, batch.field), values)


def _in_batch(
    subject: Subject, batch: Batch, struct: Any, criteria: Criteria, path: Path, around: Mapping[str, Value]
) -> Iterator[Element]:
    items = getattr(struct, batch.field)
    if items is None or (not items and _empty_is_all(subject.call)):
        if batch.null_is_all or items is not None:
            yield from _in_all_topics(subject, criteria, around)
        return
    for index, item in enumerate(items if isinstance(items, list) else [items]):
        here = (*path, index)
        if isinstance(batch.elements, Level):
            yield from _in_struct(subject, batch.elements, item, criteria, here, around)
            continue
        for identifier in batch.elements:
            value = _value(subject, identifier, struct, item)
            if value is not None and criteria.keys() == {identifier.term} and criteria[identifier.term](value):
                yield Element(here, {**around, identifier.term: value})


def _empty_is_all(call: Call[Any]) -> bool:
    """Return whether an empty array of topics in a request means all topics. This is the case only in Metadata v0."""
    return call.ticket.api_key == ApiKey.METADATA and call.ticket.version == 0


def _in_all_topics(subject: Subject, criteria: Criteria, around: Mapping[str, Value]) -> Iterator[Element]:
    """Yield the matching topics of a request about all topics.

    If the rule names a partition, every topic is assumed to have it.

    Args:
        subject: The request.
        criteria: Conditions about names that the request does not contain, by kind of name.
        around: Names that the request contains, such as the group, by kind of name.
    """
    topic = criteria.get(TOPIC)
    for name in subject.lookups.topics():
        if topic is None or topic(name):
            yield Element(None, {**around, TOPIC: name})


def _value(subject: Subject, identifier: Identifier, struct: Any, value: Any) -> Value | None:
    """Return the name that a field contains; None if the field contains a name of another kind, or the id of an unknown
    topic.

    For a topic id, the result is the name of the topic.

    Args:
        subject: The request.
        identifier: The field.
        struct: The struct with the field that contains the type of the name.
        value: Value of the field.
    """
    if identifier.type_field and getattr(struct, identifier.type_field) != identifier.type_number:
        return None
    if identifier.kind == "uuid":
        return None if value == ZERO_UUID else subject.lookups.topic_name(value)
    name: Value | None = value
    return name

"""The action ``error``: selected elements of a request, such as partitions, get an error.

All other elements are processed.

``ErrorInjection`` removes the selected elements from the request, and adds their errors to the response. If no element
remains, it builds the whole response.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import field
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.schema import ZERO_UUID, schema_of
from mockbroker.broker.fetch.session_cache import BY_ID_SINCE, FINAL
from mockbroker.faults.error_fields import (
    TERM_OF_FIELD,
    Answer,
    AnswerArray,
    answer_of,
    canonical,
    depth_of_error,
)
from mockbroker.faults.identifiers import PARTITION, TOPIC
from mockbroker.faults.matching import WITH_SESSIONS, Element, Lookups, Path, Value
from mockbroker.share.sessions import FINAL_EPOCH

NO_LOOKUPS = Lookups()
NOTHING: Mapping[Any, Any] = {}
SLICE = 1_000  # elements after which other requests are handled
R = TypeVar("R")


def finished(steps: Generator[None, None, R]) -> R:
    """Run a generator (``steps``) to its end, discard the yielded values, and return the generator's result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


@dataclass(slots=True)
class Marks:
    """A tree that marks the elements of a request that get the error.

    Each node represents the request, or a struct in it.

    Attributes:
        marked: Whether the struct itself gets the error.
        inner: Nodes of the elements in the struct's arrays: field -> index -> node.
    """

    marked: bool = False
    inner: dict[str, dict[int, Marks]] = field(default_factory=dict)

    def at(self, path: Path) -> Marks:
        """Return the node of an element; missing nodes are created.

        ``path``: path of the element, as alternating field names and array indexes.
        """
        found = self
        for name, index in zip(path[::2], path[1::2], strict=True):
            elements = found.inner.setdefault(str(name), {})
            inner = elements.get(int(index))
            if inner is None:
                inner = elements[int(index)] = Marks()
            found = inner
        return found


class ErrorInjection:
    """The errors of one request with the action ``error``: the matching elements of the request get an error.

    The error is set in the innermost error field of the element, such as the error field of a partition or group. If
    the response has only one error field for the whole request, the whole request gets the error.

    For three kinds of request, no element is removed. One is a Fetch in a fetch session, and another a ShareFetch that
    does not end its share session, because all partitions belong to the session. The third is Metadata v0, in which an
    empty list of topics means all topics. Only the response is changed, and no records of the partitions ``refused``
    may be acquired.

    Args:
        key: API key.
        version: API version.
        request: The request; not modified.
        elements: The matching elements.
        code: The error.
        lookups: Functions that look up topic names and ids in the cluster.
        beside: Values of response fields that are set together with this error, by field name, such as the error
            message.

    Attributes:
        is_certain: Whether an element that the request lists, or the request itself, gets the error.
        depends_on_response: Whether elements that only the response lists may get the error.
        was_merged: Whether ``merge`` has set the error of an element that only the response lists.
    """

    def __init__(
        self,
        key: int,
        version: int,
        request: Any,
        elements: Iterable[Element],
        code: ErrorCode,
        lookups: Lookups = NO_LOOKUPS,
        beside: Mapping[str, Any] = NOTHING,
    ) -> None:
        finished(self._steps(key, version, request, elements, code, lookups, beside))

    @classmethod
    def in_slices(
        cls,
        key: int,
        version: int,
        request: Any,
        elements: Iterable[Element],
        code: ErrorCode,
        lookups: Lookups = NO_LOOKUPS,
        beside: Mapping[str, Any] = NOTHING,
    ) -> Generator[None, None, ErrorInjection]:
        """Create an ErrorInjection in slices. The arguments are those of the constructor.

        The generator returns the ErrorInjection. It yields after about every SLICE elements, so that other requests are
        handled in between.
        """
        injection = cls.__new__(cls)
        yield from injection._steps(key, version, request, elements, code, lookups, beside)
        return injection

    def _steps(
        self,
        key: int,
        version: int,
        request: Any,
        elements: Iterable[Element],
        code: ErrorCode,
        lookups: Lookups,
        beside: Mapping[str, Any],
    ) -> Generator[None, None, None]:
        self._key, self._version, self._code, self._lookups = key, version, code, lookups
        self._beside = beside
        self._request = request
        self._answer = answer_of(key, version)
        self._is_whole_needed = (
            (key == ApiKey.METADATA and version == 0)
            or (key == ApiKey.FETCH and request.session_epoch != FINAL)
            or (key == ApiKey.SHARE_FETCH and request.share_session_epoch != FINAL_EPOCH)
        )
        self._named = request  # with the partitions of a fetch session that the request does not name
        self._marks = Marks()
        self._by_values: dict[tuple[str, ...], set[tuple[Value, ...]]] = {}  # elements that the request does not name
        absent = []
        depths: dict[Path, int] = {}  # by the names of the arrays around an element
        for number, element in enumerate(elements, 1):
            if not number % SLICE:
                yield
            if element.path is None:
                absent.append(element.values)
                continue
            arrays = element.path[::2]
            depth = depths.get(arrays)
            if depth is None:
                depth = depths[arrays] = depth_of_error(self._answer, [str(name) for name in arrays])
            self._marks.at(element.path[: 2 * depth]).marked = True
        if key in WITH_SESSIONS:
            self._name_partitions(absent)
        else:
            self._mark_by_values(absent)
        yield from _expand(self._answer, self._named, self._marks, count(1))
        if self._marks.marked and not self._answer.error and self._answer.arrays:  # all elements have it
            self._marks.marked = False
            if not self._marks.inner:  # the request names none
                self._mark_by_values([{}])
        self.is_certain = _sets_error(self._answer, self._marks)
        self.depends_on_response = bool(self._by_values)
        self.was_merged = False

    @property
    def is_large(self) -> bool:
        """Whether more than SLICE elements get the error, so that the methods with the suffix ``_in_slices`` are
        needed.
        """
        return _size(self._marks) > SLICE

    def split(self) -> Any | None:
        """Return a copy of the request without the elements that get the error; None if no element remains.

        If only the topics of a Metadata request get the error, the request remains even without topics: clients need
        the brokers in the response.

        In the copy of a Fetch, ``max_wait_ms`` is 0, because a fetch with an error does not wait for records.
        """
        return finished(self.split_in_slices())

    def split_in_slices(self) -> Generator[None, None, Any | None]:
        """Do the same as ``split`` in slices. The generator returns the result of ``split``.

        The generator yields after about every SLICE elements, so that other requests are handled in between.
        """
        if self._marks.marked:
            return None
        rest = copy(self._request)
        if not self._is_whole_needed:
            rest = yield from _without(self._answer, self._request, self._marks, count(1))
            if rest is None and self._key == ApiKey.METADATA:  # clients need the brokers in the response
                rest = copy(self._request)
                rest.topics = []
        if rest is not None and self._key == ApiKey.FETCH:
            rest.max_wait_ms = 0  # a fetch with an error in it does not wait for records
        if rest is not None and (refused := self.refused):
            rest.topics = [_without_acknowledgements(topic, refused) for topic in rest.topics]
        return rest

    @property
    def refused(self) -> Mapping[tuple[UUID, int], ErrorCode]:
        """The errors of partitions of a ShareFetch, by topic id and index, whose records may not be acquired; empty for
        other requests.
        """
        if self._key != ApiKey.SHARE_FETCH or not self._is_whole_needed:
            return {}
        return {
            (topic.topic_id, topic.partitions[index].partition_index): self._code
            for at, topic_marks in self._marks.inner.get("topics", {}).items()
            for topic in [self._named.topics[at]]
            for index in topic_marks.inner.get("partitions", {})
        }

    def error_response(self) -> Any:
        """Return a response in which every element has the error, for a request of which no element remains to be
        processed.
        """
        return self._built(self._answer, self._named, self._marks)

    def merge(self, response: Any) -> Any:
        """Return a copy of a response to which the errors of the removed elements are added.

        ``response``: the response to the request without the removed elements. If it has a top-level error, the method
        returns it unchanged.
        """
        return finished(self.merge_in_slices(response))

    def merge_in_slices(self, response: Any) -> Generator[None, None, Any]:
        """Do the same as ``merge``, with the same argument, in slices. The generator returns the result of ``merge``.

        The generator yields after about every SLICE elements, so that other requests are handled in between.
        """
        if self._answer.error and getattr(response, self._answer.error):
            return response
        merged = yield from self._merged(self._answer, self._named, self._marks, response, count(1))
        return self._with_errors_by_values(self._answer, merged, {}) if self._by_values else merged

    def _name_partitions(self, absent: Iterable[Mapping[str, Value]]) -> None:
        """Mark partitions of a fetch session for the error, although the Fetch request does not name them.

        The method first adds the partitions to a copy of the request.

        ``absent``: for each of these partitions, the topic name and the partition number by kind of name (TOPIC,
        PARTITION).
        """
        indexes: dict[str, list[int]] = {}
        for values in absent:
            indexes.setdefault(str(values[TOPIC]), []).append(int(values[PARTITION]))
        topics = list(self._request.topics)
        sent: dict[UUID, dict[int, Any]] = {}  # partitions that the request names, by topic id and index
        if self._key == ApiKey.SHARE_FETCH:
            for topic in topics:
                sent.setdefault(topic.topic_id, {}).update({each.partition_index: each for each in topic.partitions})
        for name, partitions in indexes.items():
            has_ids = self._key == ApiKey.SHARE_FETCH or self._version >= BY_ID_SINCE
            topic_id = self._lookups.topic_id(name) if has_ids else ZERO_UUID
            if topic_id is not None:
                self._marks.at(("topics", len(topics))).marked = True
                topics.append(self._session_topic(name, topic_id, partitions, sent.get(topic_id, NOTHING)))
        self._named = copy(self._request)
        self._named.topics = topics

    def _session_topic(self, name: str, topic_id: UUID, partitions: Iterable[int], sent: Mapping[int, Any]) -> Any:
        """Return partitions of a fetch session or share session as the request would name them.

        Args:
            name: Name of the topic.
            topic_id: Id of the topic.
            partitions: Indexes of the partitions.
            sent: Partitions of the topic that a ShareFetch names, by index.
        """
        if self._key == ApiKey.FETCH:
            named = [FetchRequest.Topic.Partition(partition=index) for index in partitions]
            return FetchRequest.Topic(topic=name, topic_id=topic_id, partitions=named)
        new = ShareFetchRequest.Topic.Partition
        shared = [sent.get(index) or new(partition_index=index) for index in partitions]
        return ShareFetchRequest.Topic(topic_id=topic_id, partitions=shared)

    def _mark_by_values(self, absent: Iterable[Mapping[str, Value]]) -> None:
        for values in absent:
            if not self._answer.arrays:
                self._marks.marked = True
                return
            terms = tuple(sorted(self._answer.terms.intersection(values)))
            self._by_values.setdefault(terms, set()).add(tuple(values[term] for term in terms))

    def _built(self, answer: Answer, requested: Any, marks: Marks) -> Any:
        """Build the response for a request, or for an element of a request. Every marked element gets the error.

        Args:
            answer: Description of the response struct.
            requested: The struct in the request.
            marks: Node of the struct in the tree of marked elements.
        """
        built = answer.struct(**answer.beside_error)
        for source, name in answer.copied:
            value = getattr(requested, source) if source else requested
            if value is None and canonical(name) == "name":
                value = self._name_of(answer, requested, name)
            setattr(built, name, value)
        if marks.marked and answer.error:
            setattr(built, answer.error, self._code)
            for name, value in self._beside.items():
                if name in answer.beside_error or any(name == copy for _, copy in answer.copied):
                    setattr(built, name, value)
            if self._key == ApiKey.SHARE_FETCH and getattr(requested, "acknowledgement_batches", None):
                built.acknowledge_error_code = self._code
        if marks.marked and answer.unrequested is not None:
            entry = self._built(answer.unrequested.item, None, marks)
            setattr(built, answer.unrequested.response, [entry])
        if marks.marked and answer.error and not answer.all_levels:
            return built
        for array in answer.arrays:
            items = getattr(requested, array.request) or ()
            for index, inner in sorted(marks.inner.get(array.request, {}).items()):
                getattr(built, array.response).append(self._built(array.item, items[index], inner))
        return built

    def _name_of(self, answer: Answer, requested: Any, name: str) -> str | None:
        """Return the topic name for the response to a request that has only the topic id.

        If no topic has the id, return None if the field of the response can be null, else "".

        Args:
            answer: description of the response struct.
            requested: the struct in the request, which contains the topic id.
            name: name of the field in the response.
        """
        known = self._lookups.topic_name(requested.topic_id)
        is_nullable = self._version in schema_of(answer.struct).fields[name].null
        return known if known is not None or is_nullable else ""

    def _merged(
        self, answer: Answer, requested: Any, marks: Marks, response: Any, numbers: Iterator[int]
    ) -> Generator[None, None, Any]:
        """Return a copy of a struct of the response with the errors of the marked elements.

        The generator yields after about every SLICE elements, so that other requests are handled in between.

        Args:
            answer: Description of the response struct.
            requested: The struct in the request.
            marks: Node of the struct in the tree of marked elements.
            response: The struct in the response.
            numbers: Counter of the elements, which decides when to yield.
        """
        merged = copy(response)
        for array in answer.arrays:
            if inner := marks.inner.get(array.request):
                named = getattr(requested, array.request)
                items = getattr(response, array.response) or ()
                items = yield from self._merged_items(array, named, inner, items, numbers)
                setattr(merged, array.response, items)
        return merged

    def _merged_items(
        self,
        array: AnswerArray,
        named: Any,
        marks: Mapping[int, Marks],
        response: Iterable[Any],
        numbers: Iterator[int],
    ) -> Generator[None, None, list[Any]]:
        items = list(response)
        positions: dict[tuple[Any, ...], int] = {}
        for position, item in enumerate(items):
            if not next(numbers) % SLICE:
                yield
            positions.setdefault(_identity(array.item, item), position)
        added = []
        for index, inner in sorted(marks.items()):
            if not next(numbers) % SLICE:
                yield
            built = self._built(array.item, named[index], inner)
            is_present = self._is_whole_needed or not inner.marked
            found = positions.get(_identity(array.item, built)) if is_present else None
            if found is None:
                added.append((index, built))
            elif inner.marked:
                items[found] = built
            else:
                items[found] = yield from self._merged(array.item, named[index], inner, items[found], numbers)
        for number, (index, built) in enumerate(added, 1):
            if not number % SLICE:
                yield
            items.insert(index, built)
        return items

    def _with_errors_by_values(self, answer: Answer, response: Any, around: Mapping[str, Value]) -> Any:
        """Return a copy of a response struct in which each element that matches the rule has the rule's error code.

        The method is used for responses with elements that the request does not list.

        Args:
            answer: Description of the response struct.
            response: The response struct.
            around: Names in the structs that contain ``response``, such as the topic name: kind of name -> name.
        """
        changed = copy(response)
        for array in answer.arrays:
            items = [self._with_error(array.item, item, around) for item in getattr(response, array.response) or ()]
            setattr(changed, array.response, items)
        return changed

    def _with_error(self, answer: Answer, item: Any, around: Mapping[str, Value]) -> Any:
        known = {**around, **self._values(answer, item)}
        if answer.error and any(
            known.keys() >= set(terms) and tuple(known[term] for term in terms) in wanted
            for terms, wanted in self._by_values.items()
        ):
            self.was_merged = True
            failed = answer.struct(**answer.beside_error)
            for _, name in answer.copied:
                setattr(failed, name, getattr(item, name))
            setattr(failed, answer.error, self._code)
            return failed
        return self._with_errors_by_values(answer, item, known)

    def _values(self, answer: Answer, item: Any) -> dict[str, Value]:
        """Return the names that an element of the response contains, such as the topic name: kind of name -> name.

        Args:
            answer: Description of the response element.
            item: The element.
        """
        values: dict[str, Value] = {}
        for _, name in answer.copied:
            term = TERM_OF_FIELD.get(canonical(name))
            value = getattr(item, name)
            if name == "topic_id":
                value = self._lookups.topic_name(value)
            if term is not None and value is not None:
                values.setdefault(term, value)
        return values


def _without_acknowledgements(topic: Any, refused: Container[tuple[UUID, int]]) -> Any:
    """Return a copy of a topic of a ShareFetch without the acknowledgements of some partitions.

    Args:
        topic: The topic.
        refused: Topic ids and indexes of these partitions.
    """
    rest = copy(topic)
    new = ShareFetchRequest.Topic.Partition
    rest.partitions = [
        new(partition_index=each.partition_index) if (topic.topic_id, each.partition_index) in refused else each
        for each in topic.partitions
    ]
    return rest


def _size(marks: Marks) -> int:
    """Return the number of marked elements, including the structs that contain marked elements."""
    return 1 + sum(_size(inner) for elements in marks.inner.values() for inner in elements.values())


def _sets_error(answer: Answer, marks: Marks) -> bool:
    """Return whether a marked struct has an error field; False if the marked structs contain only empty arrays.

    Args:
        answer: Description of the response struct.
        marks: Node of the struct in the tree of marked elements.
    """
    if marks.marked and (answer.error or answer.unrequested is not None):
        return True
    inner = ((array.item, each) for array in answer.arrays for each in marks.inner.get(array.request, {}).values())
    return any(_sets_error(item, each) for item, each in inner)


def _expand(answer: Answer, requested: Any, marks: Marks, numbers: Iterator[int]) -> Generator[None, None, None]:
    """Move marks from structs without an error field to the elements of their arrays, so that only structs with an
    error field are marked. With ``Answer.all_levels``, the struct keeps its mark.

    The generator yields after about every SLICE elements, so that other requests are handled in between.

    Args:
        answer: Description of the response struct.
        requested: The struct in the request.
        marks: Node of the struct in the tree of marked elements; the tree is changed.
        numbers: Counter of the elements, which decides when to yield.
    """
    passes_on = marks.marked and (not answer.error or answer.all_levels)
    for array in answer.arrays:
        if passes_on:
            for index in range(len(getattr(requested, array.request) or ())):
                marks.at((array.request, index)).marked = True
        for index, inner in marks.inner.get(array.request, {}).items():
            if not next(numbers) % SLICE:
                yield
            yield from _expand(array.item, getattr(requested, array.request)[index], inner, numbers)
    if marks.inner and not answer.error:
        marks.marked = False


def _without(answer: Answer, requested: Any, marks: Marks, numbers: Iterator[int]) -> Generator[None, None, Any | None]:
    """Return a copy of a struct of the request without the marked elements, which get the error; None if no element
    remains.

    The generator yields after about every SLICE elements, so that other requests are handled in between.

    Args:
        answer: Description of the response struct.
        requested: The struct in the request.
        marks: Node of the struct in the tree of marked elements.
        numbers: Counter of the elements, which decides when to yield.
    """
    if not marks.inner:
        return copy(requested)
    rest, is_empty = copy(requested), True
    for array in answer.arrays:
        items = getattr(requested, array.request)
        if items is None:
            is_empty = False
            continue
        inner, remaining = marks.inner.get(array.request, {}), []
        for index, item in enumerate(items):
            if not next(numbers) % SLICE:
                yield
            below = inner.get(index)
            if below is None:
                remaining.append(item)
            elif not below.marked and (left := (yield from _without(array.item, item, below, numbers))) is not None:
                remaining.append(left)
        setattr(rest, array.request, remaining)
        is_empty = is_empty and not remaining
    return None if is_empty else rest


def _identity(answer: Answer, item: Any) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for _, name in answer.copied)

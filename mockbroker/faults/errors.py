"""The action ``error``: matching elements of a request get an error, and the rest of the request is processed.

``ErrorInjection`` gives the three parts of it: the rest of the request, the response if nothing remains, and else the
response to the rest with the errors in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.fetch import FetchRequest
from kwire.schema import ZERO_UUID, schema_of
from mockbroker.faults.error_fields import TERM_OF_FIELD, Answer, AnswerArray, answer_of, canonical, depth_of_error
from mockbroker.faults.identifiers import PARTITION, TOPIC
from mockbroker.faults.matching import Element, Lookups, Path, Value

SESSIONLESS = -1  # session_epoch of a Fetch without a session
FETCH_IDS_SINCE = 13
NO_LOOKUPS = Lookups()


@dataclass(slots=True)
class Marks:
    """The elements of a request, or of a struct in it, that get the error.

    Attributes:
        marked: Whether the struct itself gets it.
        inner: Marks of elements of its arrays, by field and index.
    """

    marked: bool = False
    inner: dict[str, dict[int, Marks]] = field(default_factory=dict)

    def at(self, path: Path) -> Marks:
        """Return the marks of an element, created if necessary."""
        found = self
        for name, index in zip(path[::2], path[1::2], strict=True):
            found = found.inner.setdefault(str(name), {}).setdefault(int(index), Marks())
        return found


class ErrorInjection:
    """An error for the matching elements of a request.

    An element gets the innermost error field that belongs to it, such as that of a partition or of a group. If the
    response has only an error field of the whole request, the whole request gets the error.

    A request that the broker needs as a whole is processed as a whole, and its response changed: a Fetch in a fetch
    session, because all its partitions belong to the session, and the first version of Metadata, in which no topics
    means all.

    Args:
        key: API key.
        version: API version.
        request: The request; not modified.
        elements: The matching elements.
        code: The error.
        lookups: What the broker knows about topics.
    """

    def __init__(
        self,
        key: int,
        version: int,
        request: Any,
        elements: Iterable[Element],
        code: ErrorCode,
        lookups: Lookups = NO_LOOKUPS,
    ) -> None:
        self._key, self._version, self._code, self._lookups = key, version, code, lookups
        self._request = request
        self._answer = answer_of(key, version)
        self._is_whole_needed = (key == ApiKey.METADATA and version == 0) or (
            key == ApiKey.FETCH and request.session_epoch != SESSIONLESS
        )
        self._named = request  # with the partitions of a fetch session that the request does not name
        self._marks = Marks()
        self._by_values: dict[tuple[str, ...], set[tuple[Value, ...]]] = {}  # elements that the request does not name
        absent = []
        for element in elements:
            if element.path is None:
                absent.append(element.values)
            else:
                arrays = [str(name) for name in element.path[::2]]
                depth = depth_of_error(self._answer, arrays)
                self._marks.at(element.path[: 2 * depth]).marked = True
        if key == ApiKey.FETCH:
            self._name_partitions(absent)
        else:
            self._mark_by_values(absent)
        _expand(self._answer, self._named, self._marks)
        if self._marks.marked and not self._answer.error and self._answer.arrays:  # all elements have it
            self._marks.marked = False
            if not self._marks.inner:  # the request names none
                self._mark_by_values([{}])

    def split(self) -> Any | None:
        """Return a copy of the request without the elements that get the error; None if nothing remains of it."""
        if self._marks.marked:
            return None
        rest = copy(self._request)
        if not self._is_whole_needed:
            rest = _without(self._answer, self._request, self._marks)
            if rest is None and self._key == ApiKey.METADATA:  # clients need the brokers in the response
                rest = copy(self._request)
                rest.topics = []
        if rest is not None and self._key == ApiKey.FETCH:
            rest.max_wait_ms = 0  # a fetch with an error in it does not wait for records
        return rest

    def error_response(self) -> Any:
        """Return the response if nothing remains of the request: it has only the errors."""
        return self._built(self._answer, self._named, self._marks)

    def merge(self, response: Any) -> Any:
        """Return a copy of the response to the rest of the request, with the errors in it.

        A response with an error of the whole request is returned as it is.
        """
        if self._answer.error and getattr(response, self._answer.error):
            return response
        merged = self._merged(self._answer, self._named, self._marks, response)
        return self._with_errors_by_values(self._answer, merged, {}) if self._by_values else merged

    def _name_partitions(self, absent: Iterable[Mapping[str, Value]]) -> None:
        """Mark partitions of a fetch session as if the request named them."""
        indexes: dict[str, list[int]] = {}
        for values in absent:
            indexes.setdefault(str(values[TOPIC]), []).append(int(values[PARTITION]))
        topics = list(self._request.topics)
        for name, partitions in indexes.items():
            topic_id = self._lookups.topic_id(name) if self._version >= FETCH_IDS_SINCE else ZERO_UUID
            if topic_id is not None:
                self._marks.at(("topics", len(topics))).marked = True
                named = [FetchRequest.Topic.Partition(partition=index) for index in partitions]
                topics.append(FetchRequest.Topic(topic=name, topic_id=topic_id, partitions=named))
        self._named = copy(self._request)
        self._named.topics = topics

    def _mark_by_values(self, absent: Iterable[Mapping[str, Value]]) -> None:
        for values in absent:
            if not self._answer.arrays:
                self._marks.marked = True
                return
            terms = tuple(sorted(self._answer.terms.intersection(values)))
            self._by_values.setdefault(terms, set()).add(tuple(values[term] for term in terms))

    def _built(self, answer: Answer, requested: Any, marks: Marks) -> Any:
        """Return the answer to a struct of the request that has only errors."""
        built = answer.struct(**answer.beside_error)
        for source, name in answer.copied:
            value = getattr(requested, source) if source else requested
            if value is None and canonical(name) == "name":
                value = self._name_of(answer, requested, name)
            setattr(built, name, value)
        if marks.marked and answer.error:
            setattr(built, answer.error, self._code)
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
        """Return the name of a topic that is requested by id."""
        known = self._lookups.topic_name(requested.topic_id)
        is_nullable = self._version in schema_of(answer.struct).fields[name].null
        return known if known is not None or is_nullable else ""

    def _merged(self, answer: Answer, requested: Any, marks: Marks, response: Any) -> Any:
        """Return a copy of a struct of the response, with the errors of its elements."""
        merged = copy(response)
        for array in answer.arrays:
            if inner := marks.inner.get(array.request):
                named = getattr(requested, array.request)
                items = self._merged_items(array, named, inner, getattr(response, array.response) or ())
                setattr(merged, array.response, items)
        return merged

    def _merged_items(
        self, array: AnswerArray, named: Any, marks: Mapping[int, Marks], response: Iterable[Any]
    ) -> list[Any]:
        items = list(response)
        positions: dict[tuple[Any, ...], int] = {}
        for position, item in enumerate(items):
            positions.setdefault(_identity(array.item, item), position)
        added = []
        for index, inner in sorted(marks.items()):
            built = self._built(array.item, named[index], inner)
            is_present = self._is_whole_needed or not inner.marked
            found = positions.get(_identity(array.item, built)) if is_present else None
            if found is None:
                added.append((index, built))
            elif inner.marked:
                items[found] = built
            else:
                items[found] = self._merged(array.item, named[index], inner, items[found])
        for index, built in added:
            items.insert(index, built)
        return items

    def _with_errors_by_values(self, answer: Answer, response: Any, around: Mapping[str, Value]) -> Any:
        """Return a copy of a struct of the response, with the errors of elements that the request does not name."""
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
            failed = answer.struct(**answer.beside_error)
            for _, name in answer.copied:
                setattr(failed, name, getattr(item, name))
            setattr(failed, answer.error, self._code)
            return failed
        return self._with_errors_by_values(answer, item, known)

    def _values(self, answer: Answer, item: Any) -> dict[str, Value]:
        """Return what an element of the response names, by term."""
        values: dict[str, Value] = {}
        for _, name in answer.copied:
            term = TERM_OF_FIELD.get(canonical(name))
            value = getattr(item, name)
            if name == "topic_id":
                value = self._lookups.topic_name(value)
            if term is not None and value is not None:
                values.setdefault(term, value)
        return values


def _expand(answer: Answer, requested: Any, marks: Marks) -> None:
    """Mark the elements of a marked struct that has no error field; only structs with an error field stay marked."""
    passes_on = marks.marked and (not answer.error or answer.all_levels)
    for array in answer.arrays:
        if passes_on:
            for index in range(len(getattr(requested, array.request) or ())):
                marks.at((array.request, index)).marked = True
        for index, inner in marks.inner.get(array.request, {}).items():
            _expand(array.item, getattr(requested, array.request)[index], inner)
    if marks.inner and not answer.error:
        marks.marked = False


def _without(answer: Answer, requested: Any, marks: Marks) -> Any | None:
    """Return a copy of a struct without its marked elements; None if it has no others."""
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
            below = inner.get(index)
            if below is None:
                remaining.append(item)
            elif not below.marked and (left := _without(array.item, item, below)) is not None:
                remaining.append(left)
        setattr(rest, array.request, remaining)
        is_empty = is_empty and not remaining
    return None if is_empty else rest


def _identity(answer: Answer, item: Any) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for _, name in answer.copied)

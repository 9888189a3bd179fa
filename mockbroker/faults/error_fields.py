"""The error fields of responses: where a response carries the error of the whole request or of one of its elements.

The error fields are derived from the message declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from kwire.schema import Field, schema_of
from mockbroker.faults.identifiers import GROUP, NOT_REQUESTED, PARTITION, TOPIC, Batch, Level, request_level

ERROR_FIELDS = ("error_code", "partition_error_code")
ERROR_TEXT = "error_message"  # beside an error, in some APIs
ALIASES = {
    "topic": "name",
    "topic_name": "name",
    "user": "name",
    "partition": "partition_index",
    "index": "partition_index",
    "partition_id": "partition_index",
}
IDENTIFYING = frozenset(  # fields of an element that its answer repeats, without aliases
    {
        "group_id",
        "group_instance_id",
        "key",
        "member_id",
        "name",
        "partition_index",
        "producer_id",  # of a transaction marker
        "resource_name",
        "resource_type",
        "topic_id",
        "transactional_id",
    }
)
TERM_OF_FIELD = {"name": TOPIC, "topic_id": TOPIC, "partition_index": PARTITION, "group_id": GROUP}
OF_WHOLE_REQUEST: Mapping[int, str] = {
    ApiKey.JOIN_GROUP: "member_id",
    ApiKey.FETCH: "session_id",
}  # what the whole response repeats
UNREQUESTED = frozenset({ApiKey.DESCRIBE_LOG_DIRS})  # the elements of the response are not those of the request
ALL_LEVELS = frozenset({ApiKey.METADATA, ApiKey.ELECT_LEADERS})  # an error of the request is in its elements too
# Values beside an error that differ from the default of the field. None only where the field can be null.
BESIDE_ERROR: Mapping[int, Mapping[str, Any]] = {
    ApiKey.PRODUCE: {"base_offset": -1},
    ApiKey.FETCH: {"high_watermark": -1, "aborted_transactions": None, "records": b""},
    ApiKey.OFFSET_FETCH: {"committed_offset": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.JOIN_GROUP: {"protocol_name": None},
    ApiKey.DELETE_RECORDS: {"low_watermark": -1},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {"start_offset": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
}


@dataclass(frozen=True, slots=True)
class AnswerArray:
    """An array of a response with one element for each element of an array in the request.

    Attributes:
        request: Name of the array in the request.
        response: Name of the array in the response.
        item: Description of the elements of the response array.
    """

    request: str
    response: str
    item: Answer


@dataclass(frozen=True, slots=True)
class Answer:
    """A description of the response to a whole request, or of the element of a response for one element of a request.

    Attributes:
        struct: Class of the response, or of the element in the response.
        error: Name of the error field; "" for a struct without an error field.
        copied: Fields whose values are copied from the request, as pairs of request field and response field. The
            request field is "" if the element of the request is a plain value.
        beside_error: Values of response fields that are set together with an error, by field name, such as
            ``base_offset`` -1 in Produce.
        arrays: Response arrays whose elements can have errors.
        unrequested: A response array whose elements can have errors, but do not correspond to elements of the request;
            None without such an array.
        all_levels: Whether an error of the whole response is repeated in the elements of its arrays.
        terms: Kinds of names, such as topic, that the struct and the elements of its arrays contain.
    """

    struct: type[Any]
    error: str
    copied: tuple[tuple[str, str], ...]
    beside_error: Mapping[str, Any]
    arrays: tuple[AnswerArray, ...] = ()
    unrequested: AnswerArray | None = None
    all_levels: bool = False
    terms: frozenset[str] = frozenset()

    @property
    def has_errors(self) -> bool:
        """Whether this struct, or an element of its arrays, has an error field."""
        return bool(self.error or self.arrays or self.unrequested)

    def answer_to(self, field_name: str) -> Answer | None:
        """Return the description of the response elements for an array of the request; None if these elements have no
        error field.

        ``field_name``: name of the array in the request.
        """
        return next((array.item for array in self.arrays if array.request == field_name), None)


@cache
def answer_of(key: int, version: int) -> Answer:
    """Return the description of the response to a whole request, with its error fields.

    Args:
        key: API key.
        version: API version.
    """
    api = APIS[key]
    return _answer(key, version, _fields(api.request, version), api.response)


def depth_of_error(root: Answer, arrays: Sequence[str]) -> int:
    """Return the number of arrays around an element's error field.

    An element without an error field has the error field of the innermost enclosing struct that has one.

    Args:
        root: The description of the whole response.
        arrays: Names of the arrays that contain the element, outermost first.

    Returns: the number of arrays; 0 if the error field belongs to the whole response.
    """
    answers = [root]
    for name in arrays:
        below = answers[-1].answer_to(name)
        if below is None:
            break
        answers.append(below)
    if len(answers) > len(arrays) and answers[-1].has_errors:
        return len(arrays)
    return next((depth for depth in range(len(answers) - 1, 0, -1) if answers[depth].error), 0)


def error_fields(key: int, version: int) -> dict[str, tuple[str, ...]]:
    """Return the path of the error field for each kind of request element: path of the element -> path of the error
    field.

    A path is like ``topics.partitions``. The error field for the whole request has the path "". The result is empty if
    the response has no error field.

    Args:
        key: API key.
        version: API version.
    """
    root = answer_of(key, version)
    found = {}
    for arrays in ((), *_kinds(request_level(key, version), ())):
        answer, prefix = root, ""
        for name in arrays[: depth_of_error(root, arrays)]:
            array = next(array for array in answer.arrays if array.request == name)
            answer, prefix = array.item, f"{prefix}{array.response}."
        found[".".join(arrays)] = tuple(dict.fromkeys(_fields_of_error(answer, prefix)))
    return found


def canonical(name: str) -> str:
    """Return the name that represents all names of the same field in different APIs.

    For example, ``partition``, ``index`` and ``partition_index`` are the same field.
    """
    return ALIASES.get(name, name)


def _kinds(level: Level, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    batch: Batch
    for batch in level.batches:
        yield (*above, batch.field)
        if isinstance(batch.elements, Level):
            yield from _kinds(batch.elements, (*above, batch.field))


def _fields_of_error(answer: Answer, prefix: str) -> Iterator[str]:
    if answer.error:
        yield prefix + answer.error
    if not answer.error or answer.all_levels:
        arrays = answer.arrays or ((answer.unrequested,) if answer.unrequested else ())
        for array in arrays:
            yield from _fields_of_error(array.item, f"{prefix}{array.response}.")


def _fields(struct: type, version: int) -> dict[str, Field]:
    return {name: field for name, field in schema_of(struct).fields.items() if version in field.versions}


def _answer(
    key: int, version: int, requested: Mapping[str, Field], struct: type, plain: str = "", *, is_element: bool = False
) -> Answer:
    """Return a description of a response struct: its error field, the fields that are copied from the request, and its
    arrays with errors.

    Args:
        key: API key.
        version: API version.
        requested: Fields of the corresponding struct in the request, by name; empty if no struct of the request
            corresponds.
        struct: Class of the response struct.
        plain: Wire kind of the elements, such as "int32", if the request has an array of plain values instead of
            structs; "" otherwise.
        is_element: True for an element of an array, False for the whole response.
    """
    fields = _fields(struct, version)
    error = next((name for name in ERROR_FIELDS if name in fields), "")
    arrays = [
        AnswerArray(name, response, _answer_to_element(key, version, array, answering))
        for response, answering in _arrays_with_errors(fields, version)
        for name, array in requested.items()
        if array.kind == "array" and name not in NOT_REQUESTED and key not in UNREQUESTED
    ]
    copied = tuple(_copied(requested, fields, plain) if is_element else _copied_of_request(key, fields))
    terms = {TERM_OF_FIELD[name] for _, copy in copied if (name := canonical(copy)) in TERM_OF_FIELD}
    unrequested = None
    if not error and not arrays:
        for response, answering in _arrays_with_errors(fields, version):
            unrequested = AnswerArray("", response, _answer(key, version, {}, answering, is_element=True))
    return Answer(
        struct,
        error,
        copied,
        dict(_beside_error(key, version, fields)),
        tuple(arrays),
        unrequested,
        all_levels=bool(error) and not is_element and key in ALL_LEVELS,
        terms=frozenset(terms.union(*(array.item.terms for array in arrays))),
    )


def _answer_to_element(key: int, version: int, array: Field, struct: type) -> Answer:
    assert array.of is not None
    if array.of.struct is None:
        return _answer(key, version, {}, struct, array.of.kind, is_element=True)
    return _answer(key, version, _fields(array.of.struct, version), struct, is_element=True)


def _arrays_with_errors(fields: Mapping[str, Field], version: int) -> Iterator[tuple[str, type]]:
    for name, array in fields.items():
        struct = array.of.struct if array.of is not None else None
        if struct is not None:
            inner = _fields(struct, version)
            if not inner.keys().isdisjoint(ERROR_FIELDS) or any(_arrays_with_errors(inner, version)):
                yield name, struct


def _copied(requested: Mapping[str, Field], fields: Mapping[str, Field], plain: str) -> Iterator[tuple[str, str]]:
    identifying = {name: field for name, field in fields.items() if canonical(name) in IDENTIFYING}
    if plain:
        yield from [("", name) for name, field in identifying.items() if field.kind == plain][:1]
    for name, copy in identifying.items():
        for source, original in requested.items():
            if canonical(source) == canonical(name) and original.kind == copy.kind:
                yield source, name


def _copied_of_request(key: int, fields: Mapping[str, Field]) -> Iterator[tuple[str, str]]:
    name = OF_WHOLE_REQUEST.get(key)
    if name is not None and name in fields:
        yield name, name


def _beside_error(key: int, version: int, fields: Mapping[str, Field]) -> Iterator[tuple[str, Any]]:
    for name, value in {ERROR_TEXT: None, **BESIDE_ERROR.get(key, {})}.items():
        if name in fields and (value is not None or version in fields[name].null):
            yield name, value

"""The fields of requests that name groups, members, topics, partitions and transactional ids.

These fields are derived from the message declarations. Most of them have an entity type in Kafka's message definitions;
the other fields are recognized by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from kwire.schema import Field, schema_of

GROUP, MEMBER_ID, INSTANCE_ID, TOPIC, PARTITION, TRANSACTIONAL_ID = TERMS = (
    "group",
    "member_id",
    "instance_id",
    "topic",
    "partition",
    "transactional_id",
)

ENTITIES = {"groupId": GROUP, "topicName": TOPIC, "transactionalId": TRANSACTIONAL_ID}
NAMES = {"group_id": GROUP, "member_id": MEMBER_ID, "group_instance_id": INSTANCE_ID, "instance_id": INSTANCE_ID}
PARTITION_NAMES = frozenset({"partition_index", "partition", "index"})  # in the struct of a partition
# Names whose meaning depends on a type in the same struct.
COORDINATOR_TYPES = {0: GROUP, 1: TRANSACTIONAL_ID}  # CoordinatorType
ACL_TYPES = {2: TOPIC, 3: GROUP, 5: TRANSACTIONAL_ID}  # ResourceType, in structs that have a principal
CONFIG_TYPES = {2: TOPIC, 32: GROUP}  # ConfigResource.Type
NULL_IS_UNCHANGED = frozenset(  # in all other fields, a null array means everything, such as all topics
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)
NOT_REQUESTED = frozenset(
    {
        "assignments",  # SyncGroup: members that get an assignment; CreateTopics: replicas of new partitions
        "forgotten_topics_data",  # Fetch: partitions that are not fetched any more
        "cursor",  # DescribeTopicPartitions: where the page begins
    }
)


@dataclass(frozen=True, slots=True)
class Identifier:
    """A field of a struct, or an array of plain values, that identifies a thing, such as a group or a partition.

    Attributes:
        term: The identified thing, such as "group" or "topic": one of TERMS.
        field: Name of the field, or of the array.
        kind: Wire type: "string", "int32", or "uuid" for a topic id.
        type_field: Name of the field of the same struct that selects what ``field`` identifies, such as ``key_type`` in
            FindCoordinator; "" if ``field`` always identifies a ``term``.
        type_number: Value of ``type_field`` for which ``field`` identifies a ``term``.
    """

    term: str
    field: str
    kind: str
    type_field: str = ""
    type_number: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """An array in a request whose elements are compared with a fault rule one by one.

    A nested struct is treated as an array of one element.

    Attributes:
        field: Name of the field with the array or the nested struct.
        elements: For an array of plain values, such as group ids, the kinds of names that a value can be. For an array
            of structs, the fields with names in each struct.
        null_is_all: True if the array can be null and null means all, such as all topics; False for any other array.
        terms: All kinds of names, such as topic, that occur in the elements.
    """

    field: str
    elements: tuple[Identifier, ...] | Level
    null_is_all: bool
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Level:
    """The fields with names in a struct of a request, such as group ids, and the arrays of the struct that contain
    names.

    Attributes:
        identifiers: Fields of the struct itself that contain names.
        batches: Arrays of the struct whose elements contain names.
        terms: All kinds of names, such as topic, that occur in the struct and its arrays.
    """

    identifiers: tuple[Identifier, ...]
    batches: tuple[Batch, ...]
    terms: frozenset[str]


@cache
def request_level(key: int, version: int) -> Level:
    """Return the fields that contain names, such as group ids, in the requests of an API version, as a tree of structs
    and arrays.

    Args:
        key: API key.
        version: API version.
    """
    return _level(APIS[key].request, version, null_is_all=key not in NULL_IS_UNCHANGED)


@cache
def terms_of(key: int) -> frozenset[str]:
    """Return the kinds of names, such as group or topic, that occur in any version of the requests of an API."""
    versions = APIS[key].versions
    assert versions.last is not None
    every = range(versions.first, versions.last + 1)
    return frozenset(term for version in every for term in request_level(key, version).terms)


def _level(struct: type, version: int, *, null_is_all: bool, of_partition: bool = False) -> Level:
    fields = {name: field for name, field in schema_of(struct).fields.items() if version in field.versions}
    identifiers: list[Identifier] = []
    batches: list[Batch] = []
    for name, field in fields.items():
        if field.kind == "array":
            batch = _batch(name, field, fields, version, null_is_all)
            if batch.terms:
                batches.append(batch)
        elif field.struct is not None and name not in NOT_REQUESTED:
            level = _level(field.struct, version, null_is_all=null_is_all)
            if level.terms:
                batches.append(Batch(name, level, null_is_all=False, terms=level.terms))
        elif of_partition and name in PARTITION_NAMES:
            identifiers.append(Identifier(PARTITION, name, field.kind))
        else:
            identifiers += _identifiers(name, field.kind, field.entity, fields)
    terms = {identifier.term for identifier in identifiers}
    return Level(tuple(identifiers), tuple(batches), frozenset(terms.union(*(batch.terms for batch in batches))))


def _batch(name: str, field: Field, siblings: Collection[str], version: int, null_is_all: bool) -> Batch:
    assert field.of is not None
    of_partition = name.startswith("partition")
    elements: tuple[Identifier, ...] | Level
    if name in NOT_REQUESTED:
        elements = ()
    elif field.of.struct is not None:
        elements = _level(field.of.struct, version, null_is_all=null_is_all, of_partition=of_partition)
    elif of_partition and field.of.kind == "int32":
        elements = (Identifier(PARTITION, name, "int32"),)
    else:
        elements = tuple(_identifiers(name, field.of.kind, field.entity or field.of.entity, siblings))
    terms = elements.terms if isinstance(elements, Level) else frozenset(element.term for element in elements)
    return Batch(name, elements, null_is_all and version in field.null, terms)


def _identifiers(name: str, kind: str, entity: str, siblings: Collection[str]) -> Iterator[Identifier]:
    if name == "topic_id" and kind == "uuid":
        yield Identifier(TOPIC, name, kind)
    elif kind != "string":
        return
    elif name == "coordinator_keys" or (name == "key" and "value" not in siblings):  # not that of a quota or tag
        yield from _typed(name, "key_type", COORDINATOR_TYPES)
    elif name == "resource_name":
        yield from _typed(name, "resource_type", ACL_TYPES if "principal" in siblings else CONFIG_TYPES)
    elif term := ENTITIES.get(entity) or NAMES.get(name):
        yield Identifier(term, name, kind)


def _typed(name: str, type_field: str, terms: Mapping[int, str]) -> Iterator[Identifier]:
    for number, term in terms.items():
        yield Identifier(term, name, "string", type_field, number)

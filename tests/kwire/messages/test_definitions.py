"""Every version of every declaration, compared with Kafka's: names, order, types, null, compact, tags, defaults."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

import pytest
from kafka_definitions import Definition, Shape, of_jar, of_kafka_python, shape, versions_of

from kwire.blobs import KEYS, STORED
from kwire.headers import RequestHeader, ResponseHeader
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Slot, Text, resolve
from kwire.layout import versions_of as versions_in
from kwire.messages import APIS, NAMES
from kwire.schema import schema_of

NOT_DEFINED = {"ConnectWorkerState", "ConnectAssignment", "AssignmentInfo", "ControlRecordKey"}  # Kafka has code only
DECLARED = {message.__name__: message for api in APIS.values() for message in (api.request, api.response)}
DECLARED |= {name: STORED[name] for name in STORED if name not in NOT_DEFINED}
RELEASES = ["3.9.1", "4.2.0"]
NEW_IN_4 = {
    f"{api}{side}"
    for api in (
        "ListConfigResources",
        "StreamsGroupHeartbeat",
        "StreamsGroupDescribe",
        "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    )
    for side in ("Request", "Response")
} | {
    f"{record}{part}"
    for record in (
        "LegacyOffsetCommit",
        "ConsumerGroupRegularExpression",
        "ShareGroupTargetAssignmentMetadata",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupCurrentMemberAssignment",
        "ShareGroupStatePartitionMetadata",
        "StreamsGroupMetadata",
        "StreamsGroupMemberMetadata",
        "StreamsGroupTargetAssignmentMetadata",
        "StreamsGroupTargetAssignmentMember",
        "StreamsGroupCurrentMemberAssignment",
        "StreamsGroupTopology",
        "ShareSnapshot",
        "ShareUpdate",
    )
    for part in ("Key", "Value")
}
NEW_IN_4 |= {"EndTxnMarker"}  # its bytes are as old as transactions
GONE_IN_4 = {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
# Messages that differ between 3.9.1 and 4.2.0: fields were renamed, tagged fields were added, and an unstable version
# got another field.
CHANGED = {"VoteRequest", "ReadShareGroupStateSummaryResponse", "ShareGroupMetadataValue"}
CHANGED |= {"OffsetCommitValue", "ConsumerGroupMetadataValue", "TransactionLogValue"}
FACTS = ["kind", "compact", "null", "tag", "default", "ignorable", "flexible"]
CHANGEABLE = {"default", "ignorable"}
Shapes: TypeAlias = Iterable[Shape]


def shape_of_layout(name: str, record: Record) -> Shape:
    """Return the shape of our layout, in the form of ``kafka_definitions``."""
    inside = tuple(shape_of_slot(slot) for slot in (*record.slots, *record.tagged))
    absent = frozenset(slot.name for slot in record.absent)
    known = frozenset(schema_of(record.type).fields)
    return Shape(name, "struct", False, False, None, None, False, inside, record.flexible, absent, known)


def shape_of_slot(slot: Slot) -> Shape:
    kind, compact, null, record = parts(slot.node)
    inner = shape_of_layout("", record) if record else None
    return Shape(
        slot.name,
        kind,
        compact,
        null,
        slot.tag,
        plain(slot.field.initial()),
        slot.field.ignorable,
        inner.inside if inner else (),
        inner.flexible if inner else False,
        inner.absent if inner else frozenset(),
        inner.known if inner else frozenset(),
    )


def parts(node: Node) -> tuple[str, bool, bool, Record | None]:
    match node:
        case Fixed(wire):
            return wire, False, False, None
        case Text(compact, null):
            return "string", compact, null, None
        case Blob(compact, null, records):
            return "records" if records else "bytes", compact, null, None
        case List(element, compact, null):
            kind, _, _, record = parts(element)
            return f"[]{kind}", compact, null, record
        case Maybe(record):
            return "struct", False, True, record
        case Record():
            return "struct", False, False, node


def plain(default: object) -> object:
    match default:
        case None | bool() | int() | float() | str():
            return default
        case bytes():
            return default.decode()
        case UUID():
            return "" if default.int == 0 else str(default)
        case list():
            return tuple(default)
        case _:
            return "struct"


def differences(declared: type, definitions: Mapping[str, Definition], newer: Shapes = ()) -> list[str]:
    """Return the differences of the declaration from Kafka's, for all declared versions of the definitions.

    ``newer``: the message in a later release. Which absent fields may be ignored, and the defaults of fields,
    change with time, and the last release that has the field decides.
    """
    definition = definitions[declared.__name__]
    decided = {path for found in newer for path in paths(found)}
    versions = schema_of(declared).versions
    assert versions is not None
    texts = []
    for version in filter(versions.__contains__, versions_of(definition)):
        ours = shape_of_layout(declared.__name__, resolve(declared, version))
        texts += [f"v{version} {text}" for text in compare("", ours, shape(definition, version), decided)]
    return texts


def compare(path: str, ours: Shape, theirs: Shape, decided: Container[str] = ()) -> list[str]:
    if [s.name for s in ours.inside] != [s.name for s in theirs.inside]:
        return [f"{path}: fields {[s.name for s in ours.inside]}, Kafka has {[s.name for s in theirs.inside]}"]
    facts = [fact for fact in FACTS if fact not in CHANGEABLE or path not in decided]
    pairs = [(fact, getattr(ours, fact), getattr(theirs, fact)) for fact in facts]
    pairs.append(("absent", ours.absent & theirs.known, theirs.absent & ours.known))
    results = [f"{path}: {fact} {mine!r}, Kafka has {kafkas!r}" for fact, mine, kafkas in pairs if mine != kafkas]
    for mine, kafkas in zip(ours.inside, theirs.inside, strict=True):
        results += compare(f"{path}.{mine.name}", mine, kafkas, decided)
    return results


def paths(found: Shape, path: str = "") -> Iterator[str]:
    yield path
    for inner in found.inside:
        yield from paths(inner, f"{path}.{inner.name}")


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in GONE_IN_4])
def test_like_kafka_4_2(name: str) -> None:
    assert differences(DECLARED[name], of_jar("4.2.0")) == []


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in {*NEW_IN_4, *CHANGED, *KEYS}])
def test_like_kafka_3_9(name: str) -> None:
    newest = of_jar("4.2.0").get(name)
    newer = [shape(newest, version) for version in versions_of(newest)] if newest else []
    assert differences(DECLARED[name], of_jar("3.9.1"), newer) == []


@pytest.mark.parametrize("name", [name for name in KEYS if name not in NEW_IN_4])
def test_keys_like_kafka_3_9(name: str) -> None:
    """In Kafka 3.9 the type of the record was the version of the key."""
    theirs = shape(of_jar("3.9.1")[name], KEYS[name])
    assert compare("", shape_of_layout(name, resolve(DECLARED[name], 0)), theirs) == []


def test_versions_missing_in_3_9_are_in_4_2() -> None:
    assert {name for name in DECLARED if name not in of_jar("3.9.1")} == NEW_IN_4
    for name in CHANGED:
        assert differences(DECLARED[name], of_jar("3.9.1")) != []
        assert {*versions_of(of_jar("3.9.1")[name])} <= {*versions_of(of_jar("4.2.0")[name])}


def test_like_kafka_python() -> None:
    theirs = of_kafka_python()
    both = DECLARED.keys() & theirs.keys()
    assert len(both) > 90
    assert not [text for name in both for text in differences(DECLARED[name], theirs)]


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in KEYS])
def test_every_version_is_compared(name: str) -> None:
    results = [of_jar(release)[name] for release in RELEASES if name in of_jar(release)]
    versions = schema_of(DECLARED[name]).versions
    assert versions is not None
    assert {version for definition in results for version in versions_of(definition)} == {*versions_in(versions)}


def test_names_without_imports_are_those_of_the_apis() -> None:
    assert {key: api.name for key, api in APIS.items()} == NAMES


def test_headers_like_kafka() -> None:
    assert differences(ResponseHeader, of_jar("3.9.1")) == []
    result = differences(RequestHeader, of_jar("3.9.1"))
    assert {text.partition(" ")[2] for text in result} == {".client_id: default None, Kafka has ''"}  # on purpose


def doctored(**changes: object) -> Mapping[str, Definition]:
    """Return Kafka's JoinGroupRequest with another ``reason``, its last field."""
    definition = of_jar("4.2.0")["JoinGroupRequest"]
    *fields, reason = definition["fields"]
    assert reason["name"] == "Reason"
    return {"JoinGroupRequest": {**definition, "fields": [*fields, {**reason, **changes}]}}


CHANGES = [
    {"name": "Cause"},
    {"type": "bytes"},
    {"type": "[]string"},
    {"versions": "7+"},
    {"versions": "9+"},
    {"nullableVersions": "9+"},
    {"default": "none given"},
    {"ignorable": False},
    {"flexibleVersions": "none"},
    {"taggedVersions": "8+", "tag": 0},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_the_comparison_notices(change: dict[str, object]) -> None:
    assert differences(DECLARED["JoinGroupRequest"], doctored()) == []
    assert differences(DECLARED["JoinGroupRequest"], doctored(**change)) != []


def test_comparison_reports_relevant_differences() -> None:
    definition = of_jar("4.2.0")["JoinGroupRequest"]
    fields = [{**spec, "ignorable": spec["name"] == "GroupInstanceId"} for spec in definition["fields"]]
    result = differences(DECLARED["JoinGroupRequest"], {"JoinGroupRequest": {**definition, "fields": fields}})
    assert any("absent frozenset({'group_instance_id'}), Kafka has frozenset({'re" in text for text in result)


def test_the_comparison_notices_order() -> None:
    definition = of_jar("4.2.0")["HeartbeatRequest"]
    turned = {"HeartbeatRequest": {**definition, "fields": definition["fields"][::-1]}}
    assert differences(DECLARED["HeartbeatRequest"], turned) != []

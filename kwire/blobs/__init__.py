"""Data messages by Kafka's name: what travels as bytes inside other messages, or stands in a log, under a version of
its own. Each is imported when it is first asked for.

As it is stored, a blob says in which version it is:

- most stand behind an int16 with the version;
- keys in the topics of coordinators stand behind an int16 with the type of the record, and have one version only;
- those of SELF_DESCRIBED have the version as their first field.

StickyUserData does not say it; it is the one of BLOBS that is not among STORED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TypeVar

from kwire import codec
from kwire.engines.compiled import REFUSALS, readers
from kwire.errors import DecodeError, EncodeError, Truncated, UnknownApi, UnknownRecordType
from kwire.limits import UNWEIGHED
from kwire.schema import schema_of

M = TypeVar("M")

# What coordinators keep in their topics: the types of records, whose classes are these names with Key and Value.
RECORDS: Mapping[str, Mapping[int, str]] = {
    "__consumer_offsets": {
        0: "LegacyOffsetCommit",
        1: "OffsetCommit",
        2: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        9: "ShareGroupPartitionMetadata",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        19: "StreamsGroupMemberMetadata",
        20: "StreamsGroupTargetAssignmentMetadata",
        21: "StreamsGroupTargetAssignmentMember",
        22: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    },
    "__share_group_state": {0: "ShareSnapshot", 1: "ShareUpdate"},
    "__transaction_state": {0: "TransactionLog"},
}
KEYS: Mapping[str, int] = {f"{name}Key": number for types in RECORDS.values() for number, name in types.items()}


def _keys_and_values(topic: str) -> list[str]:
    return [f"{name}{part}" for name in RECORDS[topic].values() for part in ("Key", "Value")]


MODULES: Mapping[str, list[str]] = {
    "connect": ["ConnectWorkerState", "ConnectAssignment"],
    "consumer_protocol": ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"],
    "control_records": [
        "ControlRecordKey",
        "EndTxnMarker",
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "KRaftVersionRecord",
        "VotersRecord",
    ],
    "offsets_topic": _keys_and_values("__consumer_offsets"),
    "share_state": _keys_and_values("__share_group_state"),
    "sticky": ["StickyUserData"],
    "streams": ["SubscriptionInfoData", "AssignmentInfo"],
    "transaction_state": _keys_and_values("__transaction_state"),
}

# Messages that begin with a field that is their version, and its bytes.
SELF_DESCRIBED: Mapping[str, int] = {
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 2,
    "SnapshotFooterRecord": 2,
    "KRaftVersionRecord": 2,
    "VotersRecord": 2,
    "SubscriptionInfoData": 4,
    "AssignmentInfo": 4,
}
# Blobs that Kafka reads as the newest version it knows when they are newer. Of all others it reads none such.
READ_WHEN_NEWER = {*MODULES["consumer_protocol"], *MODULES["control_records"], *MODULES["connect"]}

MAX_VERSION = 32_767  # a version is an int16


class _Blobs(Mapping[str, type]):
    """Classes by name; a module is loaded with the first look at one of its names."""

    def __init__(self, without: str = "") -> None:
        self._modules = {name: file for file, names in MODULES.items() for name in names if name != without}

    def __getitem__(self, name: str) -> type:
        blob: type = getattr(import_module(f"{__name__}.{self._modules[name]}"), name)
        return blob

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


# What the first two bytes of a blob that was read said: the version to read it as, and the one that it says.
_known: dict[tuple[type, bytes], tuple[int, int]] = {}
_prefixes: dict[tuple[type, int], bytes] = {}  # what stands before the bodies of those that were written

BLOBS: Mapping[str, type] = _Blobs()
STORED: Mapping[str, type] = _Blobs(without="StickyUserData")


def stored_version(blob: type, data: bytes) -> int:
    """The version that a stored blob says. Raises: Truncated; UnknownRecordType if it is a key of another type."""
    name = schema_of(blob).name
    what = "record type" if name in KEYS else "version"
    written = _leading_int(data, SELF_DESCRIBED.get(name, 2), what, name)
    if name not in KEYS:
        return written
    if written != KEYS[name]:
        raise UnknownRecordType(f"{name} has record type {KEYS[name]}, not {written}", written, message=name)
    return 0


def body_offset(blob: type) -> int:
    """Where the body begins in a stored blob."""
    return 0 if schema_of(blob).name in SELF_DESCRIBED else 2


def readable_version(blob: type, written: int) -> int:
    """The version in which a blob of version ``written`` is read and written here.

    One newer than we know may be taken as the newest that we know, where fields are only ever added at the end.
    Raises: UnknownApi for one that cannot be read. Source: Kafka's ConsumerProtocol.deserializeSubscription,
    ControlRecordType, ConnectProtocol; for those that are not read, CoordinatorRecordSerde, AssignmentInfo.
    """
    schema = schema_of(blob)
    assert schema.versions is not None
    assert schema.versions.last is not None
    newest = MAX_VERSION if schema.name in READ_WHEN_NEWER else schema.versions.last
    if not schema.versions.first <= written <= newest:
        raise UnknownApi(f"{schema.name} has versions {schema.versions}, not {written}", message=schema.name)
    return min(written, schema.versions.last)


def decode_stored(blob: type[M], data: bytes) -> tuple[M, int]:
    """A blob as it is stored, and the version that it says. Raises: DecodeError."""
    known = _known.get((blob, data[:2])) if data.__class__ is bytes else None
    if known is not None and len(data) <= UNWEIGHED:
        version, written = known
        try:
            return readers[blob][version](data, 2)[0], written
        except REFUSALS:
            pass  # a reader not made yet, text that is not UTF-8, or bytes to be refused: the long way tells them apart
    written = stored_version(blob, data)
    offset, version = body_offset(blob), readable_version(blob, written)
    value, _ = codec.decode_at(blob, data, offset, version)
    if offset:
        _known[blob, bytes(data[:2])] = version, written
    return value, written


def prefix(value: object, version: int) -> bytes:
    """What stands before the body of a blob that is stored. Raises: EncodeError if it says another version itself."""
    name = schema_of(type(value)).name
    if name not in SELF_DESCRIBED:
        return KEYS.get(name, version).to_bytes(2, "big", signed=True)
    if (said := getattr(value, "version")) != version:  # noqa: B009 - all of them have it
        raise EncodeError(f"says version {said}", path="version", message=name, version=version)
    return b""


def encode_stored(value: object, version: int) -> bytes:
    """A blob as it is stored. Raises: EncodeError, SchemaError."""
    body = codec.encode(value, version)
    before = _prefixes.get((value.__class__, version))
    if before is None:
        before = prefix(value, version)
        if before:  # else the value says its version itself, and each has to be looked at
            _prefixes[value.__class__, version] = before
    return before + body


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> tuple[object, object | None]:
    """Key and value of a record in a topic of RECORDS; the value of a tombstone is None.

    Raises: UnknownRecordType, UnknownApi for what is newer than we know; other DecodeErrors for what is damaged.
    Source: Kafka's CoordinatorRecordSerde.
    """
    if key is None:
        raise DecodeError("a record without a key", message=topic)
    record_type = _leading_int(key, 2, "record type", topic)
    key_class, value_class = _record_classes(topic, record_type)
    found: object = decode_stored(key_class, key)[0]
    return found, None if value is None else decode_stored(value_class, value)[0]


@cache
def _record_classes(topic: str, record_type: int) -> tuple[type, type]:
    if record_type not in RECORDS[topic]:
        raise UnknownRecordType(f"record type {record_type} is not known", record_type, message=topic)
    name = RECORDS[topic][record_type]
    return BLOBS[f"{name}Key"], BLOBS[f"{name}Value"]


def encode_record(key: object, value: object | None, version: int) -> tuple[bytes, bytes | None]:
    """A record in a topic of RECORDS; ``version``: of the value. Raises: EncodeError, SchemaError."""
    return encode_stored(key, 0), None if value is None else encode_stored(value, version)


def _leading_int(data: bytes, width: int, what: str, name: str) -> int:
    if len(data) < width:
        raise Truncated(f"expected {width} bytes of {what}, found {len(data)}", message=name)
    return int.from_bytes(data[:width], "big", signed=True)

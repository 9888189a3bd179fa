"""Versioned messages that are stored as bytes inside other messages or in a log, by Kafka's name.

The classes are imported on first access. Stored messages contain their versions in one of three ways:

- Most messages begin with an int16 that is the version.
- Keys in the topics of coordinators begin with an int16 that is the record type. They have only version 0.
- The messages in SELF_DESCRIBED have the version as their first field.

Only StickyUserData does not contain its version. Its class is in BLOBS, but not in STORED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TypeVar

from kwire import codec
from kwire.engines.chosen import readers
from kwire.engines.compiled import REFUSALS
from kwire.errors import DecodeError, EncodeError, Truncated, UnknownApi, UnknownRecordType
from kwire.limits import UNWEIGHED
from kwire.schema import schema_of

M = TypeVar("M")

# Record types in the topics of coordinators, with the class names without their suffixes Key and Value.
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

# Messages whose first field is their version, with its size in bytes.
SELF_DESCRIBED: Mapping[str, int] = {
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 2,
    "SnapshotFooterRecord": 2,
    "KRaftVersionRecord": 2,
    "VotersRecord": 2,
    "SubscriptionInfoData": 4,
    "AssignmentInfo": 4,
}
# Blobs that Kafka decodes as the newest version it knows if they are newer; it refuses newer versions of all others.
READ_WHEN_NEWER = {*MODULES["consumer_protocol"], *MODULES["control_records"], *MODULES["connect"]}

MAX_VERSION = 32_767  # a version is an int16


class _Blobs(Mapping[str, type]):
    """A mapping of message names to classes. The module of a class is imported on the first access to the class.

    Args:
        without: name of a message to exclude; "" to include all.
    """

    def __init__(self, without: str = "") -> None:
        self._modules = {name: file for file, names in MODULES.items() for name in names if name != without}

    def __getitem__(self, name: str) -> type:
        blob: type = getattr(import_module(f"{__name__}.{self._modules[name]}"), name)
        return blob

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


# Cache by the first two bytes of a blob: the version to decode it as, and the version that it contains.
_known: dict[tuple[type, bytes], tuple[int, int]] = {}
_prefixes: dict[tuple[type, int], bytes] = {}  # cache of the bytes before an encoded body

BLOBS: Mapping[str, type] = _Blobs()
STORED: Mapping[str, type] = _Blobs(without="StickyUserData")


def stored_version(blob: type, data: bytes) -> int:
    """Return the version that a stored message contains.

    Args:
        blob: class of the message.
        data: bytes of the message, as they are stored.

    Raises: Truncated if ``data`` is too short; UnknownRecordType if ``data`` is a key whose record type is not the
    record type of ``blob``.
    """
    name = schema_of(blob).name
    what = "record type" if name in KEYS else "version"
    written = _leading_int(data, SELF_DESCRIBED.get(name, 2), what, name)
    if name not in KEYS:
        return written
    if written != KEYS[name]:
        raise UnknownRecordType(
            f"the record type is {written}, but {name} has record type {KEYS[name]}", written, message=name
        )
    return 0


def body_offset(blob: type) -> int:
    """Return the offset, in bytes, at which the body of a stored message begins.

    The result is 0 for a message in SELF_DESCRIBED, whose version is a field of the body. For all other messages the
    result is 2: the body follows a version or record type.

    Args:
        blob: class of the message.
    """
    return 0 if schema_of(blob).name in SELF_DESCRIBED else 2


def readable_version(blob: type, written: int) -> int:
    """Return the version in which to decode a stored message.

    If the stored version is newer than kwire knows, the result is the newest known version. This applies only to
    messages that Kafka extends by appending fields.

    Args:
        blob: class of the message.
        written: version that the message contains.

    Raises: UnknownApi for a newer version of a message that Kafka extends in a different way, and for a version that is
    too old.

    Source: Kafka's ConsumerProtocol.deserializeSubscription, ControlRecordType and ConnectProtocol. For messages whose
    newer versions are rejected: CoordinatorRecordSerde and AssignmentInfo.
    """
    schema = schema_of(blob)
    assert schema.versions is not None
    assert schema.versions.last is not None
    newest = MAX_VERSION if schema.name in READ_WHEN_NEWER else schema.versions.last
    if not schema.versions.first <= written <= newest:
        raise UnknownApi(
            f"{schema.name} has no version {written}: its versions are {schema.versions}", message=schema.name
        )
    return min(written, schema.versions.last)


def decode_stored(blob: type[M], data: bytes) -> tuple[M, int]:
    """Decode a message that is stored with its version; return the message and the version.

    Args:
        blob: class of the message.
        data: bytes that are stored: version or record type, then the message.

    Raises: DecodeError if the bytes are not valid.
    """
    versions = _known.get((blob, data[:2])) if data.__class__ is bytes else None
    if versions is not None and len(data) <= UNWEIGHED:
        version, written = versions
        try:
            return readers[blob][version](data, 2)[0], written
        except REFUSALS:
            pass  # no reader compiled yet, text that is not UTF-8, or invalid bytes: the code below distinguishes them
    written = stored_version(blob, data)
    offset, version = body_offset(blob), readable_version(blob, written)
    value, _ = codec.decode_at(blob, data, offset, version)
    if offset:
        _known[blob, bytes(data[:2])] = version, written
    return value, written


def prefix(value: object, version: int) -> bytes:
    """Return the bytes before the body of a stored message: its version, or the record type of a key.

    Args:
        value: message to store.
        version: version in which the message is encoded.

    Raises: EncodeError if the message has a version field with a value other than ``version``.
    """
    name = schema_of(type(value)).name
    if name not in SELF_DESCRIBED:
        return KEYS.get(name, version).to_bytes(2, "big", signed=True)
    if (own := getattr(value, "version")) != version:  # noqa: B009 - all of them have it
        raise EncodeError(
            f"the version field is {own}, but the message is encoded as version {version}: use the same version",
            path="version",
            message=name,
            version=version,
        )
    return b""


def encode_stored(value: object, version: int) -> bytes:
    """Encode a message as it is stored, with its version.

    Raises: EncodeError if a value cannot be encoded; SchemaError if the message does not have this version.
    """
    body = codec.encode(value, version)
    before = _prefixes.get((value.__class__, version))
    if before is None:
        before = prefix(value, version)
        if before:  # otherwise the message has a version field, which must be checked
            _prefixes[value.__class__, version] = before
    return before + body


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> tuple[object, object | None]:
    """Decode key and value of a record in a topic of RECORDS, such as __consumer_offsets.

    Args:
        topic: name of the topic.
        key: encoded key.
        value: encoded value; None for a tombstone, which is decoded as None.

    Raises:
        UnknownRecordType or UnknownApi: the record is newer than kwire knows.
        DecodeError: the record is not valid.

    Source: Kafka's CoordinatorRecordSerde.
    """
    if key is None:
        raise DecodeError("the record has no key, so its type is unknown", message=topic)
    record_type = _leading_int(key, 2, "record type", topic)
    key_class, value_class = _record_classes(topic, record_type)
    decoded_key: object = decode_stored(key_class, key)[0]
    return decoded_key, None if value is None else decode_stored(value_class, value)[0]


@cache
def _record_classes(topic: str, record_type: int) -> tuple[type, type]:
    if record_type not in RECORDS[topic]:
        raise UnknownRecordType(
            f"unknown record type {record_type}: expected 0 to {max(RECORDS[topic])}", record_type, message=topic
        )
    name = RECORDS[topic][record_type]
    return BLOBS[f"{name}Key"], BLOBS[f"{name}Value"]


def encode_record(key: object, value: object | None, version: int) -> tuple[bytes, bytes | None]:
    """Encode key and value of a record in a topic of RECORDS, such as __consumer_offsets.

    Args:
        key: message that is the key, such as OffsetCommitKey.
        value: message that is the value; None for a tombstone.
        version: version in which the value is encoded.

    Raises: EncodeError if a value cannot be encoded; SchemaError if the message does not have this version.
    """
    return encode_stored(key, 0), None if value is None else encode_stored(value, version)


def _leading_int(data: bytes, width: int, what: str, name: str) -> int:
    if len(data) < width:
        raise Truncated(f"expected {width} bytes of {what}, found {len(data)}", message=name)
    return int.from_bytes(data[:width], "big", signed=True)

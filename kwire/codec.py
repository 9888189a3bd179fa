"""Encoding and decoding of message bodies, without headers.

Callers use one class for all versions of a message; the version is an argument of the functions here. A fast engine,
native or compiled, decides whether data is valid. If it rejects data, the reference engine runs on the same input and
raises the error with field and offset. For data above ``limits.MAX_EXPLAINED`` bytes, the error has an offset but no
field.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from kwire.engines import compiled
from kwire.engines.chosen import DEFAULT, Engine, available, implementation, readers, writers
from kwire.engines.compiled import REFUSALS
from kwire.errors import DecodeError
from kwire.limits import HEAVIEST, MAX_EXPLAINED, UNWEIGHED, weight_limit
from kwire.schema import schema_of

M = TypeVar("M")
Data: TypeAlias = bytes | bytearray | memoryview
ENGINES: tuple[Engine, ...] = available()


def decode(message: type[M], data: Data, version: int, *, engine: Engine | None = None, strict: bool = False) -> M:
    """Decode a message. Trailing bytes are ignored, as Kafka does, unless ``strict``.

    Args:
        message: class of the message, such as ``JoinGroupRequest``.
        data: encoded message, without a header.
        version: version of the message.
        engine: "native" (fast, if installed), "compiled" (fast) or "reference" (slow). All engines return the same
            result. None for the default, ``kwire.engines.chosen.DEFAULT``.
        strict: True to accept only the encoding that ``encode`` writes: no trailing bytes, null as -1, shortest
            varints, tags in ascending order without duplicates, no tagged field with its default value, booleans 0 or
            1.

    Raises:
        DecodeError: the data is invalid; the error contains path and byte offset of the invalid field. If the data is
            larger than ``limits.MAX_EXPLAINED`` bytes, the error contains only the offset at which decoding stopped.
        SchemaError: the message does not have this version.
    """
    if engine is None and data.__class__ is bytes and len(data) <= UNWEIGHED and not strict:
        try:
            return readers[message][version](data, 0)[0]  # type: ignore[no-any-return]
        except REFUSALS:
            pass  # no reader in use yet, text that is not UTF-8, or invalid bytes: decode_at distinguishes them
    value, end = decode_at(message, data, 0, version, engine=engine)
    if strict:
        check_strict(value, data, 0, end, version, engine=engine)
    return value


def decode_at(
    message: type[M],
    data: Data,
    offset: int,
    version: int,
    *,
    engine: Engine | None = None,
    weight: int | None = None,
    explained: int = MAX_EXPLAINED,
) -> tuple[M, int]:
    """Decode the message that begins at ``offset`` of ``data``; return it with the offset of the byte after it.

    Args:
        message: class of the message.
        data: bytes that contain the message.
        offset: offset of the first byte of the message.
        version: version of the message.
        engine: "native", "compiled" or "reference"; None for the default.
        weight: maximum memory of the decoded message, in bytes; None for the default, ``limits.weight_limit`` of the
            number of bytes from ``offset`` on.
        explained: maximum size, in bytes, of an invalid message that the reference engine decodes again to name the
            invalid field in the error.

    Raises: DecodeError if the data is invalid; its offset counts from the start of ``data``. SchemaError if the message
    does not have this version.
    """
    if not isinstance(data, bytes):
        if not isinstance(data, (bytearray, memoryview)):
            raise TypeError(f"data must be bytes, bytearray or memoryview, got {type(data).__name__}")
        data = bytes(data)
    size = len(data) - offset
    if engine is None and size <= UNWEIGHED and (weight is None or size * HEAVIEST <= weight):
        try:
            return readers[message][version](data, offset)
        except REFUSALS:
            pass  # as in decode
    if weight is None:
        weight = weight_limit(size)
    used = engine or DEFAULT
    module = implementation(used)
    if used == "reference":
        return cast("tuple[M, int]", module.decode(message, data, offset, version, weight))
    try:
        return cast("tuple[M, int]", module.decode(message, data, offset, version, weight))
    except REFUSALS as refusal:
        if isinstance(refusal, compiled.FINAL):
            raise
        if size > explained:
            raise module.rough_error(message, version, len(data), refusal) from None
        _explain_decoding(message, data, offset, version, weight, refusal, used)


def decode_in_slices(
    message: type[M],
    data: bytes,
    offset: int,
    version: int,
    size: int,
    *,
    weight: int | None = None,
    explained: int = MAX_EXPLAINED,
) -> Generator[None, None, tuple[M, int]]:
    """Decode a message; yield after every ``size`` array elements, so that the caller can do other work.

    The generator finally returns the message and the offset after the message, as ``decode_at`` does. Copied bytes also
    count as elements (``limits.COPIED_LIKE_AN_ELEMENT``).

    Args:
        message: class of the message.
        data: bytes that contain the message.
        offset: offset of the first byte of the message.
        version: version of the message.
        size: number of array elements between two yields.
        weight: maximum memory of the decoded message, in bytes; None for the default, as in ``decode_at``.
        explained: maximum size, in bytes, of an invalid message that the reference engine decodes again, without a
            yield, to name the invalid field in the error.

    Raises: DecodeError if the data is invalid; SchemaError if the message does not have this version.
    """
    limit = weight_limit(len(data) - offset) if weight is None else weight
    try:
        return (yield from compiled.decode_in_slices(message, data, offset, version, limit, size))
    except REFUSALS as refusal:
        if len(data) - offset > explained and not isinstance(refusal, compiled.FINAL):
            raise compiled.rough_error(message, version, len(data), refusal) from None
        return decode_at(message, data, offset, version, weight=weight, explained=explained)


def encode(value: object, version: int, *, engine: Engine | None = None) -> bytes:
    """Return the bytes of a message in one version, without a header.

    Args:
        value: the message.
        version: version of the message.
        engine: "native", "compiled" or "reference" (slow); all return the same bytes. None for the default.

    Raises:
        EncodeError: the version cannot carry the value of a field.
        SchemaError: the message does not have this version.
    """
    if engine is None:
        try:
            return writers[value.__class__][version](value)
        except REFUSALS:
            pass  # no writer in use yet, rare text, or a value to refuse: the engine's encode distinguishes them
    used = engine or DEFAULT
    module = implementation(used)
    if used == "reference":
        return cast("bytes", module.encode(value, version))
    try:
        return cast("bytes", module.encode(value, version))
    except REFUSALS as refusal:
        if isinstance(refusal, compiled.FINAL):
            raise
        _explain_encoding(value, version, refusal, used)


def encode_in_slices(value: object, version: int, size: int) -> Generator[None, None, bytes]:
    """Encode a message; yield after every ``size`` array elements, so that the caller can do other work.

    The generator finally returns the encoded bytes. The caller must not change ``value`` until then. Raises:
    EncodeError if a value cannot be encoded; SchemaError if the message does not have this version.
    """
    try:
        return (yield from compiled.encode_in_slices(value, version, size))
    except REFUSALS:
        return encode(value, version)  # which writes text with surrogates too, or raises the error


def struct(message: type, version: int) -> Any:
    """Return a ``construct.Construct`` for one version of a message.

    Its method ``parse`` returns an instance of the message class, and its method ``build`` encodes such an instance.

    Raises: SchemaError if the message does not have this version.
    """
    return implementation("reference").struct(message, version)


def check_strict(
    value: object, data: Data, begin: int, end: int, version: int, *, engine: Engine | None = None
) -> None:
    """Check that decoded bytes equal the encoding that ``encode`` writes, and that no bytes follow them.

    Raises: DecodeError otherwise, with the offset of the first byte that differs.

    Args:
        value: the message decoded from ``data[begin:end]``.
        data: bytes that contain the message.
        begin: offset of the first byte of the message.
        end: offset of the byte after the message.
        version: version of the message.
        engine: engine that encodes the message for the comparison; None for the default.
    """
    name = schema_of(type(value)).name
    expected = encode(value, version, engine=engine)
    actual = data[begin:end]
    if expected != actual:
        at = next(n for n, byte in enumerate(expected) if byte != actual[n])  # neither is the beginning of the other
        raise DecodeError(
            "the bytes differ from the canonical encoding of the message",
            offset=begin + at,
            message=name,
            version=version,
        )
    if end != len(data):
        trailing = f"{len(data) - end} trailing bytes"
        raise DecodeError(trailing, offset=end, message=name, version=version)


def _explain_decoding(
    message: type, data: Data, offset: int, version: int, weight: int, refusal: BaseException, used: Engine
) -> NoReturn:
    implementation("reference").decode(message, data, offset, version, weight)
    raise AssertionError(
        f"internal error while decoding {schema_of(message).name} v{version}: "
        f"the {used} engine rejects bytes that the reference engine accepts; please report this bug of kwire"
    ) from refusal


def _explain_encoding(value: object, version: int, refusal: BaseException, used: Engine) -> NoReturn:
    implementation("reference").encode(value, version)
    raise AssertionError(
        f"internal error while encoding {schema_of(type(value)).name} v{version}: "
        f"the {used} engine rejects a value that the reference engine accepts; please report this bug of kwire"
    ) from refusal

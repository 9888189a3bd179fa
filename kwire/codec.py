"""Messages to bytes and back, without headers.

Versions stop here: above, one object stands for all versions of a message. The compiled engine decides; what it refuses
the reference engine refuses too, and says why and where.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast

from kwire.engines import compiled
from kwire.engines.compiled import REFUSALS, readers, writers
from kwire.errors import DecodeError
from kwire.limits import MAX_EXPLAINED, UNWEIGHED, weight_limit
from kwire.schema import schema_of

M = TypeVar("M")
Data: TypeAlias = bytes | bytearray | memoryview
Engine = Literal["compiled", "reference"]
ENGINES: tuple[Engine, ...] = ("compiled", "reference")


def decode(message: type[M], data: Data, version: int, *, engine: Engine = "compiled", strict: bool = False) -> M:
    """The message in ``data``. Bytes behind it are ignored, as Kafka does, unless ``strict``.

    ``strict`` accepts only what ``encode`` would write: no bytes behind the message, null as -1, the shortest varints,
    tags in ascending order and none twice, no tagged field at its default, booleans 0 or 1.

    Raises: DecodeError with path and byte offset (of a message above ``limits.MAX_EXPLAINED`` without a path, and with
    the offset up to which it could be read); SchemaError for a version that the message does not have.
    """
    if engine == "compiled" and data.__class__ is bytes and len(data) <= UNWEIGHED and not strict:
        try:
            return readers[message][version](data, 0)[0]  # type: ignore[no-any-return]
        except REFUSALS:
            pass  # a reader not made yet, text that is not UTF-8, or bytes to be refused: the long way tells them apart
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
    engine: Engine = "compiled",
    weight: int | None = None,
    explained: int = MAX_EXPLAINED,
) -> tuple[M, int]:
    """The message that begins at ``offset`` of ``data``, and the offset behind it. Offsets in errors count from 0.

    ``weight``: what it may become in memory (``limits.weight_limit`` of its size, if not given). ``explained``: size of
    the largest message that is read again if it is refused, so that the error names the field.
    """
    if not isinstance(data, bytes):
        if not isinstance(data, (bytearray, memoryview)):
            raise TypeError(f"a message is read from bytes, not from {type(data).__name__}")
        data = bytes(data)
    if weight is None:
        weight = weight_limit(len(data) - offset)
    if engine != "compiled":
        return cast("tuple[M, int]", _other(engine).decode(message, data, offset, version, weight))
    try:
        return compiled.decode(message, data, offset, version, weight)
    except REFUSALS as refusal:
        if isinstance(refusal, compiled.FINAL):
            raise
        if len(data) - offset > explained:
            raise compiled.rough_error(message, version, len(data), refusal) from None
        _explain_decoding(message, data, offset, version, weight, refusal)


def encode(value: object, version: int, *, engine: Engine = "compiled") -> bytes:
    """The bytes of ``value`` in this version.

    Raises: EncodeError if the version cannot carry the value; SchemaError if there is no such version.
    """
    if engine != "compiled":
        return cast("bytes", _other(engine).encode(value, version))
    try:
        return writers[value.__class__][version](value)
    except REFUSALS:
        pass  # as in decode
    try:
        return compiled.encode(value, version)
    except REFUSALS as refusal:
        if isinstance(refusal, compiled.FINAL):
            raise
        _explain_encoding(value, version, refusal)


def encode_in_slices(value: object, version: int, size: int) -> Generator[None, None, bytes]:
    """A generator that returns the bytes of ``value``, and stops after each ``size`` elements of its arrays.

    ``value`` must not change meanwhile. Raises: as ``encode``.
    """
    try:
        return (yield from compiled.encode_in_slices(value, version, size))
    except REFUSALS:
        return encode(value, version)  # which writes rare text as well, or explains


def struct(message: type, version: int) -> Any:
    """The ``construct.Construct`` of one message version; it parses to, and builds from, the message class."""
    return _reference().struct(message, version)


def check_strict(value: object, data: Data, begin: int, end: int, version: int, *, engine: Engine = "compiled") -> None:
    """Refuse bytes that are not what ``encode`` writes of the value read from them, or that go on behind it.

    Raises: DecodeError at the first byte that differs.
    """
    name = schema_of(type(value)).name
    written = encode(value, version, engine=engine)
    given = data[begin:end]
    if written != given:
        pairs = zip(written, given, strict=False)
        at = next((n for n, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(written), len(given)))
        raise DecodeError("not as Kafka writes it", offset=begin + at, message=name, version=version)
    if end != len(data):
        behind = f"{len(data) - end} bytes behind the message"
        raise DecodeError(behind, offset=end, message=name, version=version)


def _reference() -> Any:
    """The reference engine; construct is not loaded before it is needed."""
    from kwire.engines import reference

    return reference


def _other(engine: str) -> Any:
    if engine != "reference":
        raise ValueError(f"there is no engine {engine!r}, only {' and '.join(ENGINES)}")
    return _reference()


def _explain_decoding(
    message: type, data: Data, offset: int, version: int, weight: int, refusal: BaseException
) -> NoReturn:
    _reference().decode(message, data, offset, version, weight)
    raise AssertionError(f"only the compiled engine refuses {schema_of(message).name} v{version}") from refusal


def _explain_encoding(value: object, version: int, refusal: BaseException) -> NoReturn:
    _reference().encode(value, version)
    raise AssertionError(f"only the compiled engine refuses {schema_of(type(value)).name} v{version}") from refusal

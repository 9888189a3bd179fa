"""Checks of the fuzz targets in ``native/fuzz``: the native engine must agree with the engines in Python.

``make fuzz-native`` builds each target with the functions of this module, and calls the function with the inputs of
libFuzzer. An AssertionError or any other exception is a failure. The functions in TARGETS get the input itself;
``cursor`` and ``text`` get the results of functions that only Rust can call.
"""

from __future__ import annotations

import base64
import io
import json as json_module
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any
from uuid import UUID
from zlib import crc32

from google_crc32c import value as crc32c
from native_columns import columns
from native_forwarded import forwarded
from native_frame_log import frame_log
from native_frame_records import frame_records
from native_pieces import Pieces
from native_requests import requests
from native_segments import calls

from kwire import records as package
from kwire.analysis import usage
from kwire.blobs import BLOBS
from kwire.capture.calls.model import Call
from kwire.capture.rows import row_of, time_text
from kwire.engines import compiled, native, primitives, reference
from kwire.engines.runtime import NativeRefused
from kwire.errors import DecodeError, LimitError, Truncated, WireError
from kwire.json.expanded import Context, error_of
from kwire.json.expanded import form_of as python_form
from kwire.json.native import form_of, line_writer
from kwire.json.objects import uuid_text
from kwire.layout import versions_of
from kwire.limits import MAX_TEXT, weight_limit
from kwire.messages import APIS
from kwire.records import batch as batch_module
from kwire.records import compression, limits
from kwire.records import native as native_records
from kwire.records import record as record_module
from kwire.records.batch import Batch, build_batch
from kwire.records.limits import RECORDS_AT_ONCE
from kwire.records.message_set import build_message_set
from kwire.records.record import Record
from kwire.schema import schema_of

KEYS = sorted(APIS)
NAMES = sorted(BLOBS)
REFERENCE_EVERY = 16  # inputs for each that the reference engine decodes too, because it is slow
HEAD = 4  # bytes before a message: its kind, number and version, and its memory
MEMORY = 64  # bytes of memory for each unit of the fourth byte
TAIL = 40  # bytes of a batch header that its checksum covers
CRC_AT, CRC_FROM = 17, 21
BOMB = 1 << 20  # bytes of the largest decompressed batch
LATENCY = 10**15  # microseconds from which on Python writes a latency
MODES = 16  # forms of the input of ``records``
FORMS = 8  # of ``codec``
FEW = 100  # bytes of the largest result of some inputs of ``codec``

Outcome = Any


def message(data: bytes, *, every: int = REFERENCE_EVERY) -> None:
    """Check that all engines decode a message to the same value, and encode it as the same bytes, or all reject it.

    Args:
        data: four bytes that select the message (see ``chosen``), and the message.
        every: number of inputs for each that the reference engine decodes too; a checksum selects them.
    """
    if len(data) < HEAD:
        return
    kind, version, left, body = chosen(data)
    found = refused = value = None
    end = 0
    try:
        value, end = native.decode(kind, body, 0, version, left)
    except NativeRefused as error:
        refused = error.args
    if refused is None:
        encoded = native.encode(value, version)
        found = repr(value), end, encoded
        again, last = native.decode(kind, encoded, 0, version, weight_limit(len(encoded)))
        assert last == len(encoded), (last, encoded)
        assert again == value or "nan" in repr(again), (again, value)  # in a NaN, no value equals itself
        assert native.encode(again, version) == encoded, (again, value)
    else:
        assert refused[0] in (native.INVALID, native.TRUNCATED, native.TOO_HEAVY), refused
        assert 0 <= refused[1] <= len(body), refused
    other = _by(compiled, kind, body, version, left)
    assert other == found, (kind, version, left, found, other)
    if crc32(data) % every == 0:
        other = _by(reference, kind, body, version, left)
        if isinstance(other, WireError):
            assert refused is not None, (kind, version, left, found, other)
            assert refused[0] == kind_of(other), (kind, version, left, refused, other)
        else:
            assert other == found, (kind, version, left, found, other)


def chosen(data: bytes) -> tuple[type, int, int, bytes]:
    """Return the class of a message, its version, the memory that it may take in bytes, and its bytes.

    Args:
        data: the message after four bytes. The first selects request (0), response (1) or blob (2 and 3); the second is
            the API key, or the number of the blob; the third is the version. The fourth is the memory in units of
            MEMORY bytes; 0 for the limit of the message's size. A key or version that does not exist is replaced.
    """
    which, number, version, memory = data[:HEAD]
    if which & 2:
        kind: type = BLOBS[NAMES[number % len(NAMES)]]
    else:
        api = APIS[number if number in APIS else KEYS[number % len(KEYS)]]
        kind = api.response if which & 1 else api.request
    versions = schema_of(kind).versions
    assert versions is not None
    existing = versions_of(versions)
    if version not in existing:
        version = existing[version % len(existing)]
    return kind, version, memory * MEMORY or weight_limit(len(data) - HEAD), data[HEAD:]


def kind_of(error: WireError) -> int:
    """Return the kind of a reference engine's error, as the native engine numbers it."""
    if isinstance(error, Truncated):
        return native.TRUNCATED
    return native.TOO_HEAVY if isinstance(error, LimitError) and "memory" in error.reason else native.INVALID


def _by(engine: Any, kind: type, body: bytes, version: int, left: int) -> Outcome:
    """Return the decoded value as text, the offset after it, and its bytes when encoded again; else the refusal.

    The refusal of the compiled engine has no error context, and is returned as None.
    """
    try:
        value, end = engine.decode(kind, body, 0, version, left)
    except WireError as error:
        return error
    except compiled.REFUSALS:
        return None
    return repr(value), end, engine.encode(value, version)


def name_of(topic_id: UUID) -> str | None:
    """Return a name for half of the topic ids."""
    return f"topic \u20ac {topic_id.int % 7}" if topic_id.int % 2 else None


CONTEXT = Context(name_of)


def json(data: bytes) -> None:
    """Check that the native JSON text of a message is the one of Python, and that both reject the same messages.

    ``data``: four bytes that select the message (see ``chosen``), and the message.
    """
    if len(data) < HEAD:
        return
    kind, version, left, body = chosen(data)
    form = form_of(kind, version)
    if form is None:
        return  # Python writes it
    found = None
    with suppress(NativeRefused):
        checked = form.body(body, 0, left)
        found = checked.text(name_of).decode("ascii"), checked.error
    expected = None
    with suppress(WireError, *compiled.REFUSALS):
        value: Any = compiled.decode(kind, body, 0, version, left)[0]
        expected = json_module.dumps(python_form(value, version, CONTEXT)), error_of(value, version)
    if found is None and expected is not None and '"_unknown_tags"' in expected[0]:
        return  # a struct with more unknown tags than the native writer accepts is left to Python
    assert found == expected, (kind, version, left, found, expected)
    if found is not None:
        json_module.loads(found[0])


RECORDS = native_records.records_of(Record, "native") if native.package() else None
FIELDS = [field.name for field in fields(Batch)]
READER = native.package().Batches(Batch, FIELDS, RECORDS, RECORDS_AT_ONCE, BOMB) if RECORDS else None
written_natively = native_records.written_natively


@contextmanager
def using(*, is_native: bool) -> Iterator[None]:
    """Read and write records with kwire-native, or with Python alone. Decompressed batches have at most BOMB bytes."""
    changes: list[tuple[Any, str, Any]] = [
        (record_module, "records_of", lambda into: native_records.records_of(into, "native" if is_native else "")),
        (record_module, "written_natively", written_natively if is_native else _not_written),
        (batch_module, "written_natively", written_natively if is_native else _not_written),
        (batch_module, "NATIVE", READER if is_native else None),
        (batch_module, "WRITER", RECORDS if is_native else None),
        (package, "NATIVE", READER if is_native else None),
        (compression, "NATIVE", native.package() if is_native else None),
        (limits, "decompressed", lambda _: BOMB),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _not_written(*_: Any) -> None:
    return None


def records(data: bytes) -> None:
    """Check that the native reader and writer of records agree with those in Python.

    ``data``: a byte that selects what is made of the other bytes (see ``composed``), and the bytes.
    """
    if not data:
        return
    whole = composed(data[0] % MODES, data[1:])
    verify = data[0] < 0x80
    outcomes = []
    for is_native in (True, False):
        with using(is_native=is_native):
            outcomes.append([*_read(whole, verify)])
    assert outcomes[0] == outcomes[1], outcomes


def composed(mode: int, data: bytes) -> bytes:
    """Return the records field that a mode makes of the input of a target.

    Args:
        mode: 0 for the data itself; 1 for the data with a correct checksum; 2 to 6 for a batch of magic 2 with the
            codecs 0 to 4, whose header ends with the first 40 bytes of the data; 7 to 14 for a message of magic 0 or 1
            with the codecs 0 to 3; 15 for two equal batches.
        data: bytes to put into the field.
    """
    if mode == 1 and len(data) > CRC_FROM:
        (length,) = struct.unpack_from(">i", data, 8)
        end = 12 + length if length > 0 else len(data)
        return data[:CRC_AT] + struct.pack(">I", crc32c(data[CRC_FROM:end])) + data[CRC_FROM:]
    if 2 <= mode <= 6:
        return _batch(mode - 2, data)
    if 7 <= mode <= 14:
        magic, codec = divmod(mode - 7, 4)
        packed = compression.compress(codec, data, old_lz4=magic == 0)
        outer = bytearray(build_message_set([Record(value=packed)], magic=magic))
        outer[17] |= codec
        struct.pack_into(">I", outer, 12, crc32(outer[16:]))
        return bytes(outer)
    return 2 * _batch(compression.NONE, data) if mode == 15 else data


def _batch(codec: int, data: bytes) -> bytes:
    tail = data[:TAIL].ljust(TAIL, b"\0")
    tail = bytes((tail[0], tail[1] & ~compression_mask() | codec)) + tail[2:]
    covered = tail + compression.compress(codec, data[TAIL:])
    base_offset, leader_epoch = struct.unpack_from(">b", tail, 3)[0], -1
    size = len(covered) + CRC_FROM - 12
    return struct.pack(">qiibI", base_offset, size, leader_epoch, 2, crc32c(covered)) + covered


def compression_mask() -> int:
    """Return the bits of a batch's attributes that contain its codec."""
    return 7


def _read(data: bytes, verify: bool) -> Iterator[Any]:
    """Yield the batches and records of a field, the bytes of the records when written again, and the errors."""
    try:
        yield repr(batch_module.read_batch(data))
    except WireError as error:
        yield repr(error)
    try:
        for found in package.read(data):
            yield repr(found)
            some: list[Record] = []
            try:
                some.extend(found.records(verify_crc=verify))
            except WireError as error:
                yield repr(some), repr(error)
                continue
            yield repr(some)
            if some:
                yield _written(some, found)
    except WireError as error:
        yield repr(error)


def _written(some: list[Record], found: Any) -> Any:
    """Return batches with the records of a batch, whose records have to be equal."""
    first = build_batch(some)
    (copy,) = package.read(first)
    contents = [
        [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in one] for one in (some, copy.records())
    ]
    assert contents[0] == contents[1], contents
    options = {"keep_offsets": True, "base_offset": found.base_offset}
    try:
        return (
            first,
            build_batch(some, **options),
            build_batch(some, transactional=True, control=True, delete_horizon=7),
        )
    except WireError as error:
        return first, repr(error)


def codec(data: bytes) -> None:
    """Check that the native functions decompress and compress to the bytes of Python, or leave the data to Python.

    ``data``: a byte that selects the form (see ``compressed``), and the bytes.
    """
    if not data:
        return
    form, content = data[0] % FORMS, data[1:]
    with using(is_native=False):
        if form == FORMS - 1:
            frame = native.package().zstd_frame(content)
            assert frame == compression.compress(compression.ZSTD, content), frame
            return
        number, packed = compressed(form, content)
        limit = FEW if data[0] >= 0x80 else BOMB
        found = native.package().decompress(number, packed, limit)
        if found is not None:
            assert len(found) <= limit, (len(found), limit)
            assert found == compression.decompress(number, packed, limit=limit), found


def compressed(form: int, data: bytes) -> tuple[int, bytes]:
    """Return a codec, and data in a form of it.

    Args:
        form: 0 to 3 for the data itself, with the codecs 1 to 4; 4 for a gzip member with the data as its deflated
            content, and with the right checksum; 5 for a block of snappy-java; 6 for an lz4 frame without its first
            four bytes, whose header gets the right checksum.
        data: compressed data, or the part of it that the form needs.
    """
    match form:
        case 4:
            inflater = zlib.decompressobj(-15)
            content = b""
            with suppress(zlib.error):
                content = inflater.decompress(data, BOMB)
            header = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255))
            return compression.GZIP, header + data + struct.pack("<II", crc32(content), len(content))
        case 5:
            return compression.SNAPPY, compression.XERIAL_HEADER + struct.pack(">i", len(data)) + data
        case 6:
            return compression.LZ4, compression._with_correct_checksum(compression.LZ4_MAGIC + data)
        case _:
            return 1 + form, data


LINES = line_writer(Call, {key: api.name for key, api in APIS.items()})


def line(data: bytes) -> None:
    """Check that the native line of a frame is the one of Python, or that it is left to Python for a known reason.

    ``data``: fields of the call, and a message as in ``json``.
    """
    pieces = Pieces(data)
    flags = pieces.take(1)[0]
    is_response = bool(flags & 1)
    client, broker, connection = (pieces.text() or "" for _ in range(3))
    call = Call(connection=connection, client=client, broker=broker, number=1)
    call.file, call.response_file, call.client_id = pieces.text(), pieces.text(), pieces.text()
    call.api_key, call.api_version, call.correlation_id = pieces.number(2), pieces.number(2), pieces.number(4)
    call.request_us, latency = pieces.number(8), pieces.number(8)
    time_us = call.request_us or 0
    if is_response:
        time_us = call.response_us = time_us + (latency or 0)
    else:
        call.request_us = time_us
    call.request_size = call.response_size = pieces.number(4)
    call.position = call.response_position = pieces.number(8)
    if flags & 2:
        call.reason = "reason"
    if flags & 4:
        call.request_raw = call.response_raw = b"raw"
    expected = body = value = None
    version = 0
    if flags & 8 and len(pieces.rest) >= HEAD:
        kind, version, left, content = chosen(pieces.rest)
        with suppress(WireError, *compiled.REFUSALS):
            value = compiled.decode(kind, content, 0, version, left)[0]
            form = form_of(kind, version)
            body = None if form is None else form.body(content, 0, left)
    if body is not None:
        call.response_version = version
        row = row_of(call, is_response)
        row["body"] = python_form(value, version, CONTEXT)
        row["error_code"] = error_of(value, version) if is_response else None
    else:
        row = row_of(call, is_response)
    expected = f"{json_module.dumps(row)}\n".encode()
    setattr(call, "response" if is_response else "request", body)
    found = LINES.line(call, is_response, name_of)
    if found is None:
        assert _is_left(call, row, time_us), row
    else:
        assert found == expected, (found, expected)


def _is_left(call: Call, row: Mapping[str, Any], time_us: int) -> bool:
    """Return whether the line of a call is left to Python."""
    texts = (call.connection, call.client, call.broker, call.client_id, row["file"])
    latency = 0 if call.request_us is None else time_us - call.request_us
    numbers = (time_us, latency)
    return (
        call.reason is not None
        or call.request_raw is not None
        or time_text(time_us) is None
        or abs(latency) >= LATENCY
        or any(not -(1 << 63) <= number < 1 << 63 for number in numbers)
        or any(text is not None and any("\ud800" <= letter < "\ue000" for letter in text) for text in texts)
    )


IS_REFUSED = usage.native_is_refused() if native.package() else None
CHANGES = 4  # of a message of ``errors``; less than this number
# Values that are put into a message.
VALUES: tuple[Any, ...] = (None, 0, 1, -1, True, 2**70, "", "x", 0.0, (), [], [None], [7], {}, [[]], object)


def errors(data: bytes) -> None:
    """Check that the native search finds an error code in a message if the one in Python does, or that both reject it.

    ``data``: a byte with the number of changes, three bytes for each change (see ``_change``), and a message as in
    ``message``.
    """
    pieces = Pieces(data)
    changes = [pieces.take(3) for _ in range(pieces.take(1)[0] % CHANGES)]
    if len(pieces.rest) < HEAD:
        return
    kind, version, left, body = chosen(pieces.rest)
    try:
        value, _ = native.decode(kind, body, 0, version, left)
    except NativeRefused:
        return
    for where, which, to in changes:
        _change(value, where, which, to)
    found, expected = (_searched(search, value) for search in (IS_REFUSED, usage.plain_is_refused))
    assert found == expected, (value, found, expected)
    if not changes:
        listed = usage.refusals(Call(connection="c", client="", broker="", number=1, response=value))
        assert bool(listed) == expected, (value, listed, expected)


def _searched(search: Any, value: Any) -> Outcome:
    """Return whether a search finds an error code in a message; else the type and the text of the exception."""
    try:
        return search(value)
    except Exception as error:  # both searches must raise the same exception
        return type(error), str(error)


def _change(message: Any, where: int, which: int, to: int) -> None:
    """Change a field of a message.

    Args:
        message: the message.
        where: number of the struct, in the order of a search in depth; the message itself is 0.
        which: number of the field.
        to: number of the value in VALUES.
    """
    found: list[Any] = []
    following = [message]
    while following and len(found) <= where:
        struct = following.pop()
        found.append(struct)
        for name in schema_of(type(struct)).fields:
            inner = getattr(struct, name)
            some = inner if isinstance(inner, list) else [inner]
            following += [each for each in some if hasattr(type(each), "__kafka__")]
    struct = found[where % len(found)]
    names = [*schema_of(type(struct)).fields]
    if names:
        setattr(struct, names[which % len(names)], VALUES[to % len(VALUES)])


def cursor(steps: bytes, data: bytes, left: int, results: list[tuple[int | None, int, int]]) -> None:
    """Check the steps of the position in a message against the reference engine.

    Args:
        steps: functions with their arguments, as in ``native/fuzz/fuzz_targets/cursor.rs``.
        data: bytes that the steps read.
        left: memory that the message may take, in bytes.
        results: for each step its value (None for a refusal), the kind of the refusal, and the offset after it.
    """
    stream = io.BytesIO(data)
    context: Any = type("Context", (), {"_params": {"budget": primitives.Budget(left)}})
    for step, (value, kind, at) in zip(steps, results, strict=False):
        refused = None
        try:
            expected = _step(stream, context, step)
        except DecodeError as error:
            expected, refused = None, kind_of(error)
        if refused is not None:
            assert (value, kind) == (None, refused), (step, value, kind, at, refused)
            assert at <= len(data), at
            return
        assert (value, at) == (expected, stream.tell()), (step, value, kind, at, expected, stream.tell())
    assert len(results) == len(steps), (steps, results)


def _step(stream: io.BytesIO, context: Any, step: int) -> int:
    """Do a step with the reference engine, and return its value, or -1 for null."""
    compact, null, is_text = step & 8 > 0, step & 16 > 0, step & 32 > 0
    start = stream.tell()
    match step & 7:
        case 0:
            return primitives.read(stream, 1, "", start)[0]
        case 1:
            return primitives.read_uvarint(stream, "", start)
        case 2:
            size = _length(compact, null, is_text)._parse(stream, None, "")
            if is_text and size is not None and size > MAX_TEXT:
                raise LimitError("the text is too long")
            return -1 if size is None else size
        case 3:
            length = _length(compact, null, is_text)
            if is_text:
                text = primitives.Text(length)._parse(stream, None, "")
                return -1 if text is None else len(text.encode("utf-8", "surrogateescape"))
            blob = primitives.Blob(length)._parse(stream, None, "")
            return -1 if blob is None else len(blob)
        case 4:
            count = primitives.read_count(stream, _length(compact, null, False), step >> 5, "")
            if count is None:
                return -1
            primitives.spend(context, count * (step >> 5) * 40, "", start)
            return count
        case 5:
            present = primitives.read_presence(stream, compact, "")
            if present:
                primitives.spend(context, (step >> 4) * 40, "", start)
            return present
        case 6:
            return primitives.read_tag_count(stream, "")
        case _:
            tag, size = (primitives.read_uvarint(stream, "", start) for _ in range(2))
            primitives.check_tag_size(stream, size, "")
            begin = stream.tell()
            primitives.read(stream, step >> 3 & 3, "", begin)
            primitives.check_tag_end(stream, tag, begin, size, "")
            return tag


def _length(compact: bool, null: bool, is_text: bool) -> primitives.Length:
    return primitives.Length(None if compact else "h" if is_text else "i", null)


def text(kind: int, data: bytes, width: int, written: bytes | None) -> None:
    """Check the text of a JSON value.

    Args:
        kind: 0 for a string, 1 for base64, 2 for a UUID, 3 for a time, 4 for an integer, 5 for one with leading zeros.
        data: the value: bytes, or an integer of at most eight bytes, after which zeros follow.
        width: number of digits with leading zeros.
        written: the text; None if there is no text for the time.
    """
    number = int.from_bytes(data[:8].ljust(8, b"\0"), "big", signed=True)
    match kind:
        case 0:
            expected: str | None = json_module.dumps(data.decode("utf-8", "surrogateescape"))
        case 1:
            expected = f'"{base64.b64encode(data).decode()}"'
        case 2:
            expected = f'"{uuid_text(UUID(bytes=data[:16].ljust(16, bytes(1))))}"'
        case 3:
            time = time_text(number)
            expected = None if time is None else f'"{time}"'
        case 4:
            expected = f"{number}"
        case _:
            expected = f"{abs(number):0{width}d}"[-width:] if width else ""
    assert (None if written is None else written.decode("ascii")) == expected, (kind, data, written, expected)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        *(message, json, records, codec, line, calls, requests, forwarded, columns, errors),
        *(frame_log, frame_records),
    )
}

"""Fuzzing targets: any bytes must quickly decode to a value or raise WireError, with the same result in every engine.

A decoded value must encode, and decode again to the same value. Each target takes the bytes of a coverage-guided fuzzer
and raises AssertionError, or the unexpected exception, if a rule is violated.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from google_crc32c import value as crc32c

from kwire import FrameBuffer, WireError, codec, decode_request, decode_response, encode_request, encode_response
from kwire.blobs import BLOBS, STORED, decode_stored
from kwire.codec import ENGINES
from kwire.engines.chosen import Engine
from kwire.layout import versions_of
from kwire.messages import APIS
from kwire.records.batch import batches, build_batch
from kwire.schema import schema_of

SOON = 1.0  # seconds of this process's time
FRAME_LIMIT = 100_000  # bytes
KEYS = sorted(APIS)
NAMES = sorted(BLOBS)
CRC_AT, CRC_FROM = 17, 21

Outcome = Any


def frame_buffer(data: bytes) -> None:
    """Check that a stream gives the same frames in chunks of any size. The first byte selects the chunks."""
    size = 1 + (data[0] if data else 0)
    stream = data[1:]
    whole = _frames([stream])
    assert _frames([stream[at : at + size] for at in range(0, len(stream), size)]) == whole
    assert b"".join(struct.pack(">i", len(frame)) + frame for frame in whole[0]) == stream[: whole[1]]


def request(data: bytes) -> None:
    """Check a request frame."""
    _survive(
        lambda frame, engine: decode_request(frame, engine=engine),
        lambda request, engine: encode_request(
            request.body, request.version, correlation_id=0, header=request.header, engine=engine
        ),
        data,
    )


def response(data: bytes) -> None:
    """Check a response frame; two bytes before it select API and version."""
    if len(data) < 2:
        return
    api = APIS[KEYS[data[0] % len(KEYS)]]
    versions = versions_of(api.versions)
    answer(data[2:], api.key, versions[data[1] % len(versions)])


def answer(frame: bytes, api_key: int, api_version: int) -> None:
    """Check a response frame of this API and version."""
    _survive(
        lambda data, engine: decode_response(data, api_key, api_version, engine=engine),
        lambda response, engine: encode_response(
            response.body, response.version, correlation_id=0, header=response.header, engine=engine
        ),
        frame,
    )


def record_batch(data: bytes) -> None:
    """Check record batches. If the first byte is odd, the checksum is corrected first."""
    records = bytearray(data[1:])
    if data[:1] and data[0] % 2 and len(records) > CRC_FROM:
        (length,) = struct.unpack_from(">i", records, 8)
        end = 12 + length if length > 0 else len(records)
        struct.pack_into(">I", records, CRC_AT, crc32c(bytes(records[CRC_FROM:end])))
    with suppress(WireError):
        for batch in batches(bytes(records)):
            if parsed := list(batch.records()):
                (copy,) = batches(build_batch(parsed))
                assert [_content(record) for record in copy.records()] == [_content(record) for record in parsed]


def blob(data: bytes) -> None:
    """Check a blob, with its version prefix and without. Two bytes before it select the blob and its version."""
    if len(data) < 2:
        return
    name = NAMES[data[0] % len(NAMES)]
    kind = BLOBS[name]
    versions = schema_of(kind).versions
    assert versions is not None
    version = versions_of(versions)[data[1] % len(versions_of(versions))]
    _survive(
        lambda body, engine: codec.decode(kind, body, version, engine=engine),
        lambda value, engine: codec.encode(value, version, engine=engine),
        data[2:],
    )
    if name in STORED:
        with suppress(WireError):
            decode_stored(kind, data[2:])


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (frame_buffer, request, response, record_batch, blob)
}


def soon(target: Callable[[bytes], None], data: bytes) -> None:
    """Run a target and check its time, without the code that is generated on first use."""
    for _ in range(2):
        began = time.process_time()
        target(data)
        took = time.process_time() - began
        if took < SOON:
            return
    raise AssertionError(f"{took:.1f} s for {len(data)} bytes")


def _survive(decode: Callable[[bytes, Engine], Any], encode: Callable[[Any, Engine], bytes], data: bytes) -> None:
    outcomes = {engine: _outcome(decode, data, engine) for engine in ENGINES}
    first, *others = outcomes.values()
    for other in others:
        assert _same(first, other), outcomes
    if isinstance(first, WireError):
        return
    texts = {engine: encode(first, engine) for engine in ENGINES}
    assert len(set(texts.values())) == 1, texts
    for engine, text in texts.items():
        again = decode(text, engine)
        if hasattr(first, "trailing"):
            first.trailing = b""
        assert _same(again, first), (engine, again, first)


def _outcome(decode: Callable[[bytes, Engine], Any], data: bytes, engine: Engine) -> Outcome:
    try:
        return decode(data, engine)
    except WireError as error:
        return error


def _same(one: Outcome, other: Outcome) -> bool:
    """Return whether two results are equal or both refusals; NaN equals itself here."""
    if isinstance(one, WireError) or isinstance(other, WireError):
        return isinstance(one, WireError) and isinstance(other, WireError)
    return bool(one == other) or repr(one) == repr(other)


def _frames(parts: Sequence[bytes]) -> tuple[list[bytes], int, bool]:
    """Return the frames, the bytes that they took with their length prefixes, and whether an error followed."""
    buffer, frames, refused = FrameBuffer(FRAME_LIMIT), [], False
    for part in parts:
        buffer.feed(part)
        try:
            while (frame := buffer.next_frame()) is not None:
                frames.append(frame)
        except WireError:
            refused = True
            break
    return frames, sum(4 + len(frame) for frame in frames), refused


def _content(record: Any) -> Any:
    return record.timestamp, record.key, record.value, list(record.headers)

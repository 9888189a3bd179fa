"""Seeds of the fuzz targets in ``native/fuzz``, from fixtures/ and from values of every message.

Inputs that failed are kept in fixtures/corpus/native_TARGET, and are seeds too. ``tests/test_native_fuzzing.py`` runs
those of the targets that need no Rust.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import compressed_frames
import corpus
import native_columns
import native_forwarded
import native_segments
import native_targets
from engines import messages

from kwire import codec, decode_request, decode_response, encode_request
from kwire.blobs import BLOBS
from kwire.errors import DecodeError
from kwire.frames import pack
from kwire.fuzz.values import full
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.records import compression, read
from kwire.records.batch import Batch, Record, build_batch

CURSOR, TEXT = "cursor", "text"  # targets whose function is called by Rust
NAMES = (*native_targets.TARGETS, CURSOR, TEXT)
MOST = 1_024  # bytes of a seed
FEW = 72  # bytes of the cells in a seed of the target columns
LINE = (
    b"\x09"
    + b"\x091.2.3.4:5\x06broker\x01c\xff\x04file\x02id"
    + struct.pack(">hhiqqiq", 0, 9, 7, 10**15, 1_500, 80, 24)
)
STEPS = (bytes(range(8)), bytes(range(8, 16)), b"\2\x3b\x13\x0b\7\5\x0d", b"\x24\x34\x2c\6\6\7\1\1\0")
CONTENTS = (  # of the target cursor: lengths, tagged fields, varints at their limits
    b"\1\2\3\4\5\6\7\x08\x09",
    b"\0\3abc\0\0\0\2xy\1\1\3\0\2\1z",
    b"\xff\xff\xff\xff\x07\0",
    b"\x80\x80\x80\x80\x08\0",
    b"\x80\x80\x80\x80\x80\0",
    b"\x80\x80\2",
    b"\x81\x80\2",
)
FROM_BROKER, IN_FRAME, JOINED = 1, 2, 4  # of an item of the target calls
TEXTS = (b"plain", 'say "no\\"\n\x7f \u20ac \U0001f600'.encode(), b"\xff\xed\xa0\x80\xc3", b"")
DAY = 86_400_000_000  # microseconds
DAYS = (-719_162, -135_081, -25_509, -1, 0, 58, 59, 11_015, 11_016, 47_540, 47_541, 156_935, 2_932_896)  # since 1970
NUMBERS = (0, 1, -1, 10**15, -(2**63), 2**63 - 1, *(day * DAY for day in DAYS), *(day * DAY - 1 for day in DAYS))


def folder_of(target: str) -> Path:
    """Return the folder with the inputs that once failed in a target."""
    return corpus.CORPUS / f"native_{target}"


def failed_inputs(target: str) -> list[Path]:
    """Return the inputs that once failed in a target."""
    return sorted(folder_of(target).glob("*"))


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target, in its input format."""
    match target:
        case "message" | "json":
            yield from _messages()
        case "line":
            yield from (LINE + data for data in _messages(3))
            yield from (bytes([flags]) + LINE[1:] for flags in range(16))
        case "records":
            yield from _records()
        case "codec":
            yield from _compressed()
        case "calls":
            yield from _conversations()
        case "requests":
            yield from _received()
        case "forwarded":
            yield from _forwarded()
        case "columns":
            yield from _tables()
        case "errors":
            responses = [data for data in _messages() if data[0] == 1]
            yield from (b"\0" + data for data in responses)
            for number, data in enumerate(responses[::5]):
                changes = bytes([number % 7, number % 3, number % 16, 0, number % 11, number % 5])
                yield bytes([1 + number % 2]) + changes[: 3 * (1 + number % 2)] + data
        case "frame_log":
            yield from _recorded()
        case "frame_records":
            yield from _records_of_frames()
        case "cursor":
            for content in CONTENTS:
                for steps in (*STEPS, *(bytes([step]) for step in range(64))):
                    yield b"\xff\xff" + bytes([len(steps)]) + steps + content
                    yield b"\0\x30" + bytes([len(steps)]) + steps + content
        case _:
            yield from (bytes([kind]) + data for kind in range(3) for data in TEXTS)
            yield from (bytes([kind]) + struct.pack(">q", number) for kind in (3, 4, 29) for number in NUMBERS)


def _messages(every: int = 1) -> Iterator[bytes]:
    """Yield messages with the four bytes that select them. ``every``: one of so many messages is yielded."""
    found = [*_captured(), *_made()]
    yield from (data for data in found[::every] if len(data) <= MOST)


def _captured() -> Iterator[bytes]:
    for line, frame in corpus.frames("request"):
        request = decode_request(frame)
        yield bytes([0, line["api_key"], request.version, 0]) + codec.encode(request.body, request.version)
    for line, frame in corpus.frames("response"):
        key, version = line["api_key"], line["api_version"]
        response = decode_response(frame, key, version)
        yield bytes([1, key, response.version, 0]) + codec.encode(response.body, response.version)


def _made() -> Iterator[bytes]:
    numbers = {kind: native_targets.NAMES.index(name) for name, kind in BLOBS.items()}
    for api in APIS.values():
        numbers |= {api.request: api.key, api.response: api.key}
    requests = {api.request for api in APIS.values()}
    for kind, version in messages():
        which = 2 if kind in BLOBS.values() else 0 if kind in requests else 1
        for memory in (0, 20):
            yield bytes([which, numbers[kind], version, memory]) + codec.encode(full(kind, version), version)


def _records() -> Iterator[bytes]:
    """Yield records fields of captured frames, and their records for each codec."""
    made = [Record(key=b"k", value=b"v" * 40, headers=[("h", b"x"), ("g\u00f6", None)]), Record(timestamp=70)]
    fields = [build_batch(made, transactional=True), build_batch(made, log_append_time=9), *corpus.records_fields()]
    for field in fields:
        yield from (bytes([mode]) + field for mode in (0, 1))
        try:
            found = [each for each in read(field) if isinstance(each, Batch)][:2]
            for batch in found:
                body = compression.decompress(batch.codec, batch.data[native_targets.CRC_FROM + native_targets.TAIL :])
                tail = batch.data[native_targets.CRC_FROM :][: native_targets.TAIL]
                yield from (bytes([mode]) + (tail + body)[:MOST] for mode in (2, 3, 4, 5, 6, 15, 0x82))
            for other in (each for each in read(field) if not isinstance(each, Batch)):
                yield from (bytes([mode]) + other.data for mode in range(7, 15))
        except DecodeError:
            continue


def _compressed() -> Iterator[bytes]:
    """Yield data in all forms that clients write, also without the parts that the target adds."""
    chance = Random(1)  # noqa: S311 - not secret
    for form in compressed_frames.FORMS:
        for _ in range(20):
            content = compressed_frames.some_text(chance)[:MOST]
            codec, data = compressed_frames.compressed(form, content, chance)
            yield bytes([codec - 1]) + data
            if codec == compression.GZIP:
                yield b"\4" + data[10:-8]
            elif form == "snappy":
                yield b"\5" + data
            elif codec == compression.LZ4:
                yield b"\6" + data[4:]
            yield b"\7" + content


def _conversations() -> Iterator[bytes]:
    """Yield segments of a connection with heartbeats, and a captured request with its response, for the target calls.

    The middle of the connection has each kind of unusual segment, or several frames.
    """
    found: list[dict[tuple[int, int], bytes]] = [{}, {}]
    for frames, direction in zip(found, ("request", "response"), strict=True):
        for line, frame in corpus.frames(direction):
            if len(frame) <= MOST // 2:
                frames.setdefault((line["api_key"], line["api_version"]), frame)
    requests, responses = found
    one, other = (
        encode_request(HeartbeatRequest(group_id="g"), version, correlation_id=0, client_id="c") for version in (4, 0)
    )
    exchanges = [(one, bytes(8)), (other, bytes(2))]  # with responses without their correlation id
    exchanges += [(requests[each], responses[each][4:]) for each in sorted(requests.keys() & responses.keys())]
    usual = bytes([IN_FRAME]), bytes([IN_FRAME | FROM_BROKER])
    for number, (request, response) in enumerate(exchanges):
        begin = _items([(usual[0], _numbered(one, 1)), (usual[1], b"\0\0\0\1" + exchanges[0][1])])
        pair = _numbered(request, 2), b"\0\0\0\2" + response
        yield bytes([number % 64]) + begin + _items([*zip(usual, pair, strict=True)])
        if number < 2:
            for kind in range(len(native_segments.KINDS)):
                for by in (0, 1, 20, 0xFF):
                    odd = bytes([IN_FRAME | kind << 3])
                    answer = bytes([IN_FRAME | FROM_BROKER | kind << 3])
                    for heads in ((odd, usual[1]), (usual[0], answer)):
                        middle = _items([*zip(heads, pair, strict=True)], by)
                        yield bytes([number % 64 | 1]) + begin + middle + begin
        several = [bytes([head[0] | JOINED]) for head in usual]
        many = [(several[0], pair[0]), (usual[0], _numbered(other, 3))]
        answers = [(several[1], pair[1]), (usual[1], b"\0\0\0\3" + exchanges[1][1])]
        yield bytes([number % 64 | 1]) + begin + _items([*many, *answers])


def _received() -> Iterator[bytes]:
    """Yield pieces that a connection receives, for the target requests: heartbeats and a captured request."""
    beats = [
        encode_request(HeartbeatRequest(group_id="g"), version, correlation_id=number, client_id="c")
        for number, version in enumerate((4, 4, 0))
    ]
    for number, (_, frame) in enumerate(corpus.frames("request")):
        (size,) = struct.unpack_from(">h", frame, 8)
        frames = [beats[0], frame[:8] + b"\0\1c" + frame[10 + max(size, 0) :], *beats[1:], frame]
        if sum(map(len, frames)) <= MOST - 20:
            yield bytes([(4, 12, 5, 14)[number % 4]]) + b"".join(map(_sized, frames))
    whole = b"".join(map(pack, beats))
    for at in range(0, len(whole), 3):
        yield b"\x08" + _sized(whole[:at]) + _sized(whole[at:])
    for size in (-1, 0, 9, 100, 101, 2**31 - 1):
        yield b"\x01" + _sized(whole[:25] + struct.pack(">i", size) + whole)


def _forwarded() -> Iterator[bytes]:
    """Yield the two directions of a connection for the target forwarded: captured frames between heartbeats."""
    beat = pack(encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1, client_id="c"))
    answer = pack(struct.pack(">ixihx", 1, 0, 0))
    kinds = [corpus.frames(kind) for kind in ("request", "response")]
    for number, ((_, request), (_, response)) in enumerate(zip(*kinds, strict=False)):
        asked, answered = beat * 2 + pack(request) + beat, answer * 2 + pack(response) + answer
        if len(asked) + len(answered) <= MOST - 20:
            at = number % len(asked)
            yield b"\0" + _sized(asked[:at]) + _sized(asked[at:]) + _answered(answered[:at]) + _answered(answered[at:])
            yield b"\1" + _sized(beat[4:]) + _sized(request) + _answered(answer[4:]) + _answered(response)
    for size in (-1, 0, 3, 4, 7, 8, 9, 2**31 - 1):
        wrong = struct.pack(">i", size)
        yield b"\0" + _sized(beat + wrong + beat)
        yield b"\0" + _sized(beat * 3) + _answered(answer + wrong + answer)


def _answered(data: bytes) -> bytes:
    return struct.pack(">H", len(data) | native_forwarded.FROM_BROKER) + data


def _tables() -> Iterator[bytes]:
    """Yield tables with the API key, version, size and bytes of captured frames, for the target columns."""
    types, usual = native_columns.TYPES, [*corpus.frames("request"), *corpus.frames("response")]
    for number in range(0, len(usual), 7):
        kinds = [types[(number + place) % len(types)] for place in range(number % native_columns.MOST)]
        kinds.insert(number % 3, ("int", "long", "timestamp", "string", "bool")[number % 5])
        ordered = (native_columns.ORDERED if number + place & 1 else 0 for place in range(len(kinds)))
        slots = (native_columns.SLOT if number % 4 + place & 2 else 0 for place in range(len(kinds)))
        heads = (types.index(kind) | one | other for kind, one, other in zip(kinds, ordered, slots, strict=True))
        rows = (_row(kinds, line, frame) for line, frame in usual[number : number + 1 + number % 30])
        content = b"".join(rows)[:FEW]
        yield bytes([number & 3, len(kinds) - 1, *heads]) + content
        if number % 10 == 0:
            flags = native_columns.WRONG | number & 3 | number // 5 & native_columns.OTHER | number % 3 << 4
            yield bytes([flags, len(kinds) - 1, *heads]) + content


def _row(kinds: list[str], line: dict[str, Any], frame: bytes) -> bytes:
    """Return a row for the target columns.

    Args:
        kinds: types of the columns.
        line: description of a captured frame.
        frame: the frame.
    """
    cells = b""
    for place, kind in enumerate(kinds):
        number = (line["api_key"], line["api_version"], len(frame) % 32_768, line["api_key"] - 40)[place % 4]
        name = str(line["api_name"]).encode()
        if len(frame) % 9 == place:
            cells += b"\0"
        elif kind in ("int", "long", "timestamp"):
            head = 1 + place % 4  # the index of the size; a multiple of 5 would be 0 for None
            cells += bytes([head]) + number.to_bytes(native_columns.SIZES[head], "big", signed=True)
        elif kind == "string":
            cells += bytes([1 + len(name[:14])]) + name[:14] + frame[:1]
        elif kind == "list<string>":
            cells += bytes([4 * 3 + 2]) + name[:6].ljust(6)
        elif kind == "double":
            cells += b"\x40" + frame[:8].ljust(8, b"\0")
        else:
            cells += bytes([1 + number % 2]) + (frame[:4] if kind.startswith("map") else b"")[: 1 + number % 2]
    return cells


def _recorded() -> Iterator[bytes]:
    """Yield captured frames for the target frame_log, in one or several buffers of each kind of memory."""
    head = b'\x0b10.0.0.1:50\x06"b":92' + struct.pack(">q", 1_700_000_000_123_456)
    frames = [frame for _, frame in corpus.frames("request") if len(frame) <= MOST // 4]
    for number, frame in enumerate(frames):
        some = b"".join(map(_sized, frames[number : number + 1 + number % 4]))
        size = (0, 1, 3, 4, 5, 64, 200)[number % 7]
        yield bytes([2 | number & 1, number % 6, size]) + head + some[: MOST - 40]
        if number % 10 == 0:
            whole = pack(frame) + pack(b"") + pack(bytes(256))
            yield bytes([number & 1, number % 6, size]) + head + _sized(whole[: len(whole) - number % 3])
            cut = number % len(whole)
            yield bytes([0, number % 6, 0]) + head + _sized(whole[:cut]) + _sized(b"") + _sized(whole[cut:])


def _records_of_frames() -> Iterator[bytes]:
    """Yield steps for the target frame_records: requests, and their responses, in one or several buffers."""
    head = b"\2\0\6\x0arun-1" + bytes([14, *b"\x0e\x0eapi_key\x041200"])
    frames = [frame for _, frame in corpus.frames("request") if len(frame) <= MOST // 6]
    for number, frame in enumerate(frames):
        some = [_numbered(each, 7 * at) for at, each in enumerate(frames[number : number + 1 + number % 4])]
        size = (0, 1, 3, 4, 5, 9, 64)[number % 7]
        steps = _step(3, size, number, some)
        answers = [struct.pack(">i", 7 * (at ^ number % 2)) + each[8 : 8 + number] for at, each in enumerate(some)]
        steps += _step(2, size, number + 1, answers)
        if number % 3 == 0:
            steps += _step(4 | number & 1, 0, 0, [frame[: number % 12]]) + _step(4, 0, 0, [frame[4:8]])
        whole = b"".join(map(pack, [frame, b"", bytes(200)]))
        if number % 5 == 0:
            cut = number % len(whole)
            steps += _step(number & 1, size, number, [whole[:cut], b"", whole[cut : len(whole) - number % 2]])
        yield head + steps


def _step(flags: int, size: int, number: int, pieces: Sequence[bytes]) -> bytes:
    """Return a step of the target frame_records."""
    return bytes([flags, size, number % 256, len(pieces)]) + b"".join(map(_sized, pieces))


def _sized(piece: bytes) -> bytes:
    return struct.pack(">H", len(piece)) + piece


def _numbered(request: bytes, correlation_id: int) -> bytes:
    """Return a request with another correlation id."""
    return request[:4] + struct.pack(">i", correlation_id) + request[8:]


def _items(parts: list[tuple[bytes, bytes]], by: int = 0) -> bytes:
    """Return items of the target calls. ``parts``: for each item its first byte, and its payload."""
    return b"".join(head + struct.pack(">BH", by, len(payload)) + payload for head, payload in parts)


def write(target: str, folder: Path, most: int = 1_000_000) -> int:
    """Write the seeds of a target and the inputs that once failed into a folder; return their number.

    ``most``: number of seeds; if there are more, a fixed sample of them is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = sorted({*seeds(target)})
    some = Random(0).sample(found, min(most, len(found)))  # noqa: S311 - not secret
    inputs = {*some, *(path.read_bytes() for path in failed_inputs(target))}
    for number, data in enumerate(sorted(inputs)):
        (folder / f"seed-{number:05d}").write_bytes(data)
    return len(inputs)

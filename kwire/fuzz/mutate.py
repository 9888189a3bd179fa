"""Mutations of frames. A mutation is one change of a frame, with a description of one line.

Some mutations change fields. Examples are wrong lengths and counts, nulls, overlong varints, repeated or disordered
tags, extreme integers, and record batches with a wrong checksum. Other mutations change raw bytes. All functions are
pure: the caller passes a ``random.Random``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random

from google_crc32c import value as crc32c

from kwire.engines.reference import to_construct
from kwire.engines.varints import uvarint
from kwire.fuzz import edges
from kwire.fuzz.sites import Entry, Site, message_sites, request_sites, response_sites
from kwire.layout import Blob, Fixed, List, Maybe, Record, Text
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_TEXT

FIELD_SHARE = 0.7  # share of the mutations that use the fields
MANY = 1_000  # copies of an element
TEXTS = (*(text.encode("utf-8", "surrogateescape") for text in edges.TEXTS), b"\xff\xfe", b"x" * MAX_TEXT)
LENGTHS = (-(2**31), -32_768, -2, -1, 0, 1, 127, 128, 32_767, 32_768, 2**31 - 1)
BATCH_FIELDS = {  # fields of a record batch of magic 2: offset, struct format, values to try
    "base offset": (0, ">q", (-1, 55, 2**63 - 1)),
    "batch length": (8, ">i", (-1, 0, 1, 48, 49, 2**31 - 1)),
    "leader epoch": (12, ">i", (-2, 2**31 - 1)),
    "magic": (16, ">b", (-1, 0, 1, 3, 127)),
    "crc": (17, ">I", (0, 2**32 - 1)),
    "attributes": (21, ">h", (1, 2, 3, 4, 5, 7, 8, 16, 32, 48, -1)),
    "last offset delta": (23, ">i", (-1, 0, 5, 2**31 - 1)),
    "base timestamp": (27, ">q", (-(2**63), -2, 2**62, 2**63 - 1)),
    "max timestamp": (35, ">q", (-(2**63), -1, 2**63 - 1)),
    "producer id": (43, ">q", (-2, 0, 2**63 - 1)),
    "producer epoch": (51, ">h", (-2, 0, 32_767)),
    "base sequence": (53, ">i", (-2, 0, 2**31 - 1)),
    "record count": (57, ">i", (-1, 0, 2, 10**9, 2**31 - 1)),
}
BATCH_HEADER = 61
PREFIX = 12  # base offset and length, which the length does not count
CRC_AT, CRC_FROM = 17, 21


@dataclass(frozen=True, slots=True)
class Mutation:
    """A frame after one change.

    Attributes:
        data: bytes of the changed frame.
        what: description of the change.
        path: path of the changed field; "" for a change of raw bytes.
        offset: offset of the first changed byte.
    """

    data: bytes
    what: str
    path: str
    offset: int

    def __str__(self) -> str:
        return f"{f'{self.path}, ' if self.path else ''}byte {self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of a frame: ``new`` replaces the bytes ``frame[start:end]``.

    Attributes:
        start: offset of the first replaced byte.
        end: offset after the last replaced byte.
        new: bytes that replace the old bytes; they may be more or fewer.
        what: description of the change.
    """

    start: int
    end: int
    new: bytes
    what: str


Change = Callable[[bytes, Random], Mutation]


def mutate(
    frame: bytes,
    random: Random,
    *,
    api_key: int | None = None,
    api_version: int | None = None,
    other: bytes = b"",
    header: bool = True,
) -> Mutation:
    """Return a frame after one random change: a change from ``field_mutations``, or a change of raw bytes.

    Args:
        frame: request or response frame, without its length prefix.
        random: source of randomness.
        api_key: API key of a response; None for a request, whose header contains the key.
        api_version: API version of a response; None for a request, whose header contains the version.
        other: a second frame, of which a part may be inserted into ``frame``; b"" for none.
        header: False to leave the header unchanged. If the frame has no fields after the header, the header is changed
            in any case.
    """
    sites = _sites(frame, api_key, api_version)
    if not header:
        sites = [site for site in sites if not site.path.startswith("header")] or sites
    return _one(frame, sites, random, other)


def mutate_message(message: type, data: bytes, version: int, random: Random) -> Mutation:
    """Return an encoded message without header, such as a blob, after one random change.

    Args:
        message: class of the message.
        data: encoded message.
        version: version in which the message is encoded.
        random: source of randomness.
    """
    return _one(data, message_sites(message, data, version), random, b"")


def field_mutations(frame: bytes, *, api_key: int | None = None, api_version: int | None = None) -> Iterator[Mutation]:
    """Yield every possible change of the fields of a frame, in the order of its bytes.

    Args:
        frame: request or response frame, without its length prefix.
        api_key: API key of a response; None for a request, whose header contains the key.
        api_version: API version of a response; None for a request, whose header contains the version.
    """
    for site in _sites(frame, api_key, api_version):
        yield from (_applied(frame, site, edit) for edit in _edits(frame, site))


def _sites(frame: bytes, api_key: int | None, api_version: int | None) -> list[Site]:
    if api_key is None or api_version is None:
        return request_sites(frame)
    return response_sites(frame, api_key, api_version)


def _one(data: bytes, sites: list[Site], random: Random, other: bytes) -> Mutation:
    if sites and random.random() < FIELD_SHARE:
        site = random.choice(sites)
        return _applied(data, site, random.choice(_edits(data, site)))
    changes: list[Change] = [*BYTES, partial(_splice, other=other)] if other else [*BYTES]
    while (mutation := random.choice(changes)(data, random)).data == data:
        pass
    return mutation


def _applied(data: bytes, site: Site, edit: _Edit) -> Mutation:
    return Mutation(data[: edit.start] + edit.new + data[edit.end :], edit.what, site.path, edit.start)


def _edits(data: bytes, site: Site) -> list[_Edit]:
    """Return all possible changes at one mutation point: a number, length, count, null marker or tag in the data.

    There is at least one change, and each change results in different bytes.

    Args:
        data: frame or encoded message.
        site: mutation point in ``data``.
    """
    edits: Iterable[_Edit]
    match site.node:
        case Fixed(wire):
            edits = _of_fixed(site, wire)
        case Text():
            edits = [*_length_edits(data, site), *_content_edits(site, TEXTS)]
        case Blob(records=True) if site.whole - site.end >= BATCH_HEADER:
            edits = [*_length_edits(data, site), *_batch_edits(data, site)]
        case Blob():
            edits = [*_length_edits(data, site), *_content_edits(site, edges.CONTENTS)]
        case List():
            edits = [*_length_edits(data, site), *_element_edits(data, site)]
        case Maybe():
            edits = [_Edit(site.offset, site.end, bytes([byte]), f"marker {byte}") for byte in (0, 1, 2, 127, 128, 255)]
        case Record():
            edits = [
                *_section_edits(data, site),
                *(edit for entry in site.entries for edit in _tagged_field_edits(data, entry)),
            ]
    return [edit for edit in edits if data[edit.start : edit.end] != edit.new]


def _of_fixed(site: Site, wire: str) -> Iterator[_Edit]:
    news: Mapping[str, bytes]
    match wire:
        case "bool":
            news = {str(byte): bytes([byte]) for byte in (0, 1, 2, 127, 128, 255)}
        case "float64":
            news = {str(value): struct.pack(">d", value) for value in edges.FLOATS}
        case "uuid":
            news = {str(value): value.bytes for value in edges.UUIDS}
        case _:
            low, high = edges.limits(wire)
            near = {value for value in (site.value - 1, site.value + 1) if low <= value <= high}
            form = to_construct(site.node)
            news = {str(value): form.build(value) for value in (*edges.integers(wire), *sorted(near))}
    yield from (_Edit(site.offset, site.end, new, f"{wire} {site.value} becomes {name}") for name, new in news.items())


def _length_edits(data: bytes, site: Site) -> Iterator[_Edit]:
    """Yield edits that change a length or count, or only its encoding, and leave the content unchanged.

    Args:
        data: frame or encoded message.
        site: mutation point of a string, of bytes or of an array.
    """
    assert isinstance(site.node, (Text, Blob, List))
    word = "count" if isinstance(site.node, List) else "length"
    size = -1 if site.value is None else site.value
    values = dict.fromkeys((*LENGTHS, size - 1, size + 1, len(data) - site.end, len(data) - site.end + 1))
    for value in values:
        new = _length(site.node, value)
        if new is not None and value != size:
            yield _Edit(site.offset, site.end, new, f"{word} {size} becomes {value}")
    if site.node.compact:
        overlong = data[site.offset : site.end - 1] + bytes([data[site.end - 1] | 0x80, 0])
        yield _Edit(site.offset, site.end, overlong, f"{word} {size} as an overlong varint")
        for name, new in edges.VARINTS.items():
            yield _Edit(site.offset, site.end, new, f"{word} {size} becomes {name}")


def _length(node: Text | Blob | List, value: int) -> bytes | None:
    """Return the encoded length of a string or bytes field, or the encoded count of an array.

    Args:
        node: layout of the field.
        value: length or count; -1 for null.

    Returns: the bytes, or None if the field cannot encode the value.
    """
    if node.compact:
        return uvarint(value + 1) if value >= -1 else None
    try:
        return struct.pack(">h" if isinstance(node, Text) else ">i", value)
    except struct.error:
        return None


def _valid_length(node: Text | Blob | List, value: int) -> bytes:
    length = _length(node, value)
    assert length is not None, "every form can encode this length"
    return length


def _content_edits(site: Site, contents: tuple[bytes, ...]) -> Iterator[_Edit]:
    """Yield edits that replace the content of a field with null and with each of ``contents``. The length is correct.

    Args:
        site: mutation point of a string or of bytes.
        contents: new contents of the field, without length.
    """
    assert isinstance(site.node, (Text, Blob))
    yield _Edit(site.offset, site.whole, _valid_length(site.node, -1), "is null")
    for content in contents:
        length = _valid_length(site.node, len(content))
        shown = repr(content) if len(content) < 20 else f"{len(content)} bytes, {content[:8]!r}..."
        yield _Edit(site.offset, site.whole, length + content, f"becomes {shown}")


def _element_edits(data: bytes, site: Site) -> Iterator[_Edit]:
    """Yield edits that make an array null, or remove or repeat elements and correct the count.

    Args:
        data: frame or encoded message.
        site: mutation point of an array.
    """
    assert isinstance(site.node, List)
    yield _Edit(site.offset, site.whole, _valid_length(site.node, -1), "is null")
    yield _Edit(site.offset, site.whole, _valid_length(site.node, 0), f"loses its {site.value or 0} elements")
    if site.value:
        element, rest = data[site.end : site.first], data[site.end : site.whole]
        for more in (1, MANY):
            count = _valid_length(site.node, site.value + more)
            yield _Edit(
                site.offset, site.whole, count + element * more + rest, f"its first element repeated {more} times"
            )


def _batch_edits(data: bytes, site: Site) -> Iterator[_Edit]:
    """Yield edits of the record batches in a field.

    Most edits set a field of the first batch to an edge value. If the checksum covers the field, two edits are yielded
    for each value: one keeps the old checksum, one corrects it. The last two edits duplicate all batches and remove the
    last byte.

    Args:
        data: frame or encoded message.
        site: mutation point of a records field.
    """
    assert isinstance(site.node, Blob)
    begin = site.end
    for name, (at, code, values) in BATCH_FIELDS.items():
        where = begin + at
        (now,) = struct.unpack_from(code, data, where)
        for value in values:
            new = struct.pack(code, value)
            change = f"{name} of the first batch, {now}, becomes {value}"
            yield _Edit(where, where + len(new), new, change)
            if at >= CRC_FROM:
                changed = bytearray(data[begin : site.whole])
                changed[at : at + len(new)] = new
                end = PREFIX + struct.unpack_from(">i", changed, 8)[0]
                struct.pack_into(">I", changed, CRC_AT, crc32c(bytes(changed[CRC_FROM:end])))
                yield _Edit(begin, site.whole, bytes(changed), f"{change}, with a correct checksum")
    batch = data[begin : site.whole]
    grown, cut = _valid_length(site.node, len(batch) * 2), _valid_length(site.node, len(batch) - 1)
    yield _Edit(site.offset, site.whole, grown + batch * 2, "its batches are duplicated")
    yield _Edit(site.offset, site.whole, cut + batch[:-1], "its last byte is removed")


def _section_edits(data: bytes, site: Site) -> Iterator[_Edit]:
    """Yield edits of a tagged section: a wrong count, or repeated, disordered, additional or missing fields.

    Args:
        data: frame or encoded message.
        site: mutation point of a tagged section.
    """
    count, entries = site.value, [data[entry.offset : entry.end] for entry in site.entries]
    for value in dict.fromkeys((0, count + 1, 127, 2**31 - 1)):
        yield _Edit(site.offset, site.end, uvarint(value), f"count {count} of tagged fields becomes {value}")
    for name, new in edges.VARINTS.items():
        yield _Edit(site.offset, site.end, new, f"count {count} of tagged fields becomes {name}")
    rest = data[site.end : site.whole]
    for tag in edges.TAGS:
        if tag not in {entry.tag for entry in site.entries}:
            unknown = uvarint(tag) + b"\2??"
            yield _Edit(
                site.offset, site.whole, uvarint(count + 1) + rest + unknown, f"tagged field {tag} of 2 bytes is added"
            )
    if entries:
        yield _Edit(site.offset, site.whole, b"\0", f"loses its {count} tagged fields")
        yield _Edit(
            site.offset, site.whole, uvarint(count + 1) + rest + entries[-1], "its last tagged field is duplicated"
        )
    if len(entries) > 1:
        reverse = b"".join(reversed(entries))
        yield _Edit(site.offset, site.whole, uvarint(count) + reverse, "its tagged fields are in reverse order")


def _tagged_field_edits(data: bytes, entry: Entry) -> Iterator[_Edit]:
    """Yield edits of one tagged field: wrong sizes, different tag numbers, and an empty value.

    Args:
        data: frame or encoded message.
        entry: position of the tagged field in ``data``.
    """
    size = entry.end - entry.content_at
    for value in dict.fromkeys((0, max(size - 1, 0), size + 1, len(data) - entry.content_at + 1, 2**31 - 1)):
        change = f"size {size} of tagged field {entry.tag} becomes {value}"
        yield _Edit(entry.size_at, entry.content_at, uvarint(value), change)
    for name, new in edges.VARINTS.items():
        change = f"size {size} of tagged field {entry.tag} becomes {name}"
        yield _Edit(entry.size_at, entry.content_at, new, change)
    for tag in edges.TAGS:
        yield _Edit(entry.offset, entry.size_at, uvarint(tag), f"tagged field {entry.tag} becomes {tag}")
    yield _Edit(entry.size_at, entry.end, b"\0", f"tagged field {entry.tag} loses its {size} bytes")


def _flip(data: bytes, random: Random) -> Mutation:
    at, bit = _somewhere(data, random), 1 << random.randrange(8)
    return Mutation(
        _with(data, at, at + 1, bytes([(data[at] if data else 0) ^ bit])), f"bit {bit:#04x} flipped", "", at
    )


def _set(data: bytes, random: Random) -> Mutation:
    at, byte = _somewhere(data, random), random.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))
    return Mutation(_with(data, at, at + 1, bytes([byte])), f"becomes {byte:#04x}", "", at)


def _insert(data: bytes, random: Random) -> Mutation:
    at, size = random.randint(0, len(data)), random.choice((1, 1, 2, 4, 8, 100))
    return Mutation(_with(data, at, at, random.randbytes(size)), f"{size} bytes inserted", "", at)


def _delete(data: bytes, random: Random) -> Mutation:
    at, size = _somewhere(data, random), random.choice((1, 1, 2, 4, 8, 100))
    return Mutation(_with(data, at, at + size, b""), f"{len(data[at : at + size])} bytes deleted", "", at)


def _repeat(data: bytes, random: Random) -> Mutation:
    at, size, times = _somewhere(data, random), random.choice((1, 2, 4, 8, 100)), random.choice((1, 1, 100))
    part = data[at : at + size] or b"\0"
    return Mutation(_with(data, at, at, part * times), f"{len(part)} bytes repeated {times} times", "", at)


def _cut(data: bytes, random: Random) -> Mutation:
    at = _somewhere(data, random)
    return Mutation(data[:at], f"truncated, {len(data) - at} bytes removed", "", at)


def _splice(data: bytes, random: Random, other: bytes) -> Mutation:
    at, other_at = _somewhere(data, random), _somewhere(other, random)
    return Mutation(data[:at] + other[other_at:], f"continues with another frame from its byte {other_at}", "", at)


def _somewhere(data: bytes, random: Random) -> int:
    return random.randrange(len(data)) if data else 0


def _with(data: bytes, start: int, end: int, new: bytes) -> bytes:
    return data[:start] + new + data[end:]


BYTES: Sequence[Change] = (_flip, _set, _insert, _delete, _repeat, _cut)

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import MagicMock

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import DecodeError, LimitError
from kwire.records import compression, limits
from kwire.records.compression import (
    GZIP,
    LZ4,
    LZ4_HEADER,
    LZ4_OLD_HEADER,
    NAMES,
    NONE,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    compress,
    compressed_pieces,
    decompress,
    decompressed_pieces,
    is_one_piece,
    may_be_produced,
)

CODECS = sorted(NAMES)
PACKED = [codec for codec in CODECS if codec != NONE]
NOISE = bytes((n * n * 7 + n // 251) % 256 for n in range(150_000))  # more than two blocks of every codec
SAMPLES = [b"", b"x", bytes(100_000), NOISE, bytes(64 * 1024), bytes(64 * 1024 + 1)]


@pytest.mark.parametrize(
    ("codec", "version", "may"),
    [(GZIP, 0, True), (LZ4, 2, True), (ZSTD, 6, False), (ZSTD, 7, True), (5, 12, False), (7, 12, False)],
)
def test_codecs_that_a_version_of_produce_may_have(codec: int, version: int, may: bool) -> None:
    assert may_be_produced(codec, version) is may


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize(("flags", "size"), [(0x60, 2), (0x68, 10), (0x61, 6), (0x69, 14)])
def test_header_checksum_of_lz4_is_after_its_optional_fields(flags: int, size: int) -> None:
    """lz4_Frame_format.md: content size (8 bytes, bit 3) and dictionary id (4 bytes, bit 0)."""
    header = bytes([flags, 0x40, *range(1, size - 1)])
    checksum = compression._lz4_checksum(header)
    for wrong in (checksum, b"\0", b"\xff"):
        frame = compression.LZ4_MAGIC + header + wrong + b"block"
        assert compression._with_correct_checksum(frame) == compression.LZ4_MAGIC + header + checksum + b"block"
    assert compression._with_correct_checksum(compression.LZ4_MAGIC + b"`@") == compression.LZ4_MAGIC + b"`@"
    assert compression._with_correct_checksum(compression.LZ4_MAGIC + b"`@\0") == LZ4_HEADER


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", SAMPLES, ids=range(len(SAMPLES)))
def test_round_trip(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", SAMPLES, ids=range(len(SAMPLES)))
def test_pieces_round_trip(codec: int, data: bytes) -> None:
    packed = b"".join(compressed_pieces(codec, data))
    assert b"".join(decompressed_pieces(codec, packed)) == data
    assert packed == b"".join(compressed_pieces(codec, data))
    assert decompress(codec, packed) == data


PIECES = [(GZIP, 257), (SNAPPY, 129), (LZ4, 66), (ZSTD, 5)]  # of 4 MiB: 16, 32, 64 KiB and 1 MiB, header, end


@pytest.mark.parametrize(("codec", "number"), PIECES)
def test_large_data_is_compressed_in_pieces(codec: int, number: int) -> None:
    assert len(list(compressed_pieces(codec, bytes(4 << 20)))) == number


@pytest.mark.parametrize(("codec", "largest"), [(GZIP, 1 << 20), (SNAPPY, 32 * 1024)])
def test_large_data_is_decompressed_in_pieces(codec: int, largest: int) -> None:
    assert max(map(len, decompressed_pieces(codec, compress(codec, bytes(4 << 20))))) == largest


def test_blocks_of_snappy_java() -> None:
    """SnappyOutputStream: magic, version 1, compatible version 1, then blocks of 32 KiB with their size."""
    plain = Random(0).randbytes(32 * 1024 + 1)
    blocks = b"".join(block(raw(part)) for part in (plain[: 32 * 1024], plain[32 * 1024 :]))
    assert compress(SNAPPY, plain) == bytes.fromhex("82534e4150505900 00000001 00000001") + blocks


def test_blocks_of_an_lz4_frame() -> None:
    """Version 1, independent blocks of 64 KiB; one that does not shrink is stored, with the highest bit of its size."""
    plain = Random(0).randbytes(64 * 1024 + 1)
    stored = [part for at in (0, 64 * 1024) if (part := plain[at : at + 64 * 1024])]
    blocks = b"".join(struct.pack("<I", len(part) | 1 << 31) + part for part in stored)
    assert compress(LZ4, plain) == bytes.fromhex("04224d18 60 40 82") + blocks + bytes(4)


@pytest.mark.parametrize(("repeated", "is_stored"), [(4, True), (5, True), (6, False)])
def test_lz4_block_that_does_not_shrink_is_stored(repeated: int, is_stored: bool) -> None:
    """Kafka's Lz4BlockOutputStream: a block of the same size after compression is stored too."""
    noise = Random(1)
    start = noise.randbytes(20)
    plain = start + start[:repeated] + noise.randbytes(14)
    growth = len(bytes(cramjam.lz4.compress_block(plain, store_size=False))) - len(plain)
    assert growth == 5 - repeated
    (size,) = struct.unpack_from("<I", compress(LZ4, plain), len(LZ4_HEADER))
    assert bool(size >> 31) is is_stored
    assert decompress(LZ4, compress(LZ4, plain)) == plain


@pytest.mark.parametrize("codec", PACKED)
def test_the_same_bytes_each_time(codec: int) -> None:
    assert compress(codec, NOISE) == compress(codec, NOISE)
    assert compress(GZIP, b"data")[4:8] == bytes(4)  # no time in it


@pytest.mark.parametrize("codec", [5, 7, -1])
def test_no_such_codec(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"unknown compression codec {codec}"):
        decompress(codec, b"")
    for function in (compress, compressed_pieces):
        with pytest.raises(ValueError, match=f"unknown compression codec {codec}"):
            function(codec, b"")


def test_lz4_headers() -> None:
    assert LZ4_HEADER.hex() == "04224d18604082"
    assert LZ4_OLD_HEADER.hex() == "04224d1860401a"  # as kafka-clients writes it in messages of magic 0


@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_old_lz4(size: int) -> None:
    old = compress(LZ4, bytes(size), old_lz4=True)
    assert old[:7] == LZ4_OLD_HEADER
    assert decompress(LZ4, old, old_lz4=True) == bytes(size)
    assert decompress(LZ4, compress(LZ4, bytes(size)), old_lz4=True) == bytes(size)
    with pytest.raises(DecodeError, match="invalid lz4 data: "):
        decompress(LZ4, old)


@pytest.mark.parametrize("flags", [0x60, 0x61, 0x68, 0x69])
def test_old_lz4_with_optional_fields(flags: int) -> None:
    """Content size and dictionary id, on which the header checksum depends; lz4 refuses any other checksum."""
    fields = (4).to_bytes(8, "little") * (flags >> 3 & 1) + bytes.fromhex("01234567") * (flags & 1)
    header = bytes.fromhex("04224d18") + bytes([flags, 0x40]) + fields
    checksums = []
    for checksum in range(256):
        frame = header + bytes([checksum]) + bytes.fromhex("04000080") + b"data" + bytes(4)
        assert decompress(LZ4, frame, old_lz4=True) == b"data"
        with suppress(DecodeError):
            assert decompress(LZ4, frame) == b"data"
            checksums.append(checksum)
    assert [bytes(checksums)] == [compression._lz4_checksum(header[4:])]


@pytest.mark.parametrize("data", [b"", b"\x04", LZ4_HEADER[:6], LZ4_HEADER[:4] + b"\xff\xff\xff"])
def test_old_lz4_damaged(data: bytes) -> None:
    with pytest.raises(DecodeError, match="invalid lz4 data: "):
        decompress(LZ4, data, old_lz4=True)


def zstd_without_a_size(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


GZIPPED = gzip.compress(b"data", mtime=0)
FORMS = [  # forms that a client may write, but compress() does not
    ("gzip of two members", GZIP, GZIPPED + GZIPPED, b"datadata"),
    ("gzip of two members, the first empty", GZIP, gzip.compress(b"") + GZIPPED, b"data"),
    ("what is no member is ignored, as by Java", GZIP, GZIPPED + b"more", b"data"),
    ("one raw snappy block", SNAPPY, raw(NOISE), NOISE),
    ("raw snappy of nothing", SNAPPY, b"\x00", b""),
    ("xerial without blocks", SNAPPY, XERIAL_HEADER, b""),
    ("xerial with a block of nothing", SNAPPY, XERIAL_HEADER + block(raw(b"")) + block(raw(b"x")), b"x"),
    ("two xerial streams glued", SNAPPY, (XERIAL_HEADER + block(raw(b"da")) + XERIAL_HEADER + block(raw(b"ta"))), b"data"),
    ("xerial of another version", SNAPPY, XERIAL_HEADER[:8] + struct.pack(">ii", 2, 1) + block(raw(b"data")), b"data"),
    ("one block of 100,000 bytes", SNAPPY, XERIAL_HEADER + block(raw(bytes(100_000))), bytes(100_000)),
    ("lz4 with dependent blocks", LZ4, bytes(cramjam.lz4.compress(NOISE)), NOISE),
    ("lz4 with a stored block", LZ4, LZ4_HEADER + bytes.fromhex("04000080") + b"data" + bytes(4), b"data"),
    ("zstd that does not say its size", ZSTD, zstd_without_a_size(NOISE), NOISE),
    ("two zstd frames", ZSTD, bytes(cramjam.zstd.compress(b"da")) + bytes(cramjam.zstd.compress(NOISE)), b"da" + NOISE),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "data", "plain"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
def test_other_forms(codec: int, data: bytes, plain: bytes) -> None:
    assert decompress(codec, data) == plain


REFUSED = [
    (GZIP, b"", "the gzip stream is truncated"),
    (GZIP, b"no gzip at all", "invalid gzip data: "),
    (GZIP, GZIPPED[:-1], "the gzip stream is truncated"),
    (GZIP, GZIPPED[:-8] + bytes(8), "invalid gzip data: "),
    (GZIP, zlib.compress(b"data"), "invalid gzip data: "),
    (GZIP, GZIPPED + GZIPPED[:-1], "the gzip stream is truncated"),
    (SNAPPY, b"", "invalid snappy data: "),
    (SNAPPY, b"no snappy at all", "invalid snappy data: "),
    (SNAPPY, raw(b"data")[:-1], "invalid snappy data: "),
    (SNAPPY, b"\xff" * 20, "invalid snappy data: "),
    (SNAPPY, XERIAL_HEADER[:15], "expected 16 bytes of snappy header, found 15"),
    (SNAPPY, XERIAL_HEADER + bytes(3), "expected 4 bytes of snappy block size, found 3"),
    (SNAPPY, XERIAL_HEADER + bytes(4), "invalid snappy data: "),
    (SNAPPY, XERIAL_HEADER + block(raw(b"data"))[:-1], "a snappy block has 6 bytes, but only 5 remain"),
    (SNAPPY, XERIAL_HEADER + b"\x7f\xff\xff\xff" + raw(b"data"), "a snappy block has 2147483647 bytes, but only 6 remain"),
    (SNAPPY, XERIAL_HEADER + b"\xff\xff\xff\xff" + raw(b"data"), "a snappy block has -1 bytes, but only 6 remain"),
    (SNAPPY, XERIAL_HEADER + block(raw(b"data")[:-1]), "invalid snappy data: "),
    (LZ4, b"", "invalid lz4 data: no bytes"),
    (LZ4, b"no lz4 at all", "invalid lz4 data: "),
    (LZ4, compress(LZ4, b"data")[:-1], "invalid lz4 data: "),
    (LZ4, LZ4_HEADER[:6] + b"\x00" + compress(LZ4, b"data")[7:], "invalid lz4 data: "),  # the wrong header checksum of old clients
    (ZSTD, b"", "invalid zstd data: "),
    (ZSTD, b"no zstd at all", "invalid zstd data: "),
    (ZSTD, compress(ZSTD, b"data")[:-1], "invalid zstd data: "),
    (ZSTD, compress(ZSTD, b"data") + b"more", "invalid zstd data: "),
    (ZSTD, compress(ZSTD, b"data")[:5], "invalid zstd data: "),
]  # fmt: skip


WHERE = [  # codec, data, offset of the invalid byte
    (GZIP, GZIPPED + GZIPPED[:-1], 2 * len(GZIPPED) - 1),
    (SNAPPY, XERIAL_HEADER + block(raw(b"data")) + bytes(3), 26),
    (SNAPPY, XERIAL_HEADER + block(raw(b"data")) + block(b"?"), 30),
    (SNAPPY, XERIAL_HEADER + block(raw(b"data")) + struct.pack(">i", 9), 26),
    (ZSTD, compress(ZSTD, b"data") + bytes.fromhex("28b52ffd c0 58 ffffffffffffff7f"), 19),
    (SNAPPY, raw(b"data")[:-1], 0),
    (SNAPPY, b"\xff\xff\xff\xff\x0f", 0),
    (LZ4, b"", 0),
    (LZ4, LZ4_HEADER, 0),
    (ZSTD, b"", 0),
    (GZIP, gzip.compress(bytes(20_000_000)), 0),
    (5, b"", 0),
]


@pytest.mark.parametrize(("codec", "data", "offset"), WHERE)
def test_error_has_the_offset_of_the_damage(codec: int, data: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decompress(codec, data)
    assert caught.value.offset == offset


@pytest.mark.parametrize(("codec", "data", "text"), REFUSED, ids=range(len(REFUSED)))
def test_damaged(codec: int, data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decompress(codec, data)
    with pytest.raises(DecodeError, match=text):
        list(decompressed_pieces(codec, data))


@pytest.mark.parametrize("codec", PACKED)
@given(where=st.data())
def test_damage_is_a_decode_error_or_other_bytes(codec: int, where: st.DataObject) -> None:
    data = bytearray(compress(codec, NOISE[:3000]))
    for _ in range(where.draw(st.integers(1, 4))):
        data[where.draw(st.integers(0, len(data) - 1))] = where.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decompress(codec, bytes(data[: where.draw(st.integers(0, len(data)))]))


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=100))
def test_noise_is_a_decode_error_or_other_bytes(codec: int, data: bytes) -> None:
    heads = {GZIP: compression.GZIP_MAGIC, SNAPPY: XERIAL_HEADER, LZ4: LZ4_HEADER, ZSTD: compression.ZSTD_MAGIC}
    for attempt in (data, heads[codec] + data):
        with suppress(DecodeError):
            decompress(codec, attempt)


FOUR_GIB = bytes.fromhex("ffffffff0f")  # a snappy block begins with the size that it claims
LZ4_BOMB = LZ4_HEADER + compress(LZ4, bytes(64 * 1024))[len(LZ4_HEADER) : -4] * 1000 + bytes(4)
BOMBS = [
    ("gzip", GZIP, gzip.compress(bytes(200_000_000), compresslevel=1)),
    ("snappy by its claim", SNAPPY, FOUR_GIB + bytes(100)),
    ("xerial by a claim", SNAPPY, XERIAL_HEADER + block(FOUR_GIB + bytes(100))),
    ("xerial by the sum", SNAPPY, XERIAL_HEADER + block(raw(bytes(32 * 1024))) * 1000),
    ("lz4", LZ4, LZ4_BOMB),
    ("zstd", ZSTD, zstd_without_a_size(bytes(80_000_000))),
    ("zstd by its claim", ZSTD, compress(ZSTD, bytes(80_000_000))),
    ("zstd that claims 8 EiB", ZSTD, bytes.fromhex("28b52ffd c0 58 ffffffffffffff7f") + bytes(50)),
]


@pytest.mark.parametrize(("codec", "bomb"), [row[1:] for row in BOMBS], ids=[row[0] for row in BOMBS])
def test_a_bomb_is_bounded(codec: int, bomb: bytes) -> None:
    limit = limits.FREE_DECOMPRESSED
    tracemalloc.start()
    with pytest.raises(LimitError, match=f"decompressed data exceeds the limit of {limit} bytes"):
        decompress(codec, bomb, limit=limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("claim", [5_000_000_000, 17_000_000])
def test_a_claim_alone_allocates_nothing(claim: int) -> None:
    varint = bytearray()
    while claim > 0x7F:
        varint.append(claim & 0x7F | 0x80)
        claim >>= 7
    varint.append(claim)
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decompress(SNAPPY, bytes(varint))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [1000, 100_000, 5_000_000])
def test_the_limit_itself_is_accepted(codec: int, size: int) -> None:
    data = compress(codec, bytes(size))
    assert decompress(codec, data, limit=size) == bytes(size)
    with pytest.raises(LimitError, match=f"exceeds the limit of {size - 1} bytes"):
        decompress(codec, data, limit=size - 1)


WIDE = bytes.fromhex("28b52ffd 00 88") + zstd_without_a_size(b"data" * 1000)[6:]  # its window is 128 MiB
WINDOWS = [  # frame, limit, descriptor of the window afterwards: 8 times the exponent above 10
    (WIDE, 16 * 1024 * 1024, 14 << 3),
    (WIDE, 16 * 1024 * 1024 + 1, 15 << 3),
    (WIDE, 128 * 1024 + 1, 8 << 3),
    (WIDE, 128 * 1024, 7 << 3),
    (WIDE, 4000, 7 << 3),
    (WIDE, 1, 7 << 3),
    (WIDE, 128 * 1024 * 1024, 0x88),
    (WIDE[:5] + b"\x90" + WIDE[6:], 4000, 0x90),  # 256 MiB, which zstd refuses
    (WIDE[:5] + b"\x01" + WIDE[6:], 4000, 0x01),  # small enough
    (WIDE[:5] + b"\x51" + WIDE[6:], 1024 * 1024, 10 << 3),  # 1 MiB and an eighth
]


@pytest.mark.parametrize(("frame", "limit", "window"), WINDOWS)
def test_a_window_is_no_larger_than_the_limit(frame: bytes, limit: int, window: int) -> None:
    frames, claimed = compression._zstd_frames(frame * 2, limit)
    assert [frames[5], frames[len(frame) + 5]] == [window, window]
    assert claimed == 0


@pytest.mark.parametrize("limit", [1, 1_000, 20_000, 999_999])
def test_limit_below_a_zstd_block_is_a_limit(limit: int) -> None:
    """RFC 8878, section 3.1.1.2.4: a block has at most 128 KiB, and is at most as large as the window."""
    with pytest.raises(LimitError, match=f"exceeds the limit of {limit} bytes"):
        decompress(ZSTD, zstd_without_a_size(bytes(1_000_000)), limit=limit)


def test_a_wide_window_is_read_all_the_same() -> None:
    assert decompress(ZSTD, WIDE * 2, limit=8000) == b"data" * 2000
    with pytest.raises(LimitError, match="exceeds the limit of 7999 bytes"):
        decompress(ZSTD, WIDE * 2, limit=7999)
    with pytest.raises(DecodeError, match=r"invalid zstd data: .*too much memory"):
        decompress(ZSTD, WIDE[:5] + b"\x90" + WIDE[6:])


@pytest.mark.parametrize("size", range(4, 8))
def test_truncated_header_after_a_frame_is_invalid(size: int) -> None:
    """zstd reports it: the search for windows needs at least 8 bytes."""
    one = compress(ZSTD, b"data")
    assert compression._zstd_frames(one + one[:size], 100) == (one + one[:size], 4)
    with pytest.raises(DecodeError, match="invalid zstd data"):
        decompress(ZSTD, one + one[:size])


def test_frames_that_are_skipped() -> None:
    skipped = bytes.fromhex("5a2a4d18 03000000 616263")
    one = compress(ZSTD, b"data")
    assert compression._zstd_frames(one + skipped + one, 100) == (one + skipped + one, 8)
    assert decompress(ZSTD, one + skipped + one) == b"datadata"


@pytest.mark.parametrize("magic", ["6a2a4d18", "5a2a4d19", "5a000000"])
def test_only_magic_numbers_5x_are_skipped(magic: str) -> None:
    """RFC 8878, section 3.1.2: a skippable frame begins with 0x184d2a50 to 5f. The rest is left to zstd's own error."""
    other = bytes.fromhex(f"{magic} 03000000 616263")
    one = compress(ZSTD, b"data")
    assert compression._zstd_frames(one + other + one, 100) == (one + other + one, 4)
    with pytest.raises(DecodeError, match="invalid zstd data"):
        decompress(ZSTD, one + other + one)


@pytest.mark.parametrize(("flag", "size"), [(0, 0), (1, 1), (2, 2), (3, 4)])
def test_dictionary_id_before_the_size_of_a_frame(flag: int, size: int) -> None:
    """RFC 8878, section 3.1.1.1.3; then the content size, and one raw block of four bytes."""
    frame = compression.ZSTD_MAGIC + bytes([0x20 | flag, *bytes(size), 4, 1 | 4 << 3, 0, 0]) + b"data"
    assert compression._zstd_frames(frame * 2, 100) == (frame * 2, 8)
    assert decompress(ZSTD, frame * 2) == b"datadata"


@pytest.mark.parametrize("first", [False, True])
def test_size_is_unknown_if_one_frame_declares_none(first: bool) -> None:
    frames = [zstd_without_a_size(b"data"), compress(ZSTD, b"data")]
    data = b"".join(frames if first else frames[::-1])
    assert compression._zstd_frames(data, 100)[1] == 0
    assert decompress(ZSTD, data) == b"datadata"


@pytest.mark.parametrize("size", [1, 100, 300, 70_000, 300_000])
def test_the_sizes_of_all_frames_are_added(size: int) -> None:
    two = compress(ZSTD, bytes(size)) * 2
    assert compression._zstd_frames(two, 10**6) == (two, 2 * size)
    with pytest.raises(LimitError):
        compression._zstd_frames(two, 2 * size - 1)


def test_many_small_members_take_no_more_time_than_their_bytes() -> None:
    empty = gzip.compress(b"")
    assert decompress(GZIP, empty * 20_000 + GZIPPED) == b"data"


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [0, 10, 200_000])
def test_decompression_in_one_piece_is_announced(codec: int, size: int) -> None:
    """gzip and the blocks of snappy-java are decompressed piece by piece."""
    data = compress(codec, bytes(size))
    assert is_one_piece(codec, data) is (codec not in (GZIP, SNAPPY))
    if is_one_piece(codec, data):
        assert len(list(decompressed_pieces(codec, data))) == 1


def test_raw_snappy_is_one_piece() -> None:
    data = bytes(cramjam.snappy.compress_raw(b"x" * 1_000))
    assert is_one_piece(SNAPPY, data)
    assert list(decompressed_pieces(SNAPPY, data)) == [b"x" * 1_000]


def test_default_level_of_gzip_is_the_highest() -> None:
    data = Random(3).randbytes(2_000).hex().encode()
    sizes = [len(compress(GZIP, data, level=level)) for level in (1, 9)]
    assert sizes[0] > sizes[1] == len(compress(GZIP, data))


@pytest.mark.parametrize("limit", [1, 2, 16, 100_000])
def test_gzip_above_the_limit_takes_no_more_memory(limit: int) -> None:
    data = gzip.compress(bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            decompress(GZIP, data, limit=limit)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert decompress(GZIP, gzip.compress(bytes(limit)), limit=limit) == bytes(limit)


@pytest.mark.parametrize(
    ("level", "codec"), [(level, codec) for codec, levels in ((GZIP, (1, 9)), (ZSTD, (1, 19))) for level in levels]
)
def test_level_is_that_of_the_codec(level: int, codec: int) -> None:
    data = Random(3).randbytes(20_000).hex().encode() * 2
    expected = {
        GZIP: lambda: gzip.compress(data, level, mtime=0),
        ZSTD: lambda: bytes(cramjam.zstd.compress(data, level)),
    }[codec]()
    assert compress(codec, data, level=level) == expected
    assert len({len(compress(codec, data, level=each)) for each in (1, 9)}) == 2


def sizes_tried(monkeypatch: pytest.MonkeyPatch, codec: int, data: bytes, limit: int) -> list[int]:
    """Return the sizes of the buffers into which data is decompressed."""
    module: Any = {LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    into: Callable[[bytes, bytearray], int] = module.decompress_into
    sizes: list[int] = []
    monkeypatch.setattr(compression, "NATIVE", None)
    fake = MagicMock(decompress_into=lambda data, out: sizes.append(len(out)) or into(data, out))
    monkeypatch.setattr(cramjam, {LZ4: "lz4", ZSTD: "zstd"}[codec], fake)
    with suppress(LimitError):
        decompress(codec, data, limit=limit)
    monkeypatch.undo()
    return sizes


@pytest.mark.parametrize("size", [1, 100_000])
def test_declared_size_is_the_size_of_the_buffer(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    data = compress(ZSTD, bytes(size))
    assert sizes_tried(monkeypatch, ZSTD, data, 1 << 30) == [size]


def test_buffer_grows_fourfold_from_16_times_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least 4 KiB; at most 1 MiB, or four times the data."""

    def sizes(codec: int, plain: bytes, limit: int = 1 << 30) -> list[int]:
        data = zstd_without_a_size(plain) if codec == ZSTD else compress(codec, plain)
        found = sizes_tried(monkeypatch, codec, data, limit)
        first = found[0]
        assert first == min(limit, max(4096, 4 * len(data), min(16 * len(data), 1 << 20)))
        assert found[1:] == [min(limit, first * 4**n) for n in range(1, len(found))]
        return found

    assert sizes(ZSTD, b"data") == [4096]
    assert len(sizes(ZSTD, bytes(1_000_000))) > 2
    assert sizes(LZ4, Random(0).randbytes(30_000))[0] > 480_000
    assert sizes(LZ4, Random(0).randbytes(100_000))[0] == 1 << 20
    assert sizes(LZ4, Random(0).randbytes(300_000))[0] > 1_200_000
    assert sizes(ZSTD, bytes(1_000_000), 20_000) == [4096, 16_384, 20_000]


def test_buffer_grows_to_4_kib_after_a_wrong_declared_size() -> None:
    sizes: list[int] = []

    def into(data: bytes, out: bytearray) -> int:
        sizes.append(len(out))
        if len(out) < len(data):
            raise cramjam.DecompressionError(compression.TOO_SMALL)
        out[: len(data)] = data
        return len(data)

    assert compression._into_buffers("name", into, bytes(5_000), 1, 10_000) == bytes(5_000)
    assert sizes == [1, 4_096, 10_000]


@pytest.mark.parametrize(
    ("limit", "given"), [(None, limits.FREE_DECOMPRESSED), (1_000, 1_000), (1 << 30, limits.FREE_DECOMPRESSED), (0, 0)]
)
def test_native_decompression_is_limited(monkeypatch: pytest.MonkeyPatch, limit: int | None, given: int) -> None:
    """Above 16 MiB, and if the native function returns None, Python decompresses."""
    native = MagicMock()
    native.decompress.return_value = b"native"
    monkeypatch.setattr(compression, "NATIVE", native)
    assert decompress(GZIP, GZIPPED, limit=limit) == b"native"
    native.decompress.assert_called_once_with(GZIP, GZIPPED, given)
    native.decompress.return_value = None
    assert decompress(GZIP, GZIPPED, limit=1_000) == b"data"


def test_data_that_is_not_decompressed_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    native = MagicMock()
    native.decompress.return_value = b"native"
    monkeypatch.setattr(compression, "NATIVE", native)
    assert decompress(GZIP, bytearray(GZIPPED)) == b"data"
    assert decompress(LZ4, compress(LZ4, b"data", old_lz4=True), old_lz4=True) == b"data"
    with pytest.raises(LimitError):
        decompress(GZIP, GZIPPED, limit=-1)
    native.decompress.assert_not_called()


def test_only_bytes_without_a_level_are_compressed_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    native = MagicMock()
    native.zstd_frame.return_value = b"native"
    monkeypatch.setattr(compression, "NATIVE", native)
    assert compress(ZSTD, b"data") == b"native"
    native.zstd_frame.return_value = None
    assert compress(ZSTD, b"data") == bytes(cramjam.zstd.compress(b"data"))
    native.zstd_frame.reset_mock()
    for data, level in ((bytearray(b"data"), None), (b"data", 3)):
        assert bytes(cramjam.zstd.decompress(compress(ZSTD, data, level=level))) == b"data"  # type: ignore[arg-type]
    native.zstd_frame.assert_not_called()


@pytest.mark.parametrize("codec", [NONE, LZ4, ZSTD])
def test_magic_of_snappy_java_means_nothing_in_other_codecs(codec: int) -> None:
    assert is_one_piece(codec, XERIAL_HEADER)
    assert not is_one_piece(SNAPPY, XERIAL_HEADER)

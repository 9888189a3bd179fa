"""Damaged compressed records: what the native decompressor accepts, Python accepts with the same bytes.

    python fuzzing/compressed_frames.py --count 1000000 --seed 1

Each execution compresses a random text in one of the forms that clients write, and changes the bytes after the header
of the frame (see ``engines.changed``). The native function may leave any data to Python, but it must not return bytes
that Python does not return. The trailer of a changed gzip member is corrected, if zlib reads the member. Prints the
number of executions, and every difference with the bytes to repeat it. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import zlib
from unittest.mock import patch

import cramjam
from engines import changed

from kwire.engines import native
from kwire.errors import WireError
from kwire.records import compression

LIMIT = 1 << 20  # bytes of decompressed data
FORMS = ["gzip", "snappy-java", "snappy", "lz4", "lz4 of cramjam", "zstd", "zstd in pieces"]
UNCHANGED = {"gzip": 10, "snappy-java": 16, "lz4": 7, "lz4 of cramjam": 7}  # bytes of the header, by form


def some_text(chance: random.Random) -> bytes:
    """Return up to 3,000 bytes, part of which repeats."""
    words = [chance.randbytes(chance.choice((1, 2, 5, 9, 40))) for _ in range(chance.choice((1, 3, 30)))]
    return b"".join(chance.choice(words) for _ in range(chance.choice((0, 1, 5, 50, 300))))[:3_000]


def compressed(form: str, text: bytes, chance: random.Random) -> tuple[int, bytes]:
    """Return the codec and the compressed text."""
    match form:
        case "gzip":
            deflater = zlib.compressobj(chance.choice((0, 1, 6, 9)), zlib.DEFLATED, 31)
            return compression.GZIP, deflater.compress(text) + deflater.flush()
        case "snappy-java":
            return compression.SNAPPY, compression.compress(compression.SNAPPY, text)
        case "snappy":
            return compression.SNAPPY, bytes(cramjam.snappy.compress_raw(text))
        case "lz4":
            return compression.LZ4, compression.compress(compression.LZ4, text)
        case "lz4 of cramjam":
            writer = cramjam.lz4.Compressor(level=9, content_checksum=False, block_linked=False)
            writer.compress(text)
            return compression.LZ4, bytes(writer.finish())
        case "zstd":
            return compression.ZSTD, bytes(cramjam.zstd.compress(text, chance.choice((1, 3, 9, 19))))
        case _:
            return compression.ZSTD, b"".join(compression.compressed_pieces(compression.ZSTD, text))


def damaged(form: str, data: bytes, chance: random.Random) -> bytes:
    """Return a frame after changes. The trailer of a gzip member fits to the changed content."""
    size = UNCHANGED.get(form, 0)
    if form != "gzip":
        return data[:size] + changed(data[size:], chance)
    body = changed(data[size:-8], chance)
    inflater = zlib.decompressobj(-15)
    try:
        text = inflater.decompress(body, LIMIT)
    except zlib.error:
        return data[:size] + body + data[-8:]
    return data[:size] + body + zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(4, "little")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    package = native.package()
    if not package:
        print("the native engine is not installed: make native")
        return 1
    chance = random.Random(given.seed)  # noqa: S311 - not secret
    accepted, refused, differences = 0, 0, 0
    for _ in range(given.count):
        form = chance.choice(FORMS)
        codec, data = compressed(form, some_text(chance), chance)
        data = damaged(form, data, chance)
        found = package.decompress(codec, data, LIMIT)
        with patch.object(compression, "NATIVE", None):
            try:
                expected = compression.decompress(codec, data, limit=LIMIT)
            except WireError:
                expected = None
        accepted += found is not None
        refused += expected is None
        if found is not None and found != expected:
            differences += 1
            print(f"{form}: {data.hex()}")
    print(f"{given.count} executions, {accepted} accepted, {refused} refused by Python, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())

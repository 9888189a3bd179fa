"""CPU time of reading and writing record batches, beside kafka-python and aiokafka.

    python benchmarks/records.py [ROUNDS]

All libraries handle the same batches in one process, in turn; a figure is the median CPU time of the thread. Reading
goes from bytes to record objects and verifies the checksum; writing goes from the arguments of the library's writer to
bytes. Each library uses the same C code for CRC-32C; kafka-python is also measured with its own, in pure Python.
Prints a table for benchmarks/results/records.md.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import Any

import kafka.codec as codecs
import kafka.record.default_records as kafka_python
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from google_crc32c import value as crc32c
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from kwire.records import Record, build_batch, read

ROUNDS = 30
KAFKA_PYTHON_HAS = [lambda: True, codecs.has_gzip, codecs.has_snappy, codecs.has_lz4, codecs.has_zstd]
COUNT = 1_000
TIME = 1_700_000_000_000
OWN_CRC = kafka_python.calc_crc32c
Fields = tuple[int, bytes | None, bytes, list[tuple[str, bytes]]]  # timestamp, key, value, headers


@dataclass(frozen=True)
class Case:
    """A task of the comparison.

    Attributes:
        what: name of the task.
        ways: function of each library, by name; kwire's is ``kwire``.
        repeats: calls of one measurement.
    """

    what: str
    ways: dict[str, Callable[[], object]]
    repeats: int


def cases() -> Iterator[Case]:
    """Yield a case for reading and one for writing each batch. A library without the codec is left out."""
    for (name, codec), rows in compressed(batches()).items():
        records = [Record(timestamp=t, key=key, value=value, headers=headers) for t, key, value, headers in rows]
        data = build_batch(records, codec=codec)
        repeats = 3 if len(rows) > 1 else 100
        readers = {"kwire": with_kwire, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}
        writers: dict[str, Callable[[], object]] = {
            "kwire": partial(build_batch, records, codec=codec),
            "kwire, records made too": partial(build_from_rows, rows, codec),
            "kafka-python": partial(written_by_kafka_python, rows, codec),
            "aiokafka": partial(written_by_aiokafka, rows, codec),
        }
        if not KAFKA_PYTHON_HAS[codec]():
            del readers["kafka-python"], writers["kafka-python"]
        elif not codec:
            writers["kafka-python, own CRC"] = partial(with_own_crc, partial(written_by_kafka_python, codec=0), rows)
        for reader in readers.values():
            fields = [(r.timestamp, r.key, r.value, list(r.headers)) for r in reader(data)]
            assert fields == rows, (reader, name)
        ways: dict[str, Callable[[], object]] = {library: partial(reader, data) for library, reader in readers.items()}
        if not codec:
            ways["kafka-python, own CRC"] = partial(with_own_crc, with_kafka_python, data)
        yield Case(f"read {name}", ways, repeats)
        yield Case(f"write {name}", writers, repeats)


def compressed(given: dict[str, list[Fields]]) -> dict[tuple[str, int], list[Fields]]:
    """Return the batches by name and codec: each without compression, and the first and the last with each codec."""
    names = list(given)
    codecs = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    return {(name, 0): rows for name, rows in given.items()} | {
        (f"{name}, {word}", codec): given[name] for name in (names[0], names[-1]) for word, codec in codecs.items()
    }


def batches() -> dict[str, list[Fields]]:
    headers = [[("trace-id", b"%016d" % n), ("source", b"orders")] for n in range(COUNT)]
    keys = [b"key%05d" % n for n in range(COUNT)]
    return {
        "1,000 records, key 8 B, value 100 B": [
            (TIME + n // 3, keys[n], bytes([n % 256]) * 100, []) for n in range(COUNT)
        ],
        "the same with 2 headers each": [
            (TIME + n // 3, keys[n], bytes([n % 256]) * 100, headers[n]) for n in range(COUNT)
        ],
        "1,000 records without key, values 20 to 900 B": [
            (TIME + n // 3, None, bytes([n % 256]) * (20 + n * 7919 % 880), []) for n in range(COUNT)
        ],
        "1,000 records 7 s apart": [(TIME + n * 7_000, keys[n], bytes(100), []) for n in range(COUNT)],
        "1,000 values of 10 kB": [(TIME + n // 3, keys[n], bytes(10_000), []) for n in range(COUNT)],
        "1 record": [(TIME, b"key", bytes(100), [])],
    }


def with_kwire(data: bytes) -> list[Record]:
    return [record for batch in read(data) for record in batch.records()]


def with_kafka_python(data: bytes) -> list[Any]:
    parsed: list[Any] = []
    records = MemoryRecords(data)
    while batch := records.next_batch():
        assert batch.validate_crc()
        parsed += batch
    return parsed


def with_aiokafka(data: bytes) -> list[Any]:
    parsed: list[Any] = []
    records = AiokafkaRecords(data)
    while batch := records.next_batch():
        assert batch.validate_crc()
        parsed += batch
    return parsed


def build_from_rows(rows: list[Fields], codec: int) -> bytes:
    records = [Record(timestamp=t, key=key, value=value, headers=headers) for t, key, value, headers in rows]
    return build_batch(records, codec=codec)


def written_by_kafka_python(rows: list[Fields], codec: int) -> object:
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=2**30)
    for timestamp, key, value, headers in rows:
        builder.append(timestamp, key, value, headers)
    builder.close()
    return builder.buffer()


def written_by_aiokafka(rows: list[Fields], codec: int) -> object:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 2**30)
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        builder.append(offset, timestamp, key, value, headers)
    return builder.build()


def c_crc(data: object) -> int:
    return int(crc32c(bytes(data)))  # type: ignore[call-overload]


def with_own_crc(do: Callable[..., object], given: object) -> object:
    kafka_python.calc_crc32c = OWN_CRC
    try:
        return do(given)
    finally:
        kafka_python.calc_crc32c = c_crc


def measured(case: Case, rounds: int) -> dict[str, float]:
    """Return the median seconds of each way, measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in case.ways}
    for _ in range(rounds):
        for name, way in case.ways.items():
            repeats = 1 if "own CRC" in name else case.repeats
            began = thread_time()
            for _ in range(repeats):
                way()
            times[name].append((thread_time() - began) / repeats)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


COLUMNS = ["kwire", "kwire, records made too", "kafka-python", "kafka-python, own CRC", "aiokafka"]


def main(rounds: int = ROUNDS) -> None:
    kafka_python.calc_crc32c = c_crc
    print(f"| us (times kwire) | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for case in cases():
        gc.collect()
        gc.freeze()
        figures = measured(case, rounds)
        cells = [
            "" if name not in figures else f"{figures[name] * 1e6:.1f} ({figures[name] / figures['kwire']:.2f})"
            for name in COLUMNS
        ]
        print(f"| {case.what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)

"""Damaged records of magic 2 through both readers: the native one and that in Python read the same, or refuse the same.

    python fuzzing/record_engines.py --count 1000000 --seed 1

Each execution changes the bytes of a few records (see ``engines.changed``) and reads them with both: the records before
the error, and the type and text of the error have to be equal. Both write again what was read without an error. This
harness takes the place of cargo-fuzz, which needs a nightly compiler: the input goes through the interface
of the extension module. Prints the number of executions, and every difference with the bytes to repeat it. Exit code 1
if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
from itertools import chain
from typing import Any
from unittest.mock import patch

from engines import changed

from kwire.engines import native
from kwire.errors import WireError
from kwire.records import record as module
from kwire.records.native import records_of, written_natively
from kwire.records.record import Record, read_records, write_records

AGAIN = 100  # inputs from the same records


def some_records(chance: random.Random) -> list[Record]:
    """Return one to four records with keys, values and headers of random lengths."""

    def data() -> bytes | None:
        size = chance.choice((-1, 0, 1, 5, 63, 64, 130))
        return None if size < 0 else chance.randbytes(size)

    return [
        Record(
            timestamp=chance.choice((0, 63, 64, 8192, 2**40, -5)) + number,
            key=data(),
            value=data(),
            headers=[(chance.choice(("a", "trace-id", "größe")), data()) for _ in range(chance.choice((0, 0, 1, 3)))],
        )
        for number in range(chance.randint(1, 4))
    ]


def outcome(engine: str, data: bytes, count: int) -> Any:
    """Return the records that an engine reads, the error, and the bytes that it writes for the records."""
    found: list[Record] = []

    def written(of: type, *arguments: Any) -> bytes | None:
        return written_natively(of, *arguments) if engine == "native" else None

    def reader(into: type) -> Any:
        return records_of(into, engine)

    with patch.object(module, "records_of", reader), patch.object(module, "written_natively", written):
        try:
            found += chain.from_iterable(read_records(data, 0, count, 2**40, 1_700_000_000_000, None, Record))
        except WireError as error:
            return repr(found), repr(error)
        return repr(found), write_records(found, None, 1_700_000_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not native.package():
        print("the native engine is not installed: make native")
        return 1
    chance = random.Random(given.seed)  # noqa: S311 - not secret
    accepted, differences = 0, 0
    records, data = [Record()], b""
    for number in range(given.count):
        if number % AGAIN == 0:
            records = some_records(chance)
            data = write_records(records, None, 0)
        damaged = changed(data, chance)
        first, second = (outcome(engine, damaged, len(records)) for engine in ("native", "compiled"))
        accepted += isinstance(first[1], bytes)
        if first != second:
            differences += 1
            print(f"{len(records)} records: {damaged.hex()}")
    print(f"{given.count} executions, {accepted} accepted, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())

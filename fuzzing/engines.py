"""A comparison of the engines: of damaged messages, all accept the same, with equal values and equal encodings.

    python fuzzing/engines.py --minutes 2 --seed 1

For every version of every message: random changes of encoded values (a byte set, removed, doubled or inserted, the end
cut off, two parts exchanged). The native and the compiled engine decode each of them; the reference engine decodes
every SLOW-th. Prints the number of executions, and the bytes of each difference. Exit code 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

from kwire import blobs
from kwire.engines import compiled, native, reference
from kwire.errors import WireError
from kwire.fuzz.values import full
from kwire.layout import versions_of
from kwire.limits import weight_limit
from kwire.messages import APIS
from kwire.schema import schema_of

SLOW = 50  # decodings by the fast engines for each by the reference engine
ROUND = 200  # changed inputs of one version, before the next version
ENGINES: dict[str, Any] = {"native": native, "compiled": compiled, "reference": reference}


def messages() -> Iterator[tuple[type, int]]:
    """Yield every message in every version."""
    stored = [blobs.BLOBS[name] for name in blobs.BLOBS]
    for message in [*(one for api in APIS.values() for one in (api.request, api.response)), *stored]:
        versions = schema_of(message).versions
        assert versions is not None
        for version in versions_of(versions):
            yield message, version


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one to three random changes."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if at < len(out):
                out[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 1:
                del out[at : at + chance.choice((1, 1, 2, 4))]
            case 2:
                out[at:at] = out[at : at + chance.randrange(1, 20)]
            case 3:
                out[at:at] = bytes(chance.choices((0, 1, 0xFF, 0x80, 0x41), k=chance.randrange(1, 6)))
            case 4:
                del out[at:]
            case _:
                other = chance.randrange(len(out) + 1)
                out[at : at + 4], out[other : other + 4] = out[other : other + 4], out[at : at + 4]
    return bytes(out)


def outcome(engine: str, message: type, version: int, data: bytes) -> Any:
    """Return the decoded message, the offset of its end, and its bytes when encoded again; None if refused."""
    try:
        value, end = ENGINES[engine].decode(message, data, 0, version, weight_limit(len(data)))
    except (WireError, *compiled.REFUSALS):
        return None
    return repr(value), end, ENGINES[engine].encode(value, version)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not native.package():
        print("the native engine is not installed: make native")
        return 1
    chance = random.Random(given.seed)  # noqa: S311 - not secret
    pairs = list(messages())
    executions, accepted, slow, differences = 0, 0, 0, 0
    end = time.monotonic() + given.minutes * 60
    while time.monotonic() < end:
        message, version = chance.choice(pairs)
        data = native.encode(full(message, version), version)
        for number in range(ROUND):
            damaged = changed(data, chance)
            engines = [*ENGINES] if number % SLOW == 0 else ["native", "compiled"]
            results = [outcome(engine, message, version, damaged) for engine in engines]
            executions += len(results)
            slow += len(results) - 2
            accepted += results[0] is not None
            if any(result != results[0] for result in results):
                differences += 1
                print(f"{message.__name__} v{version}: {damaged.hex()}")
    print(f"{executions} executions ({slow} of the reference engine), {accepted} accepted, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Damaged messages through both writers of JSON: the native one and that in Python write the same, or refuse the same.

    python fuzzing/json_texts.py --count 1000000 --seed 1

Each execution changes the bytes of a message (see ``engines.changed``). The native package checks the bytes and writes
their JSON; the compiled engine decodes them, and Python writes the JSON of the objects. The text and the first error
code have to be equal. Only a struct with more than 16 unknown tags may be left to Python. This harness takes the place
of cargo-fuzz, as ``record_engines.py`` does. Prints the number of executions, and every difference with the bytes to
repeat it. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any
from uuid import UUID

from engines import changed, messages

from kwire.engines import compiled, native
from kwire.engines.runtime import NativeRefused
from kwire.errors import WireError
from kwire.fuzz.values import full
from kwire.json.expanded import Context, error_of, form_of
from kwire.json.native import form_of as native_form
from kwire.limits import weight_limit

ROUND = 200  # changed inputs of one version, before the next version


def name_of(topic_id: UUID) -> str | None:
    """Return a name for half of the topic ids."""
    return f"topic \u20ac {topic_id.int % 7}" if topic_id.int % 2 else None


CONTEXT = Context(name_of)


def native_text(message: type, version: int, data: bytes) -> Any:
    """Return the JSON text that the native package writes, and the first error code; None if it refuses the bytes."""
    try:
        body = native_form(message, version).body(data, 0, weight_limit(len(data)))
    except NativeRefused:
        return None
    return body.text(name_of).decode(), body.error


def python_text(message: type, version: int, data: bytes) -> Any:
    """Return the JSON text that Python writes, and the first error code; None if the bytes are refused."""
    try:
        value: Any = compiled.decode(message, data, 0, version, weight_limit(len(data)))[0]
    except (WireError, *compiled.REFUSALS):
        return None
    return json.dumps(form_of(value, version, CONTEXT)), error_of(value, version)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)  # noqa: S311 - not secret
    pairs = [pair for pair in messages() if native_form(*pair) is not None]
    if not pairs:
        print("the native engine is not the default engine: make native")
        return 1
    accepted = left = differences = 0
    for number in range(given.count):
        if number % ROUND == 0:
            message, version = chance.choice(pairs)
            data = native.encode(full(message, version), version)
        damaged = changed(data, chance)
        first, second = native_text(message, version, damaged), python_text(message, version, damaged)
        accepted += first is not None
        if first != second:
            if first is None and '"_unknown_tags"' in second[0]:
                left += 1
                continue
            differences += 1
            print(f"{message.__name__} v{version}: {damaged.hex()}")
    print(f"{given.count} executions, {accepted} accepted, {left} left to Python, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Programs of real clients that are recorded through the proxy, and then run against ``mockbroker replay``.

Each produces six records to two partitions, reads them in a group, commits and leaves, and prints the values that it
has read. Its arguments are the bootstrap servers, and the milliseconds of one poll.
"""

from __future__ import annotations

import sys
from pathlib import Path

from interop.programs import run_file
from interop.stage import need_client
from need import need

FOLDER = Path(__file__).parent / "recorded"
FILES = {"java": "Recorded.java", "franz-go": "recorded.go", "kafkajs": "recorded.js"}
FAMILIES = ("kafka-python", "confluent-kafka", "aiokafka", "java", "franz-go", "kafkajs", "kcat")
TOPIC, PARTITIONS = "orders", 2
VALUES = [f"order {number}" for number in range(6)]
POLL_MS = 100  # the poll time with which the programs were recorded


def program(family: str) -> list[str]:
    """Return the command of a family's program, without its arguments. Skips, or in CI fails, where it cannot run."""
    need_client(family)
    if family in FILES:
        return run_file(FOLDER / FILES[family])
    if family == "kcat":
        return [need("sh", "it runs kcat"), str(FOLDER / "recorded.sh")]
    return [sys.executable, str(FOLDER / "recorded.py"), family]

"""Record the programs of ``interop/recorded`` with a real Kafka, in ``fixtures/recordings``.

    python tests/oracle/recordings.py [FAMILY]...

Needs Java, Maven and the clients.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from interop.adapters import ADAPTERS  # noqa: E402
from interop.recorded_programs import FAMILIES, PARTITIONS, POLL_MS, TOPIC, VALUES, program  # noqa: E402
from oracle import kafka  # noqa: E402
from tools.proxy_process import running_proxy  # noqa: E402

PORT = 19192
PATIENCE = 60.0  # seconds


def record(family: str) -> Path:
    """Record the program of a family with a fresh broker; return the recording."""
    file = ROOT / "fixtures" / "recordings" / f"{family}__kafka-{kafka.NEWEST}.jsonl"
    command = program(family)
    servers = kafka.start(kafka.NEWEST, PORT)
    try:
        ADAPTERS["confluent-kafka"](servers).create_topic(TOPIC, PARTITIONS)
        with running_proxy(servers, "--record", str(file)) as (process, address):
            done = subprocess.run(
                [*command, address, str(POLL_MS)], check=True, capture_output=True, text=True, timeout=PATIENCE
            )
            process.terminate()
            process.wait(PATIENCE)
    finally:
        kafka.stop(PORT)
    assert sorted(done.stdout.splitlines()) == VALUES, done
    file.chmod(0o644)
    return file


if __name__ == "__main__":
    for each in sys.argv[1:] or FAMILIES:
        print(record(each))

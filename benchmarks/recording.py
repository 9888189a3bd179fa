"""CPU time of a recording, without sockets, beside the protocol code of the proxy: python benchmarks/recording.py

The kernel's part of a recording, the writes to a file, is measured too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from proxy import BATCH, BEAT, HEARTBEAT, RECORDINGS, STORED

from kwire.recording import WRITERS
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.link import Link
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.recording.memory import keep_freed_memory
from mockbroker.recording.recorder import Recorder
from mockbroker.recording.rotation import Limits, Rotation

ROUNDS = 7
READ = 131_072  # bytes of one read of the proxy
WRITES = 100  # reads between two writes of the recording
BROKER = Address("127.0.0.1", 9092)
CONNECTION = Connection(1, Address("127.0.0.1", 50_000), 0, BROKER, BROKER)
AT = Moment(1.0, 1_700_000_000.0)
CASES: dict[str, tuple[bytes, bytes, int, int]] = {  # request, response, requests of a read, requests
    "heartbeats, one in flight": (HEARTBEAT, BEAT, 1, 10_000),
    "heartbeats, 100 in flight": (HEARTBEAT, BEAT, 100, 100_000),
    "batches of 1 MB": (BATCH, STORED, 1, 100),
}


def spent(case: tuple[bytes, bytes, int, int], form: str) -> float:
    """Return the CPU time in microseconds of one request with its response. ``form``: of the recording; "" for none."""
    request, response, together, count = case
    has_many: list[bool] = []
    recorder = Recorder(lambda many: has_many.append(many) if many else None, gets_bytes=True)
    link = Link(CONNECTION, [recorder] if form else [])
    rotation = Rotation(Path("out"), WRITERS[f".{form or 'jsonl'}"](), Limits())
    rotation.begin()
    recorder.opened(CONNECTION, AT)
    reads = [(request * together)[at : at + READ] for at in range(0, len(request) * together, READ)]
    began, done = time.process_time(), 0
    for _ in range(count // together):
        for data in reads:
            deque(link.requests(bytes(bytearray(data)), AT), 0)
        deque(link.responses(response * together, AT), 0)
        done += len(reads)
        if has_many or (form and done >= WRITES):
            done = 0
            has_many.clear()
            list(rotation.parts(recorder.taken()))
    return (time.process_time() - began) / count * 1e6


def written() -> float:
    """Return the CPU time in microseconds of a write of 1 MB to a file."""
    with tempfile.TemporaryFile() as file:
        buffers = [bytes(61_440)] * 17
        began, count = time.process_time(), 200
        for _ in range(count):
            os.writev(file.fileno(), buffers)
        return (time.process_time() - began) / count * 1e6


def least(measure: Callable[[], float]) -> float:
    """Return the least of some measurements, which is the least disturbed by other processes."""
    return min(measure() for _ in range(ROUNDS))


def main() -> None:
    """Print a table of CPU for each request with its response."""
    keep_freed_memory()
    write: Callable[[str], object] = sys.stdout.write
    forms: Sequence[str] = ("", *RECORDINGS)
    write("| requests | protocol code of the proxy, µs | with jsonl, µs | with pcapng, µs |\n|---|---|---|---|\n")
    for label, case in CASES.items():
        found = [least(lambda case=case, form=form: spent(case, form)) for form in forms]  # type: ignore[misc]
        write(f"| {label} | {' | '.join(f'{each:.2f}' for each in found)} |\n")
    write(f"\nA write of 1 MB to a file: {least(written):.0f} µs\n")


if __name__ == "__main__":
    main()

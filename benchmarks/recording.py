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

from proxy import BATCH, BEAT, FILES, HEARTBEAT, STORED

from kwire.recording import WRITERS
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.link import Link
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.proxy.session import MAX_SPLICED, READ_SIZE
from mockbroker.recording.chunks import CHUNK, ChunkRecorder, new_memory
from mockbroker.recording.files import AppendedFile
from mockbroker.recording.memory import keep_freed_memory
from mockbroker.recording.rotation import Limits

ROUNDS = 7

MB = 1_000_000  # bytes
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
    """Return the CPU time in microseconds of one request with its response.

    Bytes that the proxy would receive into memory of the recording are not copied, because the kernel writes them.

    Args:
        case: an entry of CASES.
        form: format of the recording; "" for none.
    """
    request, response, together, count = case
    recorders: list[ChunkRecorder] = []
    if form:
        recorder = ChunkRecorder(
            Path("out"), WRITERS[f".{form}"](), Limits(), lambda: None, lambda chunk: recorder.release(chunk)
        )
        recorder.opened(CONNECTION, AT)
        recorders.append(recorder)
    link = Link(CONNECTION, recorders)
    stream = request * together
    began, done = time.process_time(), 0
    for _ in range(count // together):
        at = 0
        while at < len(stream):
            wanted = min(link.recorded(True), MAX_SPLICED)
            if memory := link.lend(True, wanted) if wanted else ():
                size = sum(map(len, memory))
                link.filled(True, size, AT)
            elif wanted:
                size = wanted
                link.forwarded(True, bytes(bytearray(stream[at : at + size])), AT)
            else:
                size = min(READ_SIZE, len(stream) - at)
                deque(link.requests(bytes(bytearray(stream[at : at + size])), AT), 0)
            at += size
            done += 1
        deque(link.responses(response * together, AT), 0)
        if form and done >= WRITES:
            done = 0
            recorder.flush()
    return (time.process_time() - began) / count * 1e6


def written(count: int = 50) -> tuple[float, float]:
    """Return the CPU time in microseconds to write 1 MB to a file, and to write 1 MB of a recording, both in chunks.

    ``count``: number of chunks.
    """
    memory = new_memory()
    memory.write(os.urandom(CHUNK))
    with tempfile.TemporaryDirectory() as folder, memoryview(memory) as data:
        with open(f"{folder}/buffered", "wb", 0) as buffered:
            began = time.process_time()
            buffered.writelines(data for _ in range(count))
            usual = time.process_time() - began
        file = AppendedFile(Path(folder, "appended"))
        began = time.process_time()
        for _ in range(count):
            file.write(data, 0, CHUNK)
        file.close()
        return usual / count / CHUNK * MB * 1e6, (time.process_time() - began) / count / CHUNK * MB * 1e6


def least(measure: Callable[[], float]) -> float:
    """Return the least of some measurements, which is the least disturbed by other processes."""
    return min(measure() for _ in range(ROUNDS))


def main() -> None:
    """Print a table of CPU for each request with its response."""
    keep_freed_memory()
    write: Callable[[str], object] = sys.stdout.write
    forms: Sequence[str] = ("", *FILES)
    write("| requests | protocol code of the proxy, µs | with jsonl, µs | with pcapng, µs |\n|---|---|---|---|\n")
    for label, case in CASES.items():
        found = [least(lambda case=case, form=form: spent(case, form)) for form in forms]  # type: ignore[misc]
        write(f"| {label} | {' | '.join(f'{each:.2f}' for each in found)} |\n")
    usual, ours = (min(each) for each in zip(*(written() for _ in range(ROUNDS)), strict=True))
    write(f"\nA write of 1 MB to a file: {usual:.0f} µs; of the recording: {ours:.0f} µs\n")


if __name__ == "__main__":
    main()

"""Captures for Spark, and the tables that one process makes of them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from captures import tls_hello
from tools.pcap import Talk, packets, pcap

from kwire.analysis import run
from kwire.analysis.columns import Row, rows_of
from kwire.analysis.tables import TABLES
from kwire.capture import Call, Connection, Problem, Skipped, read
from kwire.capture.tls.keylog import KeyLog

ROOT = Path(__file__).parent.parent.parent
COMMITTED = sorted((ROOT / "fixtures" / "captures").glob("*.pcap*"))  # some are gzip'd
PACKED = next(path for path in COMMITTED if path.suffix == ".gz")
MORE = ROOT / "fixtures" / "more" / "pcap"  # not in the repository
FEW = ["java-4.2.0__kafka-4.2.0__three", "aiokafka-0.14.0__kafka-4.2.0__static", "java-4.2.0__kafka-4.2.0__kip848"]
HEAD = 24  # bytes of a pcap before its records
PROTOCOL = 16 + 14 + 10  # offset in a record of the byte after the protocol of its packet


def captures() -> list[Path]:
    """Return the captures of the repository, and a few of fixtures/more if it exists."""
    return COMMITTED + [path for name in FEW if (path := MORE / f"{name}.pcap").exists()]


def content(path: Path) -> bytes:
    """Return the uncompressed bytes of a capture."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def records(path: Path) -> list[bytes]:
    """Return the records of a pcap, in the order of the file."""
    data = content(path)
    found, at = [], HEAD
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at:end])
        at = end
    return found


def time_us(record: bytes) -> int:
    """Return the time at which a packet was captured."""
    seconds, us = struct.unpack_from("<II", record)
    return int(seconds * 1_000_000 + us)


def long_capture(folder: Path, name: str = "long.pcap", *, every_nth: int = 1) -> Path:
    """Return all captures, or every nth, in one file: several parts of 64 kB. Packets are lost, out of order, and some
    were made UDP."""
    paths = captures()[::every_nth]
    head = content(paths[0])[:HEAD]
    every = [record for path in paths if content(path)[:HEAD] == head for record in records(path)]
    every.sort(key=lambda record: struct.unpack_from("<II", record))
    for place in range(50, len(every), 97):
        every[place - 1], every[place] = every[place], every[place - 1]
    kept = [record for number, record in enumerate(every) if number % 211 != 100]
    path = folder / name
    for place in range(60, len(kept), 301):
        kept.insert(place, as_udp(kept[place]))
    path.write_bytes(head + b"".join(kept))
    return path


def as_udp(record: bytes) -> bytes:
    """Return the record of an Ethernet and IPv4 packet, with the protocol changed to UDP."""
    return record[: PROTOCOL - 1] + b"\x11" + record[PROTOCOL:]


def strange(folder: Path) -> Path:
    """Return a capture with a TLS connection, packets that are not TCP, and damage in the middle and at the end."""
    sealed = Talk()
    made = list(packets([*sealed.open(), *sealed.say(True, tls_hello(b"broker.example"))]))
    data = pcap([*made, *made])
    once = (len(data) - HEAD) // 2
    records = as_udp(data[HEAD : HEAD + once]), bytes(100), data[HEAD + once :] * 8
    path = folder / "strange.pcap"
    path.write_bytes(data[:HEAD] + b"".join(records)[:-10])
    return path


def cut(path: Path, folder: Path, files: int) -> list[Path]:
    """Cut a capture between packets into several files, as rotation does."""
    every = records(path)
    size = -(-len(every) // files)
    folder.mkdir(exist_ok=True)
    made = []
    for number in range(files):
        made.append(folder / f"rotated-{number}.pcap")
        made[-1].write_bytes(content(path)[:HEAD] + b"".join(every[number * size : (number + 1) * size]))
    return made


def single(
    paths: Iterable[Path], capture_id: str, assignor: str | None = None, keylog: KeyLog | None = None
) -> dict[str, Sequence[Row]]:
    """Return the tables that one process makes; with ``assignor``, groups are replayed through it."""
    items = list(read(paths, keylog=keylog))
    calls = [item for item in items if isinstance(item, Call)]
    connections = [item for item in items if isinstance(item, Connection)]
    noticed = [item for item in items if isinstance(item, (Problem, Skipped))]
    return run.analyse(calls, connections, capture_id, noticed, assignor=assignor)


def rows(name: str, found: Any) -> list[Row]:
    """Return the rows of a DataFrame, in the order of the table."""
    return TABLES[name].sorted(rows_of(found.toArrow()))

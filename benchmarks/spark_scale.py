"""Stages of the pipeline on Spark for captures that are hard to divide.

    python benchmarks/spark_scale.py FOLDER [MEGABYTES]

Makes captures of about MEGABYTES (8) in FOLDER and converts each of them once with two cores: one group with 95 % of
the events, one connection with 90 % of the bytes, a connection over 20 rotated files, 1,000 groups, and 10,000 small
files. Prints a table for benchmarks/results/spark_scale.md, from Spark's event log: tasks, bytes of the shuffles,
bytes spilled to disk, run time of all tasks, and the largest task as a share of it; and the memory of the driver: its
Python process, and the heap of its JVM in use at the end. A second table has each stage of the jobs.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from capture import Client, control
from tools.pcap import Segment, packets, pcap

from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

MB = 1_000_000
SPLIT = 4 * 1024 * 1024  # bytes of a file per task
COMMITTED = 30  # partitions in a commit of the large group
HEADERS = 98  # bytes of a record and of the headers of a packet
ROTATED, GROUPS, FILES = 20, 1_000, 10_000
CASES = ("one group", "one connection", "20 rotated files", "1,000 groups", "10,000 files")


def main() -> None:
    """Run all cases, or one of them in a process of its own."""
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(convert(sys.argv[2])))
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, size = Path(sys.argv[1]), int(float(sys.argv[2]) * MB) if len(sys.argv) > 2 else 8 * MB
    make(folder, size)
    print(
        "| capture | MB | tasks | shuffled MB | spilled MB | tasks' s | largest task | wall s | driver MiB | heap MiB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    stages: list[str] = []
    for name in CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--case", str(folder / name)], stdout=subprocess.PIPE, text=True, check=True
        )
        one = json.loads(done.stdout.splitlines()[-1])
        print(
            f"| {name} | {one['size'] / MB:.1f} | {one['tasks']} | {one['shuffled'] / MB:.1f} | "
            f"{one['spilled'] / MB:.1f} | {one['run'] / 1000:.1f} | {one['largest'] / one['run']:.0%} | "
            f"{one['wall']:.0f} | {one['driver']:.0f} | {one['heap']:.0f} |",
            flush=True,
        )
        stages += [
            f"| {name} | {number} | {' | '.join(one['stages'][number])} |" for number in sorted(one["stages"], key=int)
        ]
    print("\n| capture | stage | tasks | tasks' s | shuffled MB |\n|---|---|---|---|---|")
    print("\n".join(stages))


def make(folder: Path, size: int) -> None:
    """Write the captures that do not exist, each in a folder of its own. ``size``: bytes of a capture."""
    if (folder / CASES[-1]).exists():
        return
    for name in CASES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "one group" / "a.pcap").write_bytes(pcap(packets(one_group(size))))
    (folder / "one connection" / "a.pcap").write_bytes(pcap(packets(one_connection(size))))
    (folder / "1,000 groups" / "a.pcap").write_bytes(pcap(packets(groups(size))))
    every = list(packets(one_connection(size)))
    step = -(-len(every) // ROTATED)
    for number in range(ROTATED):
        path = folder / "20 rotated files" / f"{number:02}.pcap"
        path.write_bytes(pcap(every[number * step : (number + 1) * step]))
    for number in range(FILES):
        client = Client(number % 10_000)
        client.talk.time_us += number * 1_000
        responses = [*client.talk.open(), *client.ask(4, HeartbeatRequest(group_id="orders"), HeartbeatResponse())]
        (folder / "10,000 files" / f"{number:05}.pcap").write_bytes(pcap(packets(responses)))


def commit(client: Client, group: str, turn: int, partitions: int) -> list[Segment]:
    """Return an OffsetCommit request of a member, and its response."""
    places = OffsetCommitRequest.Topic.Partition, OffsetCommitResponse.Topic.Partition
    asked = [places[0](partition_index=n, committed_offset=turn * 10 + n) for n in range(partitions)]
    stored = [places[1](partition_index=n) for n in range(partitions)]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=5,
        member_id=f"{client.name}-0b9d3a5e",
        topics=[OffsetCommitRequest.Topic(name="orders", partitions=asked)],
    )
    return client.ask(
        8, request, OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name="orders", partitions=stored)])
    )


def _trace(size: int, clients: int, turn_of: Any) -> Iterator[Segment]:
    members = [Client(number) for number in range(clients)]
    for client in members:
        yield from client.talk.open()
    now, written = members[0].talk.time_us, 0
    for turn in count():
        for number, client in enumerate(members):
            client.talk.time_us = now
            for segment in turn_of(client, number, turn):
                written += HEADERS + len(segment.payload)
                yield segment
            now = client.talk.time_us
        if written >= size:
            return


def one_group(size: int) -> Iterator[Segment]:
    """Yield the segments of 20 members, of which one group has 95 % of the events."""
    return _trace(
        size,
        20,
        lambda client, number, turn: (
            control(client, turn)
            if turn % 50 == 0
            else commit(client, f"g{number}" if turn % 20 == 0 else "large", turn, COMMITTED)
        ),
    )


def one_connection(size: int) -> Iterator[Segment]:
    """Yield the segments of 20 clients, of which one connection has 90 % of the bytes."""
    return _trace(
        size,
        20,
        lambda client, number, turn: [
            segment
            for n in range(1 if number else 171)
            for segment in (
                commit(client, "orders", turn * 171 + n, 6)
                if n % 2
                else client.ask(12, MetadataRequest(topics=None), MetadataResponse(controller_id=1))
            )
        ],
    )


def groups(size: int) -> Iterator[Segment]:
    """Yield the segments of 1,000 members, each of its own group."""
    return _trace(size, GROUPS, lambda client, number, turn: commit(client, f"group-{number}", turn, 6))


def convert(folder: str) -> dict[str, Any]:
    """Convert the captures in a folder; return the figures of the job."""
    from kwire.spark.input_files import files
    from kwire.spark.job import Job
    from kwire.spark.output import Output
    from kwire.spark.session import QUIET, session

    with TemporaryDirectory() as work:
        QUIET.update(
            {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": Path(work).as_uri(),
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
                "spark.local.dir": work,
            }
        )
        spark = session("local[2]")
        paths = files([folder])
        began = time.perf_counter()
        Job(paths, Output(f"{work}/out"), "c", SPLIT).run(spark)  # without a size, one task does all
        wall = time.perf_counter() - began
        jvm: Any = spark.sparkContext._jvm
        runtime = jvm.java.lang.Runtime.getRuntime()
        runtime.gc()
        heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        spark.stop()
        log = next(path for path in Path(work).iterdir() if path.is_file() and path.name.startswith(("local", "app")))
        figures = _figures(log.read_text().splitlines())
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(Path(path).stat().st_size for path in paths)
    return figures | {"size": size, "wall": wall, "driver": driver, "heap": heap}


def _figures(lines: list[str]) -> dict[str, Any]:
    """Return the sums over all tasks in an event log, and those of each stage as text."""
    sums: dict[str, float] = defaultdict(float)
    by_stage: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0])
    for line in lines:
        event = json.loads(line)
        if event["Event"] != "SparkListenerTaskEnd":
            continue
        metrics = event["Task Metrics"]
        sums["tasks"] += 1
        sums["shuffled"] += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        sums["spilled"] += metrics["Disk Bytes Spilled"]
        sums["run"] += metrics["Executor Run Time"]
        sums["largest"] = max(sums["largest"], metrics["Executor Run Time"])
        of_task = 1, metrics["Executor Run Time"] / 1000, metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"] / MB
        stage = event["Stage ID"]
        by_stage[stage] = [total + value for total, value in zip(by_stage[stage], of_task, strict=True)]
    stages = {stage: [f"{count:.0f}", f"{run:.1f}", f"{size:.2f}"] for stage, (count, run, size) in by_stage.items()}
    return {name: round(value) for name, value in sums.items()} | {"stages": stages}


if __name__ == "__main__":
    main()

"""CPU time of Spark and of one process on the same captures.

    python benchmarks/spark.py FOLDER
    python benchmarks/spark.py --session FOLDER
    python benchmarks/spark.py --large FOLDER

FOLDER has the traces that benchmarks/capture.py makes. Both make every table of ``kwire pipeline`` with all bodies
decoded to JSON: one process as Arrow tables, Spark as Parquet. Figures are CPU seconds of all processes, with
the JVM and its workers, in the second run of a session, because the first one compiles. A session has 1 or 2 cores. A
capture of a few kilobytes shows the fixed cost. Prints a table for benchmarks/results/spark.md.

With ``--session``: wall time and CPU time of whole processes, in turn, the smallest of three: a Spark session with the
defaults of PySpark that counts the rows of one range, the same with the settings of ``kwire pipeline``, and ``kwire
pipeline`` with each trace, without and with an archive of classes that a run with this trace has written. With
``--large``: the table for 4 and 10 copies of the bulk trace, 1.2 and 3 GB, with other addresses in each copy; the files
remain in FOLDER.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from processes import cpu_times

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "fixtures" / "captures"
MB = 1_000_000
FILE_HEADER, RECORD_HEADER, SOURCE_ADDRESS, ADDRESS = 24, 16, 26, 4  # bytes of a pcap file with Ethernet and IPv4


def main() -> None:
    match sys.argv[1:]:
        case ["--in-spark", cores, *paths]:
            in_spark(int(cores), paths)
        case ["--in-one", path]:
            in_one(path)
        case ["--new-session", *words]:
            in_a_new_session(words)
        case ["--plain-session"]:
            in_a_plain_session()
        case ["--session", folder]:
            beside_a_bare_session([Path(folder) / "control.pcap", Path(folder) / "bulk.pcap"])
        case ["--large", folder]:
            compare([copies(Path(folder) / "bulk.pcap", count) for count in (4, 10)])
        case [folder]:
            compare([Path(folder) / "bulk.pcap", Path(folder) / "control.pcap"])
        case _:
            sys.exit(__doc__)


def compare(traces: list[Path]) -> None:
    small = str(next(SMALL.glob("*kip848.pcap")))
    print("| trace | runner | CPU s | of one process | wall s | shuffled MB | with payload | worker MiB |")
    print("|---|---|---|---|---|---|---|---|")
    alone = {path.name: child("--in-one", str(path)) for path in traces}
    for name, figures in alone.items():
        print(f"| {name} | one process | {figures['cpu']:.1f} | | {figures['wall']:.1f} | | | |")
    for cores in (1, 2):
        for figures in child("--in-spark", str(cores), small, *map(str, traces)):
            ratio = figures["cpu"] / alone[figures["name"]]["cpu"] if figures["name"] in alone else 0
            of = f"{ratio:.1f}" if ratio else ""
            more = f"{figures['shuffled MB']:.1f} | {figures['references with payload']} | {figures['worker MiB']:.0f}"
            first = f"{figures['name']} | Spark, {cores} core{'s'[: cores - 1]}"
            print(f"| {first} | {figures['cpu']:.1f} | {of} | {figures['wall']:.1f} | {more} |", flush=True)


def beside_a_bare_session(traces: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archives = {trace: ["--class-archive", f"{folder}/{trace.stem}"] for trace in traces}
        for trace, archive in archives.items():
            child("--new-session", str(trace), *archive)  # writes the archive
        compare_sessions(archives)


def compare_sessions(archives: dict[Path, list[str]]) -> None:
    arguments = {"a session of PySpark": ["--plain-session"], "a session of kwire": ["--new-session"]}
    for trace, archive in archives.items():
        arguments[f"`kwire pipeline` {trace.name}"] = ["--new-session", str(trace)]
        arguments[f"the same with `--class-archive`, {trace.name}"] = ["--new-session", str(trace), *archive]
    walls: dict[str, list[float]] = {name: [] for name in arguments}
    cpus: dict[str, list[float]] = {name: [] for name in arguments}
    for _ in range(3):
        for name, words in arguments.items():
            began = time.perf_counter()
            cpus[name].append(child(*words)["cpu"])
            walls[name].append(time.perf_counter() - began)
    print("| process | wall s | of PySpark's | of kwire's | CPU s | beyond PySpark's | beyond kwire's | one process |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    alone = [""] * 2
    for trace in archives:
        alone += [f"{child('--in-one', str(trace))['cpu']:.1f}"] * 2
    wall, cpu = ([min(seconds[name]) for name in arguments] for seconds in (walls, cpus))
    for name, clock, busy, one in zip(arguments, wall, cpu, alone, strict=True):
        times = f"{clock:.1f} | {clock / wall[0]:.2f} | {clock / wall[1]:.2f}"
        print(f"| {name} | {times} | {busy:.1f} | {busy - cpu[0]:.1f} | {busy - cpu[1]:.1f} | {one} |")


def in_a_plain_session() -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.range(1000).count()
    cpu = total_cpu()
    spark.stop()
    print(json.dumps({"cpu": cpu}))


def in_a_new_session(words: list[str]) -> None:
    """Run ``kwire pipeline`` with the paths and options in ``words``; without words, only start a session."""
    from kwire.spark.command import command
    from kwire.spark.session import session, start

    with tempfile.TemporaryDirectory() as out:
        if words:
            command.main(["--master", "local[2]", "--output", out, "--input", *words], standalone_mode=False)
        else:
            session("local[2]").range(1000).count()
        cpu = total_cpu()
        start().stop()
    print(json.dumps({"cpu": cpu}))


def copies(trace: Path, count: int) -> Path:
    """Write a capture with copies of a capture of IPv4 packets on Ethernet, on other addresses; return its path."""
    target = trace.with_name(f"{trace.stem}-{count}.pcap")
    if target.exists():
        return target
    content = np.fromfile(trace, np.uint8)
    starts, at = [], FILE_HEADER
    while at < len(content):
        starts.append(at)
        at += RECORD_HEADER + int.from_bytes(content[at + 8 : at + 12].tobytes(), "little")
    second_bytes = np.array(starts) + RECORD_HEADER + SOURCE_ADDRESS + 1  # of 10.0.0.1
    draft = target.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(content[:FILE_HEADER].tobytes())
        for number in range(count):
            content[second_bytes] = content[second_bytes + ADDRESS] = number
            file.write(content[FILE_HEADER:].tobytes())
    draft.rename(target)
    return target


def child(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def in_one(path: str) -> None:
    from kwire.analysis import run
    from kwire.analysis.columns import arrow_table
    from kwire.analysis.tables import TABLES
    from kwire.capture import Call, Connection, Problem, Skipped, read

    began, cpu = time.perf_counter(), time.process_time()
    connections: list[Connection] = []
    problems: list[Problem | Skipped] = []

    def calls() -> Iterator[Call]:
        for item in read(path):
            if isinstance(item, Call):
                yield item
            elif isinstance(item, Connection):
                connections.append(item)
            else:
                problems.append(item)

    tables = run.analyse(calls(), connections, "c", problems)
    for name, rows in tables.items():
        arrow_table(TABLES[name], rows)
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began}))


def in_spark(cores: int, paths: list[str]) -> None:
    from kwire.spark.input_files import files
    from kwire.spark.job import Job
    from kwire.spark.output import Output
    from kwire.spark.session import session
    from kwire.spark.source import FORMAT, register

    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPARK_LOCAL_DIRS"] = folder
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.cleaner.referenceTracking=false pyspark-shell"  # keeps files
        spark = session(f"local[{cores}]")
        register(spark)
        results = []
        for path in paths:
            for number in range(2):
                before, cpu, began = shuffled(folder), total_cpu(), time.perf_counter()
                Job(files([path]), Output(f"{folder}/out"), f"c{number}").run(spark)
                result = {"name": Path(path).name, "cpu": total_cpu() - cpu, "wall": time.perf_counter() - began}
                result["shuffled MB"] = (shuffled(folder) - before) / MB
            reader = spark.read.format(FORMAT).load(path)
            result["references with payload"] = reader.where("payload IS NOT NULL").count()
            result["worker MiB"] = worker_peak()
            results.append(result)
        spark.stop()
    print(json.dumps(results))


def shuffled(folder: str) -> int:
    """Return the bytes of all shuffle files."""
    return sum(path.stat().st_size for path in Path(folder).rglob("shuffle_*.data"))


def descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    pids, todo = [], [os.getpid()]
    while todo:
        pids.append(todo.pop())
        todo += children.get(pids[-1], [])
    return pids


def total_cpu() -> float:
    """Return the CPU seconds of this process and all its descendants, running or ended."""
    seconds = 0.0
    for pid in descendants():
        with suppress(OSError):  # it has ended
            seconds += sum(cpu_times(pid, children=True))
    return seconds


def worker_peak() -> float:
    """Return the largest resident set of a Python worker so far, in MiB."""
    peaks = [0.0]
    for pid in descendants():
        try:
            if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid != os.getpid():
                status = Path(f"/proc/{pid}/status").read_text()
                if "python" in status.splitlines()[0]:
                    peaks += [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")]
        except OSError:
            continue
    return max(peaks)


if __name__ == "__main__":
    main()

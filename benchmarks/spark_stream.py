"""Cost of the micro-batches of a stream, after 1, 10 and 100 of them.

    python benchmarks/spark_stream.py [BATCHES [MEMBERS]]
    python benchmarks/spark_stream.py --states [BATCHES [MEMBERS]]

Makes BATCHES (110) captures of one minute each: MEMBERS (20) members of one group send a heartbeat every 3 s and commit
6 partitions every 5 s. Their connections stay open. A stream with two cores reads one capture in each micro-batch.
Prints for each micro-batch the CPU seconds of all processes, the bytes of all files that it wrote without Spark's
checkpoint, the bytes of the states of groups and counts, and the buckets that it updated and rebuilt. The last lines
have the means of some micro-batches, for docs/spark.md. Waiting for the next micro-batch is not counted.

With --states, one process without Spark does the second stage only: it loads the states of buckets, adds the rows of
the micro-batch, and encodes the new states. This is the part whose cost could grow with the history.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from capture import Client, control
from spark import total_cpu
from spark_scale import commit
from tools.pcap import Segment, packets, pcap

from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

MINUTE = 60
SECOND_US = 1_000_000
SPANS = ((2, 4), (10, 14), (50, 59), (100, 109))  # numbers of micro-batches, of which the last lines have the means
COLUMNS = ("CPU s", "wall s", "kB written", "kB of states", "updated", "rebuilt")


def main() -> None:
    """Make the captures, run the stream, and print the table."""
    of_states = sys.argv[1:2] == ["--states"]
    arguments = sys.argv[2:] if of_states else sys.argv[1:]
    batches = int(arguments[0]) if arguments else 110
    members = int(arguments[1]) if len(arguments) > 1 else 20
    with TemporaryDirectory() as work:
        folder = Path(work) / "captures"
        folder.mkdir()
        clients = [Client(place) for place in range(members)]
        for number in range(batches):
            made = pcap(packets(minute(clients, number)))
            (folder / f"{number:04}.pcap").write_bytes(made)
        print(f"{batches} captures of {len(made) / 1000:.0f} kB\n")
        if of_states:
            run_states(sorted(folder.iterdir()))
        else:
            run(folder, Path(work))


def minute(clients: list[Client], number: int) -> Iterator[Segment]:
    """Yield the segments of one minute, in order of time. ``number``: number of the minute, from 0."""
    begin = clients[0].talk.time_us if not number else START[0] + number * MINUTE * SECOND_US
    if not number:
        START.append(begin)
        for client in clients:
            yield from client.talk.open()
            yield from control(client, 0)
    for second in range(1 if not number else 0, MINUTE):
        for place, client in enumerate(clients):
            client.talk.time_us = max(client.talk.time_us, begin + second * SECOND_US + place * 1_000)
            if second % 3 == 0:
                member = f"{client.name}-0b9d3a5e"
                request = HeartbeatRequest(group_id="orders", generation_id=5, member_id=member)
                yield from client.ask(4, request, HeartbeatResponse())
            if second % 5 == 0:
                yield from commit(client, "orders", number * MINUTE + second, 6)


START: list[int] = []


def run(folder: Path, work: Path) -> None:
    """Run the stream, and print the figures of each micro-batch. ``work``: folder for the tables."""
    from kwire.spark.output import Output
    from kwire.spark.session import QUIET, session

    streams: Any = import_module("kwire.spark.stream")
    QUIET["spark.local.dir"] = str(work / "spark")
    QUIET["spark.log.level"] = "ERROR"
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = session("local[2]")
    place = work / "out"
    stream = streams.Stream([str(folder)], Output(str(place)), "c", settle=0.0, files=1)
    rows: list[tuple[float, ...]] = []
    seen: dict[Path, tuple[int, int]] = {}
    last = [total_cpu(), time.perf_counter()]
    renew, write = streams.Stream._renew, streams.write_update
    updates: list[tuple[int, int]] = []

    def counted_update(groups: Any, each: Any, increments: Any, about: Any, tasks: int) -> Any:
        done = write(groups, each, increments, about, tasks)
        updates.append((len(done.buckets), len(done.buckets & set(about.rebuilt))))
        return done

    def measured(self: Any, spark: Any, batch: Any, number: int) -> None:
        updates.clear()
        renew(self, spark, batch, number)
        cpu, now = total_cpu(), time.perf_counter()
        written = sum(size for path, size in new_files(place, seen))
        states = sum(path.stat().st_size for path in newest(place))
        update = [sum(column) for column in zip(*updates, strict=True)]
        rows.append((cpu - last[0], now - last[1], written / 1000, states / 1000, *update))
        print(f"| {number} | {line(rows[-1])} |", flush=True)
        last[:] = total_cpu(), time.perf_counter()

    streams.Stream._renew, streams.write_update = measured, counted_update
    print(f"| micro-batch | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    stream.start(spark, once=True).awaitTermination()
    began = total_cpu()
    stream.finish(spark)
    print(f"| finish | {total_cpu() - began:.1f} |" + " |" * (len(COLUMNS) - 1))
    spark.stop()
    for begin, end in SPANS:
        if some := rows[begin : end + 1]:
            figures = line([mean(one) for one in zip(*some, strict=True)])
            print(f"| mean of {begin} to {begin + len(some) - 1} | {figures} |")


def run_states(paths: list[Path]) -> None:
    """Do the second stage of a stream in this process, and print the figures of each micro-batch."""
    from pyspark.sql import Row

    from kwire.analysis.clusters import Clusters
    from kwire.spark import bundles, group_inputs, plain, segment_references
    from kwire.spark.capture_summary import CaptureSummary
    from kwire.spark.following import ConnectionFollower
    from kwire.spark.increments import Increments
    from kwire.spark.stream_follower import Follower, connection_rows

    follower, followers = Follower("c"), dict[bytes, ConnectionFollower]()
    summary = CaptureSummary()
    history: list[Any] = []
    states: dict[int, bytes] = {}
    rows: list[tuple[float, ...]] = []
    print("| micro-batch | CPU s | rows read | kB of states read | kB of states written | current rows | final rows |")
    print(f"|{'---|' * 7}")

    def by_bucket(some: list[Any]) -> dict[int, dict[str, dict[str, list[Any]]]]:
        for_groups = [one for one in some if one.kind in bundles.FOR_GROUPS]
        left_out = {*bundles.FOR_GROUPS, *bundles.PER_CONNECTION, *bundles.SUMMARY_KINDS, *bundles.STREAM_ONLY}
        if for_groups:
            send = partial(group_inputs.send_to_groups, summary.names, summary.groups, {}, summary.by_producer, {})
            batch = bundles.batch(for_groups)
            for_groups = [one for sent in send(iter([batch])) for one in bundles.bundles_of(sent)]
        found: dict[int, dict[str, dict[str, list[Any]]]] = {}
        for one in [*for_groups, *(one for one in some if one.kind not in left_out)]:
            of_key = found.setdefault(bundles.bucket_of(one.about), {}).setdefault(one.about, {})
            of_key.setdefault(one.kind, []).extend(bundles.unbundle(one.rows))
        return found

    for number, path in enumerate(paths):
        by_key: dict[bytes, list[Any]] = {}
        for split in segment_references.parts(str(path), 1 << 40):
            for batch in segment_references.references(segment_references.Part(0, split)):
                for row in batch.to_pylist():
                    by_key.setdefault(row["connection"], []).append(Row(**row | {"path": str(path)}))
        fresh: list[Any] = []
        pending: list[Any] = []
        for key, segments in by_key.items():
            following = followers.setdefault(key, ConnectionFollower(key, "c"))
            for provisional, into in ((False, fresh), (True, pending)):
                collected: dict[str, list[Any]] = defaultdict(list)
                if provisional:
                    plain.loads(plain.dumps(following)).finish(collected)
                else:
                    follower._process_rows(following, segments, collected)
                made = connection_rows(collected, key, provisional=provisional)
                into += [bundles.Bundle(row.kind, row.about, row.rows) for row in made]
        history += fresh
        was, summary = summary, summary | CaptureSummary.of(fresh)
        whole = was.commits != summary.commits or Clusters(was.statements) != Clusters(summary.statements)
        began = time.process_time()
        convert = Increments("c", summary.names, Clusters(summary.statements))
        new, more = by_bucket(fresh), by_bucket(pending)
        rebuilt = {bucket for bucket in {*new, *more} if whole or bucket not in states}
        every = by_bucket(history) if rebuilt else {}
        totals = [0, 0, 0, 0, 0]
        for bucket in {*new, *more}:
            loaded = None if bucket in rebuilt else plain.loads(states[bucket])
            own = (every if bucket in rebuilt else new).get(bucket, {})
            done = convert.bucket(loaded, own, more.get(bucket, {}))
            totals[0] += sum(len(some) for kinds in own.values() for some in kinds.values())
            totals[1] += 0 if loaded is None else len(states[bucket])
            states[bucket] = plain.dumps(done.state)
            totals[2] += len(states[bucket])
            totals[3] += sum(len(list(some)) for _, some in done.current)
            totals[4] += sum(len(list(some)) for _, some in done.final)
        cpu = time.process_time() - began
        rows.append((cpu, totals[0], totals[1] / 1000, totals[2] / 1000, *totals[3:]))
        print(
            f"| {number}{f' ({len(rebuilt)} rebuilt)' if rebuilt else ''} | {cpu:.2f} | {line(rows[-1][1:])} |",
            flush=True,
        )
    for begin, end in SPANS:
        if some := rows[begin : end + 1]:
            figures = [mean(one) for one in zip(*some, strict=True)]
            print(f"| mean of {begin} to {begin + len(some) - 1} | {figures[0]:.2f} | {line(figures[1:])} |")


def line(figures: Any) -> str:
    """Return figures as cells of a table."""
    return " | ".join(f"{one:.1f}" for one in figures)


def new_files(place: Path, seen: dict[Path, tuple[int, int]]) -> Iterator[tuple[Path, int]]:
    """Yield the files, with their sizes, that have been written since the last call; without Spark's checkpoint."""
    for path in place.rglob("*"):
        if path.is_file() and "checkpoint" not in path.parts:
            info = path.stat()
            if seen.get(path) != (info.st_ino, info.st_mtime_ns):
                seen[path] = info.st_ino, info.st_mtime_ns
                yield path, info.st_size


def newest(place: Path) -> list[Path]:
    """Return the newest stored state of each bucket."""
    found: dict[str, Path] = {}
    for path in sorted(place.glob("_stream/*/states/*/*"), key=lambda path: path.stat().st_mtime_ns):
        found[path.name] = path
    return list(found.values())


if __name__ == "__main__":
    main()

"""The goals of performance: what was measured, the best other program, the goal, and whether it was met.

    make native; python benchmarks/goals.py [--rounds 5] [--only decode records server start captures]

Everything is measured in one run, the contenders in turn, with the functions of the other benchmarks. Figures are CPU
times, except for the forming of a group and for start-up. Needs what ``broker.py`` and ``capture.py`` need: Java 17,
Maven, Go and tshark. Prints the tables, stores their figures in benchmarks/results/goals.json, and writes the tables
and charts of docs/performance.md. Tables that are not measured keep their stored figures.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]  # before installed packages

from goals_page import HEADER, NAMES, Row, Table, markdown_row, read, store, write  # noqa: E402 - after sys.path

FIGURES = ROOT / "benchmarks" / "results" / "goals.json"
PAGE = ROOT / "docs" / "performance.md"
CALLS = 60_000  # goal: calls of a capture into tables, per CPU second
HELP = 80  # goal: milliseconds of `mockbroker --help`


class Goals:
    """The figures of the tables.

    Args:
        rounds: Number of rounds.

    Attributes:
        tables: Tables by name.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.tables: dict[str, Table] = {}

    def measure(self, name: str) -> None:
        """Measure and print one table."""
        run = (
            f"{datetime.date.today()}, {self.rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, "
            f"{platform.system()}, CPython {platform.python_version()}, native engine."
        )
        self.tables[name] = self._table = Table(run=run)
        print(f"\n{NAMES[name]}: {run}\n\n{HEADER}", flush=True)
        getattr(self, name)()

    def row(self, work: str, compared: str, ratio: float, goal: float, times: str = "") -> None:
        """Add and print one row.

        Args:
            work: What was done.
            compared: The two sides of the ratio, such as "kwire / aiokafka".
            ratio: Time of the first side divided by the time of the second.
            goal: Largest ratio that meets the goal.
            times: Both times, with their unit.
        """
        ours, _, peer = compared.partition(" / ")
        row = Row(work=work, ours=ours, peer=peer, ratio=round(ratio, 4), goal=round(goal, 4), times=times)
        self._table.rows.append(row)
        print(markdown_row(row), flush=True)

    def decode(self) -> None:
        """Bodies of messages, beside kio and kafka-python."""
        import varied
        from codec import cases, measure

        made = [varied.prepared(case) for case in cases()]
        captured = [varied.prepared(varied.case_of(*each)) for each in varied.captured()]
        unequal = [varied.prepared(varied.case_of(*each)) for each in varied.varied()]
        typical = [measure(case.decoders, self.rounds) for case in made + captured]
        ratios = _ratios(typical, "native", "kio")
        self.row("decode typical bodies, mean", "native / kio", statistics.geometric_mean(ratios), 1 / 1.3)
        self.row("decode typical bodies, worst", "native / kio", max(ratios), 1.0)
        times = [measure(case.decoders, self.rounds) for case in unequal]
        ratios = _ratios(times, "native", "kafka-python")
        self.row("decode varied bodies, mean", "native / kafka-python", statistics.geometric_mean(ratios), 1 / 5)
        ratios = _ratios(times, "compiled", "kafka-python")
        self.row("decode varied bodies, worst", "pure Python / kafka-python", max(ratios), 1 / 1.5)
        times = [measure(case.encoders, self.rounds) for case in made + captured + unequal]
        ratios = _ratios(times, "native", "compiled")
        self.row("encode, mean", "native / pure Python", statistics.geometric_mean(ratios), 1 / 3)

    def records(self) -> None:
        """Record batches, beside aiokafka."""
        import records

        for case in records.cases():
            figures = records.measured(case, self.rounds)
            ours, peer = (figures[name] * 1e6 for name in ("kwire", "aiokafka"))
            self.row(case.what, "kwire / aiokafka", ours / peer, 1.0, f"{ours:,.2f} / {peer:,.2f} µs")

    def server(self) -> None:
        """Requests and groups, beside kfake and Kafka."""
        import broker
        from beside_kafka import NEWEST

        with ExitStack() as stack:
            bench = broker.bench(self.rounds, NEWEST, stack)
            costs = {work: bench.measure(bench.request(*how)) for work, how in REQUESTS.items()}
            crowd = ("-members", 1_000, "-heartbeat", "500ms", "-hold", "400ms", "-limit", "40s")
            forming = bench.measure(bench.group(*crowd))
        for work, (own, of_kafka, of_kfake) in costs.items():
            ours = statistics.median(one["server_cpu_us_per_req"] for one in own)
            for peer, rounds in (("kfake", of_kfake), ("Kafka", of_kafka)):
                if rounds:  # else the server has failed
                    cost = statistics.median(one["server_cpu_us_per_req"] for one in rounds)
                    self.row(work, f"mockbroker / {peer}", ours / cost, 1.0, f"{ours:.1f} / {cost:.1f} µs")
        own, _, of_kfake = forming
        if of_kfake:
            ours, kfake = (min(one["form_ms"] for one in rounds) for rounds in (own, of_kfake))
            work = "1,000 members form a group, by the clock"
            self.row(work, "mockbroker / kfake", ours / kfake, 1.0, f"{ours:.0f} / {kfake:.0f} ms")

    def start(self) -> None:
        """Start-up, beside the import of trio alone."""
        import startup

        trio: list[float] = []
        first: list[float] = []
        helps: list[float] = []
        for _ in range(3 * self.rounds):
            trio.append(startup.wall([sys.executable, "-c", "import trio"]))
            first.append(startup.first_response())
            helps.append(startup.wall([str(Path(sys.executable).parent / "mockbroker"), "--help"]))
        ours, peer, shown = map(statistics.median, (first, trio, helps))
        times = f"{ours:.0f} / {peer:.0f} ms"
        self.row("exec to the first response", "mockbroker / import of trio", ours / peer, 1.4, times)
        self.row("`mockbroker --help`", "mockbroker / the goal", shown / HELP, 1.0, f"{shown:.0f} / {HELP} ms")

    def captures(self) -> None:
        """Captures into JSON lines, objects and tables, beside tshark."""
        import capture

        paths = capture.make(ROOT / ".cache" / "traces")
        lines, _ = capture.measured(lambda: capture.as_json(paths["control"], None))
        objects, _ = capture.measured(lambda: capture.objects(paths["control"], None))
        tables, pairs = capture.measured(lambda: capture.as_tables(paths["control"], bodies=False))
        shark = capture.tshark(paths["control"], "json")
        if shark is not None:
            self.row("capture to JSON lines", "kwire / tshark", lines / shark, 0.2, f"{lines:.2f} / {shark:.2f} s")
            self.row("capture to objects", "kwire / tshark", objects / shark, 0.1, f"{objects:.2f} / {shark:.2f} s")
        ours, goal = tables / pairs, 1 / CALLS
        times = f"{ours * 1e6:.1f} / {goal * 1e6:.1f} µs for a call"
        self.row("capture to tables", "kwire / the goal", ours / goal, 1.0, times)


REQUESTS = {
    "Heartbeat": ("heartbeat", 1),
    "Metadata": ("metadata", 1),
    "Produce": ("produce", 1),
    "Produce, 32 in flight": ("produce", 32),
}


def _ratios(times: Sequence[Mapping[str, float]], upper: str, lower: str) -> list[float]:
    return [each[upper] / each[lower] for each in times if upper in each and lower in each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # let Python cache compiled modules
    began = time.monotonic()
    goals = Goals(options.rounds)
    for name in options.only:
        goals.measure(name)
        tables = read(FIGURES) | goals.tables  # stored at once: the next table may fail
        store(FIGURES, tables)
        write(tables, PAGE)
    missed = sum(not row.met for table in goals.tables.values() for row in table.rows)
    minutes, load = (time.monotonic() - began) / 60, os.getloadavg()[0]
    print(f"\nGoals missed: {missed}. It took {minutes:.1f} minutes; load {load:.1f} at the end.")
    print(f"Stored in {FIGURES.relative_to(ROOT)}; {PAGE.relative_to(ROOT)} has the tables and charts.")


if __name__ == "__main__":
    main()

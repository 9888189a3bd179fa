"""The goals of performance in one table: what was measured, the best other program, the goal, and whether it was met.

    make native; python benchmarks/goals.py [--rounds 5] [--only decode records server start captures]

Everything is measured in one run, the contenders in turn, with the functions of the other benchmarks. Figures are CPU
times, except for the forming of a group and for start-up. Needs what ``broker.py`` and ``capture.py`` need: Java 17,
Maven, Go and tshark. `make bench-all` writes the table to benchmarks/results/goals.md.
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
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # before installed packages

INTRODUCTION = """\
# Goals of performance

{day}, `make bench-all`: {rounds} rounds; load {load:.1f} at the start, {cores} cores; Linux, CPython {python}, native
engine. Ratios are times: below 1 means that kwire or mockbroker needs less time than the other program.

| work | figure | measured | goal | |
|---|---|---|---|---|"""


class Goals:
    """The rows of the table.

    Args:
        rounds: Number of rounds.

    Attributes:
        missed: Number of goals that were missed.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.missed = 0

    def row(self, work: str, figure: str, measured: float, goal: float, *, at_least: bool = False) -> None:
        """Print one row."""
        met = measured >= goal if at_least else measured <= goal
        self.missed += not met
        sign = ">=" if at_least else "<="
        cells = (work, figure, f"{measured:,.2f}", f"{sign} {goal:,}", "met" if met else "**missed**")
        print(f"| {' | '.join(cells)} |", flush=True)

    def decode(self) -> None:
        """Bodies of messages, beside kio and kafka-python."""
        import varied
        from codec import cases, measure

        made = [varied.prepared(case) for case in cases()]
        captured = [varied.prepared(varied.case_of(*each)) for each in varied.captured()]
        unequal = [varied.prepared(varied.case_of(*each)) for each in varied.varied()]
        typical = [measure(case.decoders, self.rounds) for case in made + captured]
        ratios = _ratios(typical, "native", "kio")
        self.row("decode typical bodies", "native / kio, mean", statistics.geometric_mean(ratios), round(1 / 1.3, 2))
        self.row("decode typical bodies", "native / kio, worst", max(ratios), 1.0)
        times = [measure(case.decoders, self.rounds) for case in unequal]
        ratios = _ratios(times, "kafka-python", "native")
        self.row(
            "decode varied bodies", "kafka-python / native, mean", statistics.geometric_mean(ratios), 5, at_least=True
        )
        ratios = _ratios(times, "kafka-python", "compiled")
        self.row("decode varied bodies", "kafka-python / pure Python, worst", min(ratios), 1.5, at_least=True)
        ratios = _ratios(
            [measure(case.encoders, self.rounds) for case in made + captured + unequal], "compiled", "native"
        )
        self.row("encode", "pure Python / native, mean", statistics.geometric_mean(ratios), 3, at_least=True)

    def records(self) -> None:
        """Record batches, beside aiokafka."""
        import records

        for case in records.cases():
            figures = records.measured(case, self.rounds)
            self.row(case.what, "kwire / aiokafka", figures["kwire"] / figures["aiokafka"], 1.0)

    def server(self) -> None:
        """Requests and groups, beside kfake and Kafka."""
        import broker
        from beside_kafka import NEWEST

        with ExitStack() as stack:
            bench = broker.bench(self.rounds, NEWEST, stack)
            costs = {work: bench.measure(bench.request(*how)) for work, how in REQUESTS.items()}
            crowd = ("-members", 1_000, "-heartbeat", "500ms", "-hold", "400ms", "-limit", "40s")
            forming = bench.measure(bench.group(*crowd))
        for work, rounds in costs.items():
            ours, kafka, kfake = (statistics.median(one["server_cpu_us_per_req"] for one in each) for each in rounds)
            self.row(work, "CPU of the server, mockbroker / kfake", ours / kfake, 1.0)
            self.row(work, "CPU of the server, mockbroker / Kafka", ours / kafka, 1.0)
        ours, _, kfake = (min(one["form_ms"] for one in each) for each in forming)
        self.row("1,000 members form a group", "by the clock, mockbroker / kfake", ours / kfake, 1.0)

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
        ratio = statistics.median(first) / statistics.median(trio)
        self.row("exec to the first response", "mockbroker / import of trio", ratio, 1.4)
        self.row("`mockbroker --help`", "ms", statistics.median(helps), 80)

    def captures(self) -> None:
        """Captures into JSON lines, objects and tables, beside tshark."""
        import capture

        paths = capture.make(ROOT / ".cache" / "traces")
        lines, _ = capture.measured(lambda: capture.as_json(paths["control"], None))
        objects, _ = capture.measured(lambda: capture.objects(paths["control"], None))
        tables, pairs = capture.measured(lambda: capture.as_tables(paths["control"], bodies=False))
        shark = capture.tshark(paths["control"], "json")
        if shark is not None:
            self.row("capture to JSON lines", "kwire / tshark -T json", lines / shark, 0.2)
            self.row("capture to objects", "kwire / tshark -T json", objects / shark, 0.1)
        self.row("capture to tables", "calls per CPU second", pairs / tables, 60_000, at_least=True)


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
    tables = ["decode", "records", "server", "start", "captures"]
    parser.add_argument("--only", nargs="+", choices=tables, default=tables)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # let Python cache compiled modules
    began = time.monotonic()
    facts = {"day": datetime.date.today(), "cores": os.cpu_count(), "python": platform.python_version()}
    print(INTRODUCTION.format(**facts, rounds=options.rounds, load=os.getloadavg()[0]), flush=True)
    goals = Goals(options.rounds)
    for table in options.only:
        getattr(goals, table)()
    minutes, load = (time.monotonic() - began) / 60, os.getloadavg()[0]
    print(f"\nGoals missed: {goals.missed}. It took {minutes:.1f} minutes; load {load:.1f} at the end.")


if __name__ == "__main__":
    main()

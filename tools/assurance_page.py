"""The tables of docs/assurance.md, from the results in fuzzing/results/ and the planted bugs.

    python tools/assurance_page.py docs/assurance.md
    python tools/assurance_page.py --simulate SEEDS
    python tools/assurance_page.py --rates SEEDS

The first command replaces the text between each two marks of the page, and writes planted_bugs.md and
mutants_by_file.md in the same folder. The other commands change no page: they store results of the simulator in
fuzzing/results/simulator.json, and print its table. --simulate runs seeds of each scheme and stores the number of
states and requests that they reached. --rates stores the events per CPU second of each scheme with each engine, and the
calls of the event queue per CPU second; it needs the native engine (make native).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "fuzzing")]

import mutants  # noqa: E402
import native_run  # noqa: E402
import planted_bugs  # noqa: E402
import run as fuzz_targets  # noqa: E402
import soak  # noqa: E402
from marks import replace_between  # noqa: E402

from mockbroker.lab.simulation import schemes  # noqa: E402

RESULTS = ROOT / "fuzzing" / "results"
EVENTS = 1_000  # of each seed
WIDTH = 120  # characters of a line
ROUNDS = 3  # times that each seed runs to measure the rate; the least CPU time counts
ENGINES = ("compiled", "native")
RATES = {  # column of a measured rate -> its name in the results
    **{f"events per CPU second, {engine}": engine for engine in ENGINES},
    "calls of the event queue per CPU second, compiled": "calls",
}
LEFT_OUT = ("lite", "calm")  # their faults and operations also occur in swarm
SCHEMES = tuple(name for name in schemes.SCHEMES if name not in LEFT_OUT)


def result(name: str) -> Mapping[str, Any]:
    """Return a kept result."""
    found: Mapping[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def mutants_table() -> str:
    """Return the table of mutants of each kept run, the last one first, without parts that were drawn again later."""
    tables: list[str] = []
    later: set[str] = set()
    for kept in reversed(result("mutants")["runs"]):
        if parts := {part: counts for part, counts in kept["parts"].items() if part not in later}:
            tables.append(f"Seed `{kept['seed'][:12]}`:\n\n{mutants.table_of(parts)}")
        later |= parts.keys()
    return "\n".join(tables)


def files_page() -> str:
    """Return the page with the files of each part, from its last kept run."""
    text = FILES_HEAD
    for part in sorted({part for kept in result("mutants")["runs"] for part in kept["files"]}):
        last = next(kept for kept in reversed(result("mutants")["runs"]) if part in kept["files"])
        text += f"\n## {part}\n\nSeed `{last['seed'][:12]}`:\n\n{mutants.files_table(last['files'][part])}"
    return text


def simulator_table() -> str:
    """Return what the seeds of each scheme have reached, and the rates per CPU second."""
    lines = ["| scheme | seeds | requests in a state | states | state and request | with the last fault |"]
    lines[0] += "".join(f" {column} |" for column in RATES)
    lines.append(f"|---|{'--:|' * (5 + len(RATES))}")
    for scheme, row in result("simulator").items():
        figures = [f"{row[name]:,}" for name in ("seeds", "count", "states", "pairs", "cells")]
        figures += [f"{row['rates'][name]:,}" if "rates" in row else "" for name in RATES.values()]
        lines.append(f"| `{scheme}` | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def soak_table() -> str:
    """Return the figures of the kept soaks."""
    kept = json.loads((RESULTS / "soak.json").read_text("utf-8"))
    return "\n\n".join("\n".join(soak.lines(each)) for each in kept) + "\n"


def planted_table() -> str:
    """Return how many planted bugs there are, with a link to the table of all."""
    text = f"{planted_bugs.summary()} [Planted bugs](planted_bugs.md) has the table of all bugs."
    return textwrap.fill(text, WIDTH) + "\n"


def planted_page() -> str:
    """Return the page with the table of all planted bugs."""
    return PLANTED_HEAD + planted_bugs.table()


def fuzz_table() -> str:
    """Return the executions of each fuzz target in all kept runs, the most frequent one first."""
    sums: Mapping[str, int] = json.loads((RESULTS / "fuzz.json").read_text("utf-8"))
    names = [*fuzz_targets.NAMES, *(f"native_{name}" for name in native_run.TARGETS)]
    rows = [f"| `{name}` | {sums.get(name, 0):,} |" for name in sorted(names, key=lambda name: -sums.get(name, 0))]
    return "\n".join(["| target | executions |", "|---|--:|", *rows]) + "\n"


FILES_HEAD = """# Mutants by file

This page has the last kept run of `make mutants` for each part of the code ([Mutants](mutants.md)), with a row for each
file. A mutant counts for the first stage that detects it. [Assurance](assurance.md#mutants) has the sums of the parts.
"""
PLANTED_HEAD = """# Planted bugs

This page lists changes of the code that break a rule, and what finds each: a named test, or a seed of the
[simulator](simulation.md#planted-bugs) with its scheme. Where the simulator finds the bug, the rule is the invariant
that is violated. [Assurance](assurance.md#planted-bugs) has the numbers. `make planted` plants the bugs that tests must
find, and prints this table; `make simulate-check` searches the seeds.

"""

PARTS: Mapping[str, Callable[[], str]] = {
    "make mutants": mutants_table,
    "make planted": planted_table,
    "make simulate": simulator_table,
    "make soak": soak_table,
    "make fuzz": fuzz_table,
}


PAGES: Mapping[str, Callable[[], str]] = {"planted_bugs.md": planted_page, "mutants_by_file.md": files_page}


def renewed(text: str) -> str:
    """Return the page with each part between its marks replaced. Raises: ValueError if a mark is missing."""
    for target, made in PARTS.items():
        text = replace_between(text, f"<!-- {target}, from here -->", "<!-- to here -->", f"\n\n{made()}\n")
    return text


def simulate(seeds: int) -> dict[str, dict[str, int]]:
    """Run seeds of each scheme, and return what they have reached. Raises: RuntimeError if an invariant is violated."""
    from mockbroker.lab.simulation.coverage import Coverage
    from mockbroker.lab.simulation.run import run

    logging.disable(logging.WARNING)
    reached = {}
    for scheme in SCHEMES:
        coverage = Coverage()
        for seed in range(seeds):
            outcome = run(schemes.SCHEMES[scheme](seed, EVENTS), coverage)
            if outcome.broken:
                raise RuntimeError(f"{scheme}, seed {seed}: {outcome.broken}: {outcome.text}")
        rows = coverage.rows()
        reached[scheme] = {
            "seeds": seeds,
            "count": sum(row["count"] for row in rows),
            "states": len({row["state"] for row in rows}),
            "pairs": len(rows),
            "cells": len(coverage.cells),
        }
    return reached


def serve_runs() -> None:
    """Run the seeds that the standard input names, one ``SCHEME SEED`` in a line. Print the CPU seconds, the events
    and the calls of the event queue of each. The CPU seconds include the collection of the garbage of the run.
    """
    from mockbroker.cli.simulate import COLLECT_AFTER
    from mockbroker.lab.simulation.run import run

    logging.disable(logging.WARNING)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    for line in sys.stdin:
        scheme, seed = line.split()
        begin = time.process_time()
        outcome = run(schemes.SCHEMES[scheme](int(seed), EVENTS))
        gc.collect(1)
        print(time.process_time() - begin, outcome.events, outcome.calls, flush=True)


def rates(seeds: int) -> dict[str, dict[str, int]]:
    """Return the events per CPU second, and ``calls``, those of the event queue: scheme -> engine or ``calls`` -> rate.

    The engines run each seed in turn, each in its own process. The least CPU time of several rounds counts, so that the
    generation of readers and writers is not included. ``seeds``: number of seeds of each scheme.
    """
    command = [sys.executable, __file__, "--serve-runs"]
    processes = {
        engine: subprocess.Popen(  # noqa: S603 - this file
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "KWIRE_ENGINE": engine},
        )
        for engine in ENGINES
    }

    def run_in(engine: str, scheme: str, seed: int) -> tuple[float, int, int]:
        process = processes[engine]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{scheme} {seed}\n")
        process.stdin.flush()
        seconds, events, calls = process.stdout.readline().split()
        return float(seconds), int(events), int(calls)

    measured: dict[str, dict[str, int]] = {}
    for scheme in SCHEMES:
        least: dict[tuple[str, int], tuple[float, int, int]] = {}
        for _ in range(ROUNDS):
            for each in ((engine, seed) for seed in range(seeds) for engine in ENGINES):
                taken = run_in(each[0], scheme, each[1])
                least[each] = min(least.get(each, taken), taken)
        sums = {engine: [*map(sum, zip(*(least[engine, n] for n in range(seeds)), strict=True))] for engine in ENGINES}
        measured[scheme] = {engine: round(events / seconds) for engine, (seconds, events, _) in sums.items()}
        seconds, _, calls = sums["compiled"]
        measured[scheme]["calls"] = round(calls / seconds)
    for process in processes.values():
        process.communicate()
    return measured


def keep(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Merge rows into the kept results of the simulator. Only the schemes of these rows remain.

    ``rows``: scheme -> row.
    """
    before = result("simulator")
    kept = {scheme: {**before.get(scheme, {}), **row} for scheme, row in rows.items()}
    (RESULTS / "simulator.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--simulate":
        keep(simulate(int(sys.argv[2])))
        sys.stdout.write(simulator_table())
    elif sys.argv[1] == "--rates":
        keep({scheme: {"rates": row} for scheme, row in rates(int(sys.argv[2])).items()})
        sys.stdout.write(simulator_table())
    elif sys.argv[1] == "--serve-runs":
        serve_runs()
    else:
        page = Path(sys.argv[1])
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")
        for name, text in PAGES.items():
            page.with_name(name).write_text(text(), "utf-8")

"""The tables of docs/assurance.md, from the results in fuzzing/results/ and the planted bugs.

    python tools/assurance_page.py docs/assurance.md
    python tools/assurance_page.py --simulate SEEDS

replaces the text between each two marks; with --simulate it first runs seeds of each scheme of the simulator, and keeps
what they reached.
"""

from __future__ import annotations

import json
import re
import sys
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

RESULTS = ROOT / "fuzzing" / "results"
EVENTS = 1_000  # of each seed
SCHEMES = ("swarm", "rules", "migration", "streams", "shares", "data", "admin", "mix", "bytes", "upkeep")


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


def simulator_table() -> str:
    """Return what the seeds of each scheme have reached."""
    lines = ["| scheme | seeds | requests in a state | states | state and request | with the last fault |"]
    lines.append("|---|--:|--:|--:|--:|--:|")
    for scheme, row in result("simulator").items():
        numbers = (row[name] for name in ("seeds", "count", "states", "pairs", "cells"))
        lines.append(f"| `{scheme}` | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines) + "\n"


def soak_table() -> str:
    """Return the figures of the kept soaks."""
    kept = json.loads((RESULTS / "soak.json").read_text("utf-8"))
    return "\n\n".join("\n".join(soak.lines(each)) for each in kept) + "\n"


def planted_table() -> str:
    """Return how many planted bugs there are, by what notices them."""
    return planted_bugs.summary() + "\n"


def fuzz_table() -> str:
    """Return the executions of each fuzz target in all kept runs, the most frequent one first."""
    sums: Mapping[str, int] = json.loads((RESULTS / "fuzz.json").read_text("utf-8"))
    names = [*fuzz_targets.NAMES, *(f"native_{name}" for name in native_run.TARGETS)]
    rows = [f"| `{name}` | {sums.get(name, 0):,} |" for name in sorted(names, key=lambda name: -sums.get(name, 0))]
    return "\n".join(["| target | executions |", "|---|--:|", *rows]) + "\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "make mutants": mutants_table,
    "make planted": planted_table,
    "make simulate": simulator_table,
    "make soak": soak_table,
    "make fuzz": fuzz_table,
}


def renewed(text: str) -> str:
    """Return the page with each part between its marks replaced. Raises: ValueError if marks are missing."""
    for target, made in PARTS.items():
        begin, end = f"<!-- {target}, from here -->", "<!-- to here -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the marks of {target} are missing")
        first, last = pattern.search(text).span()  # type: ignore[union-attr]
        text = f"{text[:first]}{begin}\n\n{made()}\n{end}{text[last:]}"
    return text


def simulate(seeds: int) -> dict[str, dict[str, int]]:
    """Run seeds of each scheme, and return what they have reached. Raises: RuntimeError if an invariant is violated."""
    from mockbroker.lab.simulation import schemes
    from mockbroker.lab.simulation.coverage import Coverage
    from mockbroker.lab.simulation.run import run

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


if __name__ == "__main__":
    if sys.argv[1] == "--simulate":
        kept = json.dumps(simulate(int(sys.argv[2])), indent=1) + "\n"
        (RESULTS / "simulator.json").write_text(kept, encoding="utf-8")
        sys.stdout.write(simulator_table())
    else:
        page = Path(sys.argv[1])
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")

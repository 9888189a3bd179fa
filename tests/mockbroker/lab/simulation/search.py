"""Search for the first seed that catches each planted bug (``make simulate-check``); print and store the table.

python tests/mockbroker/lab/simulation/search.py [--keep] [NAME...]
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[4])]

from mockbroker.lab.simulation.run import Outcome, repeated, run  # noqa: E402
from mockbroker.lab.simulation.schemes import SCHEMES  # noqa: E402
from tests.mockbroker.lab.simulation.planted import BUGS, Bug  # noqa: E402

CAUGHT = Path(__file__).parent / "caught.json"
SEEDS = 1_000
EVENTS = 1_000


def caught_by(bug: Bug, seed: int) -> Outcome:
    """Run one seed with the bug; return how the run failed."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return (repeated if "I16" in bug.by else run)(SCHEMES[bug.scheme](seed, EVENTS))


def search(bug: Bug) -> tuple[int, Outcome] | None:
    """Return the first seed in which one of the bug's invariants notices the bug."""
    for seed in range(SEEDS):
        outcome = caught_by(bug, seed)
        if outcome.broken in bug.by:
            return seed, outcome
        if outcome.broken:
            print(f"{bug.name}: seed {seed} breaks {outcome.broken}: {outcome.text[:100]}", file=sys.stderr)
    return None


def main() -> int:
    logging.disable(logging.WARNING)
    wanted = [name for name in sys.argv[1:] if not name.startswith("--")]
    result: dict[str, dict[str, object]] = json.loads(CAUGHT.read_text("utf-8")) if wanted else {}
    print(f"| {'bug':<58} | seed | invariant |\n|{'-' * 60}|------|-----------|")
    for bug in BUGS:
        if wanted and bug.name not in wanted:
            continue
        match = search(bug)
        if match is None:
            print(f"| {bug.name.replace('_', ' '):<58} | none | {'-':<9} |", flush=True)
            continue
        seed, outcome = match
        print(f"| {bug.name.replace('_', ' '):<58} | {seed:>4} | {outcome.broken:<9} |", flush=True)
        result[bug.name] = {"seed": seed, "invariant": outcome.broken}
    seeds = [int(str(each["seed"])) for each in result.values()]
    print(f"\n{len(result)} of {len(BUGS)} are caught, median seed {statistics.median(seeds) if seeds else '-'}")
    if "--keep" in sys.argv:
        CAUGHT.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if len(result) == len(BUGS) else 1


if __name__ == "__main__":
    sys.exit(main())

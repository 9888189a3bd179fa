"""Run fresh seeds of the simulator for some minutes, and keep minimal failing scripts: ``make farm MINUTES=n``.

python tests/mockbroker/lab/simulation/farm.py MINUTES [--scheme NAME]...
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[4])]

from mockbroker.cli.simulate import COLLECT_AFTER  # noqa: E402
from mockbroker.lab.simulation.coverage import Coverage  # noqa: E402
from mockbroker.lab.simulation.run import Outcome, run  # noqa: E402
from mockbroker.lab.simulation.schemes import SCHEMES  # noqa: E402
from mockbroker.lab.simulation.shrink import Shrinker  # noqa: E402
from tests.mockbroker.lab.simulation.kept import KEPT, to_json  # noqa: E402

EVENTS = 1_000
CANDIDATES = 4  # number of seeds from which the farm selects the one that may reach the most new cells
DEFAULT_SCHEMES = ("mix", "data", "bytes", "admin", "upkeep", "swarm", "migration", "rules", "shares", "streams")


def keep(outcome: Outcome, folder: Path = KEPT) -> Path:
    """Shrink a failing script, write it to a file, and return the file."""
    best = Shrinker(outcome).shrink()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{best.script.scheme}-{best.script.seed}.json"
    file.write_text(to_json(best.script, best.broken, best.text))
    return file


def farm(seconds: float, schemes: tuple[str, ...], first: int, folder: Path = KEPT) -> tuple[int, int, Coverage]:
    """Run seeds for some seconds; return the number of seeds, the number of failures and the coverage.

    Args:
        seconds: duration, without the last seed.
        schemes: names of the schemes, which take turns.
        first: first seed.
        folder: folder for the failing scripts.
    """
    coverage, until, seeds, failures = Coverage(), time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        scheme = schemes[seeds % len(schemes)]
        at = first + CANDIDATES * seeds
        outcome = run(coverage.steer(SCHEMES[scheme](seed, EVENTS) for seed in range(at, at + CANDIDATES)), coverage)
        seeds += 1
        if outcome.broken:
            failures += 1
            print(f"seed {outcome.script.seed} of {scheme}: {outcome.broken}: {outcome.text}", flush=True)
            print(f"the smallest script is in {keep(outcome, folder)}", flush=True)
    return seeds, failures, coverage


def main() -> int:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--scheme", action="append", choices=list(SCHEMES))
    options = parser.parse_args()
    first = time.time_ns() // 1_000_000_000 * 1_000  # so that no two farms run the same seeds
    print(f"first seed: {first}", flush=True)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    seeds, failures, coverage = farm(options.minutes * 60, tuple(options.scheme or DEFAULT_SCHEMES), first)
    print(coverage.lines()[-1])
    print(f"{seeds} seeds, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

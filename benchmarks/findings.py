"""Precision and recall of the detectors of findings, on stories with planted trouble: ``make findings``.

    python benchmarks/findings.py benchmarks/results/findings.json

Each detector has stories with its trouble, and similar stories without it (tests/tools/trouble.py). The thresholds were
chosen with the first half of the numbers; the figures are those of the second half. With ``--half set`` the figures are
those of the first half, and each story that is judged wrongly is printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from tools.trouble import SCENARIOS, Made  # pyright: ignore[reportMissingImports]

SET, JUDGED = range(10), range(10, 20)


def found(make: Made, number: int) -> set[str]:
    """Return the names of the detectors that find something in a story."""
    with TemporaryDirectory() as folder:
        return {row["finding"] for row in make(number).tables(Path(folder))["findings"]}


def count(numbers: Iterable[int]) -> dict[str, dict[str, int]]:
    """Return for each detector how many stories it judged how: hits, misses, false alarms, and right silences."""
    results = {}
    for scenario in SCENARIOS:
        planted = {number: scenario.detector in found(scenario.planted, number) for number in numbers}
        innocent = {number: scenario.detector in found(scenario.innocent, number) for number in numbers}
        wrong = [f"planted {number}" for number, hit in planted.items() if not hit]
        wrong += [f"innocent {number}" for number, hit in innocent.items() if hit]
        if wrong:
            print(f"{scenario.detector}: {', '.join(wrong)}", file=sys.stderr)
        hits, alarms = sum(planted.values()), sum(innocent.values())
        results[scenario.detector] = {
            "hits": hits,
            "misses": len(planted) - hits,
            "false_alarms": alarms,
            "right_silences": len(innocent) - alarms,
        }
    return results


def main() -> None:
    if sys.argv[1:3] == ["--half", "set"]:
        print(json.dumps(count(SET), indent=1))
    else:
        Path(sys.argv[1]).write_text(json.dumps(count(JUDGED), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

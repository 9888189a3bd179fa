"""What ``kwire groups`` finds in captures with lost and cut packets, compared with the journal: ``make lost-packets``.

    python benchmarks/lost_packets.py benchmarks/results/lost_packets.json

Each story (tests/tools/lossy.py) has a group on a broker in virtual time, whose journal is the truth. Its capture is
read whole, and for each loss rate and snap length. All is seeded: a run gives the same counts on each machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from tools.lossy import WHOLE, Scores, degraded, known_story, scores  # pyright: ignore[reportMissingImports]

STORIES = range(10)
LOST_PERCENT = (0, 0.1, 1, 5)
SNAP_LENGTHS = (WHOLE, 1500, 256, 96)


def measured(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return the counts of all stories, for each loss rate and snap length."""
    totals = {(percent, snap): Scores() for percent in LOST_PERCENT for snap in SNAP_LENGTHS}
    with TemporaryDirectory() as folder:
        for number in numbers:
            story = known_story(number)
            for (percent, snap), total in totals.items():
                total.add(scores(story, degraded(story, percent / 100, snap), Path(folder)))
    return [{"lost_percent": percent, "snap": snap, **asdict(total)} for (percent, snap), total in totals.items()]


def main() -> None:
    Path(sys.argv[1]).write_text(json.dumps(measured(STORIES), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

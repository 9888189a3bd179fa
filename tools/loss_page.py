"""The table in docs/pipeline.md about lost and cut packets, from the measured counts.

    python tools/loss_page.py benchmarks/results/lost_packets.json docs/pipeline.md

replaces the text between the two marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from marks import replace_between

BEGIN = "<!-- from here to the next mark: made by `make docs` from benchmarks/results/lost_packets.json -->"
END = "<!-- to the end of the table -->"
WHOLE = 262_144  # no packet is cut

Results = Sequence[Mapping[str, Any]]


def renewed(text: str, results: Results) -> str:
    """Return the page with the part between the marks replaced. Raises: ValueError if a mark is missing."""
    return replace_between(text, BEGIN, END, f"\n\n{made(results)}\n\n")


def made(results: Results) -> str:
    """Return the table."""
    return "\n".join(_table(results))


def _table(results: Results) -> Iterator[str]:
    yield (
        "| lost packets | snap length | generations | wrong generations, not marked | members | commits "
        "| wrong commits |"
    )
    yield "|---|---|---|---|---|---|---|"
    for row in results:
        generations, members, commits = row["generations"], row["members"], row["commits"]
        yield (
            f"| {row['lost_percent']:g} % | {'none' if row['snap'] == WHOLE else row['snap']} | {_share(generations)} "
            f"| {generations['wrong']}, {generations['unmarked']} | {_share(members)} | {_share(commits)} "
            f"| {commits['wrong']} |"
        )


def _share(counts: Mapping[str, int]) -> str:
    return f"{counts['found']:,} of {counts['known']:,}"


def main() -> None:
    results, page = json.loads(Path(sys.argv[1]).read_text("utf-8")), Path(sys.argv[2])
    page.write_text(renewed(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()

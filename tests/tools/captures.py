"""Captures of real clients and brokers: those in fixtures/captures, and those in fixtures/more if it exists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.capture import Call, Connection, Problem, Skipped, read

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "fixtures" / "captures"
MORE = ROOT / "fixtures" / "more" / "pcap"  # not in the repository


@cache
def tables_of(*paths: Path, assignor: str | None = None) -> dict[str, Sequence[Row]]:
    """Return all tables of a capture, or of several that are read as one, which is then called ``all``.

    ``assignor``: assignor that recomputes the assignments of the groups.
    """
    reading = read(paths)
    items = list(reading)
    name = paths[0].name if len(paths) == 1 else "all"
    assert reading.problems == []
    calls = [item for item in items if isinstance(item, Call)]
    connections = [item for item in items if isinstance(item, Connection)]
    noticed = [item for item in items if isinstance(item, (Problem, Skipped))]
    return analyse(calls, connections, name, noticed, assignor=assignor)


def capture(name: str, assignor: str | None = None) -> dict[str, Sequence[Row]]:
    """Return the tables of a capture in fixtures/captures."""
    return tables_of(CAPTURES / f"{name}.pcap.gz", assignor=assignor)


def more_captures() -> list[dict[str, Any]]:
    """Return the manifest entry of each capture in fixtures/more; none if it does not exist."""
    manifest = MORE / "manifest.json"
    entries: list[dict[str, Any]] = json.loads(manifest.read_text("utf-8")) if manifest.exists() else []
    return entries

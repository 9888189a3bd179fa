"""Scripts of the simulator as JSON: minimal failing scripts that ``make farm`` keeps in fixtures/seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mockbroker.lab.simulation.script import Fault, MemberScript, Script

KEPT = Path(__file__).parents[4] / "fixtures" / "seeds"


def to_json(script: Script, broken: str, text: str) -> str:
    """Return a script as JSON text, with the invariant that it violated when it was found and the description."""
    return json.dumps({"broken": broken, "text": text, "script": asdict(script)}, indent=1) + "\n"


def from_json(text: str) -> Script:
    """Return the script in a JSON text."""
    fields: Mapping[str, Any] = json.loads(text)["script"]
    members = tuple(MemberScript(**{**member, "topics": tuple(member["topics"])}) for member in fields["members"])
    faults = tuple(Fault(**fault) for fault in fields["faults"])
    tuples = {"rules": tuple(fields["rules"]), "buggify": tuple(fields["buggify"])}
    return Script(**{**fields, **tuples, "members": members, "faults": faults})


def files() -> Iterator[Path]:
    """Yield the files with kept scripts."""
    yield from sorted(KEPT.glob("*.json"))

"""Conversations that our own broker cannot hold yet, by name, and what each waits for.

What comes before the waiting part must be answered as recorded. One that passes is reported, so that it is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """``since``: the first step of the waiting part."""

    what: str
    since: int


# By scenario, or by version and scenario.
WAITING: Mapping[str, Waiting] = {}


def waits(scenario: str, version: str) -> Waiting | None:
    """What the scenario, as recorded with this version of Kafka, waits for."""
    return WAITING.get(f"{version}/{scenario}") or WAITING.get(scenario)

"""Conversations that our own broker cannot hold yet, by name, and what each waits for.

What comes before the waiting part must be answered as recorded. One that passes is reported, so that it is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """``since``: the first step of the waiting part. ``anywhere``: not to be had from other brokers either."""

    what: str
    since: int
    anywhere: bool = False


# By scenario, or by version and scenario.
WAITING: Mapping[str, Waiting] = {
    "3.9.1/sasl_plain": Waiting("message sets: Fetch v0-3, and SASL", 2, anywhere=True),
    "sasl_plain": Waiting("SASL, on a listener of its own", 4, anywhere=True),
}


def waits(scenario: str, version: str) -> Waiting | None:
    """What the scenario, as recorded with this version of Kafka, waits for."""
    return WAITING.get(f"{version}/{scenario}") or WAITING.get(scenario)

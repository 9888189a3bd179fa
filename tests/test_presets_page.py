"""docs/presets.md is what tools/presets_page.py makes of the presets and of the recorded observations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden import ROOT
from presets_page import EXAMPLES, outcome_text, page

from mockbroker.faults.presets import PRESETS

RESULTS = ROOT / "benchmarks" / "results" / "presets.json"


def test_page_is_up_to_date() -> None:
    seen = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    assert (ROOT / "docs" / "presets.md").read_text("utf-8") == page(seen), "run `make docs`"


def test_every_preset_has_a_section_with_a_valid_example() -> None:
    text = page({})
    for name, preset in PRESETS.items():
        assert f"## {name}\n" in text
        parameters = eval(f"dict({EXAMPLES.get(name, '')})")
        preset.values(parameters)
    assert EXAMPLES.keys() <= PRESETS.keys()


NOTHING = {"read": 10, "expected": 10, "again": 0, "changed": 0, "pause_s": 0.5, "joins": 0, "evicted": 0, "ended": ""}
OUTCOMES = [  # preset, what was observed, the text
    ("latency", {"committed": True}, "read all 10 new records; pause 0.5 s; committed"),
    (
        "rebalance-storm",
        {"read": 4, "again": 1, "committed": False, "joins": 2, "evicted": 1},
        "read 4 of 10 new records; 1 records again; pause 0.5 s; the commit was not confirmed; "
        "joined again 2 times; was evicted once",
    ),
    (
        "corrupted-values",
        {"changed": 3, "committed": None, "ended": "a|b"},
        "read all 10 new records; 3 with changed values; pause 0.5 s; ended with `a/b`",
    ),
    ("slow-producer", {"read": 0, "committed": None}, "wrote no records in 0.5 s"),
    (
        "transaction-coordinator-lost-at-end-txn",
        {"committed": True},
        "committed after 0.5 s; all 10 records of the transaction are visible",
    ),
]


@pytest.mark.parametrize(("preset", "observed", "text"), OUTCOMES, ids=[row[0] for row in OUTCOMES])
def test_outcome_in_words(preset: str, observed: dict[str, Any], text: str) -> None:
    assert outcome_text(preset, NOTHING | observed) == text


def test_observations_are_a_table_of_the_preset() -> None:
    outcome = NOTHING | {"committed": True, "applied": 7}
    text = page({"latency": {"parameters": {"delay_ms": 5}, "clients": {"kafka-python": outcome}}})
    _, _, section = text.partition("## latency")
    assert "What clients did with `delay_ms=5`:" in section
    assert "| kafka-python | 7 | read all 10 new records; pause 0.5 s; committed |" in section

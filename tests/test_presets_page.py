"""docs/presets.md is what tools/presets_page.py makes of the presets and of the recorded observations."""

from __future__ import annotations

import json

from golden import ROOT
from presets_page import EXAMPLES, page

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


def test_observations_are_a_table_of_the_preset() -> None:
    outcome = {"scenario": "a consumer reads", "clients": {"kafka-python": "stopped"}}
    text = page({"how": "On one machine.", "presets": {"latency": outcome}})
    _, _, section = text.partition("## latency")
    assert (
        "What clients did (a consumer reads):\n\n| client | outcome |\n|---|---|\n| kafka-python | stopped |" in section
    )

"""The behaviour of real clients that meet each action of a fault rule, as in docs/faults.md.

``fault_observations.tsv`` has a row for each action and client. A test checks that the rule was applied, and that the
client behaved as in the row.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from effort import usual_and_long
from interop.fault_clients import CLIENTS
from interop.fault_scenarios import SCENARIOS, play
from interop.stage import MARKS, need_client

from mockbroker.faults.malformed import FORMS
from mockbroker.faults.parsing_action import CONNECTION_EFFECTS, REQUEST_EFFECTS

pytestmark = MARKS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "faults.md"
FAMILIES = (*CLIENTS, "java", "franz-go", "kafkajs")
STUCK = "poll() does not return"  # the client has to be killed
STUCK_AFTER = 5.0  # seconds


def observations() -> dict[str, dict[str, str]]:
    """Return the observed behaviour by scenario and client."""
    found: dict[str, dict[str, str]] = {}
    with (HERE / "fault_observations.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault(row["scenario"], {})[row["client"]] = row["what it did"]
    return found


OBSERVATIONS = observations()
ALL = [(scenario, family, did) for scenario, row in OBSERVATIONS.items() for family, did in row.items()]
CASES = [case for case in ALL if case[2] != STUCK]
IN_TURN = {(scenario, list(CLIENTS)[number % len(CLIENTS)]) for number, scenario in enumerate(SCENARIOS)}
USUAL = [case for case in CASES if case[:2] in IN_TURN]


@pytest.mark.parametrize(
    ("scenario", "family", "did"),
    usual_and_long(USUAL, [case for case in CASES if case not in USUAL]),
)
def test_client_meets_a_fault(scenario: str, family: str, did: str) -> None:
    need_client(family)
    assert play(SCENARIOS[scenario], family) == did


PROGRAM = "import sys\nfrom interop.fault_scenarios import SCENARIOS, play\nplay(SCENARIOS[sys.argv[1]], sys.argv[2])"


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "family"), [case[:2] for case in ALL if case[2] == STUCK])
def test_client_that_is_stuck_never_returns(scenario: str, family: str) -> None:
    need_client(family)
    command = [sys.executable, "-c", PROGRAM, scenario, family]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, cwd=HERE.parent, timeout=STUCK_AFTER, check=False, capture_output=True)


def test_every_scenario_is_met_by_three_clients() -> None:
    assert list(OBSERVATIONS) == list(SCENARIOS)
    assert [name for name, row in OBSERVATIONS.items() if not set(CLIENTS) <= set(row)] == []


def test_every_action_and_form_has_a_scenario() -> None:
    of_requests = {key for each in SCENARIOS.values() if "on" not in each.rule for key in each.rule}
    of_connections = {key for each in SCENARIOS.values() if "on" in each.rule for key in each.rule}
    assert of_requests >= {*REQUEST_EFFECTS, "delay_ms"}
    assert of_connections >= {*CONNECTION_EFFECTS, "delay_ms"}
    assert {each.rule["malform"] for each in SCENARIOS.values() if "malform" in each.rule} == set(FORMS)


def documented(scenario: str) -> str:
    """Return a row of the table."""
    return f"| {' | '.join([scenario, *(OBSERVATIONS[scenario].get(family, '') for family in FAMILIES)])} |"


def test_table_of_the_documentation_is_up_to_date() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("## What clients do")
    section, _, _ = section.partition("\n## ")
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert rows[1:] == [documented(scenario) for scenario in SCENARIOS]
    assert rows[0] == f"| the rule | {' | '.join(FAMILIES)} |"

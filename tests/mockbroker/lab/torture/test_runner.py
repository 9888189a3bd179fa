"""The verdict of a run, with a client whose reaction to a bad response is known."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from mockbroker.lab.torture.broker import hostile
from mockbroker.lab.torture.catalogue import CASES
from mockbroker.lab.torture.runner import (
    MEGABYTE,
    Client,
    Health,
    Limits,
    UnhealthyClientError,
    Verdict,
    applies,
    examine,
    run,
)
from mockbroker.lab.torture.security import Security

PROGRAM = str(Path(__file__).with_name("client.py"))
LIMITS = Limits(start=30, bad=0.4, recovery=15, memory=200 * MEGABYTE)
HEALTH = Health(frozenset({"Produce"}), frozenset({"Produce"}), 60 * MEGABYTE, 0.5)
BAD_ID = "BadResponse: another correlation id"
SHORT = Limits(start=30, bad=0.4, recovery=0.5, memory=200 * MEGABYTE)


def client(reaction: str) -> Client:
    return Client([sys.executable, PROGRAM, reaction])


def test_a_healthy_client_is_known_by_its_requests() -> None:
    health = examine(client("end"), LIMITS)
    assert (health.apis, health.goals) == ({"Produce"}, {"Produce"})
    assert health.memory > 5 * MEGABYTE
    assert applies(CASES["no-results"], health)
    assert applies(CASES["refused"], health)
    assert not applies(CASES["no-leaders"], health)


def test_cases_of_tls_are_for_clients_with_tls() -> None:
    assert not applies(CASES["tls-failure"], HEALTH)
    assert applies(CASES["tls-failure"], replace(HEALTH, has_tls=True))


@pytest.mark.parametrize(
    ("reaction", "limits", "verdict", "exit_code", "outcome"),
    [
        ("try again", LIMITS, Verdict.SURVIVED, None, r"works again after \d\.\d s"),
        ("end well", LIMITS, Verdict.SURVIVED, 0, "ends with exit code 0"),
        ("end", LIMITS, Verdict.REFUSED, 3, f"ends with exit code 3: {BAD_ID}"),
        ("abort", LIMITS, Verdict.CRASHED, -6, f"is ended by SIGABRT: {BAD_ID}"),
        ("take memory", replace(LIMITS, bad=20), Verdict.GREW, None, r"uses \d+ MB, [2-9]\d\d MB more than .*"),
        ("wait", SHORT, Verdict.STUCK, None, f"keeps running, without a successful Produce: {BAD_ID}"),
    ],
)
def test_a_client_is_judged_by_its_end(
    reaction: str, limits: Limits, verdict: Verdict, exit_code: int | None, outcome: str
) -> None:
    result = run(CASES["correlation_id-Produce"], client(reaction), HEALTH, limits, seed=5)
    assert (result.verdict, result.exit_code, result.seed) == (verdict, exit_code, 5)
    assert result.applied
    assert re.fullmatch(outcome, result.outcome)
    assert "another correlation id" in result.output
    assert (result.recovered is not None) == (reaction == "try again")
    assert result.survived == (verdict in (Verdict.SURVIVED, Verdict.REFUSED))
    assert result.reproduce.startswith("mockbroker torture --case correlation_id-Produce --seed 5 ")


def test_the_command_has_the_options_that_were_changed() -> None:
    """Without these options, the command would use the default thresholds, and could give another verdict."""
    limits = Limits(start=30, bad=0.4, recovery=15, memory=200 * MEGABYTE)
    result = run(CASES["correlation_id-Produce"], replace(client("end"), topic="orders"), HEALTH, limits)
    options = "--topic orders --bad 0.4 --recovery 15 --memory 200 --start 30"
    assert f"--case correlation_id-Produce --seed 0 {options} -- " in result.reproduce


def test_the_command_has_no_options_that_are_the_default() -> None:
    assert (Limits().arguments, client("end").arguments) == ([], [])


def test_a_changed_response_is_in_the_result() -> None:
    result = run(CASES["no-results"], client("end"), HEALTH, LIMITS)
    assert result.verdict is Verdict.REFUSED
    assert "ProduceResponse v9" in result.response
    assert "responses.(count) = 0" in result.response
    assert result.to_json()["verdict"] == "refused"


def test_a_response_that_a_rule_changed_is_in_the_result() -> None:
    result = run(CASES["Produce-INVALID_RECORD"], client("end"), HEALTH, LIMITS)
    assert result.verdict is Verdict.REFUSED
    assert "ProduceResponse v9" in result.response
    assert "error_code = 87" in result.response


def test_a_case_without_effect_is_skipped() -> None:
    limits = Limits(start=0.5, bad=0.4, recovery=0.5)
    assert run(CASES["no-leaders"], client("end"), HEALTH, limits).verdict is Verdict.SKIPPED


@pytest.mark.parametrize("code", [0, 3])
def test_an_end_before_the_misbehaviour_is_skipped(code: int) -> None:
    ending = Client([sys.executable, "-c", f"raise SystemExit({code})"])
    result = run(CASES["no-results"], ending, HEALTH, LIMITS)
    assert (result.verdict, result.applied, result.exit_code) == (Verdict.SKIPPED, 0, code)


def test_a_crash_before_the_misbehaviour_is_a_crash() -> None:
    crashing = Client([sys.executable, "-c", "import os; os.abort()"])
    result = run(CASES["no-results"], crashing, HEALTH, LIMITS)
    assert (result.verdict, result.applied) == (Verdict.CRASHED, 0)


def test_a_client_that_fails_anyway_is_refused() -> None:
    with pytest.raises(UnhealthyClientError, match=r"exited with code 4, .* is correct, and printed nothing"):
        examine(Client([sys.executable, "-c", "raise SystemExit(4)"]), LIMITS)
    with pytest.raises(UnhealthyClientError, match=r"nor committed in topic torture within 0\.5 s"):
        examine(Client([sys.executable, "-c", "import time; time.sleep(60)"]), Limits(start=0.5))


@pytest.mark.parametrize(
    ("interval", "expected"), [(0.1, 10), (0.3, 30), (0.5, 30)], ids=["usual", "loaded machine", "slow machine"]
)
def test_records_are_appended_on_a_slow_machine(
    interval: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hostile(None, 0, "t", {}, Security()) as broker:
        fed: list[int] = []
        monkeypatch.setattr(broker, "feed", lambda: fed.append(1))
        for number in range(30):
            broker.keep_fed(1_000 + number * interval + 0.001 * number)
        assert len(fed) == expected


def test_a_client_may_end_by_itself() -> None:
    health = examine(Client([sys.executable, "-c", "pass"]), LIMITS)
    assert health.goals == frozenset()

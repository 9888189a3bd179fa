from __future__ import annotations

from typing import Any

import pytest

from kwire.analysis.differences import (
    API,
    BETTER,
    ERROR,
    FINDING,
    GROUP,
    NEEDED,
    SAME,
    WORSE,
    Difference,
    differences,
    hours,
    percentile,
)
from kwire.analysis.tables import EVERY

HOUR = 3_600_000_000


def tables(length: float = 1.0, **rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return tables. ``length``: hours of the capture; ``rows``: columns by table."""
    made = {name: [EVERY[name].row(capture_id="c", **row) for row in rows.get(name, [])] for name in NEEDED}
    made["connections"] = [EVERY["connections"].row(capture_id="c", first_ts=HOUR, last_ts=HOUR + round(length * HOUR))]
    made["members"] += [EVERY["members"].row(capture_id="c", group_id="g", member_id="m")]
    return made


def rebalances(count: int, stop: float = 100.0) -> list[dict[str, Any]]:
    return [{"group_id": "g", "stw_ms_max": stop}] * count


def verdicts(before: Any, after: Any, kind: str) -> dict[tuple[str, str], str | None]:
    return {(each.name, each.measure): each.verdict for each in differences(before, after) if each.kind == kind}


@pytest.mark.parametrize(
    ("before", "length", "after", "longer", "verdict"),
    [
        (10, 1.0, 40, 1.0, WORSE),
        (40, 1.0, 10, 1.0, BETTER),
        (10, 1.0, 40, 4.0, SAME),  # the same rate per hour
        (10, 1.0, 10, 0.1, WORSE),  # ten times the rate
        (10, 1.0, 14, 1.0, SAME),  # a difference that chance explains
        (0, 1.0, 1, 1.0, WORSE),
        (1, 1.0, 0, 1.0, BETTER),
    ],
)
def test_rebalances_per_hour(before: int, length: float, after: int, longer: float, verdict: str) -> None:
    one, two = tables(length, rebalances=rebalances(before)), tables(longer, rebalances=rebalances(after))
    assert verdicts(one, two, GROUP)["g", "rebalances"] == verdict


def test_stops_by_sum_and_maximum() -> None:
    one, two = tables(rebalances=rebalances(10, 100.0)), tables(rebalances=rebalances(10, 300.0))
    assert verdicts(one, two, GROUP) == {
        ("g", "members"): None,
        ("g", "rebalances"): SAME,
        ("g", "stopped by rebalances"): WORSE,
        ("g", "longest stop"): WORSE,
    }
    sums = next(each for each in differences(one, two) if each.measure == "stopped by rebalances")
    assert (sums.before, sums.after, sums.rate_before, sums.rate_after) == (1000.0, 3000.0, 1000.0, 3000.0)


def test_group_of_one_capture_is_not_judged() -> None:
    other = {"group_id": "new", "member_id": "m"}
    two = tables(members=[other], rebalances=[{"group_id": "new", "stw_ms_max": 5.0}])
    found = [each for each in differences(tables(), two) if each.name == "new"]
    assert found[0] == Difference(None, GROUP, "new", "members", "", None, 1)
    assert {each.verdict for each in found} == {None}


def test_only_committed_offsets_have_a_lag() -> None:
    def commits(lag: int, outcome: str) -> list[dict[str, Any]]:
        return [{"group_id": "g", "outcome": outcome, "lag": lag}]

    one, two = tables(offset_commits=commits(10, "committed")), tables(offset_commits=commits(5000, "committed"))
    assert verdicts(one, two, GROUP)["g", "largest lag at a commit"] == WORSE
    refused = tables(offset_commits=commits(5000, "refused"))
    assert verdicts(one, refused, GROUP)["g", "refused commits"] == WORSE
    assert verdicts(one, refused, GROUP)["g", "largest lag at a commit"] is None


def test_errors_per_thousand_calls() -> None:
    def side(calls: int, errors: int) -> Any:
        usage = {"api_key": 8, "api_name": "OffsetCommit", "count": calls}
        error = {"api_name": "OffsetCommit", "error_code": 27, "error_name": "REBALANCE_IN_PROGRESS", "count": errors}
        return tables(api_usage=[usage], errors=[error])

    key = "OffsetCommit", "REBALANCE_IN_PROGRESS"
    assert verdicts(side(1000, 20), side(4000, 80), ERROR)[key] == SAME
    assert verdicts(side(1000, 20), side(1000, 80), ERROR)[key] == WORSE


def test_latency_of_waiting_requests_is_not_judged() -> None:
    def side(api: str, power: int, calls: int = 100) -> Any:
        largest = 2 ** (power + 1) / 1000
        return tables(latency=[{"api_name": api, "histogram": {power: calls}, "max_ms": largest}])

    assert verdicts(side("Produce", 12), side("Produce", 14), API)["Produce", "p99"] == WORSE
    assert verdicts(side("Produce", 14), side("Produce", 12), API)["Produce", "p50"] == BETTER
    assert verdicts(side("Produce", 12), side("Produce", 14, 19), API)["Produce", "p99"] is None  # too few calls
    assert verdicts(side("Fetch", 12), side("Fetch", 14), API)["Fetch", "p99"] is None


def test_new_finding_is_worse() -> None:
    finding = {"finding": "rebalance-storm", "severity": "critical", "group_id": "g"}
    key = "rebalance-storm of g", "critical"
    assert verdicts(tables(), tables(findings=[finding]), FINDING)[key] == WORSE
    assert verdicts(tables(findings=[finding]), tables(findings=[finding]), FINDING)[key] == SAME


def test_same_capture_is_never_worse() -> None:
    one = tables(rebalances=rebalances(3), violations=[{"group_id": "g"}])
    assert {each.verdict for each in differences(one, one)} <= {SAME, None}


def test_percentiles_between_powers_of_two() -> None:
    assert percentile({10: 100}, 100) == 2.048
    assert percentile({10: 100}, 50) == pytest.approx(1.024 * 2**0.5)
    assert percentile({10: 50, 13: 50}, 50) == 2.048
    assert percentile({10: 99, 13: 1}, 99) == 2.048
    assert percentile({}, 50) is None


def test_length_of_several_captures_is_added_up() -> None:
    one = tables(2.0)
    one["connections"] += [{**one["connections"][0], "capture_id": "d"}]
    assert hours(one) == 4.0


def test_findings_of_a_new_group_are_not_judged() -> None:
    """Findings of a client and of a group that are in both captures are judged."""
    row = {"group_id": None, "client_id": None, "finding": "slow-joiner", "severity": "warning"}
    found = [row | {"group_id": "new"}, row | {"group_id": "g"}, row | {"client_id": "app"}]
    after = tables(findings=found, members=[{"group_id": "new", "member_id": "m"}])
    assert verdicts(tables(), after, FINDING) == {
        ("slow-joiner of new", "warning"): None,
        ("slow-joiner of g", "warning"): WORSE,
        ("slow-joiner of app", "warning"): WORSE,
    }

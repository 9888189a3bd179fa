from __future__ import annotations

import pytest
from interop.missing import named_by, refuse_late_skip
from interop.stage import Stage
from interop.test_failover import Play
from scenarios import SCENARIOS

PLAY = Play(SCENARIOS[0], "JoinGroup", "franz-go")


@pytest.mark.parametrize(
    ("marked", "params", "named"),
    [
        ([], ["kafkajs", 3, "range"], ["kafkajs"]),
        (["kcat"], ["kafkajs"], ["kcat", "kafkajs"]),
        ([], [PLAY], ["kafka-python", "confluent-kafka", "franz-go"]),
        ([], ["ours"], []),
    ],
)
def test_clients_of_the_marker_and_of_parameters(marked: list[str], params: list[object], named: list[str]) -> None:
    assert named_by([pytest.mark.clients(*marked).mark], params) == named


class Started(Stage):
    def __init__(self, members: list[object]) -> None:
        self.members = members  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("members", "when", "before", "after"),
    [
        ([object()], "call", "skipped", "failed"),
        ([], "call", "skipped", "skipped"),
        ([object()], "setup", "skipped", "skipped"),
        ([object()], "call", "passed", "passed"),
    ],
)
def test_a_skip_after_clients_were_started_fails(members: list[object], when: str, before: str, after: str) -> None:
    report = pytest.TestReport("test", ("file", 1, "test"), {}, before, None, when)  # type: ignore[arg-type]
    refuse_late_skip(report, {"stage": Started(members), "family": "java"})
    assert report.outcome == after

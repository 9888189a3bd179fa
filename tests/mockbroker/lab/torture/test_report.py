"""Results as text and JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

pytest.importorskip("psutil")

from mockbroker.lab.torture import report
from mockbroker.lab.torture.catalogue import CASES
from mockbroker.lab.torture.process import Usage
from mockbroker.lab.torture.runner import Result, Verdict


def result(verdict: Verdict, case: str = "null_array-ApiVersions", output: str = "", **values: float) -> Result:
    return Result(
        case=CASES[case],
        verdict=verdict,
        seed=1,
        seconds=2.5,
        recovered=values.get("recovered"),
        applied=3,
        usage=Usage(memory=50 << 20, threads=4, sockets=5, cpu=0.5),
        exit_code=int(values["exit_code"]) if "exit_code" in values else None,
        output=output,
        response="MetadataResponse v9\n     0  x = 1",
        reproduce="mockbroker torture --case x --seed 1 -- app",
    )


def test_a_line_has_verdict_case_time_and_memory() -> None:
    assert report.line(result(Verdict.SURVIVED, recovered=0.7)).split() == [
        *("survived", "null_array-ApiVersions", "2.5", "s", "50", "MB", "recovered", "after", "0.7", "s")
    ]
    assert report.line(result(Verdict.CRASHED, exit_code=-11)).endswith("exit code -11")
    assert report.line(result(Verdict.STUCK)).endswith("50 MB")


def test_details_are_inert_and_repeat_the_case() -> None:
    lines = report.details(result(Verdict.CRASHED, output="first\n\x1b[31mred", exit_code=-6))
    assert (
        lines[0] == "  The broker answers ApiVersions with a malformed response: an array that cannot be null is null."
    )
    assert lines[1] == "  The client is ended by SIGABRT: \\x1b[31mred."
    assert lines[2] == "  reported: https://github.com/confluentinc/librdkafka/issues/5577"
    assert "  > \\x1b[31mred" in lines
    assert lines[-1] == "  mockbroker torture --case x --seed 1 -- app"


def test_the_summary_counts_verdicts() -> None:
    results = [result(Verdict.STUCK), result(Verdict.SURVIVED), result(Verdict.SURVIVED)]
    assert report.summary(results) == "2 survived, 1 stuck"


def test_junit_has_a_failure_for_each_bad_verdict() -> None:
    results = [result(verdict, output="\x00bell\x07") for verdict in Verdict]
    suite = ElementTree.fromstring(report.junit(results))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("6", "3", "1")
    assert [case.find("failure") is not None for case in suite.iter("testcase")] == [
        verdict in (Verdict.STUCK, Verdict.CRASHED, Verdict.GREW) for verdict in Verdict
    ]
    assert suite.find(".//system-out") is not None

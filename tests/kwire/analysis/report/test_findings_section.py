"""The section of findings, without a browser; test_html_page.py tests the page."""

from __future__ import annotations

import re
from typing import Any

from kwire.analysis.report.findings_section import MOST_EVIDENCE, TOP_FINDINGS, section
from kwire.analysis.tables import FINDINGS

GROUP = ("billing", "c")


def finding(**values: Any) -> Any:
    usual = {"rank": 3, "severity": "notice", "finding": "d", "cost": 0.0, "begin_ts": 0, "end_ts": 0, "sentence": "S."}
    evidence = values.get("evidence", [])
    about = dict(zip(("group_id", "cluster"), GROUP, strict=True))
    return FINDINGS.row(**usual | about | {"evidence": evidence, "evidence_count": len(evidence)} | values)


def html(*rows: Any, targets: Any = None) -> str:
    return "".join(section(rows, {GROUP: 7}, {GROUP: targets or {}}))


def test_references_are_links_to_rows_on_the_page() -> None:
    targets = {"rebalances to_generation=3 life=1": "rebalance-7-2", "assignments generation=3": "rebalance-7-2"}
    evidence = ["rebalances to_generation=3 life=1 trigger=left", "assignments generation=3 topic=tea partition=0"]
    shown = html(finding(evidence=[*evidence, "api_usage api_name=Fetch", "frames number=1"]), targets=targets)
    assert re.findall(r'<a href="#([^"]*)">([^<]*)', shown) == [
        ("group-7", "billing"),
        ("rebalance-7-2", evidence[0]),
        ("rebalance-7-2", evidence[1]),
        ("clients", "api_usage api_name=Fetch"),
    ]
    assert "frames number=1" in shown


def test_evidence_is_text() -> None:
    hostile = "members member_id=</details><script>"
    for targets in ({}, {hostile: "member-7-0"}):
        shown = html(finding(evidence=[hostile], sentence=hostile, finding=hostile), targets=targets)
        assert "<script" not in shown
        assert shown.count("</details>") == 1


def test_references_that_are_left_out_are_counted() -> None:
    shown = html(finding(evidence=[f"frames number={n}" for n in range(MOST_EVIDENCE + 2)], evidence_count=40))
    assert shown.count("frames number=") == MOST_EVIDENCE
    assert f" and {40 - MOST_EVIDENCE} more</details>" in shown


def test_other_detectors_groups_and_severities_are_other_lines() -> None:
    rows = [finding(), finding(finding="e"), finding(rank=1, severity="critical"), finding(cluster="other")]
    rows += [finding(group_id=None, client_id="x"), finding(group_id=None, client_id="y"), finding(group_id=None)]
    rows += [finding(group_id=None), finding()]
    shown = html(*rows)
    assert shown.count("<tr") == len(rows) - 1 + 1  # two findings are equal, and the heading is a row
    assert shown.index("critical") < shown.index("notice")


def test_many_lines_are_folded() -> None:
    shown = html(*(finding(finding=f"d{n:02}") for n in range(TOP_FINDINGS + 3)))
    assert "<summary>3 more lines</summary>" in shown
    assert "more line" not in html(*(finding(finding=f"d{n:02}") for n in range(TOP_FINDINGS)))

"""The part of docs/findings.md about detectors, from their declarations and the measured results.

    python tools/findings_page.py benchmarks/results/findings.json docs/findings.md

replaces the text between the two marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from marks import replace_between

from kwire.analysis.findings.catalogue import DETECTORS
from kwire.analysis.findings.model import Detector

BEGIN = "<!-- from here to the next mark: made by `make docs` -->"
END = "<!-- to here -->"
VIEWS = {"group": "group", "client": "client id on a host", "transaction": "transactional id"}

Results = Mapping[str, Mapping[str, int]]


def renewed(text: str, results: Results) -> str:
    """Return the page with the part between the marks replaced. Raises: ValueError if a mark is missing."""
    return replace_between(text, BEGIN, END, f"\n\n{made(results)}\n")


def made(results: Results) -> str:
    """Return the part between the marks: the measured table, then each detector."""
    return "\n".join([*_measured(results), *(line for detector in DETECTORS for line in _detector(detector))])


def precision(counts: Mapping[str, int]) -> float:
    """Return the share of the findings that are right."""
    found = counts["hits"] + counts["false_alarms"]
    return counts["hits"] / found if found else 0.0


def recall(counts: Mapping[str, int]) -> float:
    """Return the share of the planted trouble that was found."""
    return counts["hits"] / (counts["hits"] + counts["misses"])


def _measured(results: Results) -> Iterator[str]:
    yield "| detector | planted stories found | innocent stories with an alarm | precision | recall |"
    yield "|---|---|---|---|---|"
    for detector in DETECTORS:
        one = results[detector.name]
        planted, innocent = one["hits"] + one["misses"], one["false_alarms"] + one["right_silences"]
        yield (
            f"| [{detector.name}](#{detector.name}) | {one['hits']} of {planted} | {one['false_alarms']} of {innocent} "
            f"| {precision(one):.2f} | {recall(one):.2f} |"
        )
    yield ""


def _detector(detector: Detector) -> Iterator[str]:
    yield f"### {detector.name}\n"
    yield f"{detector.about} Checked for each {VIEWS[detector.of]}.\n"
    if detector.thresholds:
        yield "| threshold | default | meaning |"
        yield "|---|---|---|"
        for one in detector.thresholds:
            yield f"| `{detector.name}.{one.name}` | {one.default:g} | {one.meaning} |"
        yield ""


def main() -> None:
    results, page = json.loads(Path(sys.argv[1]).read_text("utf-8")), Path(sys.argv[2])
    page.write_text(renewed(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()

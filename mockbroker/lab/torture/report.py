"""The results of a torture test as text, and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from kwire.command import one_line
from mockbroker.lab.torture.runner import BAD, MEGABYTE, Result, Verdict

LAST_LINES = 5  # of the output of a client
# XML cannot have other control characters.
_INERT = {code: "?" for code in range(32) if chr(code) not in "\t\n\r"}


def line(result: Result) -> str:
    """Return a result as one line."""
    what = (
        f"{result.verdict.value:<9}{result.case.name:<48}{result.seconds:6.1f} s{result.usage.memory // MEGABYTE:6d} MB"
    )
    if result.recovered is not None:
        return f"{what}  recovered after {result.recovered:.1f} s"
    if result.exit_code is not None:
        return f"{what}  exit code {result.exit_code}"
    return what


def details(result: Result) -> list[str]:
    """Return the details of a failed case as lines, for a text report.

    The lines have the description, what the client did, a link to a published bug report if there is one, the last
    output, the last changed response, and the command to repeat the case.

    ``result``: result of the case.
    """
    lines = [f"  The broker {result.case.description}.", f"  The client {result.outcome}."]
    if result.case.published:
        lines.append(f"  reported: {result.case.published}")
    lines += [f"  > {one_line(text)}" for text in result.output.splitlines()[-LAST_LINES:]]
    lines += [f"  | {text}" for text in result.response.splitlines()[: LAST_LINES * 2]]
    return [*lines, f"  {result.reproduce}"]


def summary(results: Sequence[Result]) -> str:
    """Return the number of cases per verdict, as one line. ``results``: results of all cases."""
    counts = Counter(result.verdict for result in results)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])


def junit(results: Sequence[Result]) -> str:
    """Return the results as JUnit XML."""
    bad = [result for result in results if result.verdict in BAD]
    skipped = [result for result in results if result.verdict is Verdict.SKIPPED]
    suite = ElementTree.Element(
        "testsuite",
        name="mockbroker torture",
        tests=str(len(results)),
        failures=str(len(bad)),
        errors="0",
        skipped=str(len(skipped)),
        time=f"{sum(result.seconds for result in results):.1f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=result.case.step, name=result.case.name, time=f"{result.seconds:.1f}"
        )
        if result.verdict in BAD:
            failure = ElementTree.SubElement(case, "failure", message=result.verdict.value)
            failure.text = "\n".join(details(result)).translate(_INERT)
        elif result.verdict is Verdict.SKIPPED:
            ElementTree.SubElement(case, "skipped")
        ElementTree.SubElement(case, "system-out").text = result.output.translate(_INERT)
    return ElementTree.tostring(suite, encoding="unicode")

"""The output of Kafka's tools, as blocks of a file: a line with ``##`` and the command, then the printed lines."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUNNER = ROOT / "fixtures" / "java" / "ToolRunner.java"
OUTPUTS = ROOT / "fixtures" / "tools"
LIMIT = 300.0  # seconds
NOISE = re.compile(
    r"\tat |SLF4J|Caused by: java.lang.IllegalState|java.lang.IllegalState|exit \d|\t\.\.\. "
)  # output of the runner itself
SAME: dict[str, str] = {  # texts that differ in each run, and their replacements
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"Epoch: \d+": "Epoch: N",
}


def commands(release: str) -> list[str]:
    lines = (OUTPUTS / f"{release}.txt").read_text("utf-8").splitlines()
    return [line.removeprefix("## ") for line in lines if line.startswith("## ")]


def outputs(text: str) -> list[tuple[str, list[str]]]:
    """Return command and printed lines of each block, sorted because Kafka's order is that of a hash map."""
    results: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("## "):
            results.append((line.removeprefix("## "), []))
        elif results and line.strip() and not NOISE.match(line):
            results[-1][1].append(line.rstrip())
    return [(command, sorted(printed)) for command, printed in results]


def printed(java: Iterable[str], address: str, lines: Iterable[str]) -> str:
    """Return the output of the tools. ``java``: the command for Java with the jars of Kafka."""
    command = [*java, str(RUNNER), address]
    given = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=LIMIT)
    text = done.stdout
    for pattern, instead in SAME.items():
        text = re.sub(pattern, instead, text)
    return text

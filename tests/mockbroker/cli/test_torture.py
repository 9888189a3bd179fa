"""The command ``mockbroker torture``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

pytest.importorskip("psutil")

from mockbroker.cli import main
from mockbroker.lab.torture.catalogue import CASES

PROGRAM = str(Path(__file__).parents[1] / "lab" / "torture" / "client.py")


def torture(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["torture", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_cases_are_listed() -> None:
    code, out, _ = torture("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(CASES)


def test_results_are_printed_and_written(tmp_path: Path) -> None:
    xml = tmp_path / "junit.xml"
    arguments = ["--case", "no-results", "--case", "no-leaders", "--bad", "0.3", "--start", "30", "--junit", str(xml)]
    code, out, err = torture(*arguments, "--json", "--", sys.executable, PROGRAM, "abort")
    (result,) = map(json.loads, out.splitlines())
    assert (code, result["case"], result["verdict"]) == (1, "no-results", "crashed")
    assert err == "1 crashed; 1 cases of steps that the client does not take\n"
    assert ElementTree.parse(xml).getroot().attrib["failures"] == "1"


def test_bad_results_have_details() -> None:
    code, out, _ = torture("--case", "no-results", "--bad", "0.3", "--", sys.executable, PROGRAM, "end")
    assert code == 0
    assert out.startswith("refused  no-results")

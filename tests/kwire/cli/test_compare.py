from __future__ import annotations

import gzip
import json
from pathlib import Path

from commands import kwire
from tools.captures import CAPTURES

QUIET = str(CAPTURES / "java-4.2.0__kafka-4.2.0__cooperative.pcap.gz")
TIMEOUT = str(CAPTURES / "java-4.2.0__kafka-4.2.0__timeout.pcap.gz")


def without_finding(folder: Path) -> str:
    """The tables of TIMEOUT without the finding of a costly rebalance."""
    kwire("groups", TIMEOUT, "--tables", str(folder), "--threshold", "costly-rebalance.stopped_ms=9000")
    return str(folder)


def test_worse_measures_come_first(tmp_path: Path) -> None:
    done = kwire("compare", without_finding(tmp_path), TIMEOUT)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2] == "worse: 1"
    assert lines[3].split() == ["before", "after", "change"]
    assert lines[4].split() == [
        "finding",
        "costly-rebalance",
        "of",
        "g-timeout-java-4.2.0-r2",
        "notice",
        "0",
        "1",
        "new",
    ]
    assert "not judged: " in lines[-1]


def test_check_fails_if_something_is_worse(tmp_path: Path) -> None:
    assert kwire("compare", without_finding(tmp_path), TIMEOUT, "--check").exit_code == 1
    assert kwire("compare", QUIET, QUIET, "--check").exit_code == 0
    assert kwire("compare", QUIET, TIMEOUT, "--check").exit_code == 0, "they have no group in common"


def test_tables_equal_their_capture(tmp_path: Path) -> None:
    folder = str(tmp_path / "tables")
    kwire("groups", QUIET, "--tables", folder)
    mixed = json.loads(kwire("compare", folder, TIMEOUT, "--json").stdout)
    assert mixed == json.loads(kwire("compare", QUIET, TIMEOUT, "--json").stdout)
    assert mixed["seconds"]["before"] > 0
    assert {each["kind"] for each in mixed["differences"]} == {"group", "finding", "error", "api"}


def test_tables_of_a_damaged_capture_are_reported(tmp_path: Path) -> None:
    """Measures of an incomplete capture seem better than they are."""
    path, folder = tmp_path / "cut.pcap", str(tmp_path / "tables")
    path.write_bytes(gzip.decompress(Path(QUIET).read_bytes())[:-10])
    kwire("groups", str(path), "--tables", folder)
    of_file, of_tables = kwire("compare", QUIET, str(path)), kwire("compare", QUIET, folder)
    assert of_file.exit_code == of_tables.exit_code == 1
    assert of_file.stderr == of_tables.stderr != ""


def test_all_has_a_line_for_each_measure() -> None:
    lines = kwire("compare", QUIET, TIMEOUT, "--all").stdout.splitlines()
    made = json.loads(kwire("compare", QUIET, TIMEOUT, "--json").stdout)["differences"]
    titles = [line for line in lines if not line.startswith(" ")]
    heads = [line for line in lines if line.split() == ["before", "after", "change"]]
    assert len(lines) - len(titles) - len(heads) == len(made)


def test_folder_without_captures_cannot_be_compared(tmp_path: Path) -> None:
    for pair in ((QUIET, str(tmp_path)), (str(tmp_path), QUIET)):
        done = kwire("compare", *pair)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {tmp_path}: no capture files ")


def test_traffic_of_other_ports_is_ignored() -> None:
    done = kwire("compare", QUIET, QUIET, "--port", "1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: no Kafka traffic with a broker at port 1 in the captures\n"

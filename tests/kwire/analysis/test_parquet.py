from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tools.captures import capture

from kwire.analysis import parquet
from kwire.analysis.report import html_page

NAME = "confluent-kafka-2.16.1__kafka-4.2.0__three"


def test_tables_go_through_files(tmp_path: Path) -> None:
    tables = capture(NAME)
    parquet.write(tmp_path, "one", tables)
    parquet.write(tmp_path, "one", tables)  # again: replaced, not doubled
    assert parquet.read(tmp_path) == tables
    parquet.write(tmp_path, "../two", tables)
    assert len(parquet.read(tmp_path, ["members"])["members"]) == 2 * len(tables["members"])


IDS = [
    "one",
    "a/b",
    "a_b",
    "a b",
    "a%2Fb",
    "_a",
    ".a",
    "a",
    "",
    "capture",
    "%",
    "グループ.pcap",
    "テスト.pcap",
    "\udc80",
]


def test_each_capture_has_its_own_files() -> None:
    long = "グ" * 300
    names = {parquet.file_name(one) for one in [*IDS, long, long + "x"]}
    assert len(names) == len(IDS) + 2
    assert max(map(len, names)) < 255
    assert not [name for name in names if name[0] in "._" or "/" in name or not name.isascii()]
    assert parquet.file_name("three.pcap-2") == "three.pcap-2.parquet"


def test_folder_without_tables(tmp_path: Path) -> None:
    assert not any(parquet.read(tmp_path).values())


def test_not_the_table(tmp_path: Path) -> None:
    parquet.write(tmp_path, "one", capture(NAME))
    (tmp_path / "members" / "one.parquet").write_bytes((tmp_path / "errors" / "one.parquet").read_bytes())
    with pytest.raises(ValueError, match="not a valid table members"):
        parquet.read(tmp_path)
    (tmp_path / "members" / "one.parquet").write_bytes(b"PAR1")
    with pytest.raises((ValueError, OSError)):
        parquet.read(tmp_path)


def test_tables_of_an_older_version(tmp_path: Path) -> None:
    """Such tables lack the cluster and the life of a group."""
    tables = capture(NAME)
    parquet.write(tmp_path, "one", tables)
    file = tmp_path / "members" / "one.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["cluster", "life"]), file)
    expected = [row | {"cluster": None, "life": None} for row in tables["members"]]
    assert parquet.read(tmp_path, ["members"])["members"] == expected
    everything = parquet.read(tmp_path, html_page.NEEDED)
    assert "g-three" in html_page.page(everything, "x")

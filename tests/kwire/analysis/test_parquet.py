from __future__ import annotations

from pathlib import Path

import pytest
from tools.captures import capture

from kwire.analysis import parquet

NAME = "confluent-kafka-2.16.1__kafka-4.2.0__three"


def test_tables_go_through_files(tmp_path: Path) -> None:
    tables = capture(NAME)
    parquet.write(tmp_path, "one", tables)
    parquet.write(tmp_path, "one", tables)  # again: replaced, not doubled
    assert parquet.read(tmp_path) == tables
    parquet.write(tmp_path, "../two", tables)
    assert len(parquet.read(tmp_path, ["members"])["members"]) == 2 * len(tables["members"])


def test_folder_without_tables(tmp_path: Path) -> None:
    assert not any(parquet.read(tmp_path).values())


def test_not_the_table(tmp_path: Path) -> None:
    parquet.write(tmp_path, "one", capture(NAME))
    (tmp_path / "members" / "one.parquet").write_bytes((tmp_path / "errors" / "one.parquet").read_bytes())
    with pytest.raises(ValueError, match="not the table members"):
        parquet.read(tmp_path)
    (tmp_path / "members" / "one.parquet").write_bytes(b"PAR1")
    with pytest.raises((ValueError, OSError)):
        parquet.read(tmp_path)

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import kwire
from tools.captures import capture

from kwire.analysis import parquet
from kwire.analysis.report import html_page


def test_page_of_a_folder(tmp_path: Path) -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__kip848")
    parquet.write(tmp_path / "tables", "one", tables)
    page = tmp_path / "page.html"
    done = kwire("report", str(tmp_path / "tables"), "--html", str(page))
    assert (done.exit_code, done.output) == (0, "")
    assert page.read_text("utf-8") == html_page.page(tables, "tables")


def test_folder_without_tables(tmp_path: Path) -> None:
    done = kwire("report", str(tmp_path), "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 1
    assert "no table" in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_without_pyarrow_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = kwire("report", str(tmp_path), "--html", str(tmp_path / "page.html"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: pyarrow is missing: pip install 'kwire[report]'\n"


def test_usage(tmp_path: Path) -> None:
    assert kwire("report", str(tmp_path)).exit_code == 2
    assert kwire("report", str(tmp_path / "nowhere"), "--html", "x").exit_code == 2

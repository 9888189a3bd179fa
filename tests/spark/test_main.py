"""The script that spark-submit runs: Python searches the script's folder for modules before all others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import kwire.spark

FOLDER = Path(kwire.spark.__file__).parent


def test_no_module_has_a_name_of_the_standard_library():
    assert not {path.stem for path in FOLDER.glob("*.py")} & sys.stdlib_module_names


def test_script_runs_beside_the_libraries_that_it_needs():
    """A module of the folder must not be imported in place of one that pandas, pyarrow or Spark needs."""
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import pandas, pyarrow, pyspark.sql"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

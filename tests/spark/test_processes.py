"""Streams in separate processes, which are killed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from need import need
from spark import traces
from spark.jars import DELTA, jars
from spark.test_delta import read

pytest.importorskip("pyspark")

from kwire.analysis import parquet
from kwire.analysis.tables import TABLES

HERE = Path(__file__).parent
LIMIT = 1_800  # seconds: a batch with Delta tables takes 30 s of CPU
SLOW = "Python worker failed to connect back"  # Spark waits 10 s, which is not enough on a busy machine
ATTEMPTS = 6
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(traces.ROOT)}
FAULTS = [  # in the order of the phases: in the second of three batches, and in ``finish``
    ("_renew", "before", 2),
    ("of_buckets", "before", 4),
    ("write_update", "after", 2),
    ("_save_summary", "after", 2),
    ("_delete_stale", "after", len(TABLES) + 5),  # some tables have the files of this batch, one has none
    ("put", "after", 2),
    ("_save_summary", "after", 4),
    ("_delete_stale", "after", 3 * len(TABLES) + 5),
    ("put", "after", 4),
]
DELTA_FAULTS = [  # in the first and second of two batches, and in ``finish``; four tables are changed at a time
    ("overwrite", "after", 6),
    ("_save_summary", "after", 2),
    ("replace", "after", 3),
    ("replace", "before", len(TABLES) - 2),
    ("put", "after", 2),
    ("replace", "after", len(TABLES) + 5),
    ("put", "after", 3),
]
pytestmark = pytest.mark.long


def run(*command: Any, fresh: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Return the result of a command. After a timeout of Spark, ``fresh`` is deleted and the command runs again."""
    need("java", "Spark runs on it")
    environment = os.environ | LOOPBACK | more
    line = [str(one) for one in command]
    for _ in range(ATTEMPTS):
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        if not done.returncode or SLOW not in done.stderr:
            break
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)
    return done


def named(fault: tuple[str, str, int]) -> str:
    return f"{fault[1]} {fault[0]}, call {fault[2]}"


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_killed_stream_continues_with_the_same_tables(tmp_path, fault):
    """The stream gets SIGKILL in a phase of a batch, or at its end."""
    paths = traces.cut(traces.COMMITTED[0], tmp_path / "rotating", 3)
    stream = [sys.executable, HERE / "faulty_stream.py", tmp_path / "rotating", tmp_path / "out", *fault[:2]]
    killed = run(*stream, fault[2], "parquet", fresh=tmp_path / "out")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(*stream, 0, "parquet")
    assert done.returncode == 0, done.stderr
    assert parquet.read(tmp_path / "out") == traces.single(paths, "c")
    assert not list((tmp_path / "out").rglob("_staging-*"))  # left by the killed process


@pytest.mark.parametrize("fault", DELTA_FAULTS, ids=named)
def test_killed_stream_continues_with_the_same_delta_tables(spark, tmp_path, fault):
    """The stream gets SIGKILL between the transactions of two tables, in a batch or at its end."""
    paths = traces.cut(traces.COMMITTED[0], tmp_path / "rotating", 2)
    settings = [word for name, value in DELTA.items() for word in ("--conf", f"{name}={value}")]
    submitted = shlex.join(["--jars", ",".join(jars()), *settings, "pyspark-shell"])
    stream = [sys.executable, HERE / "faulty_stream.py", tmp_path / "rotating", tmp_path / "out", *fault[:2]]
    killed = run(*stream, fault[2], "delta", fresh=tmp_path / "out", PYSPARK_SUBMIT_ARGS=submitted)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(*stream, 0, "delta", PYSPARK_SUBMIT_ARGS=submitted)
    assert done.returncode == 0, done.stderr
    assert read(spark, tmp_path / "out") == traces.single(paths, "c")

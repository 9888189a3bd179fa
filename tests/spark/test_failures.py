"""Errors of Spark as lines on stderr."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import click
import pytest
from need import need
from spark import traces

pytest.importorskip("pyspark")

from click.testing import CliRunner
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException

from kwire.spark.command import command
from kwire.spark.failures import cause, interrupted_later, spark_errors

T = TypeVar("T")
STACK = "\n\tat org.apache.spark.A.b(A.scala:1)\nCaused by: java.lang.ClassNotFoundException: x.DefaultSource\n\tat C.d(C.java)"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    raise error\n    ^^^^^\n'
CAUSES = {
    "Failed to find data source: kafka. Please deploy.": "Failed to find data source: kafka. Please deploy.",
    f"An error occurred while calling o1.save.\n: java.io.IOException: disk full{STACK}": "IOException: disk full",
    f"[STREAM_FAILED] Query [id = 1] terminated with exception: [A] An error occurred \n{TRACEBACK}"
    f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n: org.apache.B$Exception: no b{STACK}": "B$Exception: no b",
    f"An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted: Lost task 0.0: "
    f"PythonException: {TRACEBACK}OSError: [Errno 28] No space left on device\n{STACK}": "OSError: [Errno 28] No space left on device",
}


@pytest.mark.parametrize(("text", "line"), CAUSES.items(), ids=CAUSES.values())
def test_cause_is_one_line(text, line):
    assert cause(text) == line


@pytest.mark.parametrize("error", [Py4JError("the JVM has ended"), AnalysisException("the JVM has ended")], ids=repr)
def test_error_of_spark_is_one_line(error):
    with pytest.raises(click.ClickException, match=r"^Spark failed: the JVM has ended$"), spark_errors():
        raise error


INTERRUPTS = [KeyboardInterrupt(), Py4JNetworkError("Error while receiving", RuntimeError("reentrant call"))]


@pytest.mark.parametrize("error", INTERRUPTS, ids=repr)
def test_interrupted_call_is_not_logged(caplog, error):
    with spark_errors():
        try:
            raise error
        except type(error):
            logging.exception("Exception while sending command.")  # as py4j does
    assert not caplog.records
    logging.warning("other records are logged")
    assert caplog.messages == ["other records are logged"]


def test_unknown_format_fails_before_captures_are_read(spark, tmp_path, monkeypatch):
    monkeypatch.delattr("kwire.spark.one_task.write_small")
    arguments = ["--input", str(traces.COMMITTED[0]), "--output", str(tmp_path), "--format", "parkett"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    assert "Error: Spark failed: " in result.stderr
    assert "Failed to find the data source: parkett." in result.stderr
    assert not list(tmp_path.iterdir())


def test_unknown_format_of_a_stream_fails_before_reading(spark, tmp_path):
    """The next run may have another format, because the stream has written nothing."""
    arguments = ["--input", str(traces.COMMITTED[0]), "--output", str(tmp_path), "--stream", "--format", "parkett"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    assert "Failed to find the data source: parkett." in result.stderr
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


def test_interrupt_waits_for_the_end_of_the_block():
    before, block = signal.getsignal(signal.SIGINT), ExitStack()
    block.enter_context(interrupted_later())
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        block.close()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process are read from /proc")
def test_interrupt_while_spark_starts_leaves_no_jvm(tmp_path):
    need("java", "Spark runs on it")
    arguments = ["--input", str(traces.COMMITTED[0]), "--output", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "kwire", "pipeline", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        jvm = wait_for(lambda: children(process.pid), process)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert b"Traceback" not in out
    assert process.returncode == 130
    wait_for(lambda: not Path(f"/proc/{jvm[0]}").exists())


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(holds: Callable[[], T], process: subprocess.Popen[bytes] | None = None) -> T:
    """Wait until a condition holds, and return its result. The process must not end before."""
    for _ in range(3_000):
        if result := holds():
            return result
        assert process is None or process.poll() is None
        time.sleep(0.01)
    raise AssertionError("timed out")

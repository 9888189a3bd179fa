"""Jobs on a Spark Connect server, which runs in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from need import need
from spark import traces

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

import pyspark

from kwire.analysis import parquet
from kwire.spark.input_files import files

LIMIT = 300.0  # seconds
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Spark Connect server, and yield its address."""
    need("java", "Spark runs on it")
    home, folder = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("server")
    local = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER]
    command += [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"], cwd=folder, env=os.environ | local, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield f"sc://127.0.0.1:{port_in(log, process)}"
    finally:
        process.terminate()
        process.wait(LIMIT)


def port_in(log: Path, process: subprocess.Popen[bytes]) -> int:
    """Return the port that the server has logged, as soon as it has."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"Spark Connect server started at: \S+:(\d+)", log.read_text("utf-8", "replace")):
            return int(found[1])
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace"))


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--split-size", "65536")], ids=["one task", "divided"])
def test_the_tables_are_those_of_one_process(server: str, tmp_path: Path, more: tuple[str, ...]) -> None:
    paths = files([str(path) for path in traces.captures()])
    inputs = [word for path in paths for word in ("--input", path)]
    arguments = ["--output", str(tmp_path / "out"), "--capture-id", "c", "--master", server, *inputs, *more]
    command = [sys.executable, "-m", "kwire", "pipeline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert parquet.read(tmp_path / "out") == traces.single(paths, "c")

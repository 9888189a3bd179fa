"""Run a command beside a standalone Spark cluster of two workers on this machine.

    python benchmarks/spark_cluster.py spark-submit --master MASTER ... kwire/spark/__main__.py --input IN --output OUT

The argument MASTER becomes the address of the cluster. Master and workers are processes that listen on 127.0.0.1 only,
with one core and 1 GiB each; they end with the command, and the exit code is that of the command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
WORKERS = 2
LIMIT = 300.0  # seconds until all workers are registered
PAUSE = 0.2  # seconds between two looks at the log


def main() -> int:
    """Start the cluster, run the command of the arguments, and return its exit code."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_WORKER_DIR": str(folder / "work"),
        }
        log = folder / "master.log"
        listen = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        _start(stack, environment, log, "master.Master", *listen)
        (address,) = _await(log, r"Starting Spark master at (spark://\S+)", 1)
        for number in range(WORKERS):
            more = ["--cores", "1", "--memory", "1g", address]
            _start(stack, environment, folder / f"worker-{number}.log", "worker.Worker", *listen, *more)
        _await(log, r"Registering worker", WORKERS)
        command = [address if one == "MASTER" else one for one in sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


def _start(stack: ExitStack, environment: dict[str, str], log: Path, name: str, *arguments: str) -> None:
    """Start a process of the cluster, which ends with ``stack``.

    Args:
        stack: stack of exits.
        environment: environment variables.
        log: file for the output.
        name: name of Spark's class, without its common part.
        arguments: arguments of the class.
    """
    output = stack.enter_context(log.open("wb"))
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _await(log: Path, pattern: str, count: int) -> list[str]:
    """Return the matches of a pattern in a log, as soon as there are ``count``. Raises: TimeoutError after LIMIT."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        found = re.findall(pattern, log.read_text("utf-8", "replace"))
        if len(found) >= count:
            return found
        time.sleep(PAUSE)
    raise TimeoutError(f"{log} has no {count} lines with {pattern!r} after {LIMIT:.0f} s:\n{log.read_text('utf-8')}")


if __name__ == "__main__":
    sys.exit(main())

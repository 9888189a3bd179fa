"""Tools that come with Apache Kafka, for files that we wrote."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from need import lacking, need
from oracle import kafka

LIMIT = 60.0  # seconds
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xlog:disable"]


@cache
def _jars() -> Path:
    need("mvn", "it fetches the jars of Apache Kafka")
    try:
        return kafka.fetch(kafka.NEWEST)
    except (OSError, subprocess.CalledProcessError) as error:
        lacking(f"the jars of Apache Kafka could not be fetched: {error}")


def dumped(files: Iterable[Path], *options: str) -> list[str]:
    """What DumpLogSegments prints of segments and indexes, line by line.

    ``options``: such as --deep-iteration, --print-data-log, and --offsets-decoder for those of the offsets topic.
    """
    java = need("java", "Apache Kafka's DumpLogSegments runs on it")
    tool = [java, *QUICK, "-cp", f"{_jars()}{os.sep}*", "kafka.tools.DumpLogSegments"]
    command = [*tool, *options, "--files", ",".join(str(file) for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()

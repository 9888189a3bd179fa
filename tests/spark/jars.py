"""The jars of Spark's own Kafka connector, fetched by Maven once, into .cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from need import CACHE, lacking, need

POM = Path(__file__).parent / "pom.xml"
LIMIT = 600.0  # seconds


def connector() -> list[str]:
    """Paths of the jars. Skips, or in CI fails, where they are not there and cannot be fetched."""
    CACHE.mkdir(parents=True, exist_ok=True)
    jars, fetched = CACHE / "spark", CACHE / "spark.fetched"
    with (CACHE / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests at once
        if not fetched.exists() or fetched.read_text() != POM.read_text("utf-8"):
            mvn = need("mvn", "it fetches Spark's Kafka connector")
            shutil.rmtree(jars, ignore_errors=True)
            command = [mvn, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            if done.returncode:
                lacking(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-500:]}")
            fetched.write_text(POM.read_text("utf-8"))
    return sorted(str(jar) for jar in jars.iterdir())

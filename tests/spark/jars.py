"""The jars of Spark's own Kafka connector and of Delta Lake, fetched by Maven once, into .cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from need import CACHE, lacking, need

POM = Path(__file__).parent / "pom.xml"
LIMIT = 600.0  # seconds
DELTA = {  # settings with which Spark reads and writes Delta tables
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # for small tables
}


def jars() -> list[str]:
    """Return the paths of the jars. If they cannot be fetched, the test is skipped, or fails in CI."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder, fetched = CACHE / "spark", CACHE / "spark.fetched"
    with (CACHE / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests at once
        if not fetched.exists() or fetched.read_text() != POM.read_text("utf-8"):
            mvn = need("mvn", "it fetches Spark's Kafka connector and Delta Lake")
            shutil.rmtree(folder, ignore_errors=True)
            command = [mvn, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            if done.returncode:
                lacking(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-500:]}")
            fetched.write_text(POM.read_text("utf-8"))
    return sorted(str(jar) for jar in folder.iterdir())

"""Start of Spark sessions with the configuration that the pipeline needs."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

LOCAL = "local[*]"
QUIET = {  # settings of a local session
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.adaptive.enabled": "false",  # it runs a job for each stage, and the pipeline chooses the number of tasks
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # each task generates the code again, for few rows
    "spark.sql.codegen.wholeStage": "false",  # the time is spent in Python: compiling costs more than it saves
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(master: str | None = None, app: str = "kwire") -> SparkSession:
    """Return the active Spark session, or start one.

    An active session is returned unchanged, whatever the arguments are. A new local session listens only on the
    loopback interface and has no web UI.

    Args:
        master: Spark's master URL. None for the master that spark-submit has set; without spark-submit, all cores of
            this machine are used.
        app: name of the application.

    Raises: RuntimeError if Spark does not start.
    """
    if active := SparkSession.getActiveSession():
        return active
    builder = SparkSession.builder.appName(app)
    submitted = "SPARK_SUBMIT_OPTS" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = LOCAL
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            partitions = {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
            for name, value in (QUIET | partitions).items():
                builder = builder.config(name, value)
    return builder.getOrCreate()

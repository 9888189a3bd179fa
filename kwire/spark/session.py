"""Spark sessions as the pipeline wants them."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

LOCAL = "local[*]"
QUIET = {  # of a session on this machine alone
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.codegen.wholeStage": "false",  # what takes time is in Python: compiling costs more than it gives
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(master: str | None = None, app: str = "kwire") -> SparkSession:
    """The session that there is, or a new one. ``master``: Spark's; else what spark-submit says, or this machine.

    A session on this machine listens on loopback only and shows no page. Raises: RuntimeError if Spark does not start.
    """
    if found := SparkSession.getActiveSession():
        return found
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

"""Start of Spark sessions with the configuration that the pipeline needs."""

from __future__ import annotations

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

LOCAL = "local[*]"
JVM = "spark.driver.extraJavaOptions"
QUIET = {  # settings of a local session
    "spark.driver.bindAddress": "127.0.0.1",
    JVM: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.adaptive.enabled": "false",  # it runs a job for each stage, and the pipeline chooses the number of tasks
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # each task generates the code again, for few rows
    "spark.sql.codegen.wholeStage": "false",  # the time is spent in Python: compiling costs more than it saves
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
MAGIC = 4  # bytes at the beginning of a class archive that a JVM writes last
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(master: str | None = None, app: str = "kwire", class_archive: str | None = None) -> SparkSession:
    """Return the active Spark session, or start one.

    An active session is returned unchanged, whatever the arguments are. A new local session listens only on the
    loopback interface and has no web UI.

    Args:
        master: Spark's master URL. None for the master that spark-submit has set; without spark-submit, all cores of
            this machine are used.
        app: name of the application.
        class_archive: path of an archive with the classes that a local session loads, with which a session starts
            faster. If the file does not exist, the JVM writes it when it exits. None for no archive.

    Raises: RuntimeError if Spark does not start.
    """
    if active := SparkSession.getActiveSession():
        return active
    conf = SparkConf().setAppName(app)
    submitted = "SPARK_SUBMIT_OPTS" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = LOCAL
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            conf.setAll([*QUIET.items(), ("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))])
            if class_archive is not None:
                conf.set(JVM, f"{QUIET[JVM]} {archive_options(class_archive)}")
    SparkContext.getOrCreate(conf)  # options of the builder would load the classes of SQL, which not every job needs
    return SparkSession.builder.getOrCreate()


def archive_options(path: str) -> str:
    """Return the options with which a JVM uses an archive of classes. Without a complete archive, the JVM writes one
    when it exits.

    A file that begins with zeros is incomplete, because the JVM was killed while it wrote the file.

    ``path``: path of the archive.
    """
    try:
        with open(path, "rb") as file:
            is_complete = any(file.read(MAGIC))
    except FileNotFoundError:
        is_complete = False
    quoted = os.path.abspath(path).replace("\\", r"\\").replace('"', r"\"")
    if is_complete:
        return f'"-XX:SharedArchiveFile={quoted}"'
    return f'"-XX:ArchiveClassesAtExit={quoted}" -Xlog:cds=error -Xlog:cds+dynamic=error'

"""Start of Spark with the configuration that the pipeline needs: of sessions, and of contexts for jobs without SQL."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
from typing import TypeGuard
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

LOCAL = "local[*]"
CONNECT = "sc://"  # how the address of a Spark Connect server begins
CONNECT_PORT = 15002  # of a Spark Connect server whose address has no port
REACHED = 10.0  # seconds within which a Spark Connect server accepts a connection
JVM = "spark.driver.extraJavaOptions"
QUIET = {  # settings of a local context and its sessions
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
UNIX = "spark.python.unix.domain.socket"
SHORT = 45  # bytes of the longest path in which the folder of the sockets is made: the path of a socket has up to 103
MAGIC = 4  # bytes at the beginning of a class archive that a JVM writes last
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(master: str | None = None, app: str = "kwire", class_archive: str | None = None) -> SparkSession:
    """Return the active Spark session, or start one. For the arguments and errors, see ``start``."""
    return session_on(start(master, app, class_archive))


def session_on(spark: SparkSession | SparkContext) -> SparkSession:
    """Return the session itself; for a context, return a session that uses the context."""
    return SparkSession.builder.getOrCreate() if isinstance(spark, SparkContext) else spark


def context_of(spark: SparkSession | SparkContext) -> SparkContext | None:
    """Return the context itself; for a session, return its context. A session of Spark Connect has none: None."""
    return spark if isinstance(spark, SparkContext) else getattr(spark, "sparkContext", None)


def start(
    master: str | None = None, app: str = "kwire", class_archive: str | None = None
) -> SparkSession | SparkContext:
    """Return the active Spark session; without one, start a Spark context.

    A context starts faster than a session, which loads the classes of SQL. An active session is returned unchanged,
    whatever the arguments are. A new local context listens only on the loopback interface and has no web UI.

    Args:
        master: Spark's master URL, or the address of a Spark Connect server (``sc://HOST:PORT``). None for the master
            that spark-submit has set; without spark-submit, all cores of this machine are used.
        app: name of the application.
        class_archive: path of an archive with the classes that a local context loads, with which Spark starts
            faster. If the file does not exist, the JVM writes it when it exits. None for no archive.

    Raises: RuntimeError if Spark does not start; ConnectionError if no Spark Connect server listens at the address.
    """
    if active := SparkSession.getActiveSession():
        return active
    if is_connect(master):
        _require_server(master)
        return SparkSession.builder.remote(master).appName(app).getOrCreate()
    conf = SparkConf().setAppName(app)
    submitted = "SPARK_SUBMIT_OPTS" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = LOCAL
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            partitions = {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
            conf.setAll(list((QUIET | unix_sockets() | partitions).items()))
            if class_archive is not None:
                conf.set(JVM, f"{QUIET[JVM]} {archive_options(class_archive)}")
    return SparkContext.getOrCreate(conf)


def is_connect(master: str | None) -> TypeGuard[str]:
    """Return whether a master is the address of a Spark Connect server."""
    return master is not None and master.startswith(CONNECT)


def _require_server(address: str) -> None:
    """Check that a server listens at the address, because PySpark would try for ten minutes to reach it.

    ``address``: address of a Spark Connect server, as PySpark accepts it. An address without a host is not checked:
    PySpark refuses it.

    Raises: ConnectionError if no server listens there; ValueError for a wrong port.
    """
    parts = urlsplit(address)
    if parts.hostname is None:
        return
    host, port = parts.hostname, parts.port or CONNECT_PORT
    try:
        socket.create_connection((host, port), REACHED).close()
    except OSError as error:
        raise ConnectionError(f"no Spark Connect server at {host}:{port}: {error.strerror or error}") from error


def unix_sockets() -> dict[str, str]:
    """Return the settings with which the JVM and its Python workers talk over Unix sockets instead of TCP.

    Over TCP, each task waits 40 ms at its end: the last bytes that the worker sends are held back until the JVM has
    acknowledged the bytes before them (Nagle's algorithm and delayed acknowledgements).

    The sockets are in a temporary folder that only this user can open, which is deleted when this process exits: in
    ``/tmp`` if the path of the default folder is too long for sockets. The result is empty on a system without Unix
    sockets, and if the folder cannot be made there.
    """
    places = [place for place in (tempfile.gettempdir(), "/tmp") if len(os.fsencode(place)) <= SHORT]  # noqa: S108
    if not hasattr(socket, "AF_UNIX") or not os.access(places[0], os.W_OK):
        return {}
    folder = tempfile.mkdtemp(prefix="kwire-", dir=places[0])
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {f"{UNIX}.enabled": "true", f"{UNIX}.dir": folder}


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

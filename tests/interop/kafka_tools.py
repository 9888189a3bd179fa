"""The command-line tools of Apache Kafka, for files written by mockbroker and for groups."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from need import lacking, need
from oracle import kafka

from mockbroker import run_cluster

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
    """Return the output of DumpLogSegments about segments and indexes, line by line.

    ``options``: such as --deep-iteration, --print-data-log, and --offsets-decoder for segments of the offsets topic.
    """
    return _printed("kafka.tools.DumpLogSegments", *options, "--files", ",".join(str(file) for file in files))


def streams_groups(bootstrap_servers: str, *options: str) -> list[str]:
    """Return the output of kafka-streams-groups.sh, line by line, with one space between columns, without empty
    lines.
    """
    tool = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    lines = _printed(tool, "--bootstrap-server", bootstrap_servers, *options)
    return [" ".join(line.split()) for line in lines if line.strip()]


def share_groups(bootstrap_servers: str, *options: str) -> list[str]:
    """Return the output of kafka-share-groups.sh, line by line, with one space between columns, without empty lines."""
    tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    lines = _printed(tool, "--bootstrap-server", bootstrap_servers, *options)
    return [" ".join(line.split()) for line in lines if line.strip()]


def acls(bootstrap_servers: str, *options: str) -> list[str]:
    """Return the output of kafka-acls.sh, line by line, without empty lines and without space around lines."""
    lines = _printed("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap_servers, *options)
    return [line.strip() for line in lines if line.strip()]


def consumed(bootstrap_servers: str, topic: str, *options: str) -> list[str]:
    """Return the output of kafka-console-consumer.sh, line by line."""
    servers = ("--bootstrap-server", bootstrap_servers, "--topic", topic)
    return _printed("org.apache.kafka.tools.consumer.ConsoleConsumer", *servers, *options)


def with_login(tool: str, bootstrap_servers: str, login: Path, *options: str) -> list[str]:
    """Return the output of a tool, without empty lines. ``login``: properties of its client, such as the mechanism of
    SASL.
    """
    servers = ("--bootstrap-server", bootstrap_servers, "--command-config", str(login))
    return [line.strip() for line in _printed(tool, *servers, *options) if line.strip()]


def tool(name: str, bootstrap_servers: str, *options: str, option_last: bool = False) -> list[str]:
    """Return the output of a tool, line by line. ``option_last``: whether the servers' option follows a subcommand."""
    servers = ("--bootstrap-server", bootstrap_servers)
    ordered = (*options[:1], *servers, *options[1:]) if option_last else (*servers, *options)
    return [line.rstrip() for line in _printed(f"org.apache.kafka.tools.{name}", *ordered)]


def tool_command(tool: str) -> list[str]:
    """Return the command that starts a tool, a class in Kafka's jars. Skips, or in CI fails, without Java or the
    jars.
    """
    return [*java_with_kafka(), tool]


def java_with_kafka() -> list[str]:
    """Return the command for Java with Kafka's jars, but no class. Skips, or in CI fails, without Java or the jars."""
    java = need("java", "the tools of Apache Kafka run on it")
    return [java, *QUICK, f"-XX:SharedArchiveFile={_archive(java)}", *_class_path()]


def _class_path() -> list[str]:
    return ["-cp", os.pathsep.join(sorted(map(str, _jars().iterdir())))]  # in the order of the archive


@cache
def _archive(java: str) -> Path:
    """Return the class data archive of a tool, which halves the start time of later runs; it is created once for the
    jars.
    """
    archive = _jars().with_name(f"{_jars().name}.jsa")
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests at once
        if not archive.exists():
            tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
            with run_cluster() as cluster:
                arguments = [tool, "--bootstrap-server", cluster.bootstrap_servers, "--list"]
                command = [java, *QUICK, f"-XX:ArchiveClassesAtExit={archive}", *_class_path(), *arguments]
                subprocess.run(command, capture_output=True, check=True, timeout=LIMIT)
    return archive


def _printed(tool: str, *options: str) -> list[str]:
    command = [*tool_command(tool), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()

"""Clients in languages other than Python: a small program around each client, which is built into .cache when its
sources change.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from interop.hosted import Host, HostedClient
from need import CACHE, lacking, need

from mockbroker import run_cluster

HERE = Path(__file__).parent
CLIENTS = CACHE / "clients"
# The environment of processes that threads start. A process that inherited the environment of this one would read it
# while pytest changes it in the main thread (PYTEST_CURRENT_TEST), and exec might fail with EFAULT: "Bad address".
ENVIRONMENT = dict(os.environ)
LIMIT = 30.0  # seconds for one answer; the programs themselves give up after 15
BUILD_LIMIT = 600.0


@dataclass(frozen=True)
class Program:
    """A program. ``sources``: a folder here; ``build``: builds it in a folder; ``start``: returns its start command."""

    sources: str
    build: Callable[[Path, Path], None]
    start: Callable[[Path], list[str]]


def run(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=BUILD_LIMIT
    )
    if done.returncode:
        lacking(f"{' '.join(command[:2])} failed: {(done.stdout + done.stderr)[-500:]}")


def _build_java(sources: Path, target: Path) -> None:
    need("javac", "it compiles the member with Apache Kafka's own client")
    mvn = need("mvn", "it fetches Apache Kafka's own client")
    run([mvn, "-q", "-B", "compile", "dependency:copy-dependencies", f"-Dtarget={target}"], sources)
    run(["jar", "--create", "--file", "jars/client.jar", "-C", "classes", "."], target)
    _archive_classes(target)


def _archive_classes(target: Path) -> None:
    """Let one member join and leave, and archive the loaded classes, which halves the start time of Java."""
    options = {"client_id": "first", "group": "first", "topic": "orders", "assignor": "range", "reset": "earliest"}
    times = {"session_ms": 10_000, "heartbeat_ms": 1_000}
    with run_cluster(topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        member = json.dumps({"bootstrap": cluster.bootstrap_servers, **options, **times})
        java, *rest = _start_java(target)
        command = [java, f"-XX:ArchiveClassesAtExit={_archive(target)}", *rest, "member", member]
        with subprocess.Popen(
            command,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()  # the member has its assignment
            process.communicate("leave\n", timeout=BUILD_LIMIT)


def _archive(target: Path) -> Path:
    return target / "classes.jsa"


def _start_java(target: Path) -> list[str]:
    java = need("java", "Apache Kafka's own client runs on it")
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    archive = [f"-XX:SharedArchiveFile={_archive(target)}", "-Xlog:disable"] if _archive(target).exists() else []
    jars = sorted(str(jar) for jar in (target / "jars").iterdir())  # Java compares their order with that in the archive
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, *quick, *archive, quiet, "-cp", os.pathsep.join(jars), "Client"]


def _build_go(sources: Path, target: Path) -> None:
    _go_build(sources, ".", target / "client")


def _go_build(sources: Path, source: str, target: Path) -> None:
    run([go(), "build", "-o", str(target), source], sources, GOTOOLCHAIN="auto")


def go() -> str:
    """Return the path of Go: that of .ci/setup if the system's is too old to fetch a newer one, else the system's."""
    fetched = CACHE / "go" / "bin" / "go"
    return str(fetched) if fetched.exists() else need("go", "it builds programs with franz-go")


def _build_node(sources: Path, target: Path) -> None:
    need("node", "kafkajs runs on it")
    npm = need("npm", "it fetches kafkajs")
    shutil.copytree(sources, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    run([npm, "ci", "--no-audit", "--no-fund"], target)


PROGRAMS = {
    "java": Program("java", _build_java, _start_java),
    "franz-go": Program("go", _build_go, lambda target: [str(target / "client")]),
    "kafkajs": Program("node", _build_node, lambda target: [need("node", "kafkajs runs on it"), f"{target}/client.js"]),
}


@cache
def command(family: str) -> list[str]:
    """Return the command that starts the program; build the program if necessary. Skips, or in CI fails, where that
    is impossible.
    """
    return built_program(PROGRAMS[family], PROGRAMS[family].sources)


@cache
def old_java(release: str) -> list[str]:
    """Return the command for java-old/ with the Java client of an old release."""

    def build(sources: Path, target: Path) -> None:
        mvn = need("mvn", "it fetches Apache Kafka's old clients")
        goals = ["compile", "dependency:copy-dependencies"]
        run([mvn, "-q", "-B", *goals, f"-Dtarget={target}", f"-Dkafka={release}"], sources)

    def start(target: Path) -> list[str]:
        java = need("java", "Apache Kafka's old clients run on it")
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
        return [java, *quick, "-cp", f"{target}/jars/*{os.pathsep}{target}/classes", "OldClient"]

    return built_program(Program("java-old", build, start), f"java-{release}")


@cache
def other_go_clients() -> list[str]:
    """Return the command for go-others/, a program with sarama and kafka-go."""
    return built_program(Program("go-others", _build_go, lambda target: [str(target / "client")]), "go-others")


@cache
def word_count(release: str) -> list[str]:
    """Return the command for java-streams/, an application of a release of Kafka Streams."""

    def build(sources: Path, target: Path) -> None:
        need("javac", "it compiles the application")
        mvn = need("mvn", "it fetches Kafka Streams")
        goals = ["compile", "dependency:copy-dependencies"]
        run([mvn, "-q", "-B", *goals, f"-Dtarget={target}", f"-Dkafka={release}"], sources)

    def start(target: Path) -> list[str]:
        java = need("java", "Kafka Streams runs on it")
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return [java, *quick, quiet, "-cp", f"{target}/jars/*{os.pathsep}{target}/classes", "WordCount"]

    return built_program(Program("java-streams", build, start), f"java-streams-{release}")


@cache
def mirror_maker() -> list[str]:
    """Return the command for MirrorMaker, which runs its connectors in a separate Connect cluster."""

    def build(sources: Path, target: Path) -> None:
        mvn = need("mvn", "it fetches MirrorMaker")
        run([mvn, "-q", "-B", "dependency:copy-dependencies", f"-Dtarget={target}"], sources)

    def start(target: Path) -> list[str]:
        java = need("java", "MirrorMaker runs on it")
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return [java, *quick, quiet, "-cp", f"{target}/jars/*", "org.apache.kafka.connect.mirror.MirrorMaker"]

    return built_program(Program("java-mirror", build, start), "java-mirror")


@cache
def java_framework(name: str) -> list[str]:
    """Return the command for the application of java-frameworks/ with a framework around the Java client."""

    def build(sources: Path, target: Path) -> None:
        need("javac", "it compiles the application")
        mvn = need("mvn", "it fetches frameworks around the Java client")
        goals = ["compile", "dependency:copy-dependencies"]
        run([mvn, "-q", "-B", *goals, f"-Dtarget={target}", f"-Dframework={name}"], sources)

    def start(target: Path) -> list[str]:
        java = need("java", "the application runs on it")
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        return [java, *quick, "-cp", f"{target}/jars/*{os.pathsep}{target}/classes", "Application"]

    return built_program(Program("java-frameworks", build, start), name)


def built_program(program: Program, name: str) -> list[str]:
    """Return the command for a program; build the program if necessary. ``name``: name of the folder of the build."""
    sources = HERE / program.sources
    files = sorted(path for path in sources.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(sources)}\n".encode() + path.read_bytes())
    CLIENTS.mkdir(parents=True, exist_ok=True)
    target, built = CLIENTS / name, CLIENTS / f"{name}.built"
    with (CLIENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests at once
        if not built.exists() or built.read_text() != digest.hexdigest():
            built.unlink(missing_ok=True)  # an incomplete build must not be used, even if the sources are changed back
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            program.build(sources, target)
            built.write_text(digest.hexdigest())
    return program.start(target)


def run_file(file: Path) -> list[str]:
    """Return the command for a file that uses a client, such as those in examples/, with the libraries built here."""
    match file.suffix:
        case ".java":
            *java, _ = command("java")
            return [*java, str(file)]
        case ".go":
            target = Path(command("franz-go")[0]).parent / file.stem
            _go_build(HERE / PROGRAMS["franz-go"].sources, str(file), target)
            return [str(target)]
        case ".js":
            node, client = command("kafkajs")
            return ["env", f"NODE_PATH={Path(client).parent / 'node_modules'}", node, str(file)]
        case other:
            raise ValueError(other)


HOSTED = "java"  # the family whose clients share a process: a JVM takes seconds of CPU to start and to warm up
_hosts: list[Host] = []
_hosts_lock = threading.Lock()


def java_host() -> Host:
    """Return the JVM of the Java clients, which runs until Python ends; a new one on first use and after its death."""
    with _hosts_lock:
        if not _hosts or not _hosts[-1].alive:
            host = Host([*command(HOSTED), "host"], ENVIRONMENT)
            atexit.register(host.end)
            _hosts.append(host)
        return _hosts[-1]


class Asked:
    """A client that handles requests, one JSON line each, from first use until Python ends."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._process: subprocess.Popen[str] | HostedClient
        if family == HOSTED:
            self._process = java_host().start("ask", {})
        else:
            self._process = subprocess.Popen(
                [*command(family), "ask"],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        atexit.register(self._end)

    def ask(self, call: str, **what: Any) -> Any:
        """Send a request, and return the response. An error in the program raises AssertionError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        too_late = threading.Timer(LIMIT, self._stop)
        too_late.start()
        try:
            self._process.stdin.write(json.dumps({"call": call, **what}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            too_late.cancel()
        assert line, f"{self.family} ended instead of answering {call}"
        message = json.loads(line)
        assert "error" not in message, f"{self.family}, {call}: {message['error']}"
        return message.get("answer")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _stop(self) -> None:
        if isinstance(self._process, HostedClient):
            self._process.disconnect()
        else:
            self._process.kill()

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # the client ended before it read a request
                pipe.close()
        self._stop()
        self._process.wait()


_running: dict[str, Asked] = {}


def asked(family: str) -> Asked:
    """Return the process of a family; a new one if the last has died."""
    if family not in _running or not _running[family].alive:
        _running[family] = Asked(family)
    return _running[family]

"""The start of a session in a separate process: its settings, and the archive of classes."""

from __future__ import annotations

import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from need import need
from spark import traces

pytest.importorskip("pyspark")

from kwire.spark.session import JVM, QUIET, UNIX, archive_options, unix_sockets

LIMIT = 600  # seconds
SHOW = """
import json, sys
from kwire.spark.session import session
spark = session("local[1]")
names = json.loads(sys.argv[1])
print(json.dumps([spark.range(3).count(), spark.sparkContext.master, [spark.conf.get(name) for name in names]]))
print("sockets:", spark.conf.get("spark.python.unix.domain.socket.dir"))
"""


ONE_TASK = """
import sys
from pyspark.sql import SparkSession
from kwire.spark.job import Job
from kwire.spark.output import Output
from kwire.spark.session import start
trace, folder = sys.argv[1:]
context = start("local[1]")
for form in ("parquet", "json"):
    Job([trace], Output(f"{folder}/{form}", form), "c").run(context)
    print("session:", SparkSession.getActiveSession() is not None)
"""


def python(*arguments: str, **more: str) -> str:
    need("java", "Spark runs on it")
    environment = os.environ | {"PYTHONPATH": str(traces.ROOT)} | more
    line = [sys.executable, *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_queries_of_a_new_session_have_its_settings():
    settings = {name: value for name, value in QUIET.items() if name != JVM}  # Spark adds options of its own
    shown = python("-c", SHOW, json.dumps(list(settings))).splitlines()
    assert json.loads(next(line for line in shown if line.startswith("["))) == [3, "local[1]", list(settings.values())]
    sockets = next(line.split()[1] for line in shown if line.startswith("sockets:"))
    assert not Path(sockets).exists()


@pytest.mark.parametrize("length", [45, 46])
def test_sockets_are_in_a_private_folder_with_a_short_path(monkeypatch, length):
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        place = Path(f"{above}/".ljust(length, "x"))
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        settings = unix_sockets()
        folder = Path(settings[f"{UNIX}.dir"])
        assert settings[f"{UNIX}.enabled"] == "true"
        assert folder.parent == (place if length == 45 else Path("/tmp"))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_unix_sockets_or_a_place_for_them_spark_uses_tcp(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        assert unix_sockets() == {}
    monkeypatch.delattr(socket, "AF_UNIX")
    assert unix_sockets() == {}


def test_small_captures_become_parquet_without_a_session(tmp_path):
    shown = python("-c", ONE_TASK, str(traces.COMMITTED[0]), str(tmp_path)).splitlines()
    assert [line for line in shown if line.startswith("session:")] == ["session: False", "session: True"]
    for form in ("parquet", "json"):
        assert list(tmp_path.glob(f"{form}/frames/**/*.{form}"))


def archive(path: Path, content: bytes | None) -> list[str]:
    """Return the options of the JVM for an archive with this content; None for no file."""
    if content is not None:
        path.write_bytes(content)
    return shlex.split(archive_options(str(path)))


def test_archive_is_used_only_if_it_is_complete(tmp_path):
    for content in (None, b"", bytes(100)):
        assert archive(tmp_path / "a", content)[0] == f"-XX:ArchiveClassesAtExit={tmp_path / 'a'}"
    assert archive(tmp_path / "a", b"\0\0\0\1rest") == [f"-XX:SharedArchiveFile={tmp_path / 'a'}"]


@pytest.mark.parametrize("name", ["with space", 'with "quotes"', "with \\ backslash", "it's"])
def test_name_of_an_archive_is_quoted(tmp_path, name):
    assert archive(tmp_path / name, b"full") == [f"-XX:SharedArchiveFile={tmp_path / name}"]


@pytest.mark.long
def test_second_session_loads_the_classes_of_the_archive(tmp_path):
    def loaded_from_archive(number: int) -> int:
        logs = tmp_path / str(number)
        logs.mkdir()
        words: list[Any] = ["--output", tmp_path / "out", "--input", traces.COMMITTED[0]]
        words += ["--class-archive", tmp_path / "the classes"]
        java = {"JAVA_TOOL_OPTIONS": f"-Xlog:class+load=info:file={logs}/%p"}
        python("-m", "kwire.spark", "--master", "local[1]", *map(str, words), **java)
        return sum(log.read_text().count("source: shared objects file (top)") for log in logs.iterdir())

    assert [loaded_from_archive(number) > 1_000 for number in range(2)] == [False, True]

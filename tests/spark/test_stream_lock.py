"""Two processes that run one stream."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from spark import traces

pytest.importorskip("pyspark")

from click.testing import CliRunner

from kwire import file_locks
from kwire.spark.command import command
from kwire.spark.stream_lock import LockedError, locked

HOLDER = """
import sys, time
from kwire.spark.stream_lock import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_second_process_is_refused_until_the_first_has_ended(tmp_path):
    folder = str(tmp_path / "_stream")
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match="another process runs the stream in"), locked(folder):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(folder):
        pass


def test_command_is_refused_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.delattr("kwire.spark.command.start")
    arguments = ["--input", str(traces.COMMITTED[0]), "--output", str(tmp_path), "--stream", "--capture-id", "c"]
    with locked(str(tmp_path / "_stream" / "capture_id=c")):
        result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("Error: another process runs the stream in ")


def test_address_is_not_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locked("s3://bucket/_stream"), locked("s3://bucket/_stream"):
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "refused"), [(errno.EACCES, True), (errno.ENOTSUP, False)])
def test_only_a_lock_that_is_held_refuses_the_folder(number, refused, tmp_path, monkeypatch):
    def locking(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_locks, "fcntl", None)  # as on Windows
    monkeypatch.setattr(file_locks, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    with pytest.raises(LockedError) if refused else nullcontext(), locked(str(tmp_path / "_stream")):
        pass

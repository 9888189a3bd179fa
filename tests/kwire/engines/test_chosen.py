"""The engine that decodes and encodes if the caller names none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kwire.engines import chosen, compiled, native
from kwire.errors import EngineError
from kwire.messages.heartbeat import HeartbeatRequest

USED = """
from kwire import codec
from kwire.engines.chosen import DEFAULT, readers, writers
from kwire.messages.heartbeat import HeartbeatRequest
assert codec.decode(HeartbeatRequest, codec.encode(HeartbeatRequest(), 4), 4) == HeartbeatRequest()
print(DEFAULT, len(readers), len(writers))
"""


@pytest.mark.parametrize(
    ("engine", "printed"), [("native", "native 1 1"), ("compiled", "compiled 1 1"), ("reference", "reference 0 0")]
)
def test_environment_selects_the_engine(engine: str, printed: str) -> None:
    if engine == "native" and not native.package():
        pytest.skip("the native engine is not installed: make native")
    done = python("-c", USED, engine=engine)
    assert (done.stdout.strip(), done.stderr) == (printed, "")


def test_command_reports_an_unknown_engine_in_one_line() -> None:
    done = python("-m", "kwire", "decode", "-", engine="fast")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: KWIRE_ENGINE is 'fast', which is not an engine: use native, compiled or reference\n"


def python(*arguments: str, engine: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KWIRE_ENGINE": engine} | ({"PYTHONPATH": path} if path else {})
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60, input="")


def test_without_the_package_the_default_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "package", lambda: None)
    for unset in (None, ""):
        assert chosen.choose(unset) == "compiled"
    assert chosen.available() == ("compiled", "reference")
    with pytest.raises(EngineError, match="the native engine is not installed: install kwire-native"):
        chosen.choose("native")
    with pytest.raises(EngineError):
        chosen.implementation("native")


def test_with_the_package_the_default_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "package", lambda: object())
    assert chosen.choose(None) == "native"
    assert chosen.choose("compiled") == "compiled"
    assert chosen.available() == chosen.KNOWN


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Return a folder with the kwire_native of an older kwire, as a value of PYTHONPATH."""
    (tmp_path / "kwire_native.py").write_text(f'TABLES, VERSION = {native.TABLES - 1}, "0.1.0"\n')
    return os.pathsep.join([str(tmp_path), *sys.path])


MISMATCH = f"the installed kwire-native 0.1.0 has interface {native.TABLES - 1}, but this kwire needs interface"


def test_package_of_another_kwire_is_named_and_not_used(other: str) -> None:
    done = python("-m", "kwire", "--version", engine="", path=other)
    assert done.stdout.endswith(", compiled engine\n")
    assert done.stderr.count(f"UserWarning: the native engine is not used: {MISMATCH} {native.TABLES}: build it") == 1
    assert "make native" in done.stderr


def test_native_engine_of_another_kwire_is_an_error(other: str) -> None:
    done = python("-m", "kwire", "--version", engine="native", path=other)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: the native engine cannot be used: {MISMATCH}")


def test_another_engine_ignores_a_package_of_another_kwire(other: str) -> None:
    done = python("-m", "kwire", "--version", engine="compiled", path=other)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_without_a_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kwire_native", SimpleNamespace())
    assert "kwire-native without version has interface None" in native.mismatch.__wrapped__()


def test_implementations_have_the_same_interface() -> None:
    for name in ("decode", "encode", "rough_error", "readers", "writers"):
        assert hasattr(compiled, name)
        assert hasattr(native, name)
    assert chosen.implementation("reference").struct(HeartbeatRequest, 0)

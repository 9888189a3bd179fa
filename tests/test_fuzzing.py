"""The targets of ``make fuzz`` without the fuzzer: its seeds, and all inputs that ever failed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import corpus
import input_targets
import native_run
import pytest
import run
import targets
import tls_target
from golden import ROOT
from need import lacking

from kwire import encode_request
from kwire.errors import DecodeError
from kwire.fuzz.mutate import BYTES
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.records.batch import Record, build_batch

TARGETS = {**targets.TARGETS, **input_targets.TARGETS}
EVERY_TARGET = pytest.mark.parametrize("target", TARGETS)
FRAME = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1)


@EVERY_TARGET
def test_seeds_of_each_target(target: str) -> None:
    seeds = list(corpus.seeds(target))
    assert len(seeds) >= 3
    for data in seeds:
        targets.soon(TARGETS[target], data)


@EVERY_TARGET
def test_inputs_that_once_failed(target: str) -> None:
    for path in corpus.failed_inputs(target):
        targets.soon(TARGETS[target], path.read_bytes())


@EVERY_TARGET
def test_changed_bytes(target: str) -> None:
    random = Random(5)
    seeds = sorted(corpus.seeds(target), key=len)[:200]
    for data in random.choices(seeds, k=300):
        targets.soon(TARGETS[target], random.choice(BYTES)(data, random).data)


@EVERY_TARGET
@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\xff" * 40, bytes(100)])
def test_next_to_nothing(target: str, data: bytes) -> None:
    targets.soon(TARGETS[target], data)


def test_the_found_belong_to_targets() -> None:
    kept = ROOT / "fixtures" / "corpus"
    names = {*TARGETS, *(f"native_{target}" for target in native_run.TARGETS)}
    assert {path.name for path in kept.iterdir() if path.is_dir()} <= names if kept.exists() else True


def test_the_command_knows_all_targets() -> None:
    assert set(run.DECODERS) == set(targets.TARGETS)
    assert set(run.INPUTS) == set(input_targets.TARGETS)


def test_the_corpus_is_written(tmp_path: Path) -> None:
    count = corpus.write("blob", tmp_path / "new")
    assert len(list((tmp_path / "new").iterdir())) == count > 100


def refuse(*_: object, **__: object) -> Any:
    raise DecodeError("no")


def crash(*_: object, **__: object) -> Any:
    raise IndexError("out of range")


def other_bytes(*_: object, **__: object) -> bytes:
    return b"other"


WRONG = [  # what the second of two engines does
    ("refuses what the other reads", "decode_request", refuse, AssertionError),
    ("raises what is no WireError", "decode_request", crash, IndexError),
    ("writes other bytes", "encode_request", other_bytes, AssertionError),
    ("cannot write what was read", "encode_request", crash, IndexError),
]


@pytest.mark.parametrize(("name", "wrong", "error"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_the_targets_notice(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any, error: type) -> None:
    right = getattr(targets, name)

    def either(*given: Any, engine: str, **more: Any) -> Any:
        return right(*given, **more, engine="reference") if engine == "reference" else wrong()

    targets.request(FRAME)
    monkeypatch.setattr(targets, "ENGINES", ["reference", "second"])
    for each in ("decode_request", "encode_request"):
        monkeypatch.setattr(targets, each, both(getattr(targets, each)))
    monkeypatch.setattr(targets, name, either)
    with pytest.raises(error):
        targets.request(FRAME)


def both(right: Any) -> Any:
    """Return the function with the reference engine in place of either engine."""

    def either(*given: Any, **more: Any) -> Any:
        return right(*given, **{**more, "engine": "reference"})

    return either


def test_targets_refuse_slow_inputs() -> None:
    def slow(data: bytes) -> None:
        until = targets.time.process_time() + 1.1
        while targets.time.process_time() < until:
            pass

    with pytest.raises(AssertionError, match=r"1\.\d s for 3 bytes"):
        targets.soon(slow, b"abc")


def test_corrected_checksums_reach_the_records() -> None:
    batch = bytearray(build_batch([Record(value=b"value")]))
    batch[-3] ^= 1
    targets.record_batch(b"\0" + batch)
    targets.record_batch(b"\1" + batch)


@pytest.mark.parametrize("number", range(1, len(tls_target.HANDSHAKES) + 1))
def test_sealed_records_must_be_decrypted(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    sealed = bytes([number, 0xC0, 5]) + b"\x17abcd"
    tls_target.tls_session(sealed)
    monkeypatch.setattr(tls_target.TlsSession, "feed", lambda *_: [])
    with pytest.raises(AssertionError, match="not decrypted"):
        tls_target.tls_session(sealed)


def test_comparisons_of_arrays_are_not_instrumented() -> None:
    if find_spec("atheris") is None:
        lacking("atheris is not installed (extra fuzz-coverage): it has wheels for Linux and Python up to 3.13")
    plain, arrays = "def f(x): return x == 1", "import numpy\ndef f(x): return x == 1"
    for source, traced in ((plain, True), (arrays, False)):
        code = run._instrument(compile(source, "", "exec"), True)
        (function,) = (each for each in code.co_consts if hasattr(each, "co_consts"))
        assert ("_trace_cmp" in function.co_names) == traced


def test_with_the_fuzzer_itself() -> None:
    if find_spec("atheris") is None:
        lacking("atheris is not installed (extra fuzz-coverage): it has wheels for Linux and Python up to 3.13")
    script = str(ROOT / "fuzzing" / "run.py")
    done = subprocess.run([sys.executable, script, "--minutes", "0.04", "blob"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing broke" in done.stdout
    assert subprocess.run([sys.executable, script, "nothing"], capture_output=True).returncode == 2


def test_executions_are_added(tmp_path: Path) -> None:
    kept = tmp_path / "fuzz.json"
    for target, number in (("blob", 5), ("capture", 1), ("blob", 7)):
        run.add_executions(kept, target, number)
    assert json.loads(kept.read_text("utf-8")) == {"blob": 12, "capture": 1}

"""The checks of ``make fuzz-native`` without cargo: the installed native engine, the seeds, and the inputs that failed."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import native_columns
import native_forwarded
import native_frame_log
import native_frame_records
import native_run
import native_seeds
import native_segments
import native_targets
import pytest
from effort import amount
from golden import ROOT

from kwire.engines import native
from kwire.engines.chosen import DEFAULT
from kwire.engines.runtime import Refused
from kwire.frames import pack
from kwire.fuzz.mutate import BYTES
from kwire.recording import FrameLog
from kwire.recording.frame_records import FrameRecords
from kwire.records import batch, compression, limits

HERE = native_targets.TARGETS
needs_native = pytest.mark.skipif(DEFAULT != "native", reason="the native engine is not the default: make native")
EVERY_TARGET = pytest.mark.parametrize("target", HERE)


@needs_native
@EVERY_TARGET
def test_seeds_of_each_target_agree(target: str) -> None:
    found = [*native_seeds.seeds(target)]
    assert len(found) > 100
    for data in Random(3).sample(found, min(len(found), amount(400, 10_000))):
        HERE[target](data)


@needs_native
@EVERY_TARGET
def test_changed_bytes_agree(target: str) -> None:
    random = Random(5)
    for data in random.choices([*native_seeds.seeds(target)], k=amount(300, 20_000)):
        HERE[target](random.choice(BYTES)(data, random).data)


@needs_native
@EVERY_TARGET
@pytest.mark.parametrize("data", [b"", b"\0", bytes(100), b"\xff" * 60], ids=["empty", "a byte", "zeros", "ones"])
def test_short_inputs_agree(target: str, data: bytes) -> None:
    HERE[target](data)


@EVERY_TARGET
def test_inputs_that_once_failed_agree(target: str) -> None:
    if DEFAULT != "native":
        pytest.skip("the native engine is not the default: make native")
    for path in native_seeds.failed_inputs(target):
        HERE[target](path.read_bytes())


HEARTBEAT = bytes([0, 12, 4, 0]) + b"\2g\0\0\0\1\2m\0\0"
LINE = native_seeds.LINE + HEARTBEAT


def wrong(*_: Any) -> Any:
    raise Refused


WRONG = [
    ("rejects what the other accepts", "message", HEARTBEAT, "compiled", "decode", wrong),
    ("writes other bytes", "message", HEARTBEAT, "compiled", "encode", lambda *_: b""),
    ("writes other JSON", "json", HEARTBEAT, "json_module", "dumps", lambda *_: "{}"),
    ("writes another line", "line", LINE, "json_module", "dumps", lambda *_: "{}"),
    ("writes no line", "line", LINE, "LINES", "line", lambda *_: None),
]


@needs_native
@pytest.mark.parametrize(
    ("target", "data", "place", "name", "other"), [row[1:] for row in WRONG], ids=[w[0] for w in WRONG]
)
def test_a_difference_fails(
    monkeypatch: pytest.MonkeyPatch, target: str, data: bytes, place: str, name: str, other: Any
) -> None:
    HERE[target](data)
    real = getattr(native_targets, place)
    changed = type("Changed", (), {each: staticmethod(getattr(real, each)) for each in dir(real) if each[0] != "_"})
    setattr(changed, name, staticmethod(other))
    monkeypatch.setattr(native_targets, place, changed)
    with pytest.raises(AssertionError):
        HERE[target](data)


@needs_native
def test_a_difference_in_records_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    data = next(seed for seed in native_seeds.seeds("records") if seed[0] == 2)
    native_targets.records(data)
    monkeypatch.setattr(native_targets, "READER", SimpleNamespace(read=lambda *_: iter(()), only=lambda _: None))
    with pytest.raises(AssertionError):
        native_targets.records(data)


@needs_native
@pytest.mark.parametrize("name", ["compress", "decompress"])
def test_a_difference_of_codecs_fails(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = b"\7text" if name == "compress" else b"\3" + compression.compress(compression.ZSTD, b"text")
    native_targets.codec(data)
    monkeypatch.setattr(compression, name, lambda *_, **__: b"other")
    with pytest.raises(AssertionError):
        native_targets.codec(data)


@needs_native
def test_a_difference_of_calls_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    data, right = next(seed for seed in native_seeds.seeds("calls") if seed[0] & 1), native_segments.READER
    native_targets.calls(data)

    def read(*given: Any) -> Any:
        result = right.read(*given)
        given[-1].clear()
        return result

    monkeypatch.setattr(native_segments, "READER", SimpleNamespace(read=read))
    with pytest.raises(AssertionError):
        native_targets.calls(data)


class OtherApis(FrameRecords):
    """Records with the API of another frame."""

    def api(self, to_broker: bool, head: bytes) -> tuple[int, int]:
        key, version = super().api(to_broker, head)
        return key, version + 1


@needs_native
@pytest.mark.parametrize("target", ["columns", "errors", "forwarded", "frame_log", "frame_records"])
def test_a_difference_of_results_fails(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    data = max(native_seeds.seeds(target), key=len)
    HERE[target](data)
    match target:
        case "columns":
            monkeypatch.setattr(native_columns, "arrow_array", lambda *_: None)
        case "errors":
            monkeypatch.setattr(native_targets, "IS_REFUSED", lambda _: None)
        case "forwarded":
            wrong = SimpleNamespace(requests=lambda _, at: (at, 0), responses=lambda _data, at, _number: (at, 1))
            monkeypatch.setattr(native_forwarded, "SEARCH", wrong)
        case "frame_records":
            monkeypatch.setattr(native_frame_records, "NATIVE", OtherApis)
        case _:
            monkeypatch.setattr(FrameLog, "write_frames", lambda *_: 0)
    with pytest.raises(AssertionError):
        HERE[target](data)


@needs_native
@pytest.mark.parametrize("flags", range(16))
def test_wrong_rows_are_rejected_as_in_python(flags: int) -> None:
    rows = b"\x01\x05\x02ab\x01\x06\x00\x00\x03xyz"
    for wrong in range(4):
        native_columns.columns(bytes([flags | wrong << 4, 1, 1 | native_columns.SLOT, 8]) + rows)


@needs_native
def test_a_table_that_accepts_a_wrong_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_columns, "Other", native_columns.Source)
    flags = native_columns.OBJECTS | native_columns.WRONG | native_columns.OTHER
    with pytest.raises(AssertionError):
        native_columns.columns(bytes([flags, 0, native_columns.SLOT, 0]))


def test_incomplete_frames_are_recognized() -> None:
    whole = pack(b"ab") + pack(b"")
    assert native_frame_log.frames_of(whole) == [b"ab", b""]
    assert [native_frame_log.frames_of(whole[:size]) for size in range(len(whole))] == [
        [],
        *[None] * 5,
        [b"ab"],
        *[None] * 3,
    ]


@needs_native
def test_a_check_leaves_the_engine_as_it_was() -> None:
    before = [batch.NATIVE, batch.WRITER, compression.NATIVE, limits.decompressed(5)]
    native_targets.records(b"\2" + bytes(40))
    assert [batch.NATIVE, batch.WRITER, compression.NATIVE, limits.decompressed(5)] == before


@pytest.mark.parametrize(
    ("results", "is_right"),
    [
        ([(2, 0, 1), (1, 0, 2)], True),
        ([(2, 0, 1), (None, native.TRUNCATED, 2)], False),
        ([(2, 0, 1), (1, 0, 3)], False),
        ([(2, 0, 1)], False),
    ],
    ids=["right", "a refusal", "another offset", "too few steps"],
)
def test_steps_are_compared_with_the_reference(results: list[Any], is_right: bool) -> None:
    given = (b"\0\1", b"\2\1", 100, results)
    if is_right:
        native_targets.cursor(*given)
    else:
        with pytest.raises(AssertionError):
            native_targets.cursor(*given)


TEXTS: list[tuple[int, bytes, int, bytes | None]] = [
    (0, b'"\xff', 0, b'"\\"\\udcff"'),
    (1, b"ab", 0, b'"YWI="'),
    (2, b"\1", 0, b'"AQAAAAAAAAAAAAAAAAAAAA"'),
    (3, bytes(8), 0, b'"1970-01-01T00:00:00.000000Z"'),
    (3, b"\x7f", 0, None),
    (4, b"\xff" * 8, 0, b"-1"),
    (5, bytes(7) + b"\x07", 3, b"007"),
]


@pytest.mark.parametrize(("kind", "data", "width", "written"), TEXTS)
def test_texts_are_compared_with_python(kind: int, data: bytes, width: int, written: bytes | None) -> None:
    native_targets.text(kind, data, width, written)
    with pytest.raises(AssertionError):
        native_targets.text(kind, data, width, b"other")


def test_every_target_is_built_and_run() -> None:
    manifest = tomllib.loads((native_run.FUZZ / "Cargo.toml").read_text("utf-8"))
    files = {path.stem for path in (native_run.FUZZ / "fuzz_targets").glob("*.rs")} - {"embedded"}
    assert {each["name"] for each in manifest["bin"]} == files == set(native_run.TARGETS) == set(native_seeds.NAMES)
    for name in native_run.TARGETS:
        source = (native_run.FUZZ / "fuzz_targets" / f"{name}.rs").read_text("utf-8")
        assert re.findall(r'embedded::load\("(\w+)"\)', source) == [name]
        assert callable(getattr(native_targets, name))


def test_dependencies_are_those_of_the_engine() -> None:
    engine, fuzz = (
        tomllib.loads((folder / "Cargo.toml").read_text("utf-8"))["dependencies"]
        for folder in (ROOT / "native", native_run.FUZZ)
    )
    assert {**fuzz, **engine} == fuzz
    assert set(fuzz) - set(engine) == {"libfuzzer-sys"}


def test_the_version_of_rust_is_that_of_the_engine() -> None:
    manifest = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text("utf-8"))
    assert manifest["package"]["rust-version"] == f"1.{native_run.OLDEST}"


@pytest.mark.parametrize("lacks", ["cargo", "c++"])
def test_a_missing_tool_is_named(
    lacks: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compilers = {"c++", "g++", "clang++"}
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == lacks or name in compilers else f"/bin/{name}")
    monkeypatch.setattr(native_run, "_output", lambda *_: "release: 1.90.0\nhost: x86_64-unknown-linux-gnu")
    monkeypatch.setattr(sys, "argv", ["native_run.py"])
    assert native_run.main() == 0
    reason = "cargo is not installed" if lacks == "cargo" else "libFuzzer needs a C++ compiler"
    assert f"make fuzz-native: nothing was run: {reason}" in capsys.readouterr().err


def test_an_old_rust_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(native_run, "_output", lambda *_: "rustc 1.70.0\nrelease: 1.70.0\nhost: a-b-c")
    assert native_run.tools() == "Rust 1.85 or newer is needed, found rustc 1.70.0"


REPORT = """COVERAGE:
COVERED_FUNC: hits: 3 edges: 2/5 kwire_native::text::string /w/native/fuzz/../src/text.rs:35
UNCOVERED_FUNC: hits: 0 edges: 0/7 kwire_native::text::time /w/native/fuzz/../src/text.rs:99
UNCOVERED_FUNC: hits: 0 edges: 0/9 <kwire_native::read::Reader>::node /w/native/fuzz/../src/read.rs:41
COVERED_FUNC: hits: 1 edges: 1/1 core::fmt::write /rustc/library/core/src/fmt/mod.rs:7
"""


def test_covered_edges_are_those_of_the_engine() -> None:
    found = native_run.functions(REPORT)
    assert set(found.values()) == {(2, 5), (0, 7), (0, 9)}
    assert native_run.share(found) == "edges of text 2/12; "
    assert native_run.share({}) == ""


@pytest.mark.parametrize("target", native_run.TARGETS)
def test_seeds_and_failed_inputs_are_written(target: str, tmp_path: Path) -> None:
    count = native_seeds.write(target, tmp_path)
    assert count == len([*tmp_path.iterdir()]) >= 20
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 2_100

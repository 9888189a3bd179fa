"""Unsafe code of the native engine is in one module: native/src/raw.rs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

NATIVE = Path(__file__).parent.parent / "native"
ALLOWED = "src/raw.rs"
IGNORED = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])'|"(?:\\.|[^"\\])*\"""", re.DOTALL)  # comments, literals
UNSAFE = re.compile(r"\bunsafe(?:_code)?\b")


def has_unsafe(source: str) -> bool:
    """Return whether Rust code is unsafe, or switches off the lint that refuses unsafe code."""
    return UNSAFE.search(IGNORED.sub(" ", source)) is not None


def test_unsafe_code_is_in_one_module() -> None:
    sources = [path for folder in ("src", "fuzz/fuzz_targets") for path in (NATIVE / folder).rglob("*.rs")]
    found = [str(path.relative_to(NATIVE)) for path in sources if has_unsafe(path.read_text("utf-8"))]
    assert len(sources) > 20
    assert found == [ALLOWED], f"unsafe code belongs into native/{ALLOWED}, behind a safe function"


def test_the_compiler_refuses_unsafe_code_elsewhere() -> None:
    """The crate does not build with unsafe code in a module that does not allow it, and only ALLOWED (above) does."""
    lints = tomllib.loads((NATIVE / "Cargo.toml").read_text("utf-8"))["lints"]["rust"]
    assert lints["unsafe_code"] == "deny"
    assert not (NATIVE / "build.rs").exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("fn a() { unsafe { b() } }", True),
        ("#![allow(unsafe_code)]", True),
        ('#[target_feature(enable = "avx2")]\nunsafe fn a() {}', True),
        ("// SAFETY: unsafe\nfn a() {}", False),
        ("/* unsafe\n unsafe */ fn a() {}", False),
        ('const A: &str = "unsafe \\" unsafe";', False),
        ("fn a() { b('\"'); unsafe { c('\"') } }", True),
        ("fn unsafely() {}", False),
    ],
    ids=["block", "lint", "function", "comment", "long comment", "string", "character", "other word"],
)
def test_unsafe_code_is_noticed(source: str, expected: bool) -> None:
    assert has_unsafe(source) == expected

from __future__ import annotations

import subprocess
import sys

import kwire
import kwire.errors


def test_all_is_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(kwire).items()
        if not name.startswith("_") and not getattr(value, "__spec__", None) and name != "annotations"
    }
    assert kwire.__all__ == sorted(kwire.__all__)
    assert set(kwire.__all__) == public


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(kwire.errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert tree <= set(kwire.__all__)


def test_messages_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, kwire, kwire.blobs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "kwire.blobs" in loaded
    assert not [name for name in loaded if name.startswith(("kwire.messages.", "kwire.blobs."))]


def test_every_public_name_is_documented() -> None:
    assert not [name for name in kwire.__all__ if name != "APIS" and not getattr(kwire, name).__doc__]

from __future__ import annotations

import doctest
import subprocess
import sys

import kwire.assignors

LOADED = "import sys, kwire.assignors; kwire.assignors.SERVER; print([n for n in sys.modules if n.startswith('kwire.assignors.')])"


def test_public_names() -> None:
    assert all(hasattr(kwire.assignors, name) for name in kwire.assignors.__all__)
    assert set(kwire.assignors.__all__) <= set(dir(kwire.assignors))


def test_name_that_is_not_public() -> None:
    assert not hasattr(kwire.assignors, "zz")


def test_server_assignors_load_no_assignor_of_clients() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert "kwire.assignors.uniform" in done.stdout
    assert "client" not in done.stdout
    assert "sticky" not in done.stdout


def test_the_example() -> None:
    assert doctest.testmod(kwire.assignors) == (0, 4 + 4 + 1)

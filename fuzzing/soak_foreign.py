"""The clients of a soak in other languages than Python, built with the libraries of tests/interop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from interop.programs import command, run_file  # noqa: E402

PROGRAMS = Path(__file__).parent / "soak_programs"
FAMILIES = ("java", "franz-go", "kafkajs")


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the command of each family whose tools are installed; its arguments are those of soak_clients.py.

    ``folder``: folder for what is built.
    """
    found = {}
    for family in FAMILIES:
        try:
            found[family] = _command(family, folder)
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            sys.stderr.write(f"no clients of {family}: {error}\n")
    return found


def _command(family: str, folder: Path) -> list[str]:
    if family == "franz-go":
        return run_file(PROGRAMS / "soak_client.go")
    if family == "kafkajs":
        return run_file(PROGRAMS / "soak_client.js")
    *java, _ = command("java")
    at = java.index("-cp") + 1
    compiler = str(Path(java[0]).with_name("javac"))
    subprocess.run(  # noqa: S603
        [compiler, "-cp", java[at], "-d", str(folder), str(PROGRAMS / "SoakClient.java")], check=True
    )
    return [*java[:at], f"{java[at]}:{folder}", *java[at + 1 :], "SoakClient"]

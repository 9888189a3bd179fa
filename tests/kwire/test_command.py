"""The import of verbs when they run, and the handling of errors; the tests of both commands test the rest."""

from __future__ import annotations

import errno
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kwire.command import FiniteRange, LazyGroup
from kwire.process import INTERRUPTED, UNREAD

FULL = OSError(errno.ENOSPC, "No space left on device")
ENDS: list[tuple[BaseException, int, str]] = [  # what is raised, exit code, stderr
    (KeyboardInterrupt(), INTERRUPTED, ""),
    (BaseExceptionGroup("tasks", [ExceptionGroup("more", [BrokenPipeError()])]), UNREAD, ""),
    (BaseExceptionGroup("tasks", [KeyboardInterrupt(), KeyboardInterrupt()]), INTERRUPTED, ""),
    (BrokenPipeError(), UNREAD, ""),
    (FULL, 1, "Error: cannot write: No space left on device\n"),
    (ExceptionGroup("tasks", [FULL]), 1, "Error: cannot write: No space left on device\n"),
    (OSError("AWS Error ACCESS_DENIED"), 1, "Error: cannot write: AWS Error ACCESS_DENIED\n"),
    (click.ClickException("it is bad"), 1, "Error: it is bad\n"),
    (SystemExit(3), 3, ""),
]


def group(**options: Any) -> click.Command:
    return LazyGroup("test", package="kwire.cli", verbs={"apis": "List."}, extras={}, **options)


@pytest.mark.parametrize(("raised", "code", "said"), ENDS, ids=[repr(row[0]) for row in ENDS])
def test_how_it_ends(raised: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise raised

    monkeypatch.setattr("kwire.cli.apis.command.callback", fail)
    done = CliRunner().invoke(group(), ["apis"])
    assert (done.exit_code, done.stderr) == (code, said)


@pytest.mark.parametrize(
    "raised", [ValueError("a bug"), ExceptionGroup("tasks", [ValueError("a bug"), BrokenPipeError()])], ids=repr
)
def test_a_bug_is_raised(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise raised

    monkeypatch.setattr("kwire.cli.apis.command.callback", fail)
    assert CliRunner().invoke(group(), ["apis"]).exception is raised


def test_no_such_verb() -> None:
    done = CliRunner().invoke(group(), ["nope"])
    assert done.exit_code == 2
    assert "No such command 'nope'" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"), [("nan", "nan is not a finite number."), ("0", "x>0"), ("inf", "inf is not")]
)
def test_a_number_must_be_finite(text: str, said: str) -> None:
    with pytest.raises(click.BadParameter, match=said):
        FiniteRange(min=0, min_open=True).convert(text, None, None)
    assert FiniteRange(min=0).convert("0.5", None, None) == 0.5

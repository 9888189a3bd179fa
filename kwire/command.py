"""What the commands ``kwire`` and ``mockbroker`` share: verbs that are imported when they run, and how they end.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 the input is bad, 2 wrong usage, 130 interrupted,
141 nothing reads stdout any more; the last two become signals in ``kwire.process``.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from kwire.extras import missing
from kwire.process import INTERRUPTED, UNREAD, catch_interrupts

MAX_NOTE = 400  # characters of one problem on stderr
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # why a file cannot be written any more


class LazyGroup(click.Group):
    """Verbs by name; a verb's module is imported only when the verb runs.

    ``package``: its modules are named as the verbs, with ``_`` after Python's keywords, and each has a ``command``.
    ``verbs``: the help of each in one line. ``extras``: of verbs that need more than is always installed.
    """

    def __init__(
        self, *args: Any, package: str, verbs: Mapping[str, str], extras: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._package, self._verbs, self._extras = package, verbs, extras

    def main(self, *args: Any, **options: Any) -> Any:
        """Raises: SystemExit."""
        code: Any = 0
        try:
            result = super().main(*args, **options)
            sys.stdout.flush()
            return result
        except SystemExit as end:
            code = end.code
        except OSError as error:
            code = _unwritten(error)
        try:
            sys.stdout.flush()
        except OSError as error:
            code = code or _unwritten(error)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - takes what remains in the buffers
        sys.exit(code)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _ended_by_signal():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_by_signal():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._verbs:
            return None
        name = cmd_name + "_" * iskeyword(cmd_name)
        try:
            command: click.Command = import_module(f"{self._package}.{name}").command
        except ModuleNotFoundError as error:
            named = missing(error, self._extras.get(cmd_name, ""))
            if cmd_name not in self._extras or named is error:
                raise
            raise click.ClickException(str(named)) from error
        catch_interrupts()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._verbs.items()))


def one_line(text: str, most: int = MAX_NOTE) -> str:
    """Make a text fit for a terminal: one line, nothing unprintable, not endless."""
    shown = text if len(text) <= most else text[:most] + " ..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def report_problems(problems: Collection[object], notes: Iterable[str], missing: str | None = None) -> None:
    """Report on stderr what was passed over or is damaged, and end with 1 if something is damaged or missing.

    ``missing``: the reason why there is nothing of what was asked for; None if there is something.
    """
    for note in [*notes, *map(str, problems), *([missing] if missing else [])]:
        click.echo(one_line(note), err=True)
    if problems or missing:
        sys.exit(1)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Exit with INTERRUPTED or UNREAD on Ctrl-C or a broken pipe, also where tasks of trio raised them in a group."""
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError, BaseExceptionGroup) as error:
        if _is_only(error, KeyboardInterrupt):
            raise click.exceptions.Exit(INTERRUPTED) from error
        if _is_only(error, BrokenPipeError):
            raise click.exceptions.Exit(UNREAD) from error
        if _is_only(error, OSError) and (full := _first(error)).errno in FULL:
            raise full from error
        raise


def _is_only(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(kind)[1] is None
    return isinstance(error, kind)


def _first(error: BaseException) -> Any:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _unwritten(error: OSError) -> int:
    """The exit code where output could not be written; reported on stderr unless the reader of stdout is gone."""
    if isinstance(error, BrokenPipeError):
        return UNREAD
    about = f" {error.filename}" if error.filename else ""
    click.echo(f"Error: cannot write{about}: {error.strerror}", err=True)
    return 1

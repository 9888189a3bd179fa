"""Shared parts of the commands ``kwire`` and ``mockbroker``: lazily imported subcommands, paths, and exit codes.

Results go to stdout; errors, notes and progress go to stderr. The error that ends a command is the line ``Error: ...``;
a problem in one part of the input begins with its place, such as ``frames.jsonl:2: ``, and the command continues. Exit
codes: 0 done, 1 invalid input or a failed check, 2 wrong usage, 130 interrupted, 141 stdout was closed by its reader.
Instead of exiting with 141, ``kwire.process`` ends the process with the signal SIGPIPE.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from kwire.process import INTERRUPTED, UNREAD, end_imports

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MAX_NOTE = 400  # maximum characters of one message on stderr
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # errors of a full or failing disk


class Formatter(click.HelpFormatter):
    """A formatter of help texts with bold headings. If stdout is not a terminal, click removes the bold style."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or click.style("Usage: ", bold=True))

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{click.style(f'{heading}:', bold=True)}\n")


class Context(click.Context):
    """A click context that does not print colours if the environment variable NO_COLOR is set."""

    formatter_class = Formatter

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if os.environ.get("NO_COLOR"):
            self.color = False


class LazyGroup(click.Group):
    """A click group that imports a subcommand's module only when the subcommand runs.

    Args:
        package: name of the package with one module per subcommand. A module is named like its subcommand (with ``_``
            appended if that is a Python keyword) and defines the click command as ``command``.
        verbs: one-line help by subcommand.
        extras: pip extra by subcommand, for the subcommands that need one.
    """

    context_class = Context

    def __init__(
        self, *args: Any, package: str, verbs: Mapping[str, str], extras: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._package, self._verbs, self._extras = package, verbs, extras

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command, flush stdout, and exit with the exit code.

        With ``standalone_mode=False``, a command that succeeds returns its result instead.

        Raises: SystemExit with the exit code of the command.
        """
        code: Any = 0
        try:
            result = super().main(*args, **options)
            sys.stdout.flush()
            return result
        except SystemExit as end:
            code = end.code
        except OSError as error:
            code = _report_failed_write(error)
        try:
            sys.stdout.flush()
        except OSError as error:
            code = code or _report_failed_write(error)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the buffers at exit
        sys.exit(code)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _ended_by_signal():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_by_signal():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands and options that begin with ``incomplete``, without importing the subcommands."""
        from click.shell_completion import CompletionItem  # on demand: only a shell that completes needs it

        verbs = [CompletionItem(verb, help=text) for verb, text in self._verbs.items() if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._verbs:
            return None
        from kwire.errors import EngineError  # on demand: --help and --version run no subcommand
        from kwire.extras import missing

        name = cmd_name + "_" * iskeyword(cmd_name)
        try:
            command: click.Command = import_module(f"{self._package}.{name}").command
        except ModuleNotFoundError as error:
            hint = missing(error, self._extras.get(cmd_name, ""))
            if cmd_name not in self._extras or hint is error:
                raise
            raise click.ClickException(str(hint)) from error
        except EngineError as error:
            raise click.ClickException(str(error)) from error
        end_imports()
        command.context_class = Context
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._verbs.items()))


class CapturePath(click.Path):
    """A path of captures that must exist, or the address of a topic with a recording. ``-`` is stdin, if allowed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from kwire.topic_address import is_topic  # on demand: most commands read no captures

        return value if isinstance(value, str) and is_topic(value) else super().convert(value, param, ctx)


class FiniteRange(click.FloatRange):
    """A range of numbers that contains neither NaN, which click accepts in each range, nor infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


@contextmanager
def read_errors() -> Iterator[None]:
    """Convert an OSError of an input, inside the ``with`` block, to a click.UsageError with the name of the input."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error


def one_line(text: str, most: int = MAX_NOTE) -> str:
    """Return text that is safe to print in a terminal: one line of printable characters.

    ``most``: maximum number of characters; longer text is cut.
    """
    shown = text if len(text) <= most else text[:most] + " ..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def report_problems(problems: Collection[object], notes: Iterable[str], missing: str | None = None) -> None:
    """Write notes and problems to stderr; exit with code 1 if there is a problem or no result.

    Raises: SystemExit with the exit code of the command.

    Args:
        problems: problems, one line each.
        notes: remarks that do not change the exit code.
        missing: reason why there is no result at all; None if there is a result.
    """
    for note in [*notes, *map(str, problems)]:
        click.echo(one_line(note), err=True)
    if missing:
        click.echo(f"Error: {one_line(missing)}", err=True)
    if problems or missing:
        sys.exit(1)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Convert the exceptions of Ctrl-C and of a broken pipe to the exit codes INTERRUPTED and UNREAD.

    The conversion applies to the exceptions that the ``with`` block raises, alone or inside an exception group of trio.

    Raises: click.exceptions.Exit with the exit code. An exception group that contains only errors of a full or failing
    disk is replaced by its first error, an OSError.
    """
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


def _report_failed_write(error: OSError) -> int:
    """Report on stderr that a write to stdout failed. Report nothing if its reader has closed the pipe. Return the exit
    code.
    """
    if isinstance(error, BrokenPipeError):
        return UNREAD
    about = f" {error.filename}" if error.filename else ""
    reason = one_line(error.strerror or str(error))  # an error of pyarrow has only a message
    click.echo(f"Error: cannot write{about}: {reason}", err=True)
    return 1

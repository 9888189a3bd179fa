"""The client of the control API, the output format and the click classes that all subcommands of ``mockbroker ctl``
use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from kwire.command import Context
from mockbroker.cli.control_client import URL_VARIABLE, ControlClient, ControlError
from mockbroker.cli.http_address import read_token
from mockbroker.cli.tables import json_line, table

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_WAIT_MS = 60_000

url_option = click.option(
    "--url",
    metavar="URL",
    help=f"Base URL of the control API, which serve --http prints. In the environment: {URL_VARIABLE}",
)
token_option = click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token of the server. In the environment: MOCKBROKER_HTTP_TOKEN",
)


class Session:
    """The server address and the output format of a ``mockbroker ctl`` command.

    Attributes:
        as_json: Whether the responses of the server are printed as JSON.

    Args:
        url: Value of --url; None to read the environment.
        token_file: Value of --token-file; None to read the token from the environment.
        as_json: Whether the responses of the server are printed as JSON.
    """

    def __init__(self, url: str | None, token_file: Path | None, as_json: bool) -> None:
        self._url = url
        self._token_file = token_file
        self.as_json = as_json

    @cached_property
    def client(self) -> ControlClient:
        """The client of the control API, created at the first use.

        Raises:
            click.UsageError: No URL was given, or the URL or the token is not valid.
        """
        url = self._url or os.environ.get(URL_VARIABLE)
        if not url:
            raise click.UsageError(f"no server is given: use --url or {URL_VARIABLE}, with the URL of serve --http")
        return ControlClient(url, read_token(self._token_file, "--token-file"))

    def show(self, value: Any, text: str | Callable[[], str]) -> None:
        """Print a response of the server.

        Args:
            value: The JSON value, which is printed with --json.
            text: The text that is printed without --json, or a function that returns the text.
        """
        click.echo(json_line(value) if self.as_json else text if isinstance(text, str) else text())

    def show_table(self, answer: Mapping[str, Any], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a list that the server returned: with --json as JSON, else as a table.

        Args:
            answer: The JSON value that the server returned.
            header: Titles of the columns.
            rows: Cells of each row.
        """
        self.show(answer, lambda: table(header, rows))

    def note(self, text: str) -> None:
        """Print a text, for a command to which the server returns no content. With --json, print nothing."""
        if not self.as_json:
            click.echo(text)


class CtlCommand(click.Command):
    """A click command that also accepts --json after its own name, and prints errors in the output format of the
    session.
    """

    context_class = Context

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(_json_option())

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ControlError as error:
            session = ctx.find_object(Session)
            error.as_json = session is not None and session.as_json
            raise


class CtlGroup(click.Group):
    """A click group that runs its first subcommand if the command line names no subcommand."""

    command_class = CtlCommand
    context_class = Context

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(_json_option())

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if all(each.startswith("-") for each in args) and not {"-h", "--help"}.intersection(args):
            args = [*args, next(iter(self.commands))]
        return super().parse_args(ctx, args)


def _json_option() -> click.Option:
    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        help="Print the JSON of the control API.",
        callback=_set_json,
    )


def _set_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    session = context.find_object(Session)
    if value and session is not None:
        session.as_json = True


pass_session = click.make_pass_decorator(Session)


def timeout_option(function: F) -> F:
    """Add the option --timeout-ms to a command that waits for a condition. Its value is the argument ``timeout_ms``."""
    return click.option(
        "--timeout-ms",
        type=click.IntRange(0, LONGEST_WAIT_MS),
        default=5_000,
        show_default=True,
        help="Maximum wait in real time; then the exit code is 1.",
    )(function)

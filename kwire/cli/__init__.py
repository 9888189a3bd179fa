"""The ``kwire`` command: one file per verb, imported when it is asked for.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 the input is bad, 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from kwire import __version__

VERBS = {
    "apis": "List every API that kwire knows.",
    "blob": "Decode and encode messages that travel inside others.",
    "capture": "Captured traffic to a row for each frame.",
    "decode": "Frames to JSON.",
    "encode": "JSON to frames.",
    "explain": "Show frames as annotated hex.",
    "fuzz": "Send a broker broken requests, and see that it lives.",
    "groups": "What the consumer groups in a capture did.",
    "layout": "Show the wire layout of an API.",
    "pipeline": "Captures into tables, through Spark.",
    "report": "A page with charts out of the tables of a pipeline.",
}

EXTRAS = {
    "capture": "capture",
    "groups": "capture",
    "pipeline": "spark",
    "report": "report",
}  # verbs that need more than is always installed


class LazyGroup(click.Group):
    """Verbs by name; a verb's module is imported only when the verb runs. VERBS holds what ``--help`` says of each.

    Where stdout cannot be written is told here, once for all verbs: in one line, or not at all if its reader went away.
    """

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                about = f" {error.filename}" if error.filename else ""
                click.echo(f"Error: cannot write{about}: {error.strerror}", err=True)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for what is left in the buffers at the end
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        try:
            command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        except ModuleNotFoundError as error:
            if cmd_name not in EXTRAS or (error.name or "").partition(".")[0] == "kwire":
                raise
            raise click.ClickException(f"{error.name} is missing: pip install 'kwire[{EXTRAS[cmd_name]}]'") from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kwire")
def main() -> None:
    """Kafka's wire protocol, every message in every version: read it, write it, look it up.

    Exit codes: 0 done, 1 the input is bad (stderr says which line), 2 wrong usage.
    """

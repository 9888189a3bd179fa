"""The ``kwire`` command. Each subcommand is a module, which is imported when the subcommand runs."""

from __future__ import annotations

import click

from kwire import __version__
from kwire.command import LazyGroup
from kwire.completion import install_completion_option
from kwire.errors import EngineError

VERBS = {
    "anonymize": "Replace names, keys and values in captured traffic.",
    "apis": "List every API that kwire knows.",
    "blob": "Decode and encode messages stored inside other messages.",
    "capture": "Print captured traffic, one row per frame.",
    "compare": "Show two captures side by side, with what became worse.",
    "decode": "Decode frames to JSON.",
    "encode": "Encode JSON to frames.",
    "explain": "Show frames as annotated hex.",
    "fuzz": "Send malformed requests to a broker and check that it survives.",
    "groups": "Show members, rebalances and commits of the groups in a capture.",
    "layout": "Show the wire layout of an API.",
    "pipeline": "Convert captures into tables with Spark.",
    "readiness": "Report whether captured clients and groups are ready for Kafka 4.",
    "report": "Write a page with charts from the tables of a pipeline.",
    "top": "Show groups, members and lag while their traffic is captured.",
}

EXTRAS = {
    "anonymize": "capture",
    "capture": "capture",
    "compare": "capture",
    "groups": "capture",
    "pipeline": "spark",
    "readiness": "capture",
    "report": "report",
    "top": "capture",
}  # subcommands that need an extra


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    try:
        from kwire.engines.chosen import DEFAULT  # on demand: it imports the codec
    except EngineError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"kwire, version {__version__}, {DEFAULT} engine")
    context.exit()


@click.group(
    cls=LazyGroup,
    package=__name__,
    verbs=VERBS,
    extras=EXTRAS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@install_completion_option
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the engine of the codec, and exit.",
)
def main() -> None:
    """Decode, encode and look up every message of Kafka's wire protocol in every version.

    Exit codes: 0 done, 1 invalid input (stderr names the line), 2 wrong usage, 130 interrupted by Ctrl-C.
    """

"""The ``kwire`` command: one file per verb, imported when it runs."""

from __future__ import annotations

import click

from kwire import __version__
from kwire.command import LazyGroup

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


@click.group(
    cls=LazyGroup,
    package=__name__,
    verbs=VERBS,
    extras=EXTRAS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="kwire")
def main() -> None:
    """Kafka's wire protocol, every message in every version: read it, write it, look it up.

    Exit codes: 0 done, 1 the input is bad (stderr says which line), 2 wrong usage.
    """

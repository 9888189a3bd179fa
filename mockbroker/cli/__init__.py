"""The ``mockbroker`` command: one file per verb, imported when it runs."""

from __future__ import annotations

import logging

import click

from kwire import __version__
from kwire.command import LazyGroup

VERBS = {
    "conform": "Play recorded conversations against a broker.",
    "demo": "Three kinds of real client in one group.",
    "import": "Groups and offsets from the files of a stopped Kafka.",
    "serve": "Run a cluster until a signal ends it.",
    "simulate": "Run the broker under seeded faults, in virtual time.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    verbs=VERBS,
    extras={},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="mockbroker")
def main() -> None:
    """A broker for tests that real Kafka clients cannot tell from Kafka's where consumer groups are concerned."""
    logging.basicConfig(format="mockbroker: %(message)s", level=logging.WARNING)

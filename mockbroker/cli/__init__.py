"""The command line of mockbroker: a file for each verb."""

from __future__ import annotations

import logging

import click

from kwire import __version__
from mockbroker.cli.conform import conform
from mockbroker.cli.demo import demo
from mockbroker.cli.import_ import import_
from mockbroker.cli.serve import serve
from mockbroker.cli.simulate import simulate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mockbroker")
def main() -> None:
    """A broker for tests that real Kafka clients cannot tell from Kafka's where consumer groups are concerned."""
    logging.basicConfig(format="mockbroker: %(message)s", level=logging.WARNING)


main.add_command(serve)
main.add_command(demo)
main.add_command(conform)
main.add_command(simulate)
main.add_command(import_)

"""The command ``mockbroker``. Each subcommand is a module, which is imported when the subcommand runs."""

from __future__ import annotations

import click

from kwire import __version__
from kwire.command import LazyGroup
from kwire.completion import install_completion_option

VERBS = {
    "conform": "Play recorded conversations against a broker.",
    "ctl": "Observe and change a running broker over its control API.",
    "demo": "Show three kinds of real client in one group.",
    "import": "Read groups and offsets from the files of a stopped Kafka broker.",
    "proxy": "Pass the connections of clients on to a real cluster.",
    "replay": "Answer clients as the brokers of a recording did.",
    "serve": "Run a cluster until it receives a signal.",
    "settings": "List the settings of brokers and their effects.",
    "simulate": "Test the broker with seeded faults in virtual time.",
    "torture": "Run a client against hostile brokers.",
    "top": "Show groups, members, lag and rates of a running broker.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    verbs=VERBS,
    extras={"top": "http"},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@install_completion_option
@click.version_option(__version__, prog_name="mockbroker")
def main() -> None:
    """A Kafka cluster for tests. Consumer groups behave as in Apache Kafka.

    Exit codes: 0 done, 1 a failure or a failed check, 2 wrong usage, 130 interrupted by Ctrl-C; serve, proxy and replay
    stop with 0.
    """
    import logging  # on demand: --help and --version do not need it

    logging.basicConfig(format="mockbroker: %(message)s", level=logging.WARNING)

"""The option ``--port``, with which commands ignore traffic of other ports than those of the brokers."""

from __future__ import annotations

import click

ports_option = click.option(
    "--port",
    "ports",
    multiple=True,
    type=click.IntRange(1, 65535),
    help="Port of the brokers; other traffic is ignored. May be repeated.",
)

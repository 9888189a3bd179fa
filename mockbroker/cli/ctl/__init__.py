"""The command ``mockbroker ctl``: the control API of a running broker, one module per subcommand."""

from __future__ import annotations

from pathlib import Path

import click

from kwire.command import LazyGroup
from mockbroker.cli.ctl.session import Session, token_option, url_option

VERBS = {
    "brokers": "Stop, kill and start brokers; freeze their metadata.",
    "clock": "Stop, resume and advance the broker's clock.",
    "connections": "List and close the connections of clients.",
    "events": "Show the events of the journal; -f follows them.",
    "faults": "Add, list, remove and release fault rules; wait for them.",
    "groups": "Show, wait for and change groups.",
    "presets": "List, show and apply presets of fault rules.",
    "requests": "Show the latest requests of clients.",
    "reset": "Reset the cluster to its initial topics and settings.",
    "topics": "List, create and delete topics; read and append records.",
    "transactions": "List the transactional ids and their transactions.",
}


@click.group(cls=LazyGroup, package=__name__, verbs=VERBS, extras={})
@url_option
@token_option
@click.option("--json", "as_json", is_flag=True, help="Print the JSON of the control API, also errors on stderr.")
@click.pass_context
def command(context: click.Context, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """Observe and change a broker that runs with serve --http.

    Characters in names that a terminal could interpret are shown escaped.
    """
    context.obj = Session(url, token_file, as_json)

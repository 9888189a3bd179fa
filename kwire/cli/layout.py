"""``kwire layout``: the wire layout of an API as text."""

from __future__ import annotations

from difflib import get_close_matches

import click

from kwire import layout
from kwire.messages import APIS, api_named
from kwire.schema import Api


@click.command("layout")
@click.argument("api", metavar="API")
@click.option("--version", type=int, help="API version; the newest if not given.")
@click.option("--request", is_flag=True, help="The request only.")
@click.option("--response", is_flag=True, help="The response only.")
def command(api: str, version: int | None, request: bool, response: bool) -> None:
    """The wire layout of one version of an API: fields in wire order, with their types.

    \b
    API is Kafka's name; case and underscores do not matter.
    kwire layout JoinGroup --version 5 --request
    """
    found = find(api)
    if version is None:
        version = found.versions.last
    if version is None or version not in found.versions:
        raise click.UsageError(f"{found.name} has versions {found.versions}, not {version}")
    wanted = [(request, found.request), (response, found.response)]
    if request == response:
        wanted = [(True, message) for _, message in wanted]
    click.echo("\n\n".join(layout.text(message, version) for asked, message in wanted if asked))


def find(name: str) -> Api:
    """The API of this name. Raises: click.UsageError that suggests the nearest."""
    try:
        return api_named(name)
    except KeyError:
        names = {api.name.lower(): api.name for api in APIS.values()}
        nearest = get_close_matches(name.replace("_", "").lower(), names, n=1, cutoff=0.0)
        hint = f" Did you mean {names[nearest[0]]}?" if nearest else ""
        raise click.UsageError(f"no API is called {name!r}.{hint} `kwire apis` lists all.") from None

"""``kwire layout``: the wire layout of an API, one version as a list or all of them as a table."""

from __future__ import annotations

import json
from difflib import get_close_matches

import click

from kwire import layout, versions
from kwire.cli import lines
from kwire.engines import compiled
from kwire.layout import versions_of
from kwire.messages import MODULES, api_named
from kwire.schema import Api

NEAR = 0.7  # how alike a name is that is suggested, of 1: what is further off nobody meant


@click.command("layout")
@click.argument("api", metavar="API")
@click.option("--version", type=int, help="One API version, as a list; all of them as a table if not given.")
@click.option("--request", is_flag=True, help="The request only.")
@click.option("--response", is_flag=True, help="The response only.")
@click.option("--source", is_flag=True, help="The Python that reads and writes the version, the newest if not given.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each message, with the type of each field.")
def command(api: str, version: int | None, request: bool, response: bool, source: bool, as_json: bool) -> None:
    """The wire layout of an API: fields in wire order, with their types, version by version.

    In the table of all versions, a column is a range of versions that look the same; " says that the type is the one to
    the left, - that the version does not have the field. Columns that do not fit stand in a table below.

    \b
    API is Kafka's name; case and underscores do not matter.
    kwire layout JoinGroup
    kwire layout JoinGroup --version 5 --request
    kwire layout JoinGroup --version 5 --source
    """
    found = find(api)
    if version is not None and version not in found.versions:
        raise click.UsageError(f"{found.name} has versions {found.versions}, not {version}")
    wanted = [(request, found.request), (response, found.response)]
    if request == response:
        wanted = [(True, message) for _, message in wanted]
    messages = [message for asked, message in wanted if asked]
    if source and as_json:
        raise click.UsageError("--source is no JSON")
    if source:
        newest = versions_of(found.versions)[-1] if version is None else version
        click.echo("\n".join(compiled.source(message, newest) for message in messages), nl=False)
    elif as_json:
        for message in messages:
            click.echo(json.dumps(versions.json_form(message, version)))
    elif version is None:
        click.echo("\n\n".join(versions.text(message, lines.columns()) for message in messages))
    else:
        click.echo("\n\n".join(layout.text(message, version) for message in messages))


def find(name: str) -> Api:
    """The API of this name. Raises: click.UsageError that suggests the nearest, if one is near."""
    try:
        return api_named(name)
    except KeyError:
        names = {stem.replace("_", ""): stem for stem in MODULES.values()}
        nearest = get_close_matches(name.replace("_", "").lower(), names, n=1, cutoff=NEAR)
        hint = f" Did you mean {api_named(nearest[0]).name}?" if nearest else ""
        raise click.UsageError(f"no API is called {name!r}.{hint} `kwire apis` lists all.") from None

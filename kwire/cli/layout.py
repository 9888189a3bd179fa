"""The command ``kwire layout``, which shows the wire layout of an API.

One version is shown as a list of fields, and all versions are shown as a table.
"""

from __future__ import annotations

import json
from difflib import get_close_matches

import click

from kwire import layout, versions
from kwire.cli import lines
from kwire.completion import api_names, complete
from kwire.engines import compiled
from kwire.layout import versions_of
from kwire.messages import MODULES, api_named
from kwire.schema import Api

NEAR = 0.7  # least similarity (0 to 1) of a suggested API name


@click.command("layout")
@click.argument("api", metavar="API", shell_complete=complete(api_names))
@click.option("--version", type=int, help="Show only this version, as a list.  [default: all, as a table]")
@click.option("--request", is_flag=True, help="Show only the request.")
@click.option("--response", is_flag=True, help="Show only the response.")
@click.option("--source", is_flag=True, help="Show the generated Python code of the version.  [default: the newest]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message, with the type of each field.")
def command(api: str, version: int | None, request: bool, response: bool, source: bool, as_json: bool) -> None:
    """Show the wire layout of an API: fields in wire order, with their types in each version.

    In the table of all versions, a column is a range of versions with equal layouts. The sign " means the same type as
    in the column to the left. The sign - means that these versions do not have the field. Columns that do not fit are
    in another table below.

    \b
    API is Kafka's name of the API. Case and underscores are ignored.
    kwire layout JoinGroup
    kwire layout JoinGroup --version 5 --request
    kwire layout JoinGroup --version 5 --source
    """
    declared = find(api)
    if version is not None and version not in declared.versions:
        raise click.UsageError(f"{declared.name} has no version {version}: its versions are {declared.versions}")
    selected = [(request, declared.request), (response, declared.response)]
    if request == response:
        selected = [(True, message) for _, message in selected]
    messages = [message for chosen, message in selected if chosen]
    if source and as_json:
        raise click.UsageError("--source and --json cannot be used together: remove one of them")
    if source:
        newest = versions_of(declared.versions)[-1] if version is None else version
        click.echo("\n".join(compiled.source(message, newest) for message in messages), nl=False)
    elif as_json:
        for message in messages:
            click.echo(json.dumps(versions.json_form(message, version)))
    elif version is None:
        click.echo("\n\n".join(versions.text(message, lines.columns()) for message in messages))
    else:
        click.echo("\n\n".join(layout.text(message, version) for message in messages))


def find(name: str) -> Api:
    """Return the API with a Kafka name, such as ``JoinGroup``; case and underscores are ignored.

    Raises: click.UsageError for an unknown name. The error suggests the most similar name.
    """
    try:
        return api_named(name)
    except KeyError:
        names = {stem.replace("_", ""): stem for stem in MODULES.values()}
        nearest = get_close_matches(name.replace("_", "").lower(), names, n=1, cutoff=NEAR)
        hint = f"did you mean {api_named(nearest[0]).name}? " if nearest else ""
        raise click.UsageError(f"unknown API {name!r}; {hint}`kwire apis` lists all") from None

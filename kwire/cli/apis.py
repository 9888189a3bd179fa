"""The command ``kwire apis``, which prints a table of all APIs."""

from __future__ import annotations

import json

import click

from kwire.messages import APIS
from kwire.schema import NO_VERSIONS, Api, schema_of

LINE = "{:>3}  {:24}{:10}{:10}{}"


@click.command("apis")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with an object for each API.")
def command(as_json: bool) -> None:
    """List every API that kwire knows: key, name, versions of request and response, first flexible version."""
    rows = [row(api) for api in APIS.values()]
    if as_json:
        click.echo("[\n" + ",\n".join(json.dumps(each) for each in rows) + "\n]")
        return
    click.echo(LINE.format("key", "name", "request", "response", "flexible"))
    for key, name, request, response, flexible in (each.values() for each in rows):
        click.echo(LINE.format(key, name, request, response, "-" if flexible is None else f"{flexible}+"))


def row(api: Api) -> dict[str, int | str | None]:
    """Return the JSON object of an API that ``kwire apis --json`` prints.

    The keys are ``key``, ``name``, ``request_versions``, ``response_versions`` and ``flexible_from``. The value of
    ``flexible_from`` is None if no version is flexible.
    """
    return {
        "key": api.key,
        "name": api.name,
        "request_versions": str(schema_of(api.request).versions),
        "response_versions": str(schema_of(api.response).versions),
        "flexible_from": None if api.flexible == NO_VERSIONS else api.flexible.first,
    }

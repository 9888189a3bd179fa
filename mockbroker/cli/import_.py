"""``mockbroker import``: groups and offsets out of the files of a real broker that is stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from kwire.cli.lines import tell
from mockbroker.imported import forms
from mockbroker.imported.groups import Imported, imported
from mockbroker.settings import Settings
from mockbroker.storage.log_dirs import LogDirError


@click.command("import")
@click.option(
    "--log-dir",
    "folders",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="A log directory of a broker (log.dirs); may be given again, also for those of other brokers.",
)
@click.option("--json", "as_json", is_flag=True, help="An object a line: each group, and last what else there is.")
def import_(folders: tuple[Path, ...], as_json: bool) -> None:
    """Tell the groups and offsets that the files of a stopped broker hold.

    Nothing is written there. What is damaged is told on stderr, with its place, and by exit code 1; each partition of
    __consumer_offsets counts up to its last whole batch.
    """
    settings = Settings()
    try:
        found = imported(folders, settings)
    except LogDirError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        for line in forms.json_lines(found, settings):
            click.echo(json.dumps(line))
    else:
        for row in forms.table(found):
            click.echo(row)
    tell(found.problems, _notes(found))


def _notes(found: Imported) -> Iterator[str]:
    yield from found.notes
    for kind, ids in sorted(found.passed_over.items()):
        yield f"passed over, groups of type {kind}: {len(ids)}: {', '.join(sorted(ids))}"

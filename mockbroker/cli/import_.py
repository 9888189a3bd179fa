"""``mockbroker import``: groups and offsets out of the files of a real broker that is stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import click

from kwire.command import report_problems
from mockbroker.base.settings import Settings
from mockbroker.importing import forms
from mockbroker.importing.data_dir import write
from mockbroker.importing.groups import Imported, read_groups
from mockbroker.storage.disk import DataDirError
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
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Make a data directory of them in this folder, which must be empty or not there: mockbroker serve --data-dir.",
)
@click.option(
    "--brokers", type=click.IntRange(1, 1000), default=1, show_default=True, help="For how many brokers OUT is."
)
def command(folders: tuple[Path, ...], as_json: bool, data_dir: Path | None, brokers: int) -> None:
    """Tell the groups and offsets that the files of a stopped broker hold.

    Nothing is written to these. With --data-dir, groups and topics are there again at a start of mockbroker, topics
    without records. What is damaged is told on stderr, with its place, and by exit code 1; each partition of
    __consumer_offsets counts up to its last whole batch. Exit 1 also if there is no group.
    """
    settings = Settings()
    try:
        found = read_groups(folders, settings)
        if data_dir is not None:
            found.notes += write(found, data_dir, brokers, settings, uuid4, round(time.time() * 1000))
    except (LogDirError, DataDirError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"data directory {data_dir}: {error.strerror}") from error
    if as_json:
        for line in forms.json_lines(found, settings):
            click.echo(json.dumps(line))
    else:
        for row in forms.table(found):
            click.echo(row)
    made = data_dir is not None and found.topics
    is_empty = not (found.groups or found.passed_over or made)
    folders_named = ", ".join(map(str, folders))
    report_problems(found.problems, _notes(found), f"{folders_named}: no consumer group in it" if is_empty else None)


def _notes(found: Imported) -> Iterator[str]:
    yield from found.notes
    for kind, ids in sorted(found.passed_over.items()):
        yield f"passed over, groups of type {kind}: {len(ids)}: {', '.join(sorted(ids))}"

"""The command ``mockbroker import``: reads groups and offsets from the files of a stopped Kafka broker."""

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
    help="A log directory of the stopped broker (log.dirs). Repeat it for more directories, also of other brokers.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object per group, and a last one with topics, notes and problems.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write a data directory for mockbroker serve --data-dir. It must be empty or not exist.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of brokers of the cluster that will use OUT.",
)
def command(folders: tuple[Path, ...], as_json: bool, data_dir: Path | None, brokers: int) -> None:
    """Show the groups and offsets stored in a stopped broker's log directories.

    The directories are not changed. With --data-dir, mockbroker can be started with these groups and topics; the topics
    have no records. Each partition of __consumer_offsets is read up to its last valid batch. Damage is reported on
    stderr with its position. The exit code is 1 if there is damage, or if no group was found (with --data-dir: neither
    a group nor a topic).
    """
    settings = Settings()
    try:
        content = read_groups(folders, settings)
        if data_dir is not None:
            content.notes += write(content, data_dir, brokers, settings, uuid4, round(time.time() * 1000))
    except (LogDirError, DataDirError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write data directory {data_dir}: {error.strerror}") from error
    if as_json:
        for line in forms.json_lines(content, settings):
            click.echo(json.dumps(line))
    else:
        for row in forms.table(content):
            click.echo(row)
    is_written = data_dir is not None and content.topics
    is_empty = not (content.groups or content.passed_over or is_written)
    folders_named = ", ".join(map(str, folders))
    report_problems(
        content.problems, _notes(content), f"{folders_named}: no consumer group found" if is_empty else None
    )


def _notes(content: Imported) -> Iterator[str]:
    yield from content.notes
    for kind, ids in sorted(content.passed_over.items()):
        yield f"skipped groups of type {kind} (unsupported): {len(ids)}: {', '.join(sorted(ids))}"

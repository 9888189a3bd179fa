"""The command ``kwire report``, which writes an HTML page from the tables of ``kwire pipeline``."""

from __future__ import annotations

from pathlib import Path

import click

from kwire.analysis import parquet
from kwire.analysis.report import html_page
from kwire.analysis.tables import ON_REQUEST
from kwire.cli.lines import needed, writable


@click.command("report")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", required=True, type=click.Path(dir_okay=False, path_type=Path), help="HTML file to write.")
def command(folder: Path, html: Path) -> None:
    """Write an HTML page from the tables in DIR: findings, groups, timelines, errors, clients, latency.

    `kwire pipeline` and `kwire groups --tables` write such a folder. The page needs no other file.
    """
    writable(html)
    needed("pyarrow", "report")
    try:
        tables = parquet.read(folder, (*html_page.NEEDED, *ON_REQUEST))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not any(tables.values()):
        if any((folder / name).is_dir() for name in html_page.NEEDED):
            raise click.ClickException(f"the tables in {folder} have no rows")
        raise click.ClickException(
            f"{folder} has no tables: write them with `kwire pipeline` or `kwire groups --tables`"
        )
    html_page.save(html, tables, folder.name)

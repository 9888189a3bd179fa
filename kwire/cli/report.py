"""``kwire report``: a page out of the tables that a pipeline wrote."""

from __future__ import annotations

from pathlib import Path

import click

from kwire.analysis import parquet
from kwire.analysis.report import html_page
from kwire.cli.lines import needed, writable


@click.command("report")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The page to write.")
def command(folder: Path, html: Path) -> None:
    """One self-contained page about the tables in DIR: rebalances, members, lag, versions in use, latency, errors."""
    writable(html)
    needed("plotly", "report")
    try:
        found = parquet.read(folder, html_page.NEEDED)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not any(found.values()):
        raise click.ClickException(f"{folder}: no table of docs/pipeline.md is in it")
    html_page.save(html, found, folder.name)

"""Reading and analysis of captures in one process, without Spark, for commands that print tables of a capture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kwire.analysis import run
from kwire.analysis.columns import Row
from kwire.capture import Call, Connection, Problem, Reading, Skipped, read
from kwire.capture.tls.keylog import KeyLog
from kwire.cli.interface import opened_ring
from kwire.cli.lines import progress, rare_garbage_collection


def analysed(
    paths: Sequence[str],
    capture_id: str,
    ports: Collection[int] = (),
    *,
    interface: str | None = None,
    keylog: KeyLog | None = None,
    **options: Any,
) -> tuple[dict[str, list[Row]], Reading]:
    """Return the tables of a capture by name, and the Reading of its files, which lists damaged files.

    Args:
        paths: files or folders of the capture.
        capture_id: value of the column ``capture_id``.
        ports: ports of brokers; other traffic is ignored. Empty for all ports.
        interface: network interface that is read instead of ``paths`` until Ctrl-C; None to read ``paths``.
        keylog: secrets of TLS connections; None to use only the secrets in pcapng files.
        options: further arguments of ``run.analyse``.

    Raises: click.UsageError for a path that cannot be read; click.ClickException for an interface that cannot be read.
    """
    connections: list[Connection] = []
    problems: list[Problem | Skipped] = []

    def calls(reading: Reading) -> Iterator[Call]:
        for item in reading:
            if isinstance(item, Call):
                yield item
            elif isinstance(item, Connection):
                connections.append(item)
            else:
                problems.append(item)

    with rare_garbage_collection(), opened_ring(paths, interface) as ring:
        try:
            with progress(paths, hidden=ring is not None) as shown:
                reading = read(paths, ports=ports, keylog=keylog, ring=ring, progress=shown)
                return run.analyse(calls(reading), connections, capture_id, problems, **options), reading
        except OSError as error:
            if error.filename is None:
                raise
            raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error


def is_table_folder(path: str) -> bool:
    """Return whether a path is a folder of tables that ``kwire pipeline`` or ``kwire groups --tables`` has written."""
    return (Path(path) / "rebalances").is_dir()

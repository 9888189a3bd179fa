"""The file of ``--ready-file``, whose existence shows other programs that connections are accepted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click


def check_ready_file(path: Path | None) -> None:
    """Check that the directory of the ready file exists.

    ``path``: value of --ready-file; None if it was not given.

    Raises:
        click.UsageError: The directory does not exist.
    """
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"--ready-file {path}: the directory {path.parent} does not exist")


def write_ready_file(path: Path | None, content: Mapping[str, object]) -> None:
    """Write the ready file; do nothing without the option --ready-file.

    Args:
        path: The file, which is replaced atomically; None without the option.
        content: The JSON object to write; the process id is added.

    Raises:
        OSError: The file cannot be written.
    """
    if path is not None:
        import json  # a server without the option starts faster

        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps({**content, "pid": os.getpid()}) + "\n", encoding="utf-8")
        temporary.replace(path)

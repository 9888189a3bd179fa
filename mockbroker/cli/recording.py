"""The options by which ``mockbroker proxy`` records the traffic of clients."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from kwire.recording import WRITERS, writer_of
from mockbroker.recording.files import RecordingFiles
from mockbroker.recording.memory import keep_freed_memory
from mockbroker.recording.rotation import Limits
from mockbroker.recording.topic import ADDRESS, RecordingTopic

Recording: TypeAlias = RecordingFiles | RecordingTopic

SCHEME = "kafka://"
MIB = 1024 * 1024

OPTIONS = (
    click.option(
        "--record",
        metavar="FILE|kafka://HOST:PORT/TOPIC",
        help="Write the traffic to a frame log (.jsonl), to packets (.pcapng), or to a topic.",
    ),
    click.option(
        "--record-size",
        metavar="MIB",
        type=click.FloatRange(min=0, min_open=True),
        help="Continue the recording in another file at this size, such as FILE-00001.jsonl.",
    ),
    click.option(
        "--record-time",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        help="Continue the recording in another file after this time.",
    ),
)


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --record, --record-size and --record-time to a command.

    The function of the command gets the arguments ``record``, ``record_size`` (MiB) and ``record_time`` (seconds); None
    for an option that was not given.
    """
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def open_recording(to: str | None, size_mib: float | None, seconds: float | None) -> Recording | None:
    """Create the first file of a recording, or the producer of a recording in a topic; return None for no recording.

    Args:
        to: Path of the file, or ``kafka://HOST:PORT/TOPIC``; None for no recording.
        size_mib: Maximum size of a file in MiB; None for no limit.
        seconds: Maximum time span of a file in seconds; None for no limit.

    Raises: click.UsageError if the format is unknown, an option needs a file, or the file cannot be created.
    """
    if (to is None or to.startswith(SCHEME)) and (size_mib is not None or seconds is not None):
        raise click.UsageError("--record-size and --record-time need --record FILE")
    if to is None:
        return None
    keep_freed_memory()
    if to.startswith(SCHEME):
        return _recording_topic(to)
    path = Path(to)
    writer = writer_of(path)
    if writer is None:
        raise click.UsageError(f"--record {path}: unknown format {path.suffix!r}: use one of {', '.join(WRITERS)}")
    try:
        return RecordingFiles(path, writer, Limits(None if size_mib is None else int(size_mib * MIB), seconds))
    except OSError as error:
        raise click.UsageError(f"--record {path}: cannot be written: {error.strerror}") from error


def _recording_topic(address: str) -> RecordingTopic:
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise click.UsageError(f"--record {address}: expected kafka://HOST:PORT/TOPIC")
    return RecordingTopic(match["servers"], match["topic"], secrets.token_hex(4))

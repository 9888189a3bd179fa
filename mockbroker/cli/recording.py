"""The options by which ``mockbroker proxy`` records the traffic of clients."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from kwire.command import FiniteRange
from kwire.recording import WRITERS, writer_of
from kwire.topic_address import SCHEME, TOPIC_ADDRESS
from mockbroker.cli.client_properties import addresses, read_cluster
from mockbroker.proxy.upstream import Upstream
from mockbroker.recording.files import RecordingFiles
from mockbroker.recording.memory import keep_freed_memory
from mockbroker.recording.rotation import Limits
from mockbroker.recording.topic import RecordingTopic

Recording: TypeAlias = RecordingFiles | RecordingTopic

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
        type=FiniteRange(min=0, min_open=True),
        help="Continue the recording in another file at this size, such as FILE-00001.jsonl.",
    ),
    click.option(
        "--record-time",
        metavar="SECONDS",
        type=FiniteRange(min=0, min_open=True),
        help="Continue the recording in another file after this time.",
    ),
    click.option(
        "--record-config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Connect to the cluster of the topic with these properties of a Kafka client (security.protocol, ssl.*, "
        "sasl.*).  [default: as to the cluster of --to, if an address is the same; else without TLS and SASL]",
    ),
)


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --record, --record-size, --record-time and --record-config to a command.

    The function of the command gets the arguments ``record``, ``record_size`` (MiB), ``record_time`` (seconds) and
    ``record_config`` (path); None for an option that was not given.
    """
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def open_recording(
    to: str | None, size_mib: float | None, seconds: float | None, config: Path | None, recorded: Upstream
) -> Recording | None:
    """Create the first file of a recording, or the producer of a recording in a topic; return None for no recording.

    Args:
        to: Path of the file, or ``kafka://HOST:PORT/TOPIC``; None for no recording.
        size_mib: Maximum size of a file in MiB; None for no limit.
        seconds: Maximum time span of a file in seconds; None for no limit.
        config: File with properties of a Kafka client for the cluster of the topic; None for no file.
        recorded: The recorded cluster. A topic of this cluster is written with the same TLS and credentials.

    Raises: click.UsageError if the format is unknown, an option needs a file or a topic, the file cannot be created, or
    the properties cannot be used.
    """
    if (to is None or to.startswith(SCHEME)) and (size_mib is not None or seconds is not None):
        raise click.UsageError("--record-size and --record-time need --record FILE")
    if config is not None and (to is None or not to.startswith(SCHEME)):
        raise click.UsageError("--record-config needs --record kafka://HOST:PORT/TOPIC")
    if to is None:
        return None
    keep_freed_memory()
    if to.startswith(SCHEME):
        return _recording_topic(to, config, recorded)
    path = Path(to)
    writer = writer_of(path)
    if writer is None:
        raise click.UsageError(f"--record {path}: unknown format {path.suffix!r}: use one of {', '.join(WRITERS)}")
    try:
        return RecordingFiles(path, writer, Limits(None if size_mib is None else int(size_mib * MIB), seconds))
    except OSError as error:
        raise click.UsageError(f"--record {path}: cannot be written: {error.strerror}") from error


def _recording_topic(to: str, config: Path | None, recorded: Upstream) -> RecordingTopic:
    match = TOPIC_ADDRESS.fullmatch(to)
    if match is None or match["config"] is not None:  # for a writer, --record-config names the file
        raise click.UsageError(f"--record {to}: expected kafka://HOST:PORT/TOPIC")
    servers = addresses(f"--record {to}", match["servers"])
    if config is not None:
        cluster = read_cluster("--record-config", config, servers)
    elif set(servers) & set(recorded.bootstrap):
        cluster = Upstream(servers, recorded.tls, recorded.credentials)
    else:
        cluster = Upstream(servers)
    return RecordingTopic(cluster, match["topic"], secrets.token_hex(4))

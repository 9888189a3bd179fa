"""The command ``mockbroker replay``: a broker that sends recorded responses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import click
import trio

from kwire.command import CapturePath, one_line, read_errors
from mockbroker.api.plan import CLOCKS, MANUAL
from mockbroker.cli.clock_lines import run_commands
from mockbroker.cli.end_signals import end_signals
from mockbroker.cli.journal_file import open_journal, write_journal
from mockbroker.cli.ready_file import check_ready_file, write_ready_file
from mockbroker.cli.server_options import EVENTS_IN_MEMORY, host_option, ready_file_option
from mockbroker.net.addresses import reachable
from mockbroker.proxy.addresses import Address, error_reason
from mockbroker.replay.clock import ReplayClock
from mockbroker.replay.script import Script
from mockbroker.replay.server import Options, Otherwise, Replay, speed_of

LAST_PORT = 65_535


@click.command("replay")
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=CapturePath(exists=True))
@host_option
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=9092,
    show_default=True,
    help="Port of the first recorded broker; the n-th one after it listens on port + n. 0 picks free ports.",
)
@click.option(
    "--otherwise",
    type=click.Choice([each.value for each in Otherwise]),
    default=Otherwise.ERROR.value,
    show_default=True,
    help="Requests that are not in the recording: an error, a mock cluster with the recorded topics, or a closed "
    "connection.",
)
@click.option(
    "--speed",
    default="1",
    show_default=True,
    metavar="FACTOR|max",
    help="Respond faster than in the recording by this factor; max responds at once.",
)
@click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default="real",
    show_default=True,
    help="manual: the clock of the latencies is stopped, and controlled by lines on stdin: advance SECONDS, stop, "
    "resume, now.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append an event for each request that is not in the recording to this file, one JSON object per line.",
)
@ready_file_option
def command(
    recordings: tuple[str, ...],
    host: str,
    port: int,
    otherwise: str,
    speed: str,
    clock: str,
    journal: Path | None,
    ready_file: Path | None,
) -> None:
    """Answer clients with recorded responses until SIGTERM, SIGINT or SIGHUP.

    RECORDING is anything that kwire capture reads: a frame log, a packet capture, a folder of such files, or a topic
    (kafka://HOST:PORT/TOPIC). Several are one recording. Prints "ready bootstrap.servers=HOST:PORT,..." when it accepts
    connections. Requests that are not in the recording are logged on stderr.
    """
    check_ready_file(ready_file)
    try:
        options = Options(Otherwise(otherwise), speed_of(speed))
    except ValueError as error:
        raise click.UsageError(f"--speed: {error}") from error
    script = _script(recordings)
    try:
        replay = Replay(script, options, host, port, reachable(host))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot listen on {Address(host, port)}: {error_reason(error)}") from error
    with nullcontext() if journal is None else open_journal(journal) as file:
        trio.run(_serve, replay, clock == MANUAL, file, ready_file)


def _script(recordings: Sequence[str]) -> Script:
    """Read the files of a recording, and print remarks about incomplete data to stderr.

    Returns: The script of the replaying broker: the recorded requests with their responses.

    Raises:
        click.ClickException: The recording cannot be replayed.
    """
    try:
        from kwire.capture import Call, read
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    with read_errors():
        reading = read(recordings)
    script = Script.of(item for item in reading if isinstance(item, Call))
    for note in [*reading.notes(), *map(str, reading.damage)]:
        click.echo(one_line(note), err=True)
    if script.left_out:
        click.echo(
            f"requests that are not replayed, because they have no response or cannot be decoded: {script.left_out}",
            err=True,
        )
    if not script.calls:
        raise click.ClickException(f"{', '.join(recordings)}: no requests with responses in the recording")
    return script


async def _serve(replay: Replay, is_manual: bool, journal: TextIO | None, ready_file: Path | None) -> None:
    clock = ReplayClock(time.time(), stopped=is_manual)
    replay.journal.max_events = EVENTS_IN_MEMORY
    if journal is not None:
        write_journal(replay.journal, clock.wall(), journal)
    with trio.open_signal_receiver(*end_signals()) as signals:
        async with replay.running(clock), trio.open_nursery() as nursery:
            write_ready_file(ready_file, {"bootstrap_servers": replay.bootstrap_servers})
            click.echo(f"ready bootstrap.servers={replay.bootstrap_servers}")
            if is_manual:
                nursery.start_soon(run_commands, clock)
            await anext(signals)
            nursery.cancel_scope.cancel()

"""The command ``kwire anonymize``, which replaces names, keys and values in captured traffic."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import click

from kwire.anonymize.frames import Anonymizer
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.capture import read
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli import lines
from kwire.cli.interface import interface_option, opened_ring
from kwire.cli.ports import ports_option
from kwire.command import CapturePath, read_errors, report_problems
from kwire.recording import WRITERS, writer_of

KEPT = ("topics",)
SHORTEST_KEY = 16  # bytes
KEY_BYTES = 32


@click.command("anonymize")
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, type=CapturePath(exists=True, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Recording to write: .jsonl or .pcapng.",
)
@click.option("--keep", type=click.Choice(KEPT), multiple=True, help="Keep these names as they are. May be repeated.")
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Secret that the replacements are derived from.  [default: a random one, printed to stderr]",
)
@ports_option
@interface_option
@keylog_option
def command(
    paths: tuple[str, ...],
    output: Path,
    keep: tuple[str, ...],
    key_file: Path | None,
    ports: tuple[int, ...],
    interface: str | None,
    keylog: KeyLogFile | None,
) -> None:
    """Replace names, keys, values and other text in captured traffic, so that it can be shared.

    FILE is a pcap file, a pcapng file (both also compressed with gzip) or a frame log; DIR is a folder of these files.
    kafka://HOST:PORT/TOPIC is a topic that mockbroker proxy --record has written.
    The argument - reads pcap or pcapng from stdin, and --interface reads a network interface until Ctrl-C. All input
    becomes one recording.

    \b
    kwire anonymize trace.pcap -o shared.pcapng
    kwire anonymize --keep topics --key-file secret recording-*.jsonl -o shared.jsonl
    kwire anonymize --keylog keys.txt tls.pcap -o shared.pcapng
    tcpdump -i any -U -w - port 9092 | kwire anonymize - -o shared.pcapng

    Equal originals get equal replacements, so groups and topics can still be tracked. Fields keep their length.
    Record batches have valid checksums. Data that cannot be decoded is left out, and stderr reports how much.
    """
    writer = writer_of(output)
    if writer is None:
        raise click.UsageError(f"-o {output}: unknown format {output.suffix!r}: use one of {', '.join(WRITERS)}")
    with lines.rare_garbage_collection(), ExitStack() as stack:
        ring = stack.enter_context(opened_ring(paths, interface))
        bar = stack.enter_context(lines.progress(paths, hidden=interface is not None))
        options: Any = {"bodies": (), "raw": True, "redacted": False}
        with read_errors():
            reading = read(paths, ports=ports, ring=ring, keylog=keylog, progress=bar, **options)
        lines.writable(output, reading.files)
        anonymizer = Anonymizer(Pseudonyms(_key(key_file)), writer, keep_topics="topics" in keep)
        save(output, anonymizer.convert(reading))
    notes = [f"dropped: {count} {kind}" for kind, count in sorted(anonymizer.dropped.items()) if count]
    missing = None if anonymizer.written else no_traffic(paths, reading.files, ports)
    report_problems(reading.damage, notes, missing)


def _key(key_file: Path | None) -> bytes:
    if key_file is None:
        text = secrets.token_hex(KEY_BYTES)
        click.echo(f"key for --key-file: {text}", err=True)
        return text.encode()
    try:
        key = key_file.read_bytes().strip()
    except OSError as error:
        raise click.UsageError(f"cannot read {str(key_file)!r}: {error.strerror}") from error
    if len(key) < SHORTEST_KEY:
        raise click.UsageError(
            f"--key-file {key_file}: the key has {len(key)} bytes, but at least {SHORTEST_KEY} are needed"
        )
    return key


def save(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file that only its owner can read. The file gets its final name when it is complete.

    Args:
        path: path of the complete file.
        parts: content of the file, in parts.

    Raises: click.ClickException if the file cannot be written.
    """
    temporary = ""
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:  # its mode is 0600
            temporary = out.name
            for part in parts:
                out.write(part)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (None, temporary):
            raise click.ClickException(f"cannot write {str(path)!r}: {error.strerror}") from error
        raise

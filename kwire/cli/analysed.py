"""Reading and analysis of captures in one process, without Spark, for commands that print tables of a capture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kwire.analysis import parquet, run
from kwire.analysis.columns import Row, Tables
from kwire.analysis.earlier import Earlier
from kwire.capture import Call, Connection, Problem, Reading, Skipped, read
from kwire.capture.tls.keylog import KeyLog
from kwire.cli.interface import opened_ring
from kwire.cli.lines import progress, rare_garbage_collection
from kwire.command import read_errors

MOST_CALLS = 100_000  # in one part of a stream: at most about 500 MB, if all are commits and heartbeats


@dataclass(frozen=True, slots=True)
class Part:
    """The tables of a part of a stream, or of a whole capture.

    Attributes:
        number: number of the part, from 1.
        tables: rows by table name.
        reading: reader of the input. Its problems are those of all parts so far.
        begin: end of the previous part, in microseconds since 1970; 0 for the first part.
        end: end of the part, in microseconds since 1970; 0 for a whole capture.
        is_last: True if the input has ended.
    """

    number: int
    tables: dict[str, Sequence[Row]]
    reading: Reading
    begin: int
    end: int
    is_last: bool


def analysed(
    paths: Sequence[str],
    capture_id: str,
    ports: Collection[int] = (),
    *,
    interface: str | None = None,
    keylog: KeyLog | None = None,
    **options: Any,
) -> tuple[dict[str, Sequence[Row]], Reading]:
    """Read and analyse a capture. Return its tables by name, and the reader, whose ``damage`` lists damaged files.

    Args:
        paths: files or folders of the capture.
        capture_id: value of the column ``capture_id``.
        ports: ports of brokers. Traffic of all further ports is ignored. Empty to read all ports.
        interface: network interface that is read instead of ``paths`` until Ctrl-C; None to read ``paths``.
        keylog: secrets of TLS connections; None to use only the secrets in pcapng files.
        options: further keyword arguments of ``run.analyse``.

    Raises: click.UsageError for a path that cannot be read; click.ClickException for an interface that cannot be read.
    """
    (part,) = analysed_parts(paths, capture_id, ports, interface=interface, keylog=keylog, in_parts=False, **options)
    return part.tables, part.reading


def analysed_parts(
    paths: Sequence[str],
    capture_id: str,
    ports: Collection[int] = (),
    *,
    interface: str | None = None,
    keylog: KeyLog | None = None,
    every_us: int | None = None,
    in_parts: bool = True,
    **options: Any,
) -> Iterator[Part]:
    """Read and analyse captures, and yield their tables in one or more parts.

    Files are one part. A stream (stdin or a network interface) is divided into parts of at most MOST_CALLS calls, so
    that memory stays bounded. The tables of a part are yielded as soon as the part ends. Groups continue from part to
    part. Rows that the tables of earlier parts contain are not repeated, except the rows of current members.

    Args:
        paths: files or folders of the capture, addresses of topics, or ``-`` for stdin.
        capture_id: value of the column ``capture_id``. From the second part on, the number of the part is appended.
        ports: ports of brokers. Traffic of all further ports is ignored. Empty to read all ports.
        interface: network interface that is read instead of ``paths`` until Ctrl-C; None to read ``paths``.
        keylog: secrets of TLS connections; None to use only the secrets in pcapng files.
        every_us: maximum length of a part of a stream, in microseconds of packet time; None for no maximum.
        in_parts: False to yield one part even for a stream.
        options: further keyword arguments of ``run.analyse``.

    Raises: click.UsageError for a path that cannot be read; click.ClickException for an interface that cannot be read.
    """
    with (
        rare_garbage_collection(),
        opened_ring(paths, interface) as ring,
        read_errors(),
        progress(paths, hidden=ring is not None) as shown,
    ):
        reading = read(paths, ports=ports, keylog=keylog, ring=ring, progress=shown)
        feed = _Feed(reading)
        earlier = Earlier() if in_parts and reading.is_stream else None
        number = 0
        while not feed.is_over:
            number += 1
            begin = 0 if earlier is None else earlier.begin
            calls = feed.calls() if earlier is None else feed.calls(every_us, MOST_CALLS)
            name = capture_id if number == 1 else f"{capture_id}-{number}"
            tables = run.analyse(
                calls, feed.taken_connections(), name, feed.taken_problems(), earlier=earlier, **options
            )
            yield Part(number, tables, reading, begin, 0 if earlier is None else earlier.begin, feed.is_over)


class _Feed:
    """A reader that divides the calls, connections and problems of an input into parts.

    Args:
        reading: the input.

    Attributes:
        is_over: True if the input has ended.
    """

    def __init__(self, reading: Reading) -> None:
        self.is_over = False
        self._reading = reading
        self._items = iter(reading)
        self._next: Call | None = None  # the call that ended the latest part
        self._connections: list[Connection] = []
        self._problems: list[Problem | Skipped] = []

    def calls(self, every_us: int | None = None, most: int | None = None) -> Iterator[Call]:
        """Yield the calls of the next part.

        Args:
            every_us: maximum length of the part in microseconds; None for no maximum.
            most: maximum number of calls in the part; None for no maximum.
        """
        count, begin = 0, None
        if self._next is not None:
            count, begin = 1, _moment(self._next)
            call, self._next = self._next, None
            yield call
        for item in self._items:
            if isinstance(item, Connection):
                self._connections.append(item)
            elif not isinstance(item, Call):
                self._problems.append(item)
            else:
                begin = _moment(item) if begin is None else begin
                is_late = every_us is not None and _moment(item) >= begin + every_us
                if is_late or (most is not None and count >= most):
                    self._next = item
                    return
                count += 1
                yield item
        self.is_over = True

    def taken_connections(self) -> Iterator[Connection]:
        """Yield the connections that ended in the part, and the connections that are open at its end.

        The result must be iterated after all calls of the part.
        """
        ended, self._connections = self._connections, []
        yield from ended
        yield from self._reading.open_connections

    def taken_problems(self) -> Iterator[Problem | Skipped]:
        """Yield the damage and skipped packets in the part. The result must be iterated after all calls of the part."""
        problems, self._problems = self._problems, []
        yield from problems


def _moment(call: Call) -> int:
    return call.response_us or call.request_us or 0


def is_table_folder(path: str) -> bool:
    """Return whether a path is a folder of tables, which ``kwire pipeline`` or ``kwire groups --tables`` has written.

    The function only checks that the table ``rebalances`` exists.
    """
    return (Path(path) / "rebalances").is_dir()


def stored_tables(folder: str, names: Collection[str], damage: list[object]) -> Tables:
    """Return tables of a folder, and report the damage that the captures had.

    Args:
        folder: folder of tables.
        names: names of the tables to return. The result may contain others.
        damage: list to which the damage in the table ``problems`` is added, one line each.

    Raises: click.ClickException for a table that cannot be read.
    """
    try:
        tables = parquet.read(Path(folder), {*names, "problems"})
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for row in tables["problems"]:
        if row["error"] is not None:
            is_at = row["position"] is not None
            damage.append(
                Problem(row["file"], row["position"], row["error"]) if is_at else f"{row['file']}: {row['error']}"
            )
    return tables

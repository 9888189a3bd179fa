"""Reading and analysis of captures in one process, without Spark, for commands that print tables of a capture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kwire.analysis import run
from kwire.analysis.columns import Row
from kwire.analysis.earlier import Earlier
from kwire.capture import Call, Connection, Problem, Reading, Skipped, read
from kwire.capture.tls.keylog import KeyLog
from kwire.cli.interface import opened_ring
from kwire.cli.lines import progress, rare_garbage_collection

MOST_CALLS = 100_000  # in one part of a stream: at most about 500 MB, if all are commits and heartbeats


@dataclass(frozen=True, slots=True)
class Part:
    """The tables of a part of a stream, or of a whole capture.

    Attributes:
        number: number of the part, from 1.
        tables: rows by table name.
        reading: the Reading of the files, which lists damaged files so far.
        begin: end of the part before, in microseconds since 1970; 0 for the first part.
        end: end of the part, in microseconds since 1970; 0 for a whole capture.
        is_last: True if the input has ended.
    """

    number: int
    tables: dict[str, list[Row]]
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
    """Yield the tables of a stream in parts, as soon as each ends; of files, one part with the whole capture.

    Memory holds the calls of one part. A part of a stream ends after MOST_CALLS calls. In the tables of a part, groups
    continue from the part before: rows about earlier times are not repeated, except of current members.

    Args:
        paths: as in ``analysed``, and the following ones.
        capture_id: value of the column ``capture_id``; the number of the part follows it from the second part on.
        ports: ports of brokers.
        interface: network interface.
        keylog: secrets of TLS connections.
        every_us: length of a part in microseconds of the capture; None for parts of MOST_CALLS calls.
        in_parts: False to return one part also of a stream.
        options: further arguments of ``run.analyse``.

    Raises: click.UsageError, click.ClickException, as ``analysed``.
    """
    with rare_garbage_collection(), opened_ring(paths, interface) as ring:
        try:
            with progress(paths, hidden=ring is not None) as shown:
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
        except OSError as error:
            if error.filename is None:
                raise
            raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error


class _Feed:
    """The items of a Reading, divided into parts. ``is_over``: whether the input has ended."""

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
            every_us: length of the part in microseconds; None for no limit.
            most: maximum number of calls; None for no limit.
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
        """Yield the connections of the part, which ended in it or are open; evaluated after the calls."""
        ended, self._connections = self._connections, []
        yield from ended
        yield from self._reading.open_connections

    def taken_problems(self) -> Iterator[Problem | Skipped]:
        """Yield the problems of the part; evaluated after the calls."""
        problems, self._problems = self._problems, []
        yield from problems


def _moment(call: Call) -> int:
    return call.response_us or call.request_us or 0


def is_table_folder(path: str) -> bool:
    """Return whether a path is a folder of tables that ``kwire pipeline`` or ``kwire groups --tables`` has written."""
    return (Path(path) / "rebalances").is_dir()

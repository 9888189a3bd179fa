"""The command ``kwire top``, which shows groups while their traffic is captured, and serves Prometheus metrics."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

from kwire.analysis import metrics
from kwire.analysis.live import LiveState
from kwire.analysis.live_groups import LiveGroup
from kwire.analysis.report.by_group import moment
from kwire.capture import Call, Connection, read
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli.interface import interface_option, opened_ring
from kwire.cli.ports import ports_option
from kwire.cli.top_text import frame
from kwire.command import read_errors, report_problems

REFRESH_SECONDS = 1.0
IDLE_SECONDS = 30.0  # after which a connection of the metrics server is closed
DUMB = "dumb"  # TERM of a terminal without escape codes


@click.command("top")
@click.argument("paths", metavar="[-|FILE|DIR]...", nargs=-1, type=click.Path(exists=True, allow_dash=True))
@click.option("--once", is_flag=True, help="Read to the end, print the groups once, and end.")
@click.option("--json", "as_json", is_flag=True, help="Read to the end and print the groups as JSON.")
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; 0 picks a free port.",
)
@ports_option
@interface_option
@keylog_option
def command(
    paths: tuple[str, ...],
    once: bool,
    as_json: bool,
    metrics_port: int | None,
    ports: tuple[int, ...],
    interface: str | None,
    keylog: KeyLogFile | None,
) -> None:
    """Show groups, members, lag and rebalances as they happen, from packets on stdin or at an interface.

    \b
    tcpdump -i any -U -w - port 9092 | kwire top
    tcpdump -i any -U -w - port 9092 | kwire top --metrics 9308
    kwire top --interface eth0 --port 9092

    The groups are printed every second and at the end. If stdout is not a terminal, or TERM is dumb, they are printed
    only at the end.
    A narrow terminal shows fewer columns, and a low one fewer members and groups.
    Members that were evicted or left are removed, and groups and offsets without traffic for 15 minutes of the capture,
    so memory is bounded. Metrics of groups have the names of kafka_exporter. docs/live.md lists all metrics.
    """
    if interface is None:
        paths = paths or ("-",)
    traffic = Traffic()
    state = traffic.state
    in_terminal = sys.stdout.isatty() and not (once or as_json)
    is_shown = in_terminal and os.environ.get("TERM") != DUMB
    with opened_ring(paths, interface) as ring, _shown(traffic) if is_shown else nullcontext():
        with read_errors():
            reading = read(paths, ports=ports, keylog=keylog, ring=ring)
        server = None if metrics_port is None else _serve(traffic, metrics_port)
        for item in reading:
            traffic.note(item, 0 if ring is None else ring.lost)
    state.use_names()
    if as_json:
        click.echo(json.dumps([content(state, name) for name in state.groups], indent=1))
    else:
        click.echo("\n".join(frame(state, shutil.get_terminal_size().columns if in_terminal else None)))
    if server is not None:
        server.shutdown()
    is_nothing = not (state.apis or reading.damage or reading.is_stream)
    report_problems(reading.damage, reading.notes(), no_traffic(paths, reading.files, ports) if is_nothing else None)


class Traffic:
    """The live state, for several threads.

    Attributes:
        state: the state.
    """

    def __init__(self) -> None:
        self.state = LiveState()
        self._lock = threading.Lock()
        self._heard = time.monotonic()

    def note(self, item: Call | Connection | object, lost: int) -> None:
        """Add a call, a connection that has ended, or a problem.

        Args:
            item: the call, connection or problem.
            lost: number of packets that were lost at the interface so far.
        """
        with self._lock:
            if isinstance(item, Call):
                self.state.note(item)
                self._heard = time.monotonic()
            elif isinstance(item, Connection):
                self.state.connections += 1
            else:
                self.state.problems += 1
            self.state.lost = lost

    @contextmanager
    def current(self) -> Iterator[LiveState]:
        """Lock the state, and yield it without the members whose session is over by now, and with all known names."""
        with self._lock:
            self.state.pass_time(round((time.monotonic() - self._heard) * 1e6))
            self.state.use_names()
            yield self.state


@contextmanager
def _shown(traffic: Traffic) -> Iterator[None]:
    """Print the groups every REFRESH_SECONDS, in a thread, until the context ends."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(REFRESH_SECONDS):
            with traffic.current() as state:
                lines = "\n".join(frame(state, *shutil.get_terminal_size()))
            click.echo("\x1b[2J\x1b[H" + lines)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def content(state: LiveState, name: str) -> dict[str, Any]:
    """Return the JSON object of a group, as ``kwire top --json`` prints it.

    It contains protocol, generation, number and time of rebalances, rejected commits, members, and offsets with lag.

    Args:
        state: live state of all groups.
        name: group id, which must be in ``state``.
    """
    group: LiveGroup = state.groups[name]
    lags = list(state.lags(group))
    return {
        "group_id": name,
        "protocol": group.protocol,
        "generation": group.generation,
        "rebalances": group.rebalances,
        "last_rebalance": moment(group.rebalanced_us),
        "refused_commits": group.refused,
        "members": [
            {"member_id": key, "client_id": one.client_id, "host": one.host, "partitions": one.partitions}
            for key, one in group.members.items()
        ],
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset, "lag": lag}
            for topic, partition, offset, lag in lags
        ],
    }


class _Server(ThreadingHTTPServer):
    """An HTTP server that prints nothing if a client closes its connection before it has read the response."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _serve(traffic: Traffic, port: int) -> ThreadingHTTPServer:
    """Start to serve metrics over HTTP on the loopback address, in a thread, and return the server.

    Args:
        traffic: live state of all groups.
        port: TCP port.

    Raises: click.ClickException if the port is in use.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            with traffic.current() as state:
                body = metrics.text(state).encode()
            self.send_response(200)
            self.send_header("Content-Type", metrics.CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the base class
            """Suppress the access log of the HTTP server."""

    try:
        server = _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise click.ClickException(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    click.echo(f"metrics at http://127.0.0.1:{server.server_address[1]}/metrics", err=True)
    return server

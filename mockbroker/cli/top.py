"""The command ``mockbroker top``, which shows groups, members, lag and rates of a running broker in a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from kwire.counted import counted
from kwire.lazy_dataclass import dataclass
from mockbroker.cli.control_client import ControlClient
from mockbroker.cli.ctl.session import Session, token_option, url_option
from mockbroker.cli.tables import cell

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

REFRESH = 1.0  # seconds between two frames
PIPE_WIDTH = 120  # columns, if stdout is no terminal


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a cluster at one time, as read from the control API.

    Attributes:
        at: time at which the state was read, in seconds of a monotonic clock.
        cluster: the JSON object that ``/v1/cluster`` returned.
        groups: the groups that ``/v1/groups`` returned.
        written: end offset by topic and partition, without internal topics.
    """

    at: float
    cluster: Mapping[str, Any]
    groups: list[Any]
    written: Mapping[tuple[str, int], int]


@click.command("top")
@url_option
@token_option
@click.option("--once", is_flag=True, help="Print the screen once, and exit.")
def command(url: str | None, token_file: Path | None, once: bool) -> None:
    """Show groups, members, lag and rates of a broker that runs with serve --http, every second until Ctrl-C.

    Rates are records per second since the previous screen. Characters in names that a terminal could interpret are
    shown escaped.
    """
    if find_spec("rich") is None:
        raise click.ClickException("mockbroker top needs the package rich: pip install 'kwire[http]'")
    from rich.console import Console
    from rich.live import Live

    client = Session(url, token_file, as_json=False).client
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    sample = read_sample(client, time.monotonic())
    if once:
        console.print(frame(sample, None))
        return
    with Live(frame(sample, None), console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            Event().wait(REFRESH)
            before, sample = sample, read_sample(client, time.monotonic())
            live.update(frame(sample, before), refresh=True)


def read_sample(client: ControlClient, now: float) -> Sample:
    """Read the state of the cluster from the control API.

    ``now``: the current time in seconds of a monotonic clock.

    Raises:
        ControlError: The server cannot be reached, or returns an error.
    """
    written = {
        (topic["name"], part["partition"]): part["end"]
        for topic in client.pages("/v1/topics")["items"]
        if not topic["internal"]
        for part in topic["partitions"]
    }
    return Sample(now, client.ask("GET", "/v1/cluster"), client.pages("/v1/groups")["items"], written)


def frame(sample: Sample, before: Sample | None) -> Group:
    """Return the screen content that shows a sample.

    Args:
        sample: The state of the cluster.
        before: The sample of the previous screen, from which rates are computed; None for the first screen.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    counts = sample.cluster["counts"]
    stopped = sum(each["state"] != "running" for each in sample.cluster["brokers"])
    written = None if before is None else _rate(sample.written, before.written, sample.at - before.at)
    head = (
        f"{sample.cluster['bootstrap_servers']}  Kafka {sample.cluster['release']}  "
        f"brokers {len(sample.cluster['brokers'])}{f' ({stopped} stopped)' if stopped else ''}  "
        f"topics {counts['topics']}  connections {counts['connections']}  records/s {_shown(written)}"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("GROUP", "STATE", "MEMBER", "CLIENT ID", "ASSIGNMENT"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for name in ("GENERATION", "LAG", "COMMITTED/S"):
        table.add_column(name, justify="right", no_wrap=True)
    for group in sample.groups:
        _add_group(table, group, sample, before)
    return Group(Text(cell(head)), Text(), table)


def _add_group(table: Table, group: Mapping[str, Any], sample: Sample, before: Sample | None) -> None:
    lags = {(each["topic"], each["partition"]): each["lag"] or 0 for each in group["offsets"]}
    rate = None
    if before is not None:
        same = (each for each in before.groups if each["id"] == group["id"])
        earlier: Mapping[str, Any] = next(same, {"offsets": []})
        rate = _rate(_offsets(group), _offsets(earlier), sample.at - before.at)
    members = group["members"]
    _add(
        table,
        group["id"],
        group["state"],
        counted(len(members), "member"),
        "",
        "",
        str(group["generation"]),
        str(sum(lags.values())),
        _shown(rate),
    )
    for member in members:
        owned = [(topic, index) for topic, indexes in (member["assignment"] or {}).items() for index in indexes]
        lag = sum(lags.get(each, 0) for each in owned)
        names = " ".join(f"{topic}:{index}" for topic, index in owned)
        _add(table, "", "", member["member_id"], member["client_id"], names, "", str(lag), "")


def _add(table: Table, *values: str) -> None:
    """Add a row to a table. The values are shown literally: rich's markup in them is not interpreted."""
    from rich.text import Text

    table.add_row(*(Text(cell(value) if value else "") for value in values))


def _offsets(group: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    return {(each["topic"], each["partition"]): each["offset"] for each in group["offsets"]}


def _rate(now: Mapping[tuple[str, int], int], before: Mapping[tuple[str, int], int], seconds: float) -> float:
    """Return the growth per second of the sum of all offsets, in records. A new partition counts from offset 0.

    Args:
        now: current offsets by topic and partition: end offsets or committed offsets.
        before: the same offsets in the previous sample.
        seconds: seconds between the two samples.
    """
    more = sum(max(offset - before.get(partition, 0), 0) for partition, offset in now.items())
    return more / max(seconds, 0.001)


def _shown(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0f}"

"""``kwire groups``: what the consumer groups in a capture did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from kwire.analysis import parquet, report, run, view
from kwire.analysis.tables import PROBLEMS
from kwire.capture import Call, Connection, Problem, Skipped, read
from kwire.cli.lines import needed, one_line, progress, seldom_collected, tell, writable

MOST = 12  # names of partitions or members that stand in one line


@click.command("groups")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...")
@click.option("--json", "as_json", is_flag=True, help="An object with everything, instead of text.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts to this file.")
@click.option("--tables", type=click.Path(file_okay=False, path_type=Path), help="Write every table as Parquet.")
@click.option("--capture-id", help="What this capture is called in the tables; the name of the first file otherwise.")
@click.option("--group", "wanted", multiple=True, metavar="NAME", help="Only this group; may be given again.")
@click.option(
    "--port",
    "ports",
    multiple=True,
    type=click.IntRange(1, 65535),
    help="On which ports brokers listen; may be given again.",
)
def command(
    paths: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    tables: Path | None,
    capture_id: str | None,
    wanted: tuple[str, ...],
    ports: tuple[int, ...],
) -> None:
    """Group by group, from captures (pcap, pcapng, gzip of them, frame logs): members, rebalances with their trigger
    and cost, assignments, commits, errors.

    Damage is told on stderr, with its place, and by exit code 1; all before and behind it is there.
    """
    capture_id = capture_id or Path(paths[0]).name
    writable(html, paths)
    if html is not None:
        needed("plotly", "report")
    connections: list[Connection] = []
    problems: list[Problem | Skipped] = []

    def calls() -> Iterator[Call]:
        for item in reading:
            if isinstance(item, Call):
                yield item
            elif isinstance(item, Connection):
                connections.append(item)
            else:
                problems.append(item)

    with seldom_collected(), ExitStack() as stack:
        try:
            reading = read(paths, ports=ports, progress=stack.enter_context(progress(paths)))
        except OSError as error:
            raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error
        found = run.analyse(calls(), connections, capture_id, problems, frames=tables is not None)
    if wanted:
        found = {
            name: [row for row in rows if "group_id" not in row or row["group_id"] in wanted]
            for name, rows in found.items()
        }
    shown = list(view.groups(found))
    if as_json:
        damage = [str(problem) for problem in reading.problems]
        passed_over = [view.readable(PROBLEMS.name, row, without=["capture_id"]) for row in found[PROBLEMS.name]]
        passed_over = [row for row in passed_over if row["error"] is None]
        click.echo(json.dumps({"groups": shown, "problems": damage, "passed_over": passed_over}, indent=1))
    else:
        same = Counter(group["group_id"] for group in shown)
        for group in shown:
            for line in text(group, several=same[group["group_id"]] > 1):
                click.echo(one_line(line, 10_000))
        if not shown:
            click.echo("no such group in it" if wanted else "no consumer group in it", err=True)
    if tables is not None:
        parquet.write(tables, capture_id, found)
    if html is not None:
        report.save(html, found, capture_id)
    tell(reading.problems, reading.notes())


def text(group: dict[str, Any], *, several: bool = False) -> Iterator[str]:
    """A group as lines. ``several``: other clusters have a group of this name."""
    called = {member["member_id"]: member["name"] for member in group["members"]}
    where = f" (cluster {group['cluster']})" if several else ""
    yield (
        f"group {group['group_id']}{where}: {', '.join(group['protocols']) or 'no members'}; "
        f"{_count(len(group['members']), 'member')}, {_count(len(group['rebalances']), 'rebalance')}, "
        f"{_count(len(group['violations']), 'violation')}"
    )
    for member in group["members"]:
        yield f"  member {member['name']}{_life(member)}"
    happened = [(rebalance["started_ts"], list(_rebalance(rebalance, called))) for rebalance in group["rebalances"]]
    happened += [(restart["ts"], [_restart(restart, called)]) for restart in group["restarts"]]
    for _, lines in sorted(happened, key=lambda item: item[0]):
        yield from lines
    for commit in group["commits"]:
        refused = f", {commit['refused']} refused" if commit["refused"] else ""
        lag = "" if commit["last_lag"] is None else f", lag {commit['last_lag']} (at most {commit['largest_lag']})"
        yield (
            f"  committed {commit['topic']}-{commit['partition']}: {_count(commit['count'], 'time')}{refused}; "
            f"last {commit['last_offset']}{lag}"
        )
    for error in group["errors"]:
        about = f" about {error['topic']}-{error['partition']}" if error["topic"] is not None else ""
        count = _count(error["count"], "time")
        yield f"  error {error['error_name']} to {error['client_id']}: {error['api_name']}{about}, {count}"
    for violation in group["violations"]:
        who = called.get(violation["member_id"], violation["member_id"] or "")
        yield f"  {_clock(violation['ts'])}  violation {violation['kind']}: {who}: {violation['detail']}"
    yield ""


def _life(member: dict[str, Any]) -> str:
    static = f", instance {member['instance_id']}" if member["instance_id"] else ""
    joined = f", joined {_clock(member['joined_ts'])}" if member["joined_ts"] else ""
    left = f", {member['left_how']} {_clock(member['left_ts'])}" if member["left_ts"] else ""
    return f": {member['member_id']} at {member['host']}{static}{joined}{left}"


def _rebalance(rebalance: dict[str, Any], called: dict[str, str]) -> Iterator[str]:
    to = "not finished" if rebalance["to_generation"] is None else f"generation {rebalance['to_generation']}"
    lasted = "" if rebalance["duration_ms"] is None else f", {_ms(rebalance['duration_ms'])}"
    by = called.get(rebalance["trigger_member"], rebalance["trigger_client"] or "")
    sure = "" if rebalance["trigger_confidence"] == "observed" else ", inferred"
    some = " (incomplete)" if rebalance["incomplete"] else ""
    why = f"{rebalance['trigger']}{sure}{f': {by}' if by else ''} - {rebalance['trigger_evidence']}"
    yield f"  {_clock(rebalance['started_ts'])}  {to}{lasted}{some}: {why}"
    stops = {member: stop for member, stop in rebalance["stw_ms"].items() if stop is not None}
    if stops:
        told = ", ".join(f"{called.get(member, member)} {_ms(stop)}" for member, stop in list(stops.items())[:MOST])
        moved = _count(rebalance["partitions_moved"], "partition")
        yield f"      stopped ({rebalance['stw_kind']}): {told}{_more(stops)}; {moved} moved"
    before, after = rebalance["assignment_before"], rebalance["assignment_after"]
    for member in list(rebalance["members_after"] or [])[:MOST]:
        had, has = before.get(member, []), after.get(member, [])
        leads = ", leader" if member == rebalance["leader"] else ""
        yield f"      {called.get(member, member)}{leads}: {_partitions(has)}{_change(had, has)}"
    if rebalance["members_after"] and len(rebalance["members_after"]) > MOST:
        yield f"      and {len(rebalance['members_after']) - MOST} members more"


def _restart(restart: dict[str, Any], called: dict[str, str]) -> str:
    """A static member that came back without a rebalance."""
    who = called.get(restart["trigger_member"], restart["trigger_client"] or "")
    away = "" if restart["stw_ms"] is None else f" after {_ms(restart['stw_ms'])}"
    return f"  {_clock(restart['ts'])}  generation {restart['generation']} goes on: restart: {who}{away} - " + str(
        restart["trigger_evidence"]
    )


def _change(had: list[str], has: list[str]) -> str:
    lost, won = [p for p in had if p not in has], [p for p in has if p not in had]
    said = [f"+ {_partitions(won)}"] if won and had else []
    said += [f"- {_partitions(lost)}"] if lost else []
    return f"  ({'; '.join(said)})" if said else ""


def _partitions(found: list[str]) -> str:
    """``orders 0 1 2, tea 0``."""
    by_topic: dict[str, list[str]] = {}
    for name in sorted(found, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))[:MOST]:
        topic, _, partition = name.rpartition("-")
        by_topic.setdefault(topic, []).append(partition)
    return (", ".join(f"{topic} {' '.join(own)}" for topic, own in by_topic.items()) + _more(found)) or "nothing"


def _more(found: Any) -> str:
    return f" and {len(found) - MOST} more" if len(found) > MOST else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _ms(duration: float) -> str:
    return f"{duration:.1f} ms" if duration < 1000 else f"{duration / 1000:.3f} s"


def _clock(moment: str | None) -> str:
    return "" if moment is None else moment[11:23]

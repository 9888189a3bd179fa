"""The command ``kwire groups``, which shows the history of the consumer groups in captures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kwire.analysis import parquet
from kwire.analysis.columns import Row, Tables
from kwire.analysis.events import ACKNOWLEDGED, CLASSIC, CONSUMER
from kwire.analysis.findings.fold import settings_of
from kwire.analysis.report import by_group, html_page
from kwire.analysis.tables import FINDINGS, PROBLEMS
from kwire.analysis.what_if.replay import NAMES
from kwire.capture import Reading
from kwire.capture.calls.model import KAFKA
from kwire.capture.files.capture_file import STDIN, no_traffic
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli.analysed import Part, analysed_parts
from kwire.cli.interface import interface_option
from kwire.cli.lines import writable
from kwire.cli.ports import ports_option
from kwire.command import FiniteRange, one_line, report_problems
from kwire.counted import counted

MINUTE_US = 60_000_000
MOST = 12  # maximum names of partitions or members per line


@click.command("groups")
@click.argument("paths", nargs=-1, metavar="FILE|DIR...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all results instead of text.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with findings and charts to this file.",
)
@click.option(
    "--tables", type=click.Path(file_okay=False, path_type=Path), help="Write every table as Parquet to this folder."
)
@click.option("--capture-id", help="Name of the capture in the tables.  [default: first file, stdin, or interface]")
@click.option("--group", "wanted", multiple=True, metavar="NAME", help="Show only this group. May be repeated.")
@click.option(
    "--what-if", "assignor", type=click.Choice(NAMES), help="Replay the groups with this assignor and compare."
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="DETECTOR.NAME=VALUE",
    help="Change a threshold of a detector of findings. May be repeated.",
)
@ports_option
@click.option(
    "--every",
    type=FiniteRange(min=0, min_open=True),
    metavar="MINUTES",
    help="Report on each so many minutes of a stream when they are over.",
)
@interface_option
@keylog_option
def command(
    paths: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    tables: Path | None,
    capture_id: str | None,
    wanted: tuple[str, ...],
    assignor: str | None,
    thresholds: tuple[str, ...],
    ports: tuple[int, ...],
    every: float | None,
    interface: str | None,
    keylog: KeyLogFile | None,
) -> None:
    """Show the consumer groups in captures: members, rebalances with trigger and cost, assignments, commits, errors.

    Findings are shown first, the worst at the top. A finding is a problem that needs attention, in one sentence.
    docs/findings.md describes the detectors and their thresholds.

    A capture is a pcap or pcapng file (also compressed with gzip), a frame log, or a topic that mockbroker proxy
    --record has written (kafka://HOST:PORT/TOPIC). The argument - reads stdin to its end, and --interface reads a
    network interface until Ctrl-C. With --what-if, the results of another assignor are shown too.

    A stream is reported in parts, so that memory stays bounded: after 100,000 calls, and with --every after so many
    MINUTES. Groups continue from part to part. From the second part on, the names of tables and pages end in the number
    of the part.

    Damaged parts of a file are skipped. Each damaged part is reported on stderr with its position, and the exit code is
    1. Packets truncated by a snap length count as damage.
    """
    capture_id = capture_id or _name_of(paths, interface)
    try:
        settings = settings_of(thresholds)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if every is not None and interface is None and "-" not in paths:
        raise click.UsageError("--every needs a stream: - for stdin, or --interface NAME")
    writable(html, paths)
    shown_any = has_traffic = False
    options = _Output(as_json, html, tables, wanted, assignor, every is not None)
    present: set[str] = set()
    reading: Reading | None = None
    for part in analysed_parts(
        paths,
        capture_id,
        ports,
        interface=interface,
        keylog=keylog,
        every_us=None if every is None else round(every * MINUTE_US),
        frames=tables is not None,
        assignor=assignor,
        settings=settings,
    ):
        present |= _names_of(part.tables)
        shown_any |= _print(part, capture_id, options)
        has_traffic |= any(row["status"] == KAFKA for row in part.tables["connections"])
        reading = part.reading
    assert reading is not None, "there is at least one part"
    missing = None
    if lacking := set(wanted) - present:
        names = ", ".join(sorted(present)) or "none"
        missing = f"group not in the captures: {', '.join(sorted(lacking))} (groups: {names})"
    elif not shown_any and not reading.damage:
        missing = "no consumer group in the captures" if has_traffic else no_traffic(paths, reading.files, ports)
    report_problems(reading.damage, reading.notes(), missing)


def _name_of(paths: Sequence[str], interface: str | None) -> str:
    """Return the default name of a capture: the name of its first file, ``stdin``, or the name of the interface."""
    if not paths:
        return interface or ""
    return "stdin" if paths[0] == STDIN else Path(paths[0]).name


@dataclass(frozen=True, slots=True)
class _Output:
    """The options of ``kwire groups`` about output.

    Attributes:
        as_json: True to print JSON instead of text.
        html: path of the HTML page; None for no page.
        tables: folder for Parquet tables; None for no tables.
        wanted: ids of the groups to show; empty to show all groups.
        assignor: name of the assignor of ``--what-if``; None without the option.
        has_titles: True to print a line with number and times before each part of a stream.
    """

    as_json: bool
    html: Path | None
    tables: Path | None
    wanted: tuple[str, ...]
    assignor: str | None
    has_titles: bool


def _names_of(results: Tables) -> set[str]:
    return {row["group_id"] for name in by_group.OF_GROUPS for row in results[name] if row["group_id"] is not None}


def _print(part: Part, capture_id: str, options: _Output) -> bool:
    """Print the groups of a part of the input, and write the tables and the page. Return False if it has no groups.

    Args:
        part: part of the input.
        capture_id: name of the capture.
        options: options about output.
    """
    results: Tables = part.tables
    if options.wanted:
        results = {
            name: [row for row in rows if "group_id" not in row or row["group_id"] in options.wanted]
            for name, rows in results.items()
        }
    name = capture_id if part.number == 1 else f"{capture_id}-{part.number}"
    shown = list(by_group.groups(results))
    findings = by_group.worst_first(results[FINDINGS.name])
    if options.as_json:
        passed_over = [by_group.readable(PROBLEMS.name, row, without=["capture_id"]) for row in results[PROBLEMS.name]]
        content = {
            "findings": [by_group.readable(FINDINGS.name, row, without=["capture_id"]) for row in findings],
            "groups": shown,
            "problems": [str(problem) for problem in part.reading.damage],
            "passed_over": [row for row in passed_over if row["error"] is None],
        }
        click.echo(json.dumps(content, indent=1))
    else:
        same = Counter(group["group_id"] for group in shown)
        several = {group_id for group_id, clusters in same.items() if clusters > 1}
        lines = [*finding_lines(findings, several)]
        for group in shown:
            lines += text(group, several=group["group_id"] in several, assignor=options.assignor)
        if options.has_titles or part.number > 1:
            since = "the beginning" if not part.begin else _clock(by_group.moment(part.begin))
            lines[:0] = [f"part {part.number}: {since} to {_clock(by_group.moment(part.end))} UTC", ""]
        for line in lines:
            click.echo(one_line(line, 10_000))
    if options.tables is not None:
        parquet.write(options.tables, name, results)
    if options.html is not None:
        page = options.html
        if part.number > 1:
            page = page.with_name(f"{page.stem}-{part.number}{page.suffix}")
        html_page.save(page, results, name)
    return bool(shown)


def finding_lines(rows: Sequence[Row], several: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines of text about findings.

    The first line is the number of findings. Then each finding has two lines: severity, detector, time and sentence;
    then the first reference to its evidence. Of equal findings, only the worst has these lines; a third line has the
    number and the time of the others. Without findings, nothing is yielded.

    Args:
        rows: rows of the table ``findings``, the worst first.
        several: ids of groups that exist in several clusters. In findings about them, the cluster is printed, too.
    """
    if not rows:
        return
    yield counted(len(rows), "finding")
    for row, *others in by_group.alike(rows):
        where = f" (cluster {row['cluster']})" if row["group_id"] in several else ""
        yield f"  {row['severity']:8}  {row['finding']}  {_span([row])}  {row['sentence']}{where}"
        more = f" and {row['evidence_count'] - 1} more" if row["evidence_count"] > 1 else ""
        yield f"      see {row['evidence'][0]}{more}"
        if others:
            yield f"      and {len(others)} more like it, {_span(others)}; --json lists them"
    yield ""


def _span(rows: Sequence[Row]) -> str:
    begin, end = min(row["begin_ts"] for row in rows), max(row["end_ts"] for row in rows)
    return f"{_clock(by_group.moment(begin))}-{_clock(by_group.moment(end))}"


def text(group: dict[str, Any], *, several: bool = False, assignor: str | None = None) -> Iterator[str]:
    """Yield the lines of text about the history of a consumer group.

    Args:
        group: history of the group, from ``by_group.groups``.
        several: True if several clusters have a group with this id. Then the cluster is printed, too.
        assignor: name of the assignor of ``--what-if``; None without the option.
    """
    names = {member["member_id"]: member["name"] for member in group["members"]}
    where = f" (cluster {group['cluster']})" if several else ""
    yield (
        f"group {group['group_id']}{where}: {', '.join(group['protocols']) or 'no members'}; "
        f"{counted(len(group['members']), 'member')}, {counted(len(group['rebalances']), 'rebalance')}, "
        f"{counted(len(group['violations']), 'violation')}"
    )
    for member in group["members"]:
        yield f"  member {member['name']}{_life(member)}"
    happened = [(rebalance["started_ts"], list(_rebalance(rebalance, names))) for rebalance in group["rebalances"]]
    happened += [(restart["ts"], [_restart(restart, names)]) for restart in group["restarts"]]
    for _, lines in sorted(happened, key=lambda item: item[0] or ""):  # None outside of the years 1 to 9999
        yield from lines
    for commit in group["commits"]:
        others = "".join(f", {commit[kind]} {kind}" for kind in ("refused", "aborted", "unknown") if commit[kind])
        lag = "" if commit["last_lag"] is None else f", lag {commit['last_lag']} (at most {commit['largest_lag']})"
        yield (
            f"  committed {commit['topic']}-{commit['partition']}: {counted(commit['committed'], 'time')}{others}; "
            f"last {commit['last_offset']}{lag}"
        )
    for shared in group["shared"]:
        counts = ", ".join(f"{kind} {shared[kind]}" for kind in ("acquired", *ACKNOWLEDGED, "refused") if shared[kind])
        yield f"  records of {names.get(shared['member_id'], shared['member_id'])}: {counts}"
    for error in group["errors"]:
        about = f" about {error['topic']}-{error['partition']}" if error["topic"] is not None else ""
        count = counted(error["count"], "time")
        yield f"  error {error['error_name']} to {error['client_id']}: {error['api_name']}{about}, {count}"
    for violation in group["violations"]:
        member = names.get(violation["member_id"], violation["member_id"] or "")
        yield f"  {_clock(violation['ts'])}  violation {violation['kind']}: {member}: {violation['detail']}"
    if assignor is not None:
        yield from _what_if(group, assignor, names)
    yield ""


def _what_if(group: dict[str, Any], assignor: str, names: dict[str, str]) -> Iterator[str]:
    """Yield the lines about the results of the assignor of ``--what-if``.

    Totals are first. Then follow the generations in which the assignment by this assignor differs from the captured
    assignment. If no generation was replayed, one line gives the reason.

    Args:
        group: history of the group, from ``by_group.groups``.
        assignor: name of the assignor of ``--what-if``.
        names: short names of the members, by member id.
    """
    generations, total = group["what_if"]["generations"], group["what_if"]["sum"]
    if total is None:
        why = next((row["note"] for row in generations), None)
        if why is None:
            others = [name for name in group["protocols"] if name not in (CLASSIC, CONSUMER)]
            why = f"assignors of {others[0]} groups are not known" if others else "no member was seen joining"
        yield f"  what if {assignor}: nothing to replay: {why}"
        return
    yield (
        f"  what if {assignor}: partitions moved {_instead(total, 'moved')}, "
        f"rebalances {_instead(total, 'rebalances')}, imbalance up to {_instead(total, 'largest_imbalance')}"
    )
    avoided = total["avoided_ms"] / 1000
    difference = f"{avoided:.3f} s avoided" if avoided >= 0 else f"{-avoided:.3f} s more"
    yield (
        f"      partitions without an owner, added up: {total['stopped_ms_what_if'] / 1000:.3f} s "
        f"instead of {total['stopped_ms'] / 1000:.3f} s: {difference}"
    )
    for row in generations:
        yield from _generation(row, names)


def _generation(row: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    where = f"      generation {row['generation']}"
    if row["note"] is not None:
        yield f"{where}: not replayed: {row['note']}"
        return
    times = {0: ", not needed", 1: "", 2: ", and a follow-up"}[row["rebalances_what_if"]]
    yield (
        f"{where}{times}: moved {_instead(row, 'moved')}, imbalance {_instead(row, 'imbalance')}, "
        f"without an owner {row['stopped_ms_what_if']:.1f} ms instead of {row['stopped_ms']:.1f} ms"
    )
    if row["elsewhere"]:
        shares = row["assignment_what_if"]
        for member in list(shares)[:MOST]:
            yield f"          {names.get(member, member)}: {_partitions(shares[member])}"
        if len(shares) > MOST:
            yield f"          and {len(shares) - MOST} more members"


def _instead(row: dict[str, Any], name: str) -> str:
    was, would = row[name], row[f"{name}_what_if"]
    return f"{would} instead of {was}" if was != would else str(was)


def _life(member: dict[str, Any]) -> str:
    static = f", instance {member['instance_id']}" if member["instance_id"] else ""
    joined = f", joined {_clock(member['joined_ts'])}" if member["joined_ts"] else ""
    left = f", {member['left_how']} {_clock(member['left_ts'])}" if member["left_ts"] else ""
    return f": {member['member_id']} at {member['host']}{static}{joined}{left}"


def _rebalance(rebalance: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    to = "not finished" if rebalance["to_generation"] is None else f"generation {rebalance['to_generation']}"
    lasted = "" if rebalance["duration_ms"] is None else f", {_ms(rebalance['duration_ms'])}"
    by = names.get(rebalance["trigger_member"], rebalance["trigger_client"] or "")
    confidence = "" if rebalance["trigger_confidence"] == "observed" else ", inferred"
    some = " (incomplete)" if rebalance["incomplete"] else ""
    cause = f"{rebalance['trigger']}{confidence}{f': {by}' if by else ''} - {rebalance['trigger_evidence']}"
    yield f"  {_clock(rebalance['started_ts'])}  {to}{lasted}{some}: {cause}"
    stops = {member: stop for member, stop in rebalance["stw_ms"].items() if stop is not None}
    if stops:
        shown = ", ".join(f"{names.get(member, member)} {_ms(stop)}" for member, stop in list(stops.items())[:MOST])
        moved = counted(rebalance["partitions_moved"], "partition")
        yield f"      stopped ({rebalance['stw_kind']}): {shown}{_more(stops)}; {moved} moved"
    before, after = rebalance["assignment_before"], rebalance["assignment_after"]
    for member in list(rebalance["members_after"] or [])[:MOST]:
        had, has = before.get(member, []), after.get(member, [])
        leads = ", leader" if member == rebalance["leader"] else ""
        yield f"      {names.get(member, member)}{leads}: {_partitions(has)}{_change(had, has)}"
    if rebalance["members_after"] and len(rebalance["members_after"]) > MOST:
        yield f"      and {len(rebalance['members_after']) - MOST} more members"


def _restart(restart: dict[str, Any], names: dict[str, str]) -> str:
    """Return the line of text about a static member that restarted without a rebalance.

    Args:
        restart: time and member of the restart, from ``by_group.groups``.
        names: short names of the members, by member id.
    """
    member = names.get(restart["trigger_member"], restart["trigger_client"] or "")
    away = "" if restart["stw_ms"] is None else f" after {_ms(restart['stw_ms'])}"
    return f"  {_clock(restart['ts'])}  generation {restart['generation']} continues: restart: {member}{away} - " + str(
        restart["trigger_evidence"]
    )


def _change(had: list[str], has: list[str]) -> str:
    lost, won = [p for p in had if p not in has], [p for p in has if p not in had]
    changes = [f"+ {_partitions(won)}"] if won and had else []
    changes += [f"- {_partitions(lost)}"] if lost else []
    return f"  ({'; '.join(changes)})" if changes else ""


def _partitions(partitions: list[str]) -> str:
    """Return partitions as text that is grouped by topic, such as ``orders 0 1 2, tea 0``."""
    by_topic: dict[str, list[str]] = {}
    for name in sorted(partitions, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))[:MOST]:
        topic, _, partition = name.rpartition("-")
        by_topic.setdefault(topic, []).append(partition)
    return (", ".join(f"{topic} {' '.join(own)}" for topic, own in by_topic.items()) + _more(partitions)) or "nothing"


def _more(items: Any) -> str:
    return f" and {len(items) - MOST} more" if len(items) > MOST else ""


def _ms(duration: float) -> str:
    return f"{duration:.1f} ms" if duration < 1000 else f"{duration / 1000:.3f} s"


def _clock(moment: str | None) -> str:
    return "" if moment is None else moment[11:23]

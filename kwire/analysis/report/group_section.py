"""The section of one group on the HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from kwire.analysis.columns import Row, Tables
from kwire.analysis.findings.model import reference
from kwire.analysis.report.by_group import commits, restarts
from kwire.analysis.report.lanes import lanes, packed
from kwire.analysis.report.parts import MOST_ROWS, Cell, Html, Line, clock, number, table
from kwire.counted import counted

MOST_MOVES = 4  # pairs of members whose partitions are listed in a row of a rebalance
MOST_MOVED = 12  # partitions of one such pair


def section(own: Tables, title: str, place: int, called: dict[str, str], *, is_open: bool) -> Iterator[str]:
    """Yield the HTML of a group: swim lanes, rebalances, restarts, members, commits, violations.

    Args:
        own: rows of the group by table name.
        title: heading.
        place: number of the group on the page, which is in the HTML ids.
        called: display names by member id.
        is_open: True if the details are visible when the page is opened; False if they are folded.
    """
    yield f'<section class="group" id="group-{place}"><h2 class="group">{escape(title)}</h2>'
    protocols = sorted({row["protocol"] for row in own["group_events"] if row["protocol"]})
    parts = [", ".join(protocols) or "no members", counted(len(called), "member", ",")]
    parts += [counted(len(own["rebalances"]), "rebalance", ","), counted(len(own["violations"]), "violation", ",")]
    yield f"<details{' open' if is_open else ''}><summary>{escape('; '.join(parts))}</summary>"
    drawn = lanes(own, called)
    if drawn is not None:
        yield from _chart(drawn, place)
    yield _rebalances(own, called, place)
    yield _restarts(own, called)
    yield _members(own["members"], called, place)
    yield _commits(own["offset_commits"])
    yield _violations(own["violations"], called)
    yield "</details></section>"


def targets(own: Tables, place: int) -> dict[str, str]:
    """Return the HTML ids of the rows to which references in findings lead, by reference.

    A reference to an assignment leads to the rebalance of its generation.

    Args:
        own: rows of the group by table name.
        place: number of the group on the page.
    """
    found: dict[str, str] = {}
    for line, row in enumerate(own["rebalances"][:MOST_ROWS]):
        generation, target = row["to_generation"], f"rebalance-{place}-{line}"
        found[reference("rebalances", to_generation=generation, life=row["life"])] = target
        found[reference("assignments", generation=generation)] = target
    for line, (member, rows) in enumerate([*_by_member(own["members"]).items()][:MOST_ROWS]):
        for row in rows:
            named = reference("members", member_id=member, generation=row["generation"], life=row["life"])
            found[named] = f"member-{place}-{line}"
    return found


def _chart(drawn: dict[str, Any], place: int) -> Iterator[str]:
    yield (
        '<p class="note">Bands are generations, from the time when a member received its assignment; red is a stop, '
        "in which the partitions that it then got were not read. Numbers are in the tables below.</p>"
    )
    yield f'<div class="lanes" id="lanes-{place}" data-group="{place}" hidden></div>'
    yield f'<script type="text/plain" class="data" id="data-{place}">{packed(drawn)}</script>'
    yield '<noscript><p class="note">The lanes need JavaScript.</p></noscript>'
    members, partitions, commits = drawn["left_out"]
    for count, what in ((members, "member"), (partitions, "partition"), (commits, "commit")):
        if count:
            yield f'<p class="note">{counted(count, f"more {what}", ",")} not drawn.</p>'


def _rebalances(own: Tables, called: dict[str, str], place: int) -> str:
    moved = _moves(own["assignments"], called)
    replayed = {
        (row["protocol"], row["life"], row["generation"]): row for row in own.get("what_if", ()) if row["note"] is None
    }
    lines: list[Line] = []
    for row in own["rebalances"]:
        key = row["protocol"], row["life"], row["to_generation"]
        by = called.get(row["trigger_member"], row["trigger_client"] or "")
        cells: list[Cell] = [
            clock(row["started_ts"]),
            "?" if row["to_generation"] is None else row["to_generation"],
            row["trigger"],
            by,
            row["trigger_evidence"],
            number(row["duration_ms"]),
            number(row["stw_ms_max"]),
            number(row["stw_ms_avg"]),
            row["stw_kind"],
            row["partitions_moved"],
            None if row["members_before"] is None else len(row["members_before"]),
            None if row["members_after"] is None else len(row["members_after"]),
            moved.get(key, ""),
            "yes" if row["incomplete"] else "",
        ]
        if replayed:
            other = replayed.get(key)
            cells += [None, None] if other is None else [other["moved_what_if"], number(other["stopped_ms_what_if"])]
        lines.append(("inferred" if row["trigger_confidence"] == "inferred" else "", cells))
    head = [
        "started",
        "generation",
        "trigger",
        "by",
        "evidence",
        "lasted, ms",
        "stopped at most, ms",
        "on average, ms",
        "kind",
        "moved",
        "members before",
        "after",
        "what moved",
        "incomplete",
    ]
    if replayed:
        name = next(iter(replayed.values()))["assignor"]
        head += [f"moved with {name}", "without an owner, partition-ms"]
    return table("rebalances", head, lines, title="Rebalances", row_id=f"rebalance-{place}-") if lines else ""


def _moves(assignments: Iterable[Row], called: dict[str, str]) -> dict[Any, Html]:
    """Return the partitions that changed owner in each generation, as folded HTML lists.

    The key is the protocol, the life and the generation. The life is a number that increases when the group is deleted,
    expires or loses its state.

    Args:
        assignments: rows of ``assignments`` of one group.
        called: display names by member id.
    """
    pairs: dict[Any, dict[tuple[str, str], dict[str, list[int]]]] = defaultdict(dict)
    for row in assignments:
        before, after = row["from_prev_owner"], row["member_id"]
        if before is None or before == after:
            continue
        made = pairs[row["protocol"], row["life"], row["generation"]]
        names: tuple[str, str] = called.get(before) or before, called.get(after) or after
        made.setdefault(names, defaultdict(list))[row["topic"]].append(row["partition"])
    return {key: _move_list(made) for key, made in pairs.items()}


def _move_list(made: dict[tuple[str, str], dict[str, list[int]]]) -> Html:
    lines = []
    for (before, after), topics in sorted(made.items())[:MOST_MOVES]:
        shown = []
        for topic, partitions in sorted(topics.items()):
            kept = " ".join(map(str, sorted(partitions)[:MOST_MOVED]))
            more = f" and {len(partitions) - MOST_MOVED} more" if len(partitions) > MOST_MOVED else ""
            shown.append(f"{topic} {kept}{more}")
        lines.append(escape(f"{before} to {after}: {', '.join(shown)}"))
    more = f"<br>and {len(made) - MOST_MOVES} more pairs" if len(made) > MOST_MOVES else ""
    count = sum(len(partitions) for topics in made.values() for partitions in topics.values())
    return Html(f"<details><summary>{counted(count, 'partition', ',')}</summary>{'<br>'.join(lines)}{more}</details>")


def _restarts(own: Tables, called: dict[str, str]) -> str:
    lines: list[Line] = [
        (
            "",
            [
                (row["ts"] or "")[11:23],
                row["generation"],
                row["trigger"],
                called.get(row["trigger_member"], row["trigger_client"] or ""),
                row["trigger_evidence"],
                number(row["stw_ms"]),
            ],
        )
        for row in restarts(own)
    ]
    head = ["back at", "generation", "trigger", "by", "evidence", "away, ms"]
    return table("restarts", head, lines, title="Restarts of static members without a rebalance") if lines else ""


def _by_member(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each member, by member id, in the order of the table of members: by the time of joining."""
    by_member: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_member[row["member_id"]].append(row)
    return dict(sorted(by_member.items(), key=lambda item: (item[1][0]["joined_ts"] or 0, item[0])))


def _members(rows: Sequence[Row], called: dict[str, str], place: int) -> str:
    lines: list[Line] = []
    for member, own in _by_member(rows).items():
        last, stops = own[-1], [row["stw_ms"] for row in own if row["stw_ms"] is not None]
        joined, left = own[0]["joined_ts"], last["left_ts"]
        cells: list[Cell] = [
            called[member],
            member,
            last["host"],
            last["instance_id"],
            None if joined is None else clock(joined),
            None if left is None else f"{last['left_how']} {clock(left)[11:]}",
            len(own),
            len(stops),
            number(sum(stops)),
            number(max(stops, default=None)),
        ]
        lines.append(("", cells))
    head = [
        "member",
        "member id",
        "host",
        "instance",
        "joined",
        "left",
        "generations",
        "stops",
        "stopped, ms",
        "longest stop, ms",
    ]
    return table("members", head, lines, title="Members", row_id=f"member-{place}-") if lines else ""


def _commits(rows: Sequence[Row]) -> str:
    lines: list[Line] = [
        (
            "warn" if made["refused"] else "",
            [
                made["topic"],
                made["partition"],
                made["count"],
                made["refused"],
                made["aborted"],
                made["unknown"],
                made["last_offset"],
                made["last_lag"],
                made["largest_lag"],
            ],
        )
        for made in commits(rows)
    ]
    head = [
        "topic",
        "partition",
        "commits",
        "refused",
        "aborted",
        "outcome unknown",
        "last offset",
        "last lag",
        "largest lag",
    ]
    return table("commits", head, lines, title="Commits") if lines else ""


def _violations(rows: Sequence[Row], called: dict[str, str]) -> str:
    lines: list[Line] = [
        (
            "warn",
            [
                clock(row["ts"]),
                row["kind"],
                called.get(row["member_id"], row["client_id"] or ""),
                row["topic"],
                row["partition"],
                row["detail"],
            ],
        )
        for row in rows
    ]
    head = ["seen", "violation", "member", "topic", "partition", "what was seen"]
    return table("violations", head, lines, title="Violations") if lines else ""

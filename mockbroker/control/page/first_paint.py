"""The HTML page as the server sends it, with headings and tables for curl, text browsers and screen readers.

Every text that a client has chosen is escaped, so that it becomes neither markup nor a control sequence of a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

ROWS = 500  # maximum rows of a table
ROWS_IN_ALL = 2_000
LONGEST = 300  # maximum characters of a text in a cell
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>mockbroker</title>
<link rel="stylesheet" href="/page/app.css">
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<script type="module" src="/page/app.js"></script>
</head>
<body>
"""
TAIL = """<noscript>
<p>Without JavaScript this page is not updated: reload it, or use <a href="/openapi.json">the control API</a>.</p>
</noscript>
</body>
</html>
"""
LOGIN = """<main id="app" data-login>
<h1>mockbroker</h1>
<form id="login" method="post" action="/v1/session">
<p><label for="token">Token of the control API</label></p>
<p><input id="token" name="token" type="password" autocomplete="current-password" required></p>
<p><button>Log in</button></p>
</form>
</main>
"""


def login_page() -> str:
    """Return the login page, for a browser that has no session."""
    return HEAD + LOGIN + TAIL


def state_page(state: Mapping[str, Any]) -> str:
    """Return the page with the tables of a state. ``state``: the document of GET /v1/state."""
    parts = [HEAD, '<main id="app">\n', "<h1>mockbroker</h1>\n"]
    parts += _Tables(state).parts()
    return "".join([*parts, "</main>\n", TAIL])


def text(value: object) -> str:
    """Return a value as text for an HTML element: escaped, shortened, and without characters that are not printable."""
    shown = str(value)
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return escape(shown)


class _Tables:
    """The tables of the page, which together have at most ROWS_IN_ALL rows. ``state``: the document of GET
    /v1/state.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state
        self._left = ROWS_IN_ALL

    def parts(self) -> list[str]:
        return [*self._cluster(), *self._groups(), *self._topics(), *self._faults()]

    def _cluster(self) -> list[str]:
        cluster, clock = self._state["cluster"], self._state["clock"]
        brokers = ((each["id"], f"{each['host']}:{each['port']}", each["state"]) for each in cluster["brokers"])
        facts = (
            f"Kafka {cluster['release']}, cluster {cluster['cluster_id']}, "
            f"bootstrap.servers={cluster['bootstrap_servers']}"
        )
        return [
            f"<p>{text(facts)}</p>\n",
            f"<p>Clock: {text(clock['mode'])}, {text(clock['time'])}</p>\n",
            "<h2>Brokers</h2>\n",
            *self._table("brokers", ("broker", "address", "state"), brokers),
        ]

    def _groups(self) -> list[str]:
        groups = self._state["groups"]
        parts = ["<h2>Groups</h2>\n", *([] if groups else ["<p>No groups.</p>\n"])]
        for group in islice(groups.values(), ROWS):
            if self._left <= 0:
                parts.append("<p>Further groups are not shown.</p>\n")
                break
            facts = (
                f"{group['type']} group, {group['state']}, generation {group['generation']}, "
                f"protocol {group.get('protocol', '-')}, coordinator: broker {group['coordinator']}"
            )
            parts += [f"<h3>{text(group['id'])}</h3>\n", f"<p>{text(facts)}</p>\n"]
            parts += self._table("members", MEMBER_COLUMNS, map(_member_row, group["members"].values()))
            parts += self._table("committed offsets", OFFSET_COLUMNS, _offset_rows(group["offsets"]))
        return parts

    def _topics(self) -> list[str]:
        topics = self._state["topics"]
        rows = (
            (name, len(each["partitions"]), _records(each)) for name, each in topics.items() if not each["internal"]
        )
        return ["<h2>Topics</h2>\n", *self._table("topics", ("topic", "partitions", "records"), rows)]

    def _faults(self) -> list[str]:
        faults = sorted(self._state["faults"].values(), key=lambda each: int(each["position"]))
        return ["<h2>Faults</h2>\n", *self._table("fault rules", FAULT_COLUMNS, map(_fault_row, faults))]

    def _table(self, noun: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
        """Return the HTML of a table, or of a paragraph if there are no rows.

        Args:
            noun: plural noun for the rows, such as ``groups``.
            columns: titles of the columns.
            rows: values of the rows.
        """
        shown, rest = list(islice(rows, max(min(ROWS, self._left), 0))), rows
        self._left -= len(shown)
        more = any(True for _ in rest)
        if not shown:
            return ["<p>Not shown.</p>\n" if more else f"<p>No {noun}.</p>\n"]
        head = "".join(f'<th scope="col">{text(each)}</th>' for each in columns)
        body = ("<tr>" + "".join(f"<td>{text(each)}</td>" for each in row) + "</tr>\n" for row in shown)
        end = "<p>Further rows are not shown.</p>\n" if more else ""
        return [f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n", *body, f"</tbody>\n</table>\n{end}"]


MEMBER_COLUMNS = ("member", "client", "host", "instance", "assignment", "last heartbeat")
OFFSET_COLUMNS = ("topic", "partition", "committed offset", "lag")
FAULT_COLUMNS = ("fault", "match", "action", "matched", "applied", "holding")


def _member_row(member: Mapping[str, Any]) -> Sequence[object]:
    assignment = member.get("assignment")
    owned = "unknown" if assignment is None else _partitions(assignment) or "none"
    instance, heartbeat = member.get("instance_id", "-"), member.get("last_heartbeat", "-")
    return member["member_id"], member["client_id"], member["host"], instance, owned, heartbeat


def _partitions(assignment: Mapping[str, Sequence[int]]) -> str:
    """Return an assignment as text, such as ``orders 0 1 2, payments 0``."""
    shown = (f"{topic} {' '.join(map(str, islice(indexes, LONGEST)))}" for topic, indexes in assignment.items())
    return ", ".join(islice(shown, LONGEST))


def _offset_rows(offsets: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterable[Sequence[object]]:
    for topic, partitions in offsets.items():
        for index, each in partitions.items():
            yield topic, index, each["offset"], each.get("lag", "-")


def _records(topic: Mapping[str, Any]) -> int:
    return sum(each["end"] - each["start"] for each in topic["partitions"].values())


def _fault_row(fault: Mapping[str, Any]) -> Sequence[object]:
    match, action = (json.dumps(fault.get(key, {}), ensure_ascii=False) for key in ("match", "action"))
    return fault["name"], match, action, fault["matched"], fault["applied"], fault["holding"]

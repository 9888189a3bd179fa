"""Timelines, the output of the demo: coloured text for a terminal, plain text for a log, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kwire.lazy_dataclass import dataclass
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, TOPIC
from mockbroker.lab.demo.checks import Check

STYLES = {"kafka-python": "cyan", "confluent-kafka": "magenta", "aiokafka": "yellow"}
UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Write = Callable[[str], object]
SENTENCES = {"stop": "is stopped", "kill": "is killed"}  # for actions without details


@dataclass(frozen=True, slots=True)
class Action:
    """An action that the demo carries out, such as the start of a client.

    Attributes:
        time_ms: journal time, milliseconds.
        name: name of the action: start, produce, stop or kill.
        client: kind of the client of the action; "" for an action on the cluster.
        detail: description; "" for the text in SENTENCES.
    """

    time_ms: int
    name: str
    client: str
    detail: str


class Timeline(Protocol):
    """The interface of timelines, which show three things: events of the cluster, actions of the demo, and results
    of the checks.
    """

    def event(self, event: Event) -> None:
        """Show an event of the journal."""

    def action(self, action: Action) -> None:
        """Show an action of the demo's script."""

    def checks(self, checks: Sequence[Check]) -> None:
        """Show the results of the checks, once, at the end."""


class JsonTimeline:
    """The timeline as JSON: a line for each event and action, and a last line with all checks.

    Args:
        write: function that prints one line.
    """

    def __init__(self, write: Write) -> None:
        self._write = write

    def event(self, event: Event) -> None:
        line = {
            "time_ms": event.time_ms,
            "client": event.client,
            "member_id": event.member_id,
            "event": event.event,
            "generation": event.generation,
            "assignment": event.assignment or {},
        }
        if event.reason:
            line["reason"] = event.reason
        self._write(json.dumps(line))

    def action(self, action: Action) -> None:
        line = {
            "time_ms": action.time_ms,
            "client": action.client,
            "member_id": "",
            "event": action.name,
            "generation": -1,
            "assignment": {},
        }
        if action.detail:
            line["reason"] = action.detail
        self._write(json.dumps(line))

    def checks(self, checks: Sequence[Check]) -> None:
        self._write(json.dumps({"checks": [check.to_json() for check in checks]}))


class PlainTimeline:
    """The timeline as text: a line for each event and action. The assignments of a generation are on one line.

    Args:
        write: function that prints one line.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._owners: dict[str, list[int]] = {}
        self._unassigned: set[str] = set()  # ids of members that have no assignment in this generation yet

    def event(self, event: Event) -> None:
        if event.event == EventKind.GENERATION:
            self._owners, self._unassigned = {}, set(event.members)
        if event.event == EventKind.ASSIGN:
            self._owners[event.client] = sorted((event.assignment or {}).get(TOPIC, []))
            self._unassigned.discard(event.member_id)
            if not self._unassigned:
                self.line(event.time_ms, "", f"generation {event.generation} owns  {self._owned()}", "bold")
            return
        if text := _sentence(event):
            self.line(event.time_ms, event.client, text, "dim" if event.event == EventKind.COMMIT else "")

    def action(self, action: Action) -> None:
        self.line(action.time_ms, action.client, action.detail or SENTENCES[action.name], "")

    def line(self, time_ms: int, client: str, text: str, style: str) -> None:  # noqa: ARG002 - RichTimeline uses it
        """Write a line of the timeline.

        Args:
            time_ms: journal time, milliseconds.
            client: kind of the client; "" for the cluster.
            text: text of the line.
            style: name of the colour or text style, or "". This class ignores it; RichTimeline uses it.
        """
        self._write(f"{time_ms / 1000:8.3f} s  {client:<16} {text}")

    def checks(self, checks: Sequence[Check]) -> None:
        self._write("")
        for check in checks:
            self._write(f"{'ok    ' if check.held else 'FAILED'}  {check.name}  ({check.detail})")

    def _owned(self) -> str:
        shares = [
            f"{client}: {' '.join(map(str, partitions)) or 'nothing'}"
            for client, partitions in sorted(self._owners.items(), key=lambda item: item[1])
        ]
        return "   ".join(shares)


class RichTimeline(PlainTimeline):
    """The timeline as text with a colour for each kind of client."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        from rich.console import Console

        self._console = Console(highlight=False)

    def line(self, time_ms: int, client: str, text: str, style: str) -> None:
        from rich.text import Text

        line = Text(f"{time_ms / 1000:8.3f} s  ", style="dim")
        line.append(f"{client:<16} ", style=STYLES.get(client, "bold"))
        styled = Text(text, style=style)
        for kind in KINDS:
            styled.highlight_words([kind], STYLES[kind])
        self._console.print(line.append_text(styled), soft_wrap=True)

    def checks(self, checks: Sequence[Check]) -> None:
        from rich.table import Table

        table = Table("", "check", "result", box=None, pad_edge=False)
        for check in checks:
            table.add_row("[green]ok[/]" if check.held else "[bold red]FAILED[/]", check.name, check.detail)
        self._console.print()
        self._console.print(table)


def choose(*, as_json: bool, write: Write) -> Timeline:
    """Return a timeline: JSON if ``as_json`` is True, coloured text if stdout is a terminal, else plain text.

    ``write``: function that prints a line.
    """
    if as_json:
        return JsonTimeline(write)
    return RichTimeline() if sys.stdout.isatty() else PlainTimeline(write)


def _sentence(event: Event) -> str:
    """Return the sentence for an event of the journal, or "" for an event that the timeline leaves out."""
    sentences: Mapping[EventKind, str] = {
        EventKind.JOIN: "joins the group",
        EventKind.REJOIN: "joins again",
        EventKind.LEAVE: "leaves the group",
        EventKind.EXPIRE: f"is evicted: {event.reason}",
        EventKind.REBALANCE: f"rebalance: {UUID.sub('', event.reason)}",
        EventKind.GENERATION: (
            f"generation {event.generation} begins: members {', '.join(UUID.sub('', m) for m in event.members)}; "
            f"leader {UUID.sub('', event.leader)}, strategy {event.protocol}"
        ),
        EventKind.EMPTY: "the group is empty",
        EventKind.COMMIT: f"commits {_offsets(event)}",
    }
    return sentences.get(event.event, "")


def _offsets(event: Event) -> str:
    committed = event.offsets.get(TOPIC, {})
    return "  ".join(f"{partition}:{offset}" for partition, offset in sorted(committed.items()))

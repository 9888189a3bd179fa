"""The demo as lines: for people on a terminal, for people in a log, and for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, TOPIC
from mockbroker.lab.demo.checks import Check

STYLES = {"kafka-python": "cyan", "confluent-kafka": "magenta", "aiokafka": "yellow"}
UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Write = Callable[[str], object]
SENTENCES = {"stop": "is told to stop", "kill": "is killed"}  # of actions without details


@dataclass(frozen=True, slots=True)
class Action:
    """What the script of the demo did. ``time_ms``: as in the journal; ``name``: start, produce, stop or kill."""

    time_ms: int
    name: str
    client: str
    detail: str


class Timeline(Protocol):
    """Where the story is told."""

    def event(self, event: Event) -> None:
        """Show an event of the journal."""

    def action(self, action: Action) -> None:
        """Show what the script did."""

    def checks(self, checks: Sequence[Check]) -> None:
        """The end: what was claimed, and whether it held."""


class JsonTimeline:
    """A line an event, and a last line with the checks."""

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
            EventKind.GENERATION: -1,
            "assignment": {},
        }
        if action.detail:
            line["reason"] = action.detail
        self._write(json.dumps(line))

    def checks(self, checks: Sequence[Check]) -> None:
        self._write(json.dumps({"checks": [check.to_json() for check in checks]}))


class PlainTimeline:
    """A sentence an event. Who owns what is told once for a whole generation."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._owners: dict[str, list[int]] = {}
        self._due: set[str] = set()

    def event(self, event: Event) -> None:
        if event.event == EventKind.GENERATION:
            self._owners, self._due = {}, set(event.members)
        if event.event == EventKind.ASSIGN:
            self._owners[event.client] = sorted((event.assignment or {}).get(TOPIC, []))
            self._due.discard(event.member_id)
            if not self._due:
                self.line(event.time_ms, "", f"generation {event.generation} owns  {self._owned()}", "bold")
            return
        told = _sentence(event)
        if told:
            self.line(event.time_ms, event.client, told, "dim" if event.event == EventKind.COMMIT else "")

    def action(self, action: Action) -> None:
        self.line(action.time_ms, action.client, action.detail or SENTENCES[action.name], "")

    def line(self, time_ms: int, client: str, text: str, style: str) -> None:  # noqa: ARG002 - for those with colours
        """One line of the story."""
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
    """The same with colours, one for each client."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        from rich.console import Console

        self._console = Console(highlight=False)

    def line(self, time_ms: int, client: str, text: str, style: str) -> None:
        from rich.text import Text

        line = Text(f"{time_ms / 1000:8.3f} s  ", style="dim")
        line.append(f"{client:<16} ", style=STYLES.get(client, "bold"))
        told = Text(text, style=style)
        for kind in KINDS:
            told.highlight_words([kind], STYLES[kind])
        self._console.print(line.append_text(told), soft_wrap=True)

    def checks(self, checks: Sequence[Check]) -> None:
        from rich.table import Table

        table = Table("", "check", "seen", box=None, pad_edge=False)
        for check in checks:
            table.add_row("[green]ok[/]" if check.held else "[bold red]FAILED[/]", check.name, check.detail)
        self._console.print()
        self._console.print(table)


def choose(*, as_json: bool, write: Write) -> Timeline:
    """The form that suits who reads."""
    if as_json:
        return JsonTimeline(write)
    return RichTimeline() if sys.stdout.isatty() else PlainTimeline(write)


def _sentence(event: Event) -> str:
    """What happened in words; empty for what only specialists ask for."""
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

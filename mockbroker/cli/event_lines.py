"""Formatting of journal events as lines of text for ``mockbroker ctl events``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mockbroker.cli.tables import escape

FIRST = ("id", "time", "time_ms", "kind", "group", "client", "member_id", "generation")  # in this order in every line


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event of the journal as one line of text. ``event``: the event as the control API returns it."""
    parts = [event["time"], event["kind"]]
    if group := event.get("group"):
        parts.append(f"group {group}")
    if client := event.get("client"):
        parts.append(f"client {client}")
    if member := event.get("member_id"):
        parts.append(f"member {member}")
    if event.get("generation", -1) >= 0:
        parts.append(f"generation {event['generation']}")
    for name, value in event.items():
        if name not in FIRST:
            parts.append(f"{name} {value if isinstance(value, (str, int)) else json.dumps(value, ensure_ascii=False)}")
    return escape("  ".join(parts))

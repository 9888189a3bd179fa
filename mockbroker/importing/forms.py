"""Imported groups as JSON and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kwire.json.objects import uuid_text
from mockbroker.base.settings import Settings
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Committed
from mockbroker.importing.groups import WALL, Imported

HEADINGS = ("GROUP", "TYPE", "STATE", "GENERATION", "MEMBERS", "OFFSETS", "WAITING")
NUMBERS_FROM = 3  # columns of numbers are flushed right


def json_lines(found: Imported, settings: Settings) -> Iterator[dict[str, Any]]:
    """An object for each group, by id; last one that has ``topics``, ``passed_over``, ``notes`` and ``problems``.

    Bytes are base64; times are milliseconds since 1970 or null. Partitions stand by topic, by the topic's id where no
    file says which name it has.
    """
    names = {topic.topic_id: name for name, topic in found.topics.items() if topic.topic_id is not None}
    for group_id, group in sorted(found.groups.items()):
        told = GROUP_TYPES.of(group).to_json(group, names, settings)
        waiting = [
            {
                "producer_id": producer_id,
                "offsets": [_offset(*place, each) for place, (_, each) in sorted(held.items())],
            }
            for producer_id, held in sorted(group.offsets.pending.items())
        ]
        offsets = [_offset(*place, committed) for place, committed in sorted(group.offsets.committed.items())]
        yield {"group_id": group_id, **told, "offsets": offsets, "waiting": waiting}
    yield {
        "topics": {
            name: {"topic_id": topic.topic_id and uuid_text(topic.topic_id), "partitions": topic.partitions}
            for name, topic in sorted(found.topics.items())
        },
        "passed_over": {kind: sorted(ids) for kind, ids in sorted(found.passed_over.items())},
        "notes": found.notes,
        "problems": [{"file": str(p.path), "byte": p.position, "text": p.text} for p in found.problems],
    }


def table(found: Imported) -> list[str]:
    """A line for each group below a line of headings; ``WAITING``: offsets of transactions that are open."""
    rows = [
        (
            group_id,
            group.type_name,
            group.state_name,
            str(group.generation),
            str(len(group.members)),
            str(len(group.offsets.committed)),
            str(sum(map(len, group.offsets.pending.values()))),
        )
        for group_id, group in sorted(found.groups.items())
    ]
    shown = [HEADINGS, *([_shown(name), *rest] for name, *rest in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(HEADINGS))]
    return ["  ".join(_aligned(row, widths)).rstrip() for row in shown]


def _shown(name: str) -> str:
    """Fit for a terminal; all of it, since it is what the group is asked for by."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name) or "''"


def _aligned(row: Iterable[str], widths: Iterable[int]) -> Iterator[str]:
    for at, (text, width) in enumerate(zip(row, widths, strict=True)):
        yield text.rjust(width) if at >= NUMBERS_FROM else text.ljust(width)


def _offset(topic: str, partition: int, committed: Committed) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_timestamp_ms": WALL.ms(committed.at),
        "expire_timestamp_ms": None if committed.expires is None else WALL.ms(committed.expires),
    }

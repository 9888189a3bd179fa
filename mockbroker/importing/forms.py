"""The output formats of ``mockbroker import``: JSON lines and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kwire.json.objects import uuid_text
from mockbroker.base.settings import Settings
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Committed
from mockbroker.importing.groups import WALL, Imported

HEADINGS = ("GROUP", "TYPE", "STATE", "GENERATION", "MEMBERS", "OFFSETS", "WAITING")
FIRST_NUMBER = 3  # index of the first numeric column; it and all later columns are right-aligned


def json_lines(imported: Imported, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the lines of the JSON output: an object for each group, sorted by id, and a last object for the import.

    The last object has the keys topics, passed_over, notes and problems. Bytes are base64; times are milliseconds since
    1970 or null. Assignments map topic names to partitions; a topic whose name is unknown is given by its id.
    docs/import.md lists the keys.

    Args:
        imported: the result of the import.
        settings: the settings of the brokers.
    """
    names = {topic.topic_id: name for name, topic in imported.topics.items() if topic.topic_id is not None}
    for group_id, group in sorted(imported.groups.items()):
        description = GROUP_TYPES.of(group).to_json(group, names, settings)
        pending = [
            {
                "producer_id": producer_id,
                "offsets": [_offset(*place, committed) for place, (_, committed) in sorted(offsets.items())],
            }
            for producer_id, offsets in sorted(group.offsets.pending_transactional.items())
        ]
        committed = [_offset(*place, each) for place, each in sorted(group.offsets.committed.items())]
        yield {"group_id": group_id, **description, "offsets": committed, "waiting": pending}
    yield {
        "topics": {
            name: {"topic_id": topic.topic_id and uuid_text(topic.topic_id), "partitions": topic.partitions}
            for name, topic in sorted(imported.topics.items())
        },
        "passed_over": {kind: sorted(ids) for kind, ids in sorted(imported.passed_over.items())},
        "notes": imported.notes,
        "problems": [{"file": str(p.path), "byte": p.position, "text": p.text} for p in imported.problems],
    }


def table(imported: Imported) -> list[str]:
    """Return the lines of a table: headings, then one line for each group, sorted by id.

    The column WAITING contains the number of pending offsets in open transactions. ``imported``: the result of the
    import.
    """
    rows = [
        (
            group_id,
            group.type_name,
            group.state_name,
            str(group.generation),
            str(len(group.members)),
            str(len(group.offsets.committed)),
            str(sum(map(len, group.offsets.pending_transactional.values()))),
        )
        for group_id, group in sorted(imported.groups.items())
    ]
    lines = [HEADINGS, *([_printable(name), *rest] for name, *rest in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return ["  ".join(_aligned(line, widths)).rstrip() for line in lines]


def _printable(name: str) -> str:
    """Return a group id (``name``) with its control characters escaped; ``''`` for the empty id.

    The group id is not shortened, so that it can be copied into other commands.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name) or "''"


def _aligned(row: Iterable[str], widths: Iterable[int]) -> Iterator[str]:
    for column, (text, width) in enumerate(zip(row, widths, strict=True)):
        yield text.rjust(width) if column >= FIRST_NUMBER else text.ljust(width)


def _offset(topic: str, partition: int, committed: Committed) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_timestamp_ms": WALL.to_ms(committed.at),
        "expire_timestamp_ms": None if committed.expires is None else WALL.to_ms(committed.expires),
    }

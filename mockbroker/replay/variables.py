"""Ids that differ from run to run, and their translation between recording and live clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kwire.layout import List, Maybe, Node, Record, Text, resolve

# Fields with ids that a client makes up: member ids of KIP-848, instances of Kafka Streams.
CLIENT_MADE = frozenset({"member_id", "process_id", "client_instance_id"})
# Fields that do not decide which response a request gets: limits, waits, and what is only shown to people.
IRRELEVANT = frozenset(
    {
        "client_software_name",
        "client_software_version",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "partition_max_bytes",
        "reason",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "timeout_ms",
    }
)
Visit = Callable[[str, Any], Any]  # takes the name and the value of a field, and returns its new value


class Variables:
    """Pairs of ids, such as member ids: an id in the recording, and the id that a live client uses instead."""

    def __init__(self) -> None:
        self._live: dict[str, str] = {}
        self._recorded: dict[str, str] = {}

    def live(self, recorded: str) -> str:
        """Return the live id that is used instead of a recorded id; the recorded id if there is no such pair."""
        return self._live.get(recorded, recorded)

    def recorded(self, live: str) -> str | None:
        """Return the recorded id for a live id; None if there is no such pair."""
        return self._recorded.get(live)

    def can_bind(self, recorded: str, live: str) -> bool:
        """Return whether two ids are a pair, or can become a pair because none of them is in a pair yet.

        Args:
            recorded: id in the recording.
            live: id of the live client.
        """
        return self._live.get(recorded, live) == live and self._recorded.get(live, recorded) == recorded

    def bind(self, recorded: str, live: str) -> None:
        """Add a pair of ids.

        Args:
            recorded: id in the recording.
            live: id that the live client uses instead.
        """
        self._live[recorded], self._recorded[live] = live, recorded


def ids_in(message: Any, version: int) -> Iterator[str]:
    """Yield the ids in a request that the client may have generated, in the order of the fields.

    Args:
        message: the decoded request.
        version: API version of the request.
    """
    found: list[str] = []

    def visit(name: str, value: Any) -> Any:
        if name in CLIENT_MADE and value:
            found.append(value)
        return value

    rewrite(message, version, visit)
    yield from found


def rewrite(message: Any, version: int, visit: Visit) -> None:
    """Replace the strings in a message; the message itself is changed.

    Args:
        message: the decoded message.
        version: version of the message.
        visit: function that returns the new value, given the name and the value of a field.
    """
    _rewrite(message, resolve(type(message), version), visit)


def _rewrite(value: Any, record: Record, visit: Visit) -> None:
    for slot in (*record.slots, *record.tagged):
        content = getattr(value, slot.name)
        if content is not None:
            setattr(value, slot.name, _rewritten(slot.name, content, slot.node, visit))


def _rewritten(name: str, content: Any, node: Node, visit: Visit) -> Any:
    match node:
        case Text():
            return visit(name, content)
        case List(element):
            return [each if each is None else _rewritten(name, each, element, visit) for each in content]
        case (Record() as record) | Maybe(record):
            _rewrite(content, record, visit)
            return content
        case _:
            return content

"""The decoded records from which one group is created, by the class of their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

V = TypeVar("V")


class StoredRecords:
    """The records of one group, with only the last record of each key.

    Args:
        entries: decoded key and decoded value of each record. No record is a tombstone.
    """

    def __init__(self, entries: Iterable[tuple[Any, Any]]) -> None:
        self._entries: dict[type, list[tuple[Any, Any]]] = {}
        for key, value in entries:
            self._entries.setdefault(type(value), []).append((key, value))

    def value(self, kind: type[V]) -> V | None:
        """Return the value of the only record of a class, or None if the group has no such record.

        ``kind``: class of the value.
        """
        return self._entries[kind][-1][1] if kind in self._entries else None

    def values(self, kind: type[V], field: str = "member_id") -> dict[str, V]:
        """Return the values of all records of a class: key field -> value.

        Args:
            kind: Class of the values.
            field: Name of the key field that identifies a record, such as the member id.
        """
        return {getattr(key, field): value for key, value in self._entries.get(kind, ())}

"""State that records its own changes, so that what is persisted of a group follows from what a step changed.

A field that is set, and a key of a table that is set or deleted, is a change, unless the class lists the field as
transient: a field that its author forgot costs one comparison with what is written, and is never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

_set_field = object.__setattr__
K = TypeVar("K")
V = TypeVar("V")


class Changes(dict[str, dict[Any, None]]):
    """Names of fields that have changed, each with the changed keys if it is a table."""

    def add(self, field: str, key: object = None) -> None:
        """Record a change."""
        keys = self.get(field)
        if keys is None:
            self[field] = {key: None}
        else:
            keys[key] = None


class Recorded:
    """An object whose changes are recorded. A plain dict that is put into a field becomes a RecordedTable.

    Values in a table must be replaced, not changed in place, unless they are objects of this kind themselves.
    """

    __slots__ = ("changes",)
    TRANSIENT: ClassVar[frozenset[str]] = frozenset()  # fields that end with the coordinator
    changes: Changes

    def __new__(cls, *args: Any, **fields: Any) -> Any:  # noqa: ARG004
        """Return an object of which everything has changed, as soon as its fields are set."""
        new = super().__new__(cls)
        _set_field(new, "changes", Changes())
        return new

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, and record that it has changed."""
        if name not in self.TRANSIENT:
            changes = self.changes
            if type(value) is dict:
                value = RecordedTable(changes, name, value)
                self._record_differences(name, value)
            keys = changes.get(name)
            if keys is None:
                changes[name] = {None: None}
            else:
                keys[None] = None
        _set_field(self, name, value)

    def record_in(self, changes: Changes) -> None:
        """Record changes as those of another object from now on, which this one is a part of."""
        _set_field(self, "changes", changes)

    def _record_differences(self, name: str, table: Mapping[Any, Any]) -> None:
        before: Mapping[Any, Any] = getattr(self, name, {})
        for key in before:
            if key not in table:
                self.changes.add(name, key)
        for key, value in table.items():
            if key not in before or before[key] != value:
                self.changes.add(name, key)


class RecordedTable(dict[K, V]):
    """A field of a Recorded object that is a dict. Reading it costs what reading a dict costs."""

    __slots__ = ("_changes", "_field")

    def __init__(self, changes: Changes, field: str, entries: Mapping[K, V]) -> None:
        super().__init__(entries)
        self._changes = changes
        self._field = field

    def __setitem__(self, key: K, value: V) -> None:
        """Set an entry, and record that it has changed."""
        self._changes.add(self._field, key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        """Delete an entry, and record that it has changed."""
        self._changes.add(self._field, key)
        super().__delitem__(key)

    def pop(self, key: K, *default: Any) -> Any:
        """Remove an entry, and record that it has changed."""
        self._changes.add(self._field, key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[K, V]:
        """Remove the last entry, and record that it has changed."""
        key, value = super().popitem()
        self._changes.add(self._field, key)
        return key, value

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self):
            del self[key]

    def update(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = (), /) -> None:  # type: ignore[override]
        """Set several entries."""
        for key, value in dict(entries).items():
            self[key] = value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Set an entry that is missing. Return the entry."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, entries: Any) -> Any:  # type: ignore[misc]
        """Set several entries."""
        self.update(entries)
        return self

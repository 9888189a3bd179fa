"""State objects that record which of their fields change, so that only the affected records are written.

Setting a field counts as a change, and so does setting or deleting a key of a table. Fields that the class lists in
TRANSIENT are exempt. So a new field of a class is persisted by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

set_field = object.__setattr__  # sets a field without recording it
K = TypeVar("K")
V = TypeVar("V")


class Changes(dict[str, dict[Any, None]]):
    """The changed keys of an object, by field name. The key None means that the whole field was set."""

    def add(self, field: str, key: object = None) -> None:
        """Record a change of a field.

        Args:
            field: Name of the changed field.
            key: The changed key, if the field is a table; None for the whole field.
        """
        keys = self.get(field)
        if keys is None:
            self[field] = {key: None}
        else:
            keys[key] = None


class Recorded:
    """The base class of objects that record which of their fields change.

    A plain dict that is assigned to a field becomes a RecordedTable. Values in a table must be replaced, not modified,
    unless they are Recorded themselves.

    Attributes:
        TRANSIENT: Names of fields that are not persisted; changes of these fields are not recorded.
        changes: The changes since the records were written last.
    """

    __slots__ = ("changes",)
    TRANSIENT: ClassVar[frozenset[str]] = frozenset()
    changes: Changes

    def __new__(cls, *args: Any, **fields: Any) -> Any:  # noqa: ARG004
        """Return a new object without fields. When the constructor sets a field, the field is recorded as changed."""
        new = super().__new__(cls)
        set_field(new, "changes", Changes())
        return new

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the field ``name`` to ``value``, and record the change.

        A plain dict is converted to a RecordedTable. A field in TRANSIENT is only set.
        """
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
        set_field(self, name, value)

    def record_in(self, changes: Changes) -> None:
        """Record later changes of this object in ``changes`` instead of in the object's own attribute ``changes``.

        A group uses this method so that a change of a member counts as a change of the group.
        """
        set_field(self, "changes", changes)

    def _record_differences(self, name: str, table: Mapping[Any, Any]) -> None:
        before: Mapping[Any, Any] = getattr(self, name, {})
        for key in before:
            if key not in table:
                self.changes.add(name, key)
        for key, value in table.items():
            if key not in before or before[key] != value:
                self.changes.add(name, key)


class RecordedTable(dict[K, V]):
    """A dict in a field of a Recorded object that records the changed keys. Reading is as fast as with a dict.

    Args:
        changes: the changes of the object. Changed keys are added to them.
        field: name of the field of the object.
        entries: initial content.
    """

    __slots__ = ("_changes", "_field")

    def __init__(self, changes: Changes, field: str, entries: Mapping[K, V]) -> None:
        super().__init__(entries)
        self._changes = changes
        self._field = field

    def __setitem__(self, key: K, value: V) -> None:
        """Set the entry ``key`` to ``value``, and record the change."""
        self._changes.add(self._field, key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        """Delete the entry ``key``, and record the change."""
        self._changes.add(self._field, key)
        super().__delitem__(key)

    def pop(self, key: K, *default: Any) -> Any:
        """Remove the entry ``key``, record the change, and return the value. ``default`` is that of ``dict.pop``."""
        self._changes.add(self._field, key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[K, V]:
        """Remove the entry that was added last, record the change, and return the key and value of the entry."""
        key, value = super().popitem()
        self._changes.add(self._field, key)
        return key, value

    def clear(self) -> None:
        """Remove all entries, and record the changes."""
        for key in list(self):
            del self[key]

    def update(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = (), /) -> None:  # type: ignore[override]
        """Set several entries, and record the changes."""
        for key, value in dict(entries).items():
            self[key] = value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Return the value of a key. If the key is missing, set it to ``default`` first and record the change."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, entries: Any) -> Any:  # type: ignore[misc]
        """Set several entries, record the changes, and return the table."""
        self.update(entries)
        return self

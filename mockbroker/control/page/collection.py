"""A collection in the document of the live page: objects by key, and the merge patch of the latest refresh."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping
from typing import Any, TypeAlias

from mockbroker.control.merge_patch import difference, without_null

SLICE = 50  # objects between two slices
Slices: TypeAlias = Generator[None, None, None]


class Collection:
    """One collection of objects, such as groups, in the document of the live page.

    Attributes:
        content: the objects by key.
        patch: the merge patch of all changes since the last call of ``begin``.
    """

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.patch: dict[str, Any] = {}

    def begin(self) -> None:
        """Discard the previous merge patch, and begin a new one."""
        self.patch = {}

    def put(self, key: str, value: Any) -> None:
        """Add or replace an object, and add the difference to the merge patch.

        Args:
            key: key of the object.
            value: the object in JSON form.
        """
        if key not in self.content:
            self.content[key] = self.patch[key] = value
        elif inner := difference(self.content[key], value):
            self.content[key], self.patch[key] = value, inner

    def keep(self, keys: Container[str]) -> None:
        """Remove the objects whose keys are not in ``keys``, and add the removals to the merge patch."""
        for key in [key for key in self.content if key not in keys]:
            del self.content[key]
            self.patch[key] = None

    def put_all(self, values: Mapping[str, Callable[[], Any]]) -> Slices:
        """Replace all objects; yield after a limited number of objects, so that other tasks can run.

        ``values``: key of each new object -> function that returns the object. Objects with other keys are removed.
        """
        for number, (key, value_of) in enumerate(values.items(), 1):
            self.put(key, without_null(value_of()))
            if number % SLICE == 0:
                yield
        self.keep(values)


class Allotment:
    """A limit on the number of elements, such as members, that the page shows: for each object, and for all together.

    Args:
        each: maximum number for one object, such as a group.
        in_all: maximum number for all objects together.

    Attributes:
        left_out: number of elements that the page does not show because of the limits.
    """

    def __init__(self, each: int, in_all: int) -> None:
        self._each = each
        self._free = in_all
        self.left_out = 0

    def take(self, number: int) -> int:
        """Return how many elements of an object the page shows.

        This number is subtracted from the maximum for all objects; the number of all further elements is added to
        ``left_out``.

        ``number``: the number of elements of the object.
        """
        taken = min(number, self._each, self._free)
        self._free -= taken
        self.left_out += number - taken
        return taken

"""Pages of a list, whose cursor is the id of the last item."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from mockbroker.control.problems import NotPossible
from mockbroker.control.routes import Answer, Call
from mockbroker.faults.sections import Problem

T = TypeVar("T", str, int)


def page(call: Call, ids: Iterable[T], item: Callable[[T], Any]) -> Answer:
    """Return the page that a request asks for.

    Args:
        call: The request, with the parameters ``after`` and ``limit``.
        ids: Ids of all items, oldest first.
        item: Function that returns the item with an id.

    Raises: NotPossible if the item of the cursor does not exist any more.
    """
    remaining, after, limit = iter(ids), call.query["after"], call.query["limit"]
    if after is not None and not any(each == after for each in remaining):
        raise NotPossible([Problem("after", "this cursor does not exist any more: begin without one")])
    found = list(islice(remaining, limit + 1))
    return Answer(
        {"items": [item(each) for each in found[:limit]], "next": found[limit - 1] if len(found) > limit else None}
    )

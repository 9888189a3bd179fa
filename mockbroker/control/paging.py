"""The pages of lists that the control API returns. The cursor of a page is the id of its last item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from mockbroker.control.problems import NotPossible
from mockbroker.control.routes import Answer, CheckedRequest
from mockbroker.faults.sections import Problem

T = TypeVar("T", str, int)
Item = TypeVar("Item")


def page(call: CheckedRequest, ids: Iterable[T], item: Callable[[T], Any]) -> Answer:
    """Return the page of a list that a request asks for, from the ids of the items.

    Args:
        call: the request, with the parameters ``after`` and ``limit``.
        ids: ids of all items, oldest first.
        item: function that returns the item with an id, as a JSON value.

    Raises: NotPossible if the item of the cursor no longer exists.
    """
    wanted, cursor = ids_of_page(call, ids)
    return answer([item(each) for each in wanted], cursor)


def page_of(call: CheckedRequest, items: Mapping[T, Item], item: Callable[[Item], Any]) -> Answer:
    """Return the page of a list that a request asks for, from the items by id.

    Args:
        call: the request, with the parameters ``after`` and ``limit``.
        items: all items by id, oldest first.
        item: function that returns an item as a JSON value.

    Raises: NotPossible if the item of the cursor no longer exists.
    """
    return page(call, items, lambda each: item(items[each]))


def ids_of_page(call: CheckedRequest, ids: Iterable[T]) -> tuple[list[T], T | None]:
    """Return the ids on the page that a request asks for, and the cursor of the next page; None on the last page.

    Args:
        call: the request, with the parameters ``after`` and ``limit``.
        ids: ids of all items, oldest first.

    Raises: NotPossible if the item of the cursor no longer exists.
    """
    remaining, after, limit = iter(ids), call.query["after"], call.query["limit"]
    if after is not None and not any(each == after for each in remaining):
        raise NotPossible([Problem("after", "the item of this cursor no longer exists: start again without a cursor")])
    page_ids = list(islice(remaining, limit + 1))
    return page_ids[:limit], page_ids[limit - 1] if len(page_ids) > limit else None


def answer(items: list[Any], cursor: object) -> Answer:
    """Return a page. ``cursor``: the cursor of the next page; None for the last page."""
    return Answer({"items": items, "next": cursor})

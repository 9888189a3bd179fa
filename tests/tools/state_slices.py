"""Refreshes of the document of the live page, slice by slice."""

from __future__ import annotations

from typing import Any

from mockbroker.control.page.document import StateDocument


def refresh(state: StateDocument) -> dict[str, Any]:
    """Refresh a document without a pause between slices, and return the patch."""
    return refresh_counted(state)[0]


def refresh_counted(state: StateDocument) -> tuple[dict[str, Any], int]:
    """Refresh a document, and return the patch and the number of slices."""
    slices, count = state.refresh(), 1
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return dict(end.value), count
        count += 1

"""Amounts that a test tries: as many as needed in ``make test``, all in ``make test-long`` (pytest's ``--long``).

A test that only ``make test-long`` runs is marked ``pytest.mark.long``, a parameter likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

LONG = False  # set by conftest before test modules are imported

T = TypeVar("T")


def amount(usual: int, in_long: int) -> int:
    """Return how many examples, seeds or repetitions a test tries.

    Args:
        usual: The number in ``make test``.
        in_long: The number in ``make test-long``.
    """
    return in_long if LONG else usual


def seed_of_the_day() -> int:
    """Return the first seed of the day (UTC) for random tests, such as 20301231000; pytest prints it."""
    return int(f"{datetime.now(UTC):%Y%m%d}000")


def usual_and_long(usual: Iterable[Any], in_long: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, with a mark on those that only ``make test-long`` tries.

    Args:
        usual: Parameters that are always tried; a tuple is several arguments.
        in_long: Parameters that only ``make test-long`` tries.
    """
    return [*usual, *(pytest.param(*_arguments(each), marks=pytest.mark.long) for each in in_long)]


def _arguments(each: Any) -> tuple[Any, ...]:
    return each if isinstance(each, tuple) else (each,)


def every(step: int, items: Sequence[T]) -> Sequence[T]:
    """Return all items in ``make test-long``; in ``make test``, every ``step``-th item, counted from the last."""
    return items if LONG else items[::-1][::step][::-1]

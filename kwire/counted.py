"""A number with its noun, for messages and tables: ``1 record``, ``2 records``."""

from __future__ import annotations


def counted(number: float, noun: str, form: str = "") -> str:
    """Return a number with its noun, such as ``1 partition`` or ``8 partitions``.

    Args:
        number: number of things.
        noun: noun in the singular, whose plural ends in ``s``.
        form: format specification of the number, such as ``,`` for thousands separators.
    """
    return f"{number:{form}} {noun if number == 1 else f'{noun}s'}"

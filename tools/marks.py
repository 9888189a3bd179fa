"""The generated parts of a page that is otherwise written by hand: each is between two marks, which are comments."""

from __future__ import annotations


def replace_between(text: str, begin: str, end: str, new: str) -> str:
    """Return a page with the text between two marks replaced. The marks remain.

    Args:
        text: the page.
        begin: mark before the replaced text; the page has it once.
        end: mark after the replaced text; the first one after ``begin`` counts.
        new: the new text, with the line breaks beside the marks.

    Raises: ValueError if a mark is missing, or ``begin`` is repeated.
    """
    if (count := text.count(begin)) != 1:
        raise ValueError(f"the page has {count} marks {begin!r}, but must have one")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no mark {end!r} after {begin!r}")
    return f"{before}{begin}{new}{end}{after}"

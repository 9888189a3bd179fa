"""The text between two marks of a page is replaced, and a page with wrong marks is not changed."""

from __future__ import annotations

import pytest
from marks import replace_between

BEGIN, END = "<!-- from here -->", "<!-- to here -->"


def test_text_between_marks_is_replaced() -> None:
    page = f"{END} before\n{BEGIN}old{END}\nafter {END}"
    assert replace_between(page, BEGIN, END, "\nnew\n") == f"{END} before\n{BEGIN}\nnew\n{END}\nafter {END}"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (f"before {END}", f"the page has 0 marks '{BEGIN}', but must have one"),
        (f"{BEGIN}{END}{BEGIN}{END}", f"the page has 2 marks '{BEGIN}', but must have one"),
        (f"{END} before {BEGIN} after", f"the page has no mark '{END}' after '{BEGIN}'"),
    ],
    ids=["missing", "repeated", "without an end"],
)
def test_page_with_wrong_marks_is_an_error(page: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        replace_between(page, BEGIN, END, "new")

"""The Python in these documents runs as it stands: users copy it."""

from __future__ import annotations

import re

import pytest
from golden import ROOT

BLOCKS = {"consumer.md": 5, "draft.md": 1, "fuzzing.md": 3, "testing.md": 6}  # how many each has


def blocks(document: str) -> list[str]:
    text = (ROOT / "docs" / document).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("document", "count"), BLOCKS.items())
def test_there_are_some(document: str, count: int) -> None:
    assert len(blocks(document)) == count


@pytest.mark.parametrize(("document", "number"), [(name, n) for name, count in BLOCKS.items() for n in range(count)])
def test_block(document: str, number: int) -> None:
    exec(compile(blocks(document)[number], f"docs/{document}", "exec"), {"__name__": "docs"})

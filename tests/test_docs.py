"""The Python in docs/fuzzing.md runs as it stands: users copy it."""

from __future__ import annotations

import re

import pytest
from golden import ROOT

BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs" / "fuzzing.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def test_there_are_some() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block: str) -> None:
    exec(compile(block, "docs/fuzzing.md", "exec"), {"__name__": "docs"})

"""The pages ``docs/how-to/test-*.md``, "How do I test ...": the test of each client runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from effort import usual_and_long
from golden import ROOT
from interop.stage import MARKS, MODULES, need_client

pytestmark = MARKS

PAGES = sorted((ROOT / "docs" / "how-to").glob("test-*.md"))
BLOCK = re.compile(r"^## (?P<client>[\w-]+)\n\n```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT = 60.0  # seconds for a test, which needs one or two
UNUSED = ("cacheprovider", "hypothesispytest", "trio", "anyio")  # plugins that take a third of the time of such a run
CASES = [(page.stem, client) for page in PAGES for client in MODULES]
USUAL = [(page.stem, list(MODULES)[number % len(MODULES)]) for number, page in enumerate(PAGES)]  # each client in turn


def blocks_of(page: Path) -> dict[str, str]:
    """Return the test of each client."""
    return {block["client"]: block["text"] for block in BLOCK.finditer(page.read_text("utf-8"))}


@pytest.mark.parametrize(("page", "client"), usual_and_long(USUAL, [case for case in CASES if case not in USUAL]))
def test_page_has_a_test_that_passes(page: str, client: str, tmp_path: Path) -> None:
    need_client(client)
    text = blocks_of(ROOT / "docs" / "how-to" / f"{page}.md")[client]
    (tmp_path / "test_page.py").write_text(text, "utf-8")
    unused = [word for name in UNUSED for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *unused, "-c", "/dev/null", "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_one_test_for_each_client(page: Path) -> None:
    tests = blocks_of(page)
    assert list(tests) == list(MODULES)
    for text in tests.values():
        assert text.count("\ndef test_") == 1
        assert re.search(r"\.applied == 1$", text, re.MULTILINE), "nothing proves that the rule was applied"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "how-to" / "README.md").read_text("utf-8")
    assert set(re.findall(r"\]\((test-[\w-]+\.md)\)", index)) == {page.name for page in PAGES}

"""The pages ``docs/how-to/test-*.md``, "How do I test ...": the test of each client runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from effort import usual_and_long
from golden import ROOT
from interop.stage import MARKS, MODULES, need_client

pytestmark = MARKS

PAGES = sorted((ROOT / "docs" / "how-to").glob("test-*.md"))
BLOCK = re.compile(r"^## (?P<client>[\w-]+)\n\n```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT = 60.0  # seconds for each test, which needs one or two
UNUSED = ("cacheprovider", "hypothesispytest", "trio", "anyio")  # plugins that take a third of the time of such a run
CASES = [(page.stem, client) for page in PAGES for client in MODULES]
USUAL = [(page.stem, list(MODULES)[number % len(MODULES)]) for number, page in enumerate(PAGES)]  # each client in turn


def blocks_of(page: Path) -> dict[str, str]:
    """Return the test of each client on a page."""
    return {block["client"]: block["text"] for block in BLOCK.finditer(page.read_text("utf-8"))}


class Runs:
    """Runs of pytest, one for all pages of a client: a process for each test would take twice the time.

    Args:
        pages: The pages that are tested, by client.
        folder: The folder for the tests of the pages.
    """

    def __init__(self, pages: Mapping[str, Sequence[str]], folder: Path) -> None:
        self._pages = pages
        self._folder = folder
        self._outputs: dict[str, str] = {}

    def output(self, client: str) -> str:
        """Return the output of pytest for all tests of a client, with a line for each test."""
        if client not in self._outputs:
            self._outputs[client] = self._run(client)
        return self._outputs[client]

    def _run(self, client: str) -> str:
        folder = self._folder / client
        folder.mkdir()
        for page in self._pages[client]:
            text = blocks_of(ROOT / "docs" / "how-to" / f"{page}.md")[client]
            (folder / module_of(page)).write_text(text, "utf-8")
        unused = [word for name in UNUSED for word in ("-p", f"no:{name}")]
        command = [sys.executable, "-m", "pytest", "-q", "-rA", *unused, "-c", "/dev/null", "--rootdir", "."]
        limit = LIMIT * len(self._pages[client])
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit, check=False).stdout


def module_of(page: str) -> str:
    return page.replace("-", "_") + ".py"


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    pages: dict[str, list[str]] = {client: [] for client in MODULES}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == test_page_has_a_test_that_passes.__name__:
            case: dict[str, Any] = item.callspec.params
            pages[case["client"]].append(case["page"])
    return Runs(pages, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize(("page", "client"), usual_and_long(USUAL, [case for case in CASES if case not in USUAL]))
def test_page_has_a_test_that_passes(page: str, client: str, runs: Runs) -> None:
    need_client(client)
    output = runs.output(client)
    results = re.findall(rf"^(\w+) {module_of(page)}::test_\w+", output, re.MULTILINE)
    assert results == ["PASSED"], output[-6000:]


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

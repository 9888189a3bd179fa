"""Files that documents name are in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import ROOT

TOP = ["benchmarks", "docs", "examples", "fixtures", "fuzzing", "kwire", "mockbroker", "tests", ".ci"]
TEXT = {".go", ".java", ".md", ".mjs", ".py", ".sh", ".toml", ".tsv", ".xml", ""}
SIDE_FOLDERS = {"more", "node_modules", "__pycache__"}  # not in the repository


def sources() -> Iterator[Path]:
    """Yield the text files of the repository that people write."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT - {""} | {".lock"})
    yield ROOT / "Makefile"
    for top in TOP:
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and path.suffix in TEXT and not SIDE_FOLDERS & set(path.parts):
                yield path


DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in sources() if path.suffix == ".md")
DOCUMENTS.remove("CHANGELOG.md")  # it has earlier names of files
PATH = r"(?:benchmarks|docs|examples|fixtures|fuzzing|kwire|mockbroker|tests|tools)/[\w./-]*\w(?![\w.*{<-])"  # of a file or folder
NOT_KEPT = ["fixtures/more", "fixtures/corpus"]  # made on demand, .gitignore or by a tool


def outside(text: str, folder: Path) -> list[str]:
    """Return the relative paths in a text that leave the repository; ``folder`` is that of the text."""
    climbing = re.findall(r"(?<![\w./])\.\.(?:/[\w.-]+)+", text)
    return [path for path in climbing if not (folder / path).resolve().is_relative_to(ROOT)]


def test_no_file_points_outside_of_the_repository() -> None:
    references = {}
    for path in sources():
        try:
            references[path] = outside(path.read_text("utf-8"), path.parent)
        except UnicodeDecodeError:
            continue
    assert len(references) > 1000
    assert {path: paths for path, paths in references.items() if paths} == {}


CLIMBING = [(["..", "load"], "tests", False), (["..", "load"], "", True), (["..", "..", "notes.md"], "tests", True)]


@pytest.mark.parametrize(("parts", "folder", "noticed"), CLIMBING)
def test_paths_that_leave_the_repository_are_noticed(parts: list[str], folder: str, noticed: bool) -> None:
    path = "/".join(parts)
    assert outside(f"TOOLS ?= {path}", ROOT / folder) == [path] * noticed
    assert outside("from ..calls import Call", ROOT / folder) == []


def test_readme_has_the_number_of_invariants() -> None:
    rows = re.findall(r"^\| I\d+ \|", (ROOT / "docs" / "simulation.md").read_text("utf-8"), re.MULTILINE)
    assert f"checks {len(rows)} invariants" in " ".join((ROOT / "README.md").read_text("utf-8").split())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_are_there(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = {path.partition("::")[0] for path in re.findall(rf"`({PATH})", text)}
    assert [path for path in sorted(named) if not (ROOT / path).exists() and not path.startswith(tuple(NOT_KEPT))] == []


def test_modules_that_design_names_are_there() -> None:
    """design.md shortens paths: `net/pump.py` is mockbroker/net/pump.py."""
    modules = [path.relative_to(ROOT).as_posix() for top in ("kwire", "mockbroker") for path in (ROOT / top).rglob("*")]
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / "docs" / "design.md").read_text("utf-8")))
    missing = {name for name in named if not any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in modules)}
    assert {name for name in missing if not (ROOT / name).exists()} == set()
    assert len(named) > 40


def test_design_names_each_package_of_mockbroker() -> None:
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    table = text.partition("### The packages of mockbroker\n")[2].partition("\n### ")[0]
    top = [path for path in (ROOT / "mockbroker").iterdir() if path.suffix == ".py" or path.is_dir()]
    expected = {f"{path.name}/" if path.is_dir() else path.name for path in top} - {"__pycache__/", "__init__.py"}
    named = re.findall(r"`(\w+(?:/|\.py))`", "\n".join(line for line in table.splitlines() if line.startswith("| ")))
    assert sorted(named) == sorted(expected), "each once"


def test_headings_that_are_cited_are_there() -> None:
    cited = 0
    for path in sources():
        if path.suffix not in {".py", ".md"}:
            continue
        for document, quoted in re.findall(
            r"((?:docs|fixtures)/\w+\.md), [\w ]*?(?:under|from) ((?:\"[^\"]+\"(?:,|\s+and)?\s*)+)",
            path.read_text("utf-8"),
        ):
            text = (ROOT / document).read_text("utf-8")
            for heading in re.findall(r"\"([^\"]+)\"", quoted):
                cited += 1
                assert f"\n## {heading}\n" in text, (path, heading)
    assert cited >= 10

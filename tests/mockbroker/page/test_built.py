"""The built files of the live page: they match their sources, are small, and load nothing from other hosts."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import page
import pytest
from need import CACHE, lacking

FILES = {path.name: path.read_bytes() for path in page.BUILT.iterdir()}
LARGEST = 150_000  # compressed size of all files together, in bytes
XML_NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sources and the npm packages."""
    try:
        return page.copy_sources(tmp_path_factory.mktemp("page") / "page", CACHE)
    except page.NotBuilt as error:
        lacking(str(error))


def test_built_files_match_their_sources(sources: Path, tmp_path: Path) -> None:
    page.build(sources, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == FILES, (
        "run make page, and commit the result"
    )


def test_functions_of_the_page(sources: Path) -> None:
    page.run(sources, "--test", "--test-reporter=dot", "test/*.test.ts")


def test_files_are_small() -> None:
    assert set(FILES) == {"app.js", "app.css", "icon.svg", "licenses.txt"}
    assert sum(len(gzip.compress(data)) for data in FILES.values()) < LARGEST


def test_files_name_no_other_server() -> None:
    results = {url for name in ("app.js", "app.css") for url in re.findall(r"https?://[\w./]+", FILES[name].decode())}
    assert results <= XML_NAMESPACES


def test_files_have_the_licences_of_what_is_bundled() -> None:
    text = FILES["licenses.txt"].decode()
    assert all(name in text for name in ("preact", "@preact/signals", "uplot"))
    assert text.count("Permission is hereby granted") == 4


def test_files_do_not_have_paths_of_this_machine() -> None:
    assert not any(os.fsencode(page.ROOT) in data for data in FILES.values())

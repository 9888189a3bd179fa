"""The built files of the live page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.control_api import control_api

from mockbroker.control.page import files


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a built file of the page, next to a file that does not belong to the page."""
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "app.js").write_text("1;")
    (folder / "notes.py").write_text("secret")
    (tmp_path / "outside.js").write_text("secret")
    monkeypatch.setattr(files, "FOLDER", folder)
    return folder


async def test_a_file_is_served_with_its_type() -> None:
    async with control_api() as api:
        response = await api.ask("GET", "/page/app.js?v=1")
        assert (response.status_code, response.text) == (200, "1;")
        assert response.headers["content-type"] == "text/javascript; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache"


async def test_an_unchanged_file_is_not_sent_again(built: Path) -> None:
    async with control_api() as api:
        etag = (await api.ask("GET", "/page/app.js")).headers["etag"]
        for header in (etag, f'"other", W/{etag}'):
            response = await api.client.get("/page/app.js", headers={"If-None-Match": header})
            assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", etag)
        (built / "app.js").write_text("2;")
        response = await api.ask("GET", "/page/app.js", headers={"If-None-Match": etag})
        assert (response.status_code, response.text) == (200, "2;")


@pytest.mark.parametrize(
    "name", ["notes.py", "none.js", "..%2foutside.js", "%2e%2e%2Foutside.js", ".js", "%00.js", "APP.JS"]
)
async def test_nothing_else_is_served(name: str) -> None:
    async with control_api() as api:
        response = await api.client.get(f"/page/{name}")
        assert response.status_code == 404
        assert "secret" not in response.text


async def test_files_need_no_token() -> None:
    async with control_api(token="s3cret") as api:
        assert await api.status("GET", "/page/app.js") == 200


async def test_a_checkout_without_built_files(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", built / "none")
    async with control_api() as api:
        assert await api.status("GET", "/page/app.js") == 404

"""``mockbroker serve --http``: the address, the token, and the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click
import pytest
import trio
from plain_client import AT_ONCE, RawConnection

from kwire.messages.api_versions import ApiVersionsRequest
from mockbroker.cli.http_address import HttpAddress, http_address

COMMAND = [sys.executable, "-m", "mockbroker", "serve", "--port", "0"]


@contextmanager
def served(path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Start a broker in a separate process. Yield the process and the content of its ready file."""
    words = [*COMMAND, "--ready-file", str(path), *arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not path.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        yield process, json.loads(path.read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0", "127.0.0.1", 0),
        ("localhost:80", "localhost", 80),
        ("[::1]:9", "::1", 9),
        ("127.0.0.2:65535", "127.0.0.2", 65_535),
    ],
)
def test_addresses_without_a_token(text: str, host: str, port: int) -> None:
    assert http_address(text, ["a"], None) == HttpAddress(host, port, ("a",), None)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]", "broker.example"])
def test_other_addresses_need_a_token(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOCKBROKER_HTTP_TOKEN", raising=False)
    with pytest.raises(click.UsageError, match="without a token"):
        http_address(f"{host}:1", [], None)
    monkeypatch.setenv("MOCKBROKER_HTTP_TOKEN", "from-environment")
    address = http_address(f"{host}:1", [], None)
    assert address is not None
    assert address.token == "from-environment"
    (tmp_path / "token").write_text("from-file\n")
    address = http_address(f"{host}:1", [], tmp_path / "token")
    assert address is not None
    assert address.token == "from-file"
    assert "from-file" not in repr(address)


def test_no_token_ends_the_command_with_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOCKBROKER_HTTP_TOKEN", raising=False)
    done = subprocess.run([*COMMAND, "--http", "0.0.0.0:0"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2


def test_the_ready_line_is_first_and_the_ready_file_has_the_url(tmp_path: Path) -> None:
    with served(tmp_path / "ready.json", "--http", "0") as (process, ready):
        assert ready["http"].startswith("http://127.0.0.1:")
        with urlopen(f"{ready['http']}/v1/health", timeout=30) as response:
            assert json.load(response)["status"] == "ok"
        process.terminate()
        out, err = process.communicate(timeout=30)
    assert out == f"ready bootstrap.servers={ready['bootstrap_servers']}\n"
    assert err == f"control API {ready['http']}\n"


def test_a_token_is_needed_from_another_address(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    arguments = ("--http", "0.0.0.0:0", "--http-token-file", str(tmp_path / "token"))
    with served(tmp_path / "ready.json", *arguments) as (_, ready):
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{ready['http']}/v1/cluster", timeout=30)
        with urlopen(
            Request(f"{ready['http']}/v1/cluster", headers={"Authorization": "Bearer secret"}), timeout=30
        ) as got:
            assert json.load(got)["kind"] == "mock"


def test_a_signal_ends_everything_at_once(tmp_path: Path) -> None:
    """A stream, a waiting request, an idle connection and a client that reads nothing do not delay the end."""

    async def main(process: subprocess.Popen[str], ready: dict[str, str]) -> None:
        port = int(ready["http"].rpartition(":")[2])
        requests = [b"/v1/events/stream", b"/v1/groups/g/wait?timeout_ms=60000", b"/v1/health"]
        streams = []
        for path in requests:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            streams.append(stream)
        await streams[0].receive_some(1)
        with RawConnection(ready["bootstrap_servers"]) as connection:
            connection.ask(ApiVersionsRequest(), 0)
            began = time.monotonic()
            process.terminate()
            assert await trio.to_thread.run_sync(process.wait) == 0
            assert time.monotonic() - began < AT_ONCE
        received = b""
        while data := await streams[0].receive_some():
            received += data
        assert received.endswith(b"\r\n0\r\n\r\n")
        assert b"event: bye" in received
        assert b" 503 " in await streams[1].receive_some()
        for stream in streams:
            await stream.aclose()

    with served(tmp_path / "ready.json", "--http", "0") as (process, ready):
        trio.run(main, process, ready)


def test_without_the_option_nothing_of_http_is_loaded() -> None:
    code = (
        "import sys, mockbroker.cli.serve\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('starlette', 'hypercorn', 'anyio', 'h11')"
        " or name.startswith('mockbroker.control')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

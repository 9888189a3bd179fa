"""The client of the control API, with a server that is not mockbroker."""

from __future__ import annotations

import click
import pytest
from tools.http_answers import answering, json_response

from mockbroker.cli.control_client import ControlClient, ControlError, segment

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (json_response("200 OK", b"<html>"), "answered with status 200, but is not the control API"),
        (json_response("302 Found", b"{}"), "answered with status 302, but is not the control API"),
        (json_response("200 OK", b"[" * 100_000), "answered with status 200, but is not the control API"),
        (json_response("404 Not Found", b"[]"), "answered with status 404, but is not the control API"),
        (json_response("409 Conflict", b'{"detail": "a\\u001b[31m"}'), r"^a\\x1b\[31m$"),
        (b"SSH-2.0-x\r\n\r\n", "no response from http://127.0.0.1:.*SSH-2.0"),
        (b"", "no response from .*: Remote end closed connection without response; is mockbroker serve --http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "no response from .*IncompleteRead"),
    ],
    ids=["page", "redirect", "deep JSON", "other JSON", "escape sequence", "no HTTP", "closed", "cut"],
)
def test_other_responses_are_errors(response: bytes, message: str) -> None:
    with answering(response) as url, pytest.raises(ControlError, match=message):
        ControlClient(url, None).ask("GET", "/v1/groups")


def test_a_stream_of_events_ends_with_bye() -> None:
    body = b'retry: 1000\n\n:\n\nid: 1\ndata: {"id": 1}\n\nevent: bye\ndata: {}\n\n'
    with answering(HEAD, b"\r\n", body) as url:
        assert list(ControlClient(url, None).events(after=0)) == [{"id": 1}]


def test_a_stream_that_is_cut_ends() -> None:
    with answering(HEAD, b"\r\n", b'id: 1\ndata: {"id": 1}\n\n') as url:
        assert list(ControlClient(url, None).events()) == [{"id": 1}]


@pytest.mark.parametrize(
    "url", ["", "here", "ftp://a", "http://", "http://a:b", "http://[", "http://a:99999", "http://a..b"]
)
def test_invalid_urls_are_wrong_usage(url: str) -> None:
    with pytest.raises(click.UsageError, match="expected a URL such as"):
        ControlClient(url, None)


@pytest.mark.parametrize(
    ("name", "encoded"), [("a/b?c", "a%2Fb%3Fc"), ("\x1b\n\xe9", "%1B%0A%C3%A9"), ("\udcff", "%FF"), ("..", "..")]
)
def test_names_are_one_segment_of_a_path(name: str, encoded: str) -> None:
    assert segment(name) == encoded

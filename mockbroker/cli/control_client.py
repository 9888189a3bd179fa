"""The HTTP client of the control API, for the commands ``mockbroker ctl`` and ``mockbroker top``."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

import click

from mockbroker.cli.event_lines import event_line
from mockbroker.cli.tables import escape, json_line

URL_VARIABLE = "MOCKBROKER_URL"
PATIENCE = 10.0  # seconds until a request fails that does not wait for a condition
IDLE = 90.0  # seconds without any byte after which an event stream fails; the server sends a comment every 30 s
PAGE = 1_000  # items of one request, the maximum of the API
SHOWN = 10  # possible values that an error lists
BYE = "event: bye"  # the server stops


class ControlError(click.ClickException):
    """The error for a failed request to the control API. The command ends with exit code 1.

    Args:
        message: The text to print.
        problem: The problem details in the response; None without a response or details.

    Attributes:
        problem: The problem details in the response (RFC 9457); empty if there are none.
        as_json: Whether the problem details are printed as JSON.
    """

    as_json = False

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem or {}

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error to stderr; with ``as_json``, print the problem details as JSON.

        ``file``: open file to print to; None for stderr.
        """
        if self.as_json and self.problem:
            click.echo(json_line(self.problem), file, err=True)
        else:
            super().show(file)


def segment(name: object) -> str:
    """Return a name, such as a topic name, percent-encoded for use as one part of a URL path."""
    return quote(str(name), safe="", errors="surrogateescape")


class UnreachableError(ControlError):
    """The error for a server that does not respond."""


class ControlClient:
    """The HTTP client of a control API.

    Args:
        url: Base URL, such as ``http://127.0.0.1:8080``.
        token: The bearer token of the requests; None if the server requires no token.
        patience: Seconds after which a request fails. The time that the server may wait for a condition (``wait_ms``)
            is added.

    Raises:
        click.UsageError: The URL is not valid.
    """

    def __init__(self, url: str, token: str | None, patience: float = PATIENCE) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")  # as a connection does
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host or not host.isprintable():
            raise click.UsageError(f"--url {escape(url)}: expected a URL such as http://127.0.0.1:8080")
        self.url = url
        self._patience = patience
        self._scheme, self._host, self._port = parts.scheme, host, port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Any = None,
        wait_ms: int = 0,
    ) -> Any:
        """Send a request, and return the JSON value of the response; None if the response has no body.

        Args:
            method: HTTP method.
            path: Path with percent-encoded segments.
            query: Query parameters; a parameter with the value None is omitted.
            body: JSON value of the request body; None for no body.
            wait_ms: Milliseconds that the server may wait for a condition.

        Raises:
            ControlError: The server cannot be reached, or returns an error.
        """
        with closing(self._connection(self._patience + wait_ms / 1000)) as connection:
            try:
                response = self._send(connection, method, path, query, body)
                return self._content(response)
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from error

    def pages(self, path: str, **query: object) -> dict[str, Any]:
        """Read all pages of a list. Return the last page as a JSON object, with the items of all pages in ``items``.

        Args:
            path: URL path of the list.
            query: query parameters; a parameter with the value None is omitted.

        Raises:
            ControlError: The server cannot be reached, or returns an error.
        """
        return self.latest(path, None, **query)

    def latest(self, path: str, count: int | None, **query: object) -> dict[str, Any]:
        """Read all pages of a list. Return the last page as a JSON object, with the last ``count`` items of the list in
        ``items``.

        Args:
            path: URL path of the list.
            count: maximum number of items; None for all.
            query: query parameters; a parameter with the value None is omitted.

        Raises:
            ControlError: The server cannot be reached, or returns an error.
        """
        items: deque[Any] = deque(maxlen=count)
        while True:
            page: dict[str, Any] = self.ask("GET", path, query={**query, "limit": PAGE})
            items += page["items"]
            if page["next"] is None:
                return {**page, "items": list(items)}
            query["after"] = page["next"]

    def events(self, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the events of the journal as they happen, until the server stops or the stream ends.

        ``query``: query parameters; a parameter with the value None is omitted.

        Raises:
            ControlError: The server cannot be reached, or returns an error.
        """
        with closing(self._connection(IDLE)) as connection:
            try:
                response = self._send(connection, "GET", "/v1/events/stream", query, None)
                if response.status != 200:
                    self._content(response)
                while line := response.readline():
                    text = line.decode("utf-8", "replace").rstrip("\r\n")
                    if text == BYE:
                        return
                    if text.startswith("data: "):
                        yield json.loads(text.removeprefix("data: "))
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from error

    def _connection(self, timeout: float) -> HTTPConnection:
        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        return kind(self._host, self._port, timeout=timeout)

    def _send(
        self, connection: HTTPConnection, method: str, path: str, query: Mapping[str, object] | None, body: Any
    ) -> HTTPResponse:
        given = {name: _parameter(value) for name, value in (query or {}).items() if value is not None}
        target = self._prefix + path + (f"?{urlencode(given, errors='surrogateescape')}" if given else "")
        headers = dict(self._headers)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode("ascii")
        connection.request(method, target, content, headers)
        return connection.getresponse()

    def _content(self, response: HTTPResponse) -> Any:
        data = response.read()
        try:
            content = json.loads(data) if data else None
        except (ValueError, RecursionError):
            content = _NOT_JSON
        if response.status < 300 and content is not _NOT_JSON:
            return content
        if isinstance(content, dict) and "detail" in content:
            raise ControlError(_description(content), content)
        raise ControlError(
            f"{self.url} answered with status {response.status}, but is not the control API of mockbroker: "
            "use the URL that serve --http prints"
        )

    def _unreachable(self, error: Exception) -> ControlError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return UnreachableError(f"no response from {self.url}: {reason}; is mockbroker serve --http running there?")


_NOT_JSON = object()


def _parameter(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _description(problem: Mapping[str, Any]) -> str:
    """Return problem details as lines of text for a terminal."""
    errors: Sequence[Any] = problem.get("errors") or ()
    if not errors:
        events = [f"  {event_line(each)}" for each in problem.get("events") or ()]
        return "\n".join([escape(problem["detail"]), *(["events:", *events] if events else [])])
    return "\n".join(["the server refused the request:", *(f"  {_line(each)}" for each in errors)])


def _line(error: Mapping[str, Any]) -> str:
    path, detail, possible = error.get("path"), error.get("detail"), list(error.get("possible") or ())
    text = f"{path}: {detail}" if path else str(detail)
    if possible:
        more = ", ..." if len(possible) > SHOWN else ""
        text += f" (possible: {', '.join(map(str, possible[:SHOWN]))}{more})"
    return escape(text)

"""A cluster with the control API, and a client that checks every response against the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import h11
import httpx
import trio
from jsonschema import Draft202012Validator

from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.base.settings import Settings
from mockbroker.control.server import HttpServer, serving
from mockbroker.control.table import openapi
from mockbroker.net.bound_listeners import listen

PATIENCE = 30.0  # seconds after which a test that waits fails
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
METHODS = ("get", "post", "put", "delete")


@dataclass
class Api:
    """The control API of a cluster."""

    cluster: Cluster
    server: HttpServer
    client: httpx.AsyncClient

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Send a request, with a JSON body if there is one; return the response, which the document must allow."""
        if body is not None:
            options["content"] = json.dumps(body)
            options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
        with trio.fail_after(PATIENCE):
            response = await self.client.request(method, path, **options)
        check_response(response)
        return response

    async def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of a response with status 200. ``query``: query parameters."""
        response = await self.ask("GET", path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None) -> Any:
        """Return the JSON of a response with status 200 or 201."""
        response = await self.ask("POST", path, body)
        assert response.status_code in (200, 201), response.text
        return response.json()

    async def status(self, method: str, path: str, body: Any = None, **options: Any) -> int:
        """Return the status code of a response."""
        return (await self.ask(method, path, body, **options)).status_code


@asynccontextmanager
async def control_api(
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    names: Iterable[str] = (),
    config: Mapping[str, object] | None = None,
    **options: Any,
) -> AsyncIterator[Api]:
    """Run a cluster with the control API. ``options``: options of ``open_cluster``."""
    settings = {**QUICK, **(config or {})}
    options.setdefault("topics", {"t": 2})
    async with (
        open_cluster(config=settings, **options) as cluster,
        serving(cluster, Settings.parse(settings), host, listen(host, 0), token, names) as server,
        httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, trust_env=False) as client,
    ):
        yield Api(cluster, server, client)


def segment(name: str) -> str:
    """Return a name, percent-encoded as a segment of a path."""
    return quote(name, safe="", errors="surrogateescape")


def check_response(response: httpx.Response) -> None:
    """Check status code, content type and body of a response against the OpenAPI document."""
    media, _, _ = response.headers.get("content-type", "").partition(";")
    assert "access-control-allow-origin" not in response.headers
    if response.status_code >= 400 and media == "application/problem+json":
        problem = response.json()
        assert problem["status"] == response.status_code
    operation = _operation(response.request.method.lower(), response.request.url.raw_path.decode().partition("?")[0])
    if operation is None:
        assert response.status_code in (401, 403, 404, 405, 421)
        return
    described = operation["responses"][str(response.status_code)]
    if "content" not in described:
        assert not response.content
        return
    content = described["content"]
    if media in ("application/json", "application/problem+json"):
        check(response.json(), content[media]["schema"])
    else:
        assert media in content or "*/*" in content


def check(value: object, schema: Mapping[str, Any]) -> None:
    """Check a JSON value against a schema of the OpenAPI document."""
    Draft202012Validator({**schema, "components": openapi()["components"]}).validate(value)


def _operation(method: str, path: str) -> Any:
    segments = path.split("/")
    for declared, methods in openapi()["paths"].items():
        parts = declared.split("/")
        if len(parts) == len(segments) and all(
            part == given or part.startswith("{") for part, given in zip(parts, segments, strict=True)
        ):
            if "get" in methods and method == "head":
                return None
            if method in methods:
                return methods[method]
    return None


class EventClient:
    """A client of an event stream with its own socket, from which it reads only what a test asks for."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._text = ""

    async def open(self, path: str, headers: Mapping[str, str]) -> h11.Response:
        """Send the request; return the head of the response."""
        request = h11.Request(method="GET", target=path, headers=[("Host", "localhost"), *headers.items()])
        await self.stream.send_all((self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        head = await self._next()
        assert isinstance(head, h11.Response)
        return head

    async def _next(self) -> Any:
        with trio.fail_after(PATIENCE):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self.stream.receive_some())
        return event

    async def line(self) -> str | None:
        """Return the next line; None at the end of a complete response."""
        while "\n" not in self._text:
            event = await self._next()
            if isinstance(event, h11.EndOfMessage):
                return None
            assert isinstance(event, h11.Data)
            self._text += event.data.decode("ascii")
        line, _, self._text = self._text.partition("\n")
        return line

    async def event(self) -> dict[str, Any] | None:
        """Return the fields of the next event, ``data`` as decoded JSON; None at the end."""
        fields: dict[str, Any] = {}
        while (line := await self.line()) is not None:
            name, _, value = line.partition(":")
            if name:
                fields[name] = json.loads(value) if name == "data" else value.strip()
            elif "data" in fields:
                return fields
        return None


@asynccontextmanager
async def event_stream(
    api: Api, query: str = "", headers: Mapping[str, str] | None = None, path: str = "/v1/events/stream"
) -> AsyncIterator[EventClient]:
    """Open a stream of events, and yield its client after the head of the response."""
    async with await trio.open_tcp_stream("127.0.0.1", int(api.server.url.rpartition(":")[2])) as stream:
        client = EventClient(stream)
        head = await client.open(f"{path}{query}", headers or {})
        assert (head.status_code, dict(head.headers)[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
        assert await client.line() == "retry: 1000"
        yield client

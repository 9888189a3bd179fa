"""The handlers for the live page: the HTML document, its files, and the data that it shows."""

from __future__ import annotations

from starlette.responses import Response

from mockbroker.control.control import Control
from mockbroker.control.page.files import page_file
from mockbroker.control.page.first_paint import login_page, state_page
from mockbroker.control.page.state_stream import StateStream
from mockbroker.control.problems import Refused
from mockbroker.control.routes import HEADERS, JSON, CheckedRequest

HTML = "text/html"
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}


async def page(control: Control, call: CheckedRequest) -> Response:
    """Answer GET /: the page, or a login form for a browser without a session."""
    if control.access.is_authenticated(call.request.headers):
        html = state_page(await control.state.current())
    else:
        html = login_page()
    return Response(html.encode("utf-8", "backslashreplace"), headers=PAGE_HEADERS, media_type=HTML)


async def state(control: Control, call: CheckedRequest) -> Response:  # noqa: ARG001
    """Answer GET /v1/state: the document of the live page."""
    _, data = await control.state.encoded()
    return Response(data + b"\n", headers=HEADERS, media_type=JSON)


async def state_stream(control: Control, call: CheckedRequest) -> Response:  # noqa: ARG001
    """Answer GET /v1/state/stream: the document and its changes, as server-sent events."""
    return StateStream(control)


async def file(control: Control, call: CheckedRequest) -> Response:  # noqa: ARG001
    """Answer GET /page/{file}: a built file of the page; 404 for other names, 304 if the client has this version
    (ETag).
    """
    content = page_file(call.path["file"])
    if content is None:
        raise Refused(404, f"the live page has no file {call.path['file']!r}")
    headers = {**PAGE_HEADERS, "Cache-Control": "no-cache", "ETag": content.etag}
    known = call.request.headers.get("if-none-match", "")
    if content.etag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content.data, headers=headers, media_type=content.media)

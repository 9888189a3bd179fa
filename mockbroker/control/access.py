"""The access rules of the control API: which HTTP requests are allowed, by their Host, Origin and token. No I/O.

A web page of another server cannot use the API from a browser. The browser sends the page's own ``Origin`` or, after
DNS rebinding, the page's own ``Host``, and the API rejects both.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

from mockbroker.control.problems import Refused
from mockbroker.control.shapes import shown

LOOPBACK_NAMES = ("127.0.0.1", "[::1]", "localhost")
SESSIONS_KEPT = 1_000  # maximum number of sessions; the oldest end
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="mockbroker"'}
DEFAULT_PORTS = {"http": "80", "https": "443"}


class Access:
    """The access rules of the control API: they decide which HTTP requests are served.

    Args:
        host: the address to which the API is bound.
        port: the port to which the API is bound.
        token: the bearer token that requests must have; None to serve requests without a token.
        names: names that the Host header may contain in addition to the address; without effect if ``token`` is set.
        new_session: function that returns a new, unpredictable session id.

    Attributes:
        cookie: name of the cookie that contains the session id.
    """

    def __init__(
        self, host: str, port: int, token: str | None, names: Iterable[str], new_session: Callable[[], str]
    ) -> None:
        bound = f"[{host}]" if ":" in host else host
        self._hosts = {name.lower() for name in (bound, *LOOPBACK_NAMES, *names)}
        self._token = None if token is None else _digest(token)
        self._new_session = new_session
        self._sessions: dict[str, None] = {}
        self.cookie = f"mockbroker_session_{port}"  # cookies do not differ by port

    def check(self, method: str, headers: Headers, *, is_open: bool) -> None:
        """Raise an exception if a request may not use the API.

        Args:
            method: HTTP method.
            headers: headers of the request.
            is_open: whether the request is allowed without a token.

        Raises: Refused with status 421 (wrong Host), 403 (page of another origin) or 401 (no valid token).
        """
        hosts = headers.getlist("host")
        if self._token is None and (len(hosts) != 1 or name_of(hosts[0]) not in self._hosts):
            raise Refused(421, "the Host header does not name this server: use the address that serve --http prints")
        self._check_origin(method, headers, hosts)
        if not is_open and not self.is_authenticated(headers):
            raise Refused(
                401, "a token is needed: send the header 'Authorization: Bearer TOKEN', or log in", headers=CHALLENGE
            )

    def log_in(self, token: str) -> str:
        """Begin a session of a browser; return the Set-Cookie header of the session.

        If there are more than SESSIONS_KEPT sessions, the oldest one ends.

        Raises: Refused if the token is wrong, or the API requires no token.
        """
        if self._token is None:
            raise Refused(409, "this server needs no token and has no sessions: send requests without logging in")
        if not self._is_token(token):
            raise Refused(
                401,
                "the token is wrong: use the token that serve --http was started with",
                headers=CHALLENGE,
            )
        session = self._new_session()
        self._sessions[session] = None
        while len(self._sessions) > SESSIONS_KEPT:
            del self._sessions[next(iter(self._sessions))]
        return f"{self.cookie}={session}; HttpOnly; SameSite=Strict; Path=/"

    def log_out(self, headers: Headers) -> str:
        """End the session of a request, and return the Set-Cookie header that removes its cookie."""
        self._sessions.pop(self._session_of(headers), None)
        return f"{self.cookie}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"

    def _check_origin(self, method: str, headers: Headers, hosts: list[str]) -> None:
        for origin in headers.getlist("origin"):
            if not _is_same(origin, hosts):
                raise _foreign_page("Origin", origin, hosts)
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode")
        if site in ("cross-site", "same-site") and not (method == "GET" and mode == "navigate"):
            raise _foreign_page("Sec-Fetch-Site", site, hosts)

    def is_authenticated(self, headers: Headers) -> bool:
        """Return whether a request has the token or a valid session, or the API requires no token."""
        if self._token is None or self._session_of(headers) in self._sessions:
            return True
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, text: str) -> bool:
        return self._token is not None and hmac.compare_digest(_digest(text), self._token)

    def _session_of(self, headers: Headers) -> str:
        for text in headers.getlist("cookie"):
            cookies: Mapping[str, object]
            try:
                cookies = SimpleCookie(text)
            except CookieError:
                continue
            if self.cookie in cookies:
                return str(getattr(cookies[self.cookie], "value", ""))
        return ""


def name_of(host: str) -> str:
    """Return the name in a Host header, in lower case and without the port. An IPv6 address keeps its brackets."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_same(origin: str, hosts: list[str]) -> bool:
    """Return whether an Origin header belongs to this server: its host and port are those of a Host header.

    Args:
        origin: value of the Origin header.
        hosts: values of the Host headers of the request.
    """
    scheme, separator, place = origin.lower().partition("://")
    if not separator or scheme not in DEFAULT_PORTS or len(hosts) != 1:
        return False
    host, default = hosts[0].lower(), f":{DEFAULT_PORTS[scheme]}"
    return place.removesuffix(default) == host.removesuffix(default)


def _foreign_page(header: str, value: str, hosts: list[str]) -> Refused:
    """Return the error for a request that a page of another origin has sent.

    Args:
        header: name of the header that shows the foreign origin.
        value: value of the header.
        hosts: values of the Host headers of the request.
    """
    host = ", ".join(map(shown, hosts)) or "missing"
    return Refused(
        403,
        f"the request comes from a page of another origin ({header} is {shown(value)}, Host is {host}): "
        "only pages of this server may send requests",
    )


def _digest(text: str) -> bytes:
    """Return a digest of a text. All digests have the same length, so that the time of a comparison reveals nothing
    about the text.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

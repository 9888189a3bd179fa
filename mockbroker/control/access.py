"""Access to the control API: the rules on Host, Origin and token of a request, without IO.

A page of a foreign site that a browser shows cannot use the API: its requests have a foreign ``Origin`` or, after DNS
rebinding, a foreign ``Host``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

from mockbroker.control.problems import Refused

LOOPBACK_NAMES = ("127.0.0.1", "[::1]", "localhost")
SESSIONS_KEPT = 1_000  # maximum number of sessions; the oldest end
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="mockbroker"'}
DEFAULT_PORTS = {"http": "80", "https": "443"}


class Access:
    """The rules on which requests are served.

    Args:
        host: The address that the API is bound to.
        port: The port that the API is bound to.
        token: The token that requests need; None if they need none.
        names: Further allowed names in the Host header; without effect with a token.
        new_session: Function that returns a new, unpredictable session id.
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

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return self._token is not None

    def check(self, method: str, headers: Headers, *, is_open: bool) -> None:
        """Check a request.

        Args:
            method: HTTP method.
            headers: Headers of the request.
            is_open: Whether the request needs no token.

        Raises: Refused with status 421, 403 or 401.
        """
        hosts = headers.getlist("host")
        if self._token is None and (len(hosts) != 1 or name_of(hosts[0]) not in self._hosts):
            raise Refused(421, "the Host header is not a name of this server: use the address that it printed")
        self._check_origin(method, headers, hosts)
        if not is_open and not self._is_authenticated(headers):
            raise Refused(401, "a token is needed: send Authorization: Bearer TOKEN, or log in", headers=CHALLENGE)

    def log_in(self, token: str) -> str:
        """Return the Set-Cookie header of a new session. Raises: Refused if the token is wrong, or none is needed."""
        if self._token is None:
            raise Refused(409, "this server needs no token and has no sessions: send requests without logging in")
        if not self._is_token(token):
            raise Refused(401, "the token is wrong", headers=CHALLENGE)
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
        origins = headers.getlist("origin")
        if any(not _is_same(origin, hosts) for origin in origins):
            raise Refused(403, "the request comes from a page of another origin")
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode")
        if site in ("cross-site", "same-site") and not (method == "GET" and mode == "navigate"):
            raise Refused(403, "the request comes from a page of another origin")

    def _is_authenticated(self, headers: Headers) -> bool:
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
    """Return the name in a Host header, in lower case and without the port."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_same(origin: str, hosts: list[str]) -> bool:
    """Return whether an Origin header is the origin of this server, as the client addresses it."""
    scheme, separator, place = origin.lower().partition("://")
    if not separator or scheme not in DEFAULT_PORTS or len(hosts) != 1:
        return False
    host, default = hosts[0].lower(), f":{DEFAULT_PORTS[scheme]}"
    return place.removesuffix(default) == host.removesuffix(default)


def _digest(text: str) -> bytes:
    """Return a digest, whose length does not depend on the text: comparing digests takes the same time for all."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

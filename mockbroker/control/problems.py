"""The errors of the control API: problem details (RFC 9457) by status code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from mockbroker.faults.sections import Problem

PROBLEMS_LISTED = 100  # maximum number of errors in a response: a body may have a hundred thousand
TITLES: Mapping[int, str] = {
    413: "Content Too Large",  # RFC 9110; older releases of Python have the words of its predecessor
    422: "Unprocessable Content",
    421: "Misdirected Request",
}


class Refused(Exception):
    """The error for a request that gets problem details as its response.

    Attributes:
        status: HTTP status code.
        detail: the problem, and the remedy.
        headers: further headers of the response.
        more: further members of the problem details.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def details(self) -> dict[str, Any]:
        """Return the problem details as a JSON object."""
        title = TITLES.get(self.status) or HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail, **self.more}


class NotPossible(Refused):
    """The error for a request whose body is JSON, but contains a value that is not valid (status 422).

    Args:
        problems: the problems. The list ``errors`` in the problem details has the first PROBLEMS_LISTED of them,
            ``detail`` the first three.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        listed = islice(problems, PROBLEMS_LISTED)
        errors = [{"path": each.path, "detail": each.detail, "possible": list(each.possible)} for each in listed]
        super().__init__(422, "; ".join(_line(each) for each in errors[:3]), more={"errors": errors})


def _line(error: Mapping[str, Any]) -> str:
    return f"{error['path']}: {error['detail']}" if error["path"] else str(error["detail"])

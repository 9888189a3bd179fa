"""The report on fault rules that were never applied; the pytest fixtures fail a test with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mockbroker.api.request_report import request_report

if TYPE_CHECKING:
    from mockbroker.api.cluster import Cluster
    from mockbroker.api.faults import FaultState

APIS_SHOWN = 10  # requests of at most so many APIs are counted for a rule that names no API


def unused_report(cluster: Cluster) -> str:
    """Return a report on the fault rules that had to be applied but never were.

    For each rule, the report shows the rule and the requests that the cluster has received instead. The result is "" if
    there is no such rule.
    """
    return "\n".join(line for state in cluster.faults.unused() for line in _lines(cluster, state))


def _lines(cluster: Cluster, state: FaultState) -> list[str]:
    match = state.rule["match"]
    what = "new connections" if match.get("on") else "requests"
    lines = [
        f"fault rule {state.name} was never applied: {state.matched} {what} matched it",
        *(f"  {key}: {json.dumps(state.rule[key])}" for key in ("match", "occurrence", "action") if key in state.rule),
    ]
    if what == "requests":
        lines += [f"  {line}" for line in _seen(cluster, match.get("api"))]
    return [*lines, "  a rule that need not be applied is added with optional=True"]


def _seen(cluster: Cluster, api: str | list[str] | None) -> list[str]:
    """Return the lines of the report about the requests that the cluster received.

    ``api``: one or more API names: the lines show the latest requests of these APIs. None: the result is one line with
    the most frequent APIs.
    """
    if api is None:
        numbers: dict[str, int] = {}
        for request in cluster.requests():
            numbers[request.api] = numbers.get(request.api, 0) + 1
        common = sorted(numbers.items(), key=lambda item: -item[1])[:APIS_SHOWN]
        return [f"requests: {', '.join(f'{number} {name}' for name, number in common) or 'none'}"]
    names = [api] if isinstance(api, str) else api
    return [line for name in names for line in request_report(f"{name} requests", cluster.router.requests.select(name))]

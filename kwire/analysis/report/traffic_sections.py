"""The sections of the HTML page about all traffic: errors, clients, versions, latency, and traffic that was not
decoded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from kwire.analysis.columns import Row
from kwire.analysis.differences import percentile
from kwire.analysis.report.parts import Cell, Line, clock, number, table

NO_FAMILY = "unknown"  # client without ApiVersions v3


def families(clients: Iterable[Row]) -> dict[str | None, str]:
    """Return the name of the client library of each client id, if it is known. ``clients``: rows of ``clients``."""
    made: dict[str | None, str] = {}
    for row in clients:
        if row["software_name"]:
            made[row["client_id"]] = row["software_name"]
    return made


def errors(rows: Sequence[Row], family: Mapping[str | None, str]) -> str:
    """Return two HTML tables of errors: one with sums by client library, API and code, and one with all rows.

    Args:
        rows: rows of ``errors``.
        family: client libraries by client id.
    """
    grouped: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        key = family.get(row["client_id"], NO_FAMILY), row["api_name"], row["error_name"] or str(row["error_code"])
        grouped[key].append(row)
    lines: list[Line] = [
        (
            "",
            [
                *key,
                sum(row["count"] for row in own),
                len({row["client_id"] for row in own}),
                clock(min(row["first_ts"] for row in own)),
                clock(max(row["last_ts"] for row in own)),
            ],
        )
        for key, own in sorted(grouped.items(), key=lambda item: (-sum(row["count"] for row in item[1]), item[0]))
    ]
    head = ["client family", "API", "error", "count", "clients", "first", "last"]
    single: list[Line] = [
        (
            "",
            [
                row["api_name"],
                row["error_name"],
                row["client_id"],
                row["group_id"],
                row["topic"],
                row["partition"],
                row["count"],
            ],
        )
        for row in rows
    ]
    titles = ["API", "error", "client", "group", "topic", "partition", "count"]
    return table("error-families", head, lines, title="By client family") + table(
        "errors", titles, single, title="By what they are about"
    )


def clients(rows: Sequence[Row]) -> str:
    """Return the HTML table of clients with their libraries and versions. ``rows``: rows of ``clients``."""
    names = ("client_id", "host", "software_name", "software_version", "connections", "calls", "calls_removed_in_4")
    lines: list[Line] = [("warn" if row["calls_removed_in_4"] else "", [row[name] for name in names]) for row in rows]
    head = ["client", "host", "software", "version", "connections", "requests", "in versions that Kafka 4 removed"]
    return table("clients", head, lines, title="Clients")


def api_versions(usage: Iterable[Row]) -> str:
    """Return the HTML table of requests by API and version. Versions that Kafka 4 does not serve are marked with ✕.

    ``usage``: rows of ``api_usage``.
    """
    counts: Counter[tuple[str, int]] = Counter()
    removed = set()
    for row in usage:
        key = row["api_name"] or f"API {row['api_key']}", row["api_version"]
        counts[key] += row["count"]
        if row["removed_in_4"]:
            removed.add(key)
    versions = sorted({version for _, version in counts})
    lines: list[Line] = []
    for api in sorted({api for api, _ in counts}):
        cells: list[Cell] = [api]
        for version in versions:
            count = counts[api, version]
            cells.append(None if not count else f"{count} ✕" if (api, version) in removed else count)
        lines.append(("warn" if any(name == api for name, _ in removed) else "", cells))
    head = ["API", *(f"v{version}" for version in versions)]
    return table("api-versions", head, lines, title="Requests by version")


def latency(rows: Sequence[Row]) -> str:
    """Return the HTML table of latency percentiles by API, with a histogram by powers of two.

    ``rows``: rows of ``latency``.
    """
    by_api: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_api[row["api_name"]].append(row)
    lines: list[Line] = []
    histograms: dict[str, Counter[int]] = {}
    for api, own in sorted(by_api.items()):
        counts: Counter[int] = Counter()
        for row in own:
            counts.update(row["histogram"] or {})
        histograms[api] = counts
        longest = max(row["max_ms"] for row in own)
        middle = (min(percentile(counts, percent) or 0.0, longest) for percent in (50, 90, 99))
        cells: list[Cell] = [api, sum(row["n"] for row in own), *map(number, middle)]
        cells += [number(max(row[name] for row in own)) for name in ("p50_ms", "p99_ms", "max_ms")]
        lines.append(("", cells))
    head = "API|calls|p50, ms|p90, ms|p99, ms|p50 of the worst minute, ms|p99 of the worst minute, ms|longest, ms"
    return table("latencies", head.split("|"), lines, title="Latency by API") + _histogram(histograms)


def _histogram(histograms: Mapping[str, Mapping[int, int]]) -> str:
    powers = [power for counts in histograms.values() for power in counts]
    steps = list(range(min(powers), max(powers) + 1)) if powers else []
    most = max((count for counts in histograms.values() for count in counts.values()), default=1).bit_length()
    rows = []
    for api, counts in histograms.items():
        cells = [f"<td>{escape(api)}</td>"]
        for power in steps:
            count = counts.get(power, 0)
            heat = -(-4 * count.bit_length() // most)
            cells.append(f'<td class="n heat-{heat}">{count}</td>' if count else "<td></td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{_duration(2**power)}</th>' for power in steps)
    title = "Calls by latency"
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{title}"><table class="histogram">'
        f'<caption>{title}, from</caption><thead><tr><th scope="col">API</th>{head}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _duration(micros: int) -> str:
    if micros < 1000:
        return f"{micros} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1_000_000 else f"{micros / 1e6:.3g} s"


def problems(rows: Sequence[Row]) -> str:
    """Return the HTML table of the traffic that was not decoded. Rows about damaged data are marked.

    ``rows``: rows of ``problems``.
    """
    lines: list[Line] = [
        (
            "warn" if row["error"] else "",
            [row["file"] or f"{row['client']} to {row['broker']}", row["position"], row["error"] or row["note"]],
        )
        for row in rows
    ]
    return table("problems", ["file or connection", "at byte", "what"], lines, title="Not decoded")

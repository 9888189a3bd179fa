"""Report of whether captured clients and groups are ready for Kafka 4, which does not serve old versions (KIP-896).

The report also contains the message format of records and the transaction protocol (KIP-890). Both are derived from the
versions of the requests.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kwire.analysis.columns import Row, Tables
from kwire.analysis.events import CLASSIC, CONSUMER
from kwire.apikeys import ApiKey

NEEDED = ("api_usage", "group_events", "rebalances", "members")  # names of the tables that the report needs
TARGETS = ("4.0", "4.1", "4.2")  # all serve the same versions of the APIs of clients
JAVA_WITH_KIP_848 = 4, 0  # the first release in which it is generally available
RDKAFKA_WITH_KIP_848 = 2, 12
IN_BROKER = ("range", "uniform")  # assignors of KIP-848 brokers
BLOCKED, NOTE, READY = "blocked", "note", "ready"
CAN_MOVE = "can move to KIP-848"
TV1, TV2 = "TV1", "TV2"  # transaction.version 1 and 2


# Columns in which the rows of the report differ; the report ignores all others.
_ABOUT = {
    "api_usage": ("client_id", "software_name", "software_version", "api_key", "api_version"),
    "group_events": ("group_id", "cluster", "protocol"),
    "rebalances": ("group_id", "cluster", "protocol", "protocol_name"),
    "members": ("group_id", "cluster", "client_id"),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One row of the report.

    Attributes:
        state: BLOCKED (requests fail on Kafka 4), NOTE (works, but needs attention for KIP-848) or READY.
        kind: ``client`` or ``group``.
        name: client id or group id.
        software: name and version of the client library; None if unknown.
        detail: the evidence, as text.
        magics: message formats (0, 1, 2) that the client's Produce and Fetch requests imply, in order.
        transactions: transaction protocols of the client, TV1 or TV2 (KIP-890), in order.
        removed: requests of the client that Kafka 4 does not serve: API, version and number of requests, such as
            ``ListOffsets v0 (3)``.
        cluster: cluster of a group, as in the tables; None for a client.
    """

    state: str
    kind: str
    name: str
    software: str | None
    detail: str
    magics: tuple[int, ...] = ()
    transactions: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    cluster: str | None = None


def labels(rows: Sequence[Statement]) -> list[str]:
    """Return the display name of each row: its name, and the cluster if groups of several clusters have the name."""
    groups = Counter(row.name for row in rows if row.kind == "group")
    return [
        f"{row.name} (cluster {row.cluster})" if row.kind == "group" and groups[row.name] > 1 else row.name
        for row in rows
    ]


class Summary:
    """A collector of the rows that the report needs, from all parts of a stream.

    Rows that are equal in the columns of ``_ABOUT`` are stored once, so that memory stays bounded.

    Attributes:
        tables: rows by table name, of the tables NEEDED.
    """

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in NEEDED}
        self._known: dict[tuple[object, ...], Row] = {}

    def add(self, tables: Tables) -> None:
        """Add the tables of a part of a stream.

        Of rows that are equal in the columns of ``_ABOUT``, the first is stored. The counts of such rows of
        ``api_usage`` are summed.

        ``tables``: rows by table name. Rows of ``api_usage`` may be changed later.
        """
        for name, columns in _ABOUT.items():
            for row in tables[name]:
                key = name, *(row[column] for column in columns)
                known = self._known.setdefault(key, row)
                if known is row:
                    self.tables[name].append(row)
                elif name == "api_usage":
                    known["count"] += row["count"]


def magic_of(api_key: int, version: int) -> int | None:
    """Return the message format that a version of Produce or Fetch implies; None for other APIs."""
    match api_key:
        case ApiKey.PRODUCE:
            return 2 if version >= 3 else 1 if version == 2 else 0
        case ApiKey.FETCH:
            return 2 if version >= 4 else 1 if version >= 2 else 0
        case _:
            return None


def transaction_protocol(api_key: int, version: int) -> str | None:
    """Return the transaction protocol of the client that sends a request: TV1 or TV2.

    The result is None if the request does not show the protocol. With TV2 the broker adds partitions and groups to a
    transaction, and EndTxn v5 returns the next producer epoch (KIP-890). Produce v12 does not show the protocol,
    because it is also sent without transactions. AddPartitionsToTxn v4 and later does not, because brokers send it.
    """
    match api_key:
        case ApiKey.END_TXN | ApiKey.TXN_OFFSET_COMMIT:
            return TV2 if version >= 5 else TV1
        case ApiKey.ADD_OFFSETS_TO_TXN:
            return TV1
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return TV1 if version <= 3 else None
        case _:
            return None


def statements(tables: Tables) -> Iterator[Statement]:
    """Yield a row of the report for each client and each group. ``tables``: rows by table name."""
    used: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in tables["api_usage"]:
        software = " ".join(part for part in (row["software_name"], row["software_version"]) if part)
        used[row["client_id"] or "", software].append(row)
    for (client, software), rows in sorted(used.items()):
        yield _client(client, software or None, rows)
    yield from _groups(tables)


def _client(client: str, software: str | None, rows: Sequence[Row]) -> Statement:
    """Return the row of the report for a client.

    Args:
        client: client id; "" for clients that send none.
        software: name and version of the client library; None if unknown.
        rows: rows of ``api_usage`` of the client.
    """
    counts: Counter[str] = Counter()
    for row in rows:
        if row["removed_in_4"]:
            counts[f"{row['api_name']} v{row['api_version']}"] += row["count"]
    removed = tuple(f"{request} ({count})" for request, count in counts.items())
    details = [f"removed requests: {', '.join(removed)}" if removed else "all requests are served"]
    calls = [(row["api_key"], row["api_version"]) for row in rows]
    magics = sorted({magic for call in calls if (magic := magic_of(*call)) is not None})
    protocols = sorted({protocol for call in calls if (protocol := transaction_protocol(*call))})
    if old := [str(magic) for magic in magics if magic < 2]:
        details.append(f"records of magic {' and '.join(old)}")
    if protocols:
        details.append(f"transactions of {' and '.join(protocols)}")
    state = BLOCKED if removed else READY
    return Statement(state, "client", client, software, "; ".join(details), tuple(magics), tuple(protocols), removed)


def _release_with_kip_848(name: str | None, version: str | None) -> tuple[str, str, tuple[int, int]] | None:
    """Return library, release and first release with KIP-848, if the client is the Java client or uses librdkafka.

    Arguments: those of ``needed_upgrade``.
    """
    if name == "apache-kafka-java":
        return name, version or "", JAVA_WITH_KIP_848
    if name == "librdkafka" or "rdkafka-" in (version or ""):
        return "librdkafka", (version or "").rpartition("rdkafka-")[2], RDKAFKA_WITH_KIP_848
    return None


def needed_upgrade(name: str | None, version: str | None) -> str | None:
    """Return the upgrade that a client library needs for KIP-848, such as ``apache-kafka-java 3.9.1 needs 4.0``.

    The result is None if the library supports KIP-848, and if its version is unknown. It is also None if the library is
    neither the Java client nor based on librdkafka.

    Args:
        name: client software name in ApiVersions; None if unknown.
        version: client software version in ApiVersions; None if unknown. Clients based on librdkafka append the version
            of librdkafka.
    """
    release = _release_with_kip_848(name, version)
    if release is None:
        return None
    library, found, wanted = release
    match = re.match(r"v?(\d+)\.(\d+)", found)
    if match is None or (int(match[1]), int(match[2])) >= wanted:
        return None
    return f"{library} {found} needs {wanted[0]}.{wanted[1]}"


def _conditions(tables: Tables) -> dict[tuple[str, str | None], str]:
    """Return the conditions under which the members of each group support KIP-848, by group id and cluster.

    A group without a condition is left out. The text continues a sentence, as in ``, after upgrades: ...``.
    """
    libraries: dict[str | None, set[tuple[str | None, str | None]]] = defaultdict(set)
    for row in tables["api_usage"]:
        if row["software_name"] is not None:
            libraries[row["client_id"]].add((row["software_name"], row["software_version"]))
    upgrades: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    unchecked: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for row in tables["members"]:
        group = row["group_id"], row["cluster"]
        client = row["client_id"]
        for name, version in libraries.get(client, {(None, None)}):
            if upgrade := needed_upgrade(name, version):
                upgrades[group].add(upgrade)
            elif _release_with_kip_848(name, version) is None:
                unknown = f"the unknown library of {client or 'a client without id'}"
                unchecked[group].add(" ".join(part for part in (name, version) if part) or unknown)
    texts: dict[tuple[str, str | None], str] = defaultdict(str)
    for group, needed in upgrades.items():
        texts[group] += f", after upgrades: {', '.join(sorted(needed))}"
    for group, names in unchecked.items():
        texts[group] += f", if supported by {', '.join(sorted(names))}"
    return texts


def _groups(tables: Tables) -> Iterator[Statement]:
    conditions = _conditions(tables)
    for group, statement in _groups_by_assignor(tables):
        condition = conditions.get(group) if statement.detail.startswith(CAN_MOVE) else None
        if condition:
            statement = replace(statement, state=NOTE, detail=statement.detail + condition)
        yield replace(statement, cluster=group[1])


def _groups_by_assignor(tables: Tables) -> Iterator[tuple[tuple[str, str | None], Statement]]:
    protocols: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    assignors: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for row in tables["group_events"]:
        group = row["group_id"], row["cluster"]
        if row["protocol"] is not None:
            protocols[group].add(row["protocol"])
    for row in tables["rebalances"]:
        if row["protocol"] == CLASSIC and row["protocol_name"]:
            assignors[row["group_id"], row["cluster"]].add(row["protocol_name"])
    for group, own in sorted(protocols.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        name = group[0]
        if own == {CONSUMER}:
            yield group, Statement(READY, "group", name, None, "uses KIP-848 already")
        elif CLASSIC in own:
            custom = sorted(assignors[group] - {*IN_BROKER, "roundrobin", "sticky", "cooperative-sticky"})
            other = sorted(assignors[group] - {*IN_BROKER} - {*custom})
            if custom:
                detail = f"no KIP-848 equivalent of assignor {', '.join(custom)}"
                yield group, Statement(NOTE, "group", name, None, detail)
            elif other:
                detail = f"{CAN_MOVE}: {', '.join(other)} becomes uniform"
                yield group, Statement(READY, "group", name, None, detail)
            elif assignors[group]:
                yield group, Statement(READY, "group", name, None, f"{CAN_MOVE} with the same assignor")
            else:
                yield group, Statement(NOTE, "group", name, None, "its assignor was not captured")

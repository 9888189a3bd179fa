"""The scenarios of each client, the reasons why some are not run, and docs/clients.md with the results."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from interop.stage import ASSIGNORS, CONSUMER, FAMILIES, MODULES, SERVER_ASSIGNORS

HERE = Path(__file__).parent

RING = [  # leader, follower, assignor: each family leads once and follows once
    (leads, follows, assignor)
    for leads, follows in zip(FAMILIES, FAMILIES[1:] + FAMILIES[:1], strict=True)
    for assignor in ("range", "roundrobin")
    if assignor in ASSIGNORS[leads] and assignor in ASSIGNORS[follows]
]
PAIRS = [
    *RING,
    ("java", "aiokafka", "range"),
    ("aiokafka", "java", "sticky"),
    ("java", "franz-go", "sticky"),
    ("franz-go", "kafka-python", "sticky"),
    ("confluent-kafka", "java", "cooperative-sticky"),
    ("java", "confluent-kafka", "cooperative-sticky"),
    ("franz-go", "java", "cooperative-sticky"),
    ("kafka-python", "franz-go", "cooperative-sticky"),
    ("kcat", "kafka-python", "cooperative-sticky"),
]

CONSUMER_PAIRS = [  # the clients of a group of the consumer protocol
    (leads, follows, SERVER_ASSIGNORS[0]) for leads, follows in zip(CONSUMER, CONSUMER[1:] + CONSUMER[:1], strict=True)
]

MIGRATIONS = [  # client of the classic members, client of the consumer members
    ("confluent-kafka", "java"),
    ("java", "confluent-kafka"),
    ("confluent-kafka", "confluent-kafka"),
    ("java", "java"),
]

FRAMEWORKS = [  # with their versions, as in java-frameworks/pom.xml; all except reactor-kafka write in transactions
    ("spring-kafka", "3.3.10"),
    ("reactor-kafka", "1.3.23"),
    ("pekko", "1.1.0"),
    ("flink", "4.0.1-2.0"),
]

STREAMS = [  # release of Kafka Streams and processing guarantee; exactly_once is that of KIP-129, beta that of KIP-447
    ("4.2.0", "at_least_once"),
    ("4.2.0", "exactly_once_v2"),
    ("3.9.1", "exactly_once_v2"),
    ("3.9.1", "exactly_once"),
    ("2.8.2", "exactly_once"),
    ("2.8.2", "exactly_once_beta"),
]

KIP_848 = " (KIP-848)"  # suffix of scenarios that exist for both protocols
CONSUMER_SCENARIOS = (
    "joins alone (KIP-848)",
    "three join one by one (KIP-848)",
    "uniform (server)",
    "range (server)",
    "commits and resumes (KIP-848)",
    "leaves, and its partitions are reassigned at once (KIP-848)",
    "is killed, and is evicted (KIP-848)",
    "static member restarts without a new epoch",
    "second static member with the same id is refused",
    "subscribes by a regular expression",
    "topic grows while subscribed",
)

SHARE_SCENARIOS = ("accepts, releases and rejects records", "acknowledges implicitly")

TRANSACTIONS = (
    "exactly-once loop with commits, an abort and a crash",
    "is fenced by a producer with the same transactional id",
    "transaction times out",
)
AS_CONSUMER = "exactly-once loop as a member of the consumer protocol (KIP-848)"
ABOUT_TRANSACTIONS = (
    "list transactions",
    "describe transaction",
    "describe producers",
    "abort transaction",
    "fence producers",
)


@dataclass(frozen=True)
class Meeting:
    """A table of scenarios with several clients."""

    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, ...]]


_PAIR = ("leader", "follower", "assignor")
MEETINGS: Mapping[str, Meeting] = {  # by scenario
    "a topic with its records, a group, and an administrator": Meeting(
        "Other clients of Go: a topic, its records, a group, configurations, quotas, reassignments and ACLs",
        ("client",),
        [("sarama",), ("kafka-go",)],
    ),
    "shares a group": Meeting("Two clients in one group", _PAIR, PAIRS),
    "shares a group (KIP-848)": Meeting("Two clients in one group of the consumer protocol", _PAIR, CONSUMER_PAIRS),
    "migrates and returns": Meeting(
        "Online upgrade to the consumer protocol, and downgrade",
        ("classic members", "consumer members"),
        MIGRATIONS,
    ),
    "counts words": Meeting(
        "Kafka Streams 4.2 with group.protocol=streams (KIP-1071): a word count, one of two instances is killed",
        ("processing guarantee",),
        [("at_least_once",), ("exactly_once_v2",)],
    ),
    "reads orders and writes bills": Meeting(
        "Frameworks around the Java client: an application that reads a topic and writes another one",
        ("framework", "version"),
        FRAMEWORKS,
    ),
    "counts words in a classic group": Meeting(
        "Kafka Streams in classic groups: the same word count",
        ("release", "processing guarantee"),
        STREAMS,
    ),
}

SCENARIOS: Mapping[str, tuple[str, ...]] = {  # by title of their table; names as in the markers of the tests
    "Groups": (
        "joins alone",
        "three join one by one",
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "more members than partitions",
        "commits and resumes",
        "leaves, and its partitions are reassigned at once",
        "is killed, and is evicted",
        "static member restarts without rebalance",
        "static member is fenced by a second one with its id",
        "begins at the earliest offset",
        "begins at the latest offset",
    ),
    "Groups of the consumer protocol (KIP-848)": CONSUMER_SCENARIOS,
    "Share groups (KIP-932)": SHARE_SCENARIOS,
    "Records": (
        "acks=0",
        "acks=1",
        "acks=all",
        "idempotent producer",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
        "seeks; beginning and end offsets",
        "offset by time",
        "topic auto-creation",
        "three brokers",
    ),
    "Transactions": (*TRANSACTIONS, AS_CONSUMER, "read_committed and read_uncommitted"),
    "Administration": (
        "create topic",
        "delete topic",
        "create partitions",
        "list topics",
        "list offsets",
        "describe configs",
        "describe cluster",
        "list groups",
        "describe group",
        "list group offsets",
        "alter group offsets",
        "delete group offsets",
        "delete group",
        *ABOUT_TRANSACTIONS,
    ),
    "Security": (
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "TLS",
        "SASL over TLS",
        "client certificate",
        "wrong password is refused",
        "ACLs",
    ),
}
SAME = {"RoundRobinAssigner": "roundrobin"}  # assignors of kafkajs, with their usual names

_CODECS = ("snappy", "lz4", "zstd")
LACKS: Mapping[str, Mapping[str, Iterable[str]]] = {  # reason -> family -> scenarios that are not run for this reason
    "has no such assignor": {
        "confluent-kafka": ["sticky"],
        "kcat": ["sticky"],
        "aiokafka": ["cooperative-sticky"],
        "kafkajs": ["range", "sticky", "cooperative-sticky"],
    },
    "does not support static members": {
        "kafkajs": ["static member restarts without rebalance", "static member is fenced by a second one with its id"],
    },
    "sends no instance id in heartbeats, so two members with one id fence each other repeatedly, on Kafka 4.2 too": {
        "aiokafka": ["static member is fenced by a second one with its id"],
    },
    "does not support the consumer protocol": dict.fromkeys(
        ("kafka-python", "aiokafka", "kafkajs"), (*CONSUMER_SCENARIOS, AS_CONSUMER)
    ),
    "its librdkafka is older than the consumer protocol": {"kcat": (*CONSUMER_SCENARIOS, AS_CONSUMER)},
    "leaves without its instance id, which Kafka 4.2 refuses too; the id is free again when the session expires": {
        "franz-go": ["static member restarts without a new epoch"],
    },
    "needs an additional package for this codec": {
        "kafka-python": _CODECS,
        "aiokafka": _CODECS,
        "kafkajs": _CODECS,
    },
    "has no admin client": {"kcat": SCENARIOS["Administration"]},
    "its admin client has no such method": {
        "aiokafka": [
            "list offsets",
            "alter group offsets",
            "delete group offsets",
            "delete group",
            *ABOUT_TRANSACTIONS,
        ],
        "confluent-kafka": ["delete group offsets", *ABOUT_TRANSACTIONS],
        "kafkajs": ["delete group offsets", *ABOUT_TRANSACTIONS],
        "kafka-python": ["fence producers"],
        "franz-go": ["fence producers"],
    },
    "does not support transactions": {"kcat": TRANSACTIONS},
    "its librdkafka repeats its nonce, which Kafka 4.2 refuses too": {
        "kcat": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
    },
    "does not support share groups": dict.fromkeys(("kafka-python", "aiokafka", "kcat", "kafkajs"), SHARE_SCENARIOS),
}
REASONS = {
    (scenario, family): number
    for number, lacking in enumerate(LACKS.values(), 1)
    for family, scenarios in lacking.items()
    for scenario in scenarios
}

Results = Mapping[tuple[str, str], str]  # scenario and family -> "ok", "FAILED" or "not run"


def pinned() -> Mapping[str, str]:
    """Return the versions of the clients that are not Python packages, from their build files."""
    pom = (HERE / "java" / "pom.xml").read_text()
    java = re.search(r"<artifactId>kafka-clients</artifactId>\s*<version>(.*?)</version>", pom)
    go = re.search(r"twmb/franz-go v(\S+)", (HERE / "go" / "go.mod").read_text())
    node = json.loads((HERE / "node" / "package.json").read_text())["dependencies"]
    assert java
    assert go
    return {"java": java[1], "franz-go": go[1], "kafkajs": node["kafkajs"]}


def versions() -> Mapping[str, str]:
    """Return the installed version of every family."""
    output = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    kcat = re.search(r"Version (\S+).*librdkafka (\S+)", output, re.DOTALL)
    assert kcat
    return {
        **{family: version(family) for family in MODULES},
        "kcat": f"{kcat[1]} (librdkafka {kcat[2]})",
        **pinned(),
    }


def cell(results: Results, scenario: str, family: str) -> str:
    """Return the cell of one client in one scenario. Raises: ValueError if a result contradicts LACKS."""
    reason = REASONS.get((scenario, family))
    result = results.get((scenario, family))
    if reason and result:
        raise ValueError(f"{scenario}, {family}: has a result, although LACKS says that it is not run")
    return f"- ({reason})" if reason else result or "not run"


def row_name(scenario: str) -> str:
    """Return the name of a scenario in a table whose title names the protocol."""
    return scenario.removesuffix(KIP_848)


def page(results: Results, meetings: Mapping[tuple[str, ...], str]) -> str:
    """Return docs/clients.md. ``meetings``: results by scenario and the first cells of a row."""
    lines = [
        "# Clients",
        "",
        "The result of each client in each scenario of `tests/interop`. `make clients` runs all scenarios and writes this",
        "page.",
        "",
        *_table(["client", "version"], [[family, version] for family, version in versions().items()]),
    ]
    for title, scenarios in SCENARIOS.items():
        rows = [[row_name(name), *(cell(results, name, family) for family in FAMILIES)] for name in scenarios]
        lines += ["", f"## {title}", "", *_table(["scenario", *FAMILIES], rows)]
    lines += ["", *(f"- ({number}) {reason}" for number, reason in enumerate(LACKS, 1))]
    lines += [
        "",
        "The assignor of kafkajs is called RoundRobinAssigner. To share a group with other clients it needs their name:",
        '`partitionAssigners: [config => ({ ...PartitionAssigners.roundRobin(config), name: "roundrobin" })]`.',
    ]
    for scenario, meeting in MEETINGS.items():
        rows = [[*who, meetings.get((scenario, *who), "not run")] for who in meeting.rows]
        lines += ["", f"## {meeting.title}", "", *_table([*meeting.head, "result"], rows)]
    return "\n".join(lines) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

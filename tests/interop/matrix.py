"""Which client is tried with what, why not where it is not, and docs/clients.md, which tells what came of it."""

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

RING = [  # who leads, who follows, with what: each family leads once, and follows once
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

CONSUMER_PAIRS = [  # the same in groups of the consumer protocol
    (leads, follows, SERVER_ASSIGNORS[0]) for leads, follows in zip(CONSUMER, CONSUMER[1:] + CONSUMER[:1], strict=True)
]

MIGRATIONS = [  # who speaks the classic protocol, and who the consumer protocol
    ("confluent-kafka", "java"),
    ("java", "confluent-kafka"),
    ("confluent-kafka", "confluent-kafka"),
    ("java", "java"),
]

KIP_848 = " (KIP-848)"  # ends the names of scenarios that are there for both protocols
CONSUMER_SCENARIOS = (
    "joins alone (KIP-848)",
    "three join one by one (KIP-848)",
    "uniform (server)",
    "range (server)",
    "commits and resumes (KIP-848)",
    "leaves, and is replaced at once (KIP-848)",
    "is killed, and evicted (KIP-848)",
    "static member restarts without a new epoch",
    "double of a static member is refused",
    "subscribes by a regular expression",
    "topic grows while subscribed",
)

TRANSACTIONS = (
    "consumes, transforms, produces exactly once: commits, an abort, a crash",
    "another takes its name, and it is fenced",
    "its transaction takes too long, and is aborted",
)
AS_CONSUMER = "exactly once as a member of the consumer protocol (KIP-848)"
ABOUT_TRANSACTIONS = (
    "list transactions",
    "describe transaction",
    "describe producers",
    "abort transaction",
    "fence producers",
)


@dataclass(frozen=True)
class Meeting:
    """A table of scenarios that more than one client is in."""

    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, ...]]


_PAIR = ("leads", "follows", "assignor")
MEETINGS: Mapping[str, Meeting] = {  # by scenario
    "shares a group": Meeting("Two clients in one group", _PAIR, PAIRS),
    "shares a group (KIP-848)": Meeting("Two clients in one group of the consumer protocol", _PAIR, CONSUMER_PAIRS),
    "migrates and returns": Meeting(
        "Groups that change to the consumer protocol while they live, and back",
        ("classic members", "consumer members"),
        MIGRATIONS,
    ),
}

SCENARIOS: Mapping[str, tuple[str, ...]] = {  # as the tests' markers say them
    "Groups": (
        "joins alone",
        "three join one by one",
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "more members than partitions",
        "commits and resumes",
        "leaves, and is replaced at once",
        "is killed, and evicted",
        "static member restarts without rebalance",
        "static member is fenced by its double",
        "begins at the earliest offset",
        "begins at the latest offset",
    ),
    "Groups of the consumer protocol (KIP-848)": CONSUMER_SCENARIOS,
    "Records": (
        "acks=0",
        "acks=1",
        "acks=all",
        "idempotent producer",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
        "seeks, and finds both ends",
        "offset by time",
        "topic on first use",
        "three brokers",
    ),
    "Transactions": (*TRANSACTIONS, AS_CONSUMER, "reads what is committed, and nothing else if it likes"),
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
    ),
}
SAME = {"RoundRobinAssigner": "roundrobin"}  # what kafkajs calls it

_CODECS = ("snappy", "lz4", "zstd")
LACKS: Mapping[str, Mapping[str, Iterable[str]]] = {  # reason -> family -> what it is not tried with
    "has no such assignor": {
        "confluent-kafka": ["sticky"],
        "kcat": ["sticky"],
        "aiokafka": ["cooperative-sticky"],
        "kafkajs": ["range", "sticky", "cooperative-sticky"],
    },
    "has no static members": {
        "kafkajs": ["static member restarts without rebalance", "static member is fenced by its double"],
    },
    "its heartbeats do not name the instance, so two doubles take the share from each other, again and again, also on Kafka 4.2": {
        "aiokafka": ["static member is fenced by its double"],
    },
    "does not speak the consumer protocol": dict.fromkeys(
        ("kafka-python", "aiokafka", "kafkajs"), (*CONSUMER_SCENARIOS, AS_CONSUMER)
    ),
    "its librdkafka is older than the consumer protocol": {"kcat": (*CONSUMER_SCENARIOS, AS_CONSUMER)},
    "its goodbye does not name the instance, which Kafka 4.2 refuses as well, so the name is taken until the session ends": {
        "franz-go": ["static member restarts without a new epoch"],
    },
    "needs a package of its own for this codec": {
        "kafka-python": _CODECS,
        "aiokafka": _CODECS,
        "kafkajs": _CODECS,
    },
    "has no administrator": {"kcat": SCENARIOS["Administration"]},
    "its administrator has no such call": {
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
    "has no transactions": {"kcat": TRANSACTIONS},
    "its librdkafka says its nonce twice, which Kafka 4.2 refuses as well": {
        "kcat": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
    },
}
REASONS = {
    (scenario, family): number
    for number, lacking in enumerate(LACKS.values(), 1)
    for family, scenarios in lacking.items()
    for scenario in scenarios
}

Results = Mapping[tuple[str, str], str]  # scenario and family -> "ok", "FAILED" or "not run"


def pinned() -> Mapping[str, str]:
    """Versions of the clients that are not Python's, as their programs ask for them."""
    pom = (HERE / "java" / "pom.xml").read_text()
    java = re.search(r"<artifactId>kafka-clients</artifactId>\s*<version>(.*?)</version>", pom)
    go = re.search(r"twmb/franz-go v(\S+)", (HERE / "go" / "go.mod").read_text())
    node = json.loads((HERE / "node" / "package.json").read_text())["dependencies"]
    assert java
    assert go
    return {"java": java[1], "franz-go": go[1], "kafkajs": node["kafkajs"]}


def versions() -> Mapping[str, str]:
    """Of every family, as installed."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    kcat = re.search(r"Version (\S+).*librdkafka (\S+)", said, re.DOTALL)
    assert kcat
    return {
        **{family: version(family) for family in MODULES},
        "kcat": f"{kcat[1]} (librdkafka {kcat[2]})",
        **pinned(),
    }


def cell(results: Results, scenario: str, family: str) -> str:
    """What the matrix says of one client in one scenario."""
    reason = REASONS.get((scenario, family))
    result = results.get((scenario, family))
    if reason and result:
        raise ValueError(f"{scenario}, {family}: it was tried, and there is a reason why it is not")
    return f"- ({reason})" if reason else result or "not run"


def row_name(scenario: str) -> str:
    """As the page has it, where a title says which protocol."""
    return scenario.removesuffix(KIP_848)


def page(results: Results, meetings: Mapping[tuple[str, ...], str]) -> str:
    """docs/clients.md. ``meetings``: by scenario and the words of a row."""
    lines = [
        "# Clients",
        "",
        "What real clients do on mockbroker, each in the scenario of `tests/interop` that its line names. `make clients`",
        "runs them all and writes this page.",
        "",
        *_table(["client", "version"], [[family, found] for family, found in versions().items()]),
    ]
    for title, scenarios in SCENARIOS.items():
        rows = [[row_name(name), *(cell(results, name, family) for family in FAMILIES)] for name in scenarios]
        lines += ["", f"## {title}", "", *_table(["scenario", *FAMILIES], rows)]
    lines += ["", *(f"- ({number}) {reason}" for number, reason in enumerate(LACKS, 1))]
    lines += [
        "",
        "kafkajs calls its assignor RoundRobinAssigner. To share a group with other clients it is given the name that they",
        'use: `partitionAssigners: [config => ({ ...PartitionAssigners.roundRobin(config), name: "roundrobin" })]`.',
    ]
    for scenario, meeting in MEETINGS.items():
        rows = [[*who, meetings.get((scenario, *who), "not run")] for who in meeting.rows]
        lines += ["", f"## {meeting.title}", "", *_table([*meeting.head, "result"], rows)]
    return "\n".join(lines) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Rules of the house that a machine can check. The rules are the data at the top; what follows applies them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ["kwire", "mockbroker"]

# A file imports only from those above it in its own package. The first pattern that fits a file is its place; files of
# one pattern do not import each other. mockbroker may import all of kwire, kwire nothing of mockbroker.
ORDER: Mapping[str, list[str]] = {
    "kwire": [
        "errors",
        "extras",
        "limits",
        "java",
        "varints",
        "schema",
        "layout",
        "history",
        "primitives",
        "engines/reference",
        "engines/runtime",
        "engines/text",
        "engines/shapes",
        "engines/reader",
        "engines/writer",
        "engines/compiled",
        "engines/__init__",
        "errorcodes",
        "messages/[!_]*",
        "messages/__init__",
        "codec",
        "jsonform",
        "jsontext",
        "headers",
        "blobs/[!_]*",
        "blobs/__init__",
        "assignors/server",
        "assignors/movements",
        "assignors/uniform_mixed",
        "assignors/uniform",
        "assignors/range",
        "assignors/client",
        "assignors/sticky_history",
        "assignors/sticky_[am]*",
        "assignors/[!_]*",
        "assignors/__init__",
        "records/limits",
        "records/compression",
        "records/record",
        "records/batch",
        "records/message_set",
        "records/control",
        "records/__init__",
        "frames",
        "envelope",
        "explain/pieces",
        "explain/meanings",
        "explain/records",
        "explain/walk",
        "explain/__init__",
        "connection",
        "redact",
        "filter",
        "capture/call",
        "capture/limits",
        "capture/places",
        "capture/records",
        "capture/salvage",
        "capture/gzipped",
        "capture/framelog",
        "capture/pcap",
        "capture/pcapng",
        "capture/files",
        "capture/guessing",
        "capture/packets",
        "capture/tcp",
        "capture/peek",
        "capture/search",
        "capture/framing",
        "capture/exchange",
        "capture/calls",
        "capture/topics",
        "capture/reading",
        "capture/forms",
        "capture/rows",
        "capture/__init__",
        "analysis/style",
        "analysis/columns",
        "analysis/tables",
        "analysis/events",
        "analysis/topics",
        "analysis/extract",
        "analysis/clusters",
        "analysis/unread",
        "analysis/joins",
        "analysis/lives",
        "analysis/outcome",
        "analysis/generations",
        "analysis/transactions",
        "analysis/sessions",
        "analysis/classic",
        "analysis/consumer",
        "analysis/history",
        "analysis/evidence",
        "analysis/rounds",
        "analysis/replay",
        "analysis/what_if",
        "analysis/usage",
        "analysis/frames",
        "analysis/run",
        "analysis/view",
        "analysis/parquet",
        "analysis/report",
        "analysis/page",
        "analysis/__init__",
        "spark/session",
        "spark/plain",
        "spark/bundles",
        "spark/following",
        "spark/parts",
        "spark/source",
        "spark/stages",
        "spark/output",
        "spark/job",
        "spark/stream",
        "spark/__init__",
        "pages",
        "fuzz/edges",
        "fuzz/values",
        "fuzz/strategies",
        "fuzz/__init__",
        "fuzz/sites",
        "fuzz/mutate",
        "fuzz/session",
        "fuzz/findings",
        "fuzz/live",
        "__init__",
        "process",
        "command",
        "cli/lines",
        "cli/frames",
        "cli/[!_]*",
        "cli/__init__",
        "spark/__main__",
        "__main__",
    ],
    "mockbroker": [
        # a client: on kwire alone, and nothing of the broker beside it imports it
        "consumer/errors",
        "consumer/settings",
        "consumer/backoff",
        "consumer/call",
        "consumer/link",
        "consumer/network",
        "consumer/metadata",
        "consumer/positions",
        "consumer/interest",
        "consumer/coordinator",
        "consumer/flow",
        "consumer/heartbeat",
        "consumer/committing",
        "consumer/parts",
        "consumer/by_leader",
        "consumer/committed",
        "consumer/log_offsets",
        "consumer/validating",
        "consumer/membership",
        "consumer/shares",
        "consumer/classic",
        "consumer/consumer_member",
        "consumer/resolving",
        "consumer/records",
        "consumer/fetch_session",
        "consumer/fetching",
        "consumer/engine",
        "consumer/driver",
        "consumer/consumer",
        "consumer/__init__",
        "java",
        "kafka_settings",
        "settings",
        "budget",
        "room",
        "listeners",
        "addresses",
        "release",
        "texts",
        "deadlines",
        "answers",
        "calls",
        "due",
        "cluster/placement",
        "cluster/topic_configs",
        "cluster/epochs",
        "cluster/producers",
        "cluster/log",
        "message_sets",
        "cluster/record_rules",
        "cluster/model",
        "cluster/alteration",
        "cluster/__init__",
        "sasl/users",
        "sasl/mechanism",
        "sasl/plain",
        "sasl/scram",
        "sasl/oauthbearer",
        "sasl/__init__",
        "group/events",
        "group/offsets",
        "group/state",
        "group/consumer_state",
        "group/rules",
        "group/subscription",
        "group/expiry",
        "group/phases",
        "group/classic",
        "group/reconcile",
        "group/regex",
        "group/target",
        "group/migration",
        "group/consumer",
        "group/mixed",
        "group/__init__",
        "journal",
        "request_log",
        "transaction/__init__",
        "transaction/state",
        "transaction/rules",
        "storage/__init__",
        "storage/segments",
        "storage/disk",
        "storage/real_disk",
        "storage/pretend",
        "storage/indexes",
        "storage/layout",
        "storage/log_dirs",
        "storage/catalogue",
        "storage/partition_files",
        "storage/work",
        "storage/recovery",
        "storage/data_dir",
        "durable/__init__",
        "durable/clock",
        "durable/offset_records",
        "durable/classic_records",
        "durable/consumer_records",
        "durable/image",
        "durable/compaction",
        "durable/keeper",
        "durable/replay",
        "durable/rebuild",
        "durable/transaction_records",
        "imported/__init__",
        "imported/groups",
        "imported/forms",
        "imported/data_dir",
        "fetch_sessions",
        "parked",
        "groups",
        "transactions",
        "described",
        "broker",
        "handlers/handler",
        "handlers/fetch",
        "failover",
        "handlers/[!_]*",
        "handlers/__init__",
        "sasl/gate",
        "router",
        "session",
        "line",
        "sasl/session",
        "tls",
        "watch",
        "clock",
        "server",
        "snapshots",
        "waiting",
        "inside",
        "cluster_clock",
        "cluster_api",
        "cluster_thread",
        "__init__",
        "pytest_plugin",
        "simulation/__init__",
        "simulation/dice",
        "simulation/script",
        "simulation/schemes",
        "simulation/trace",
        "simulation/queue",
        "simulation/words",
        "simulation/model",
        "simulation/watching",
        "simulation/network",
        "simulation/disk",
        "simulation/shell",
        "simulation/clients/__init__",
        "simulation/clients/client",
        "simulation/clients/plans",
        "simulation/clients/reader",
        "simulation/clients/[!_]*",
        "simulation/liveness",
        "simulation/invariants/[!_]*",
        "simulation/invariants/__init__",
        "simulation/world",
        "simulation/run",
        "simulation/shrink",
        "history/__init__",
        "history/draft/messages",
        "history/draft/rules",
        "history/draft/strategies",
        "history/draft/store",
        "history/draft/actions",
        "history/draft/coordinator",
        "history/draft/broker",
        "history/draft/consumer",
        "history/draft/trace",
        "history/draft/network",
        "history/draft/failover",
        "history/draft/cluster",
        "history/draft/__init__",
        "history/story",
        "history/ledger",
        "history/zookeeper",
        "history/scheme",
        "history/watching",
        "history/assigning",
        "history/drafted",
        "history/coordinated",
        "history/old_offsets",
        "history/comparison",
        "history/experiments",
        "history/page",
        "conform/conversation",
        "conform/records",
        "conform/compare",
        "conform/connection",
        "conform/pace",
        "conform/asker",
        "conform/player",
        "conform/foreign",
        "conform/waiting",
        "conform/runner",
        "conform/table",
        "conform/__init__",
        "demo/__init__",
        "demo/checks",
        "demo/timeline",
        "demo/client",
        "demo/story",
        "cli/quiet",
        "cli/clock_lines",
        "cli/history_lines",
        "cli/[!_]*",
        "cli/__init__",
        "__main__",
    ],
}

# Files that talk to the world outside: sockets, clocks, chance.
SHELLS = [
    "kwire/cli/*",
    "kwire/fuzz/live",
    "kwire/spark/*",
    "mockbroker/consumer/consumer",
    "mockbroker/consumer/driver",
    "mockbroker/tls",
    "mockbroker/addresses",
    "mockbroker/watch",
    "mockbroker/clock",
    "mockbroker/line",
    "mockbroker/server",
    "mockbroker/cluster_api",
    "mockbroker/cluster_thread",
    "mockbroker/demo/*",
    "mockbroker/conform/*",
    "mockbroker/cli/*",
]
INJECTED = [
    "kwire/fuzz/values",
    "kwire/fuzz/mutate",
    "kwire/fuzz/session",
]  # name random.Random as the type of what they are given
COMMANDS = ["kwire/cli/*", "mockbroker/cli/*"]


@dataclass(frozen=True)
class Ban:
    """A dotted name, with everything below it, that is used only in files of these patterns."""

    name: str
    instead: str
    allowed: list[str]


BANS = [
    Ban("time.time", "the `now` that the caller gives", SHELLS),
    Ban("time.sleep", "a deadline", ["kwire/fuzz/live"]),
    Ban("time.monotonic", "the `now` that the caller gives", SHELLS),
    Ban("datetime.datetime.now", "the `now` that the caller gives", SHELLS),
    Ban("datetime.datetime.utcnow", "the `now` that the caller gives", []),
    Ban("random", "an injected source", [*SHELLS, *INJECTED]),
    Ban("secrets", "an injected source", SHELLS),
    Ban("uuid.uuid4", "an injected source", SHELLS),
    Ban("trio", "effects that a shell carries out", SHELLS),
    Ban("socket", "effects that a shell carries out", SHELLS),
    Ban("pyspark", "kwire.spark", ["kwire/spark/*"]),
    *(
        Ban(name, "kwire.spark.plain: it can run code", ["kwire/spark/plain"])
        for name in ("pickle", "marshal", "shelve")
    ),
    Ban("asyncio", "trio, in a shell", ["mockbroker/demo/client", "mockbroker/cluster_thread"]),
    Ban("print", "click.echo in a command", [*COMMANDS, "mockbroker/demo/client"]),
    Ban("construct.Construct.compile", "the engines", []),
]
ANY_COMPILE = "construct.Construct.compile"  # every .compile() but that of re counts as this

# Modules without a test file of their own name, and test files without a module: where the proof is instead.
TESTED_ELSEWHERE = {
    "kwire/messages/[!_]*": "tests/kwire/messages/test_definitions.py and test_golden.py, all of them alike",
    "kwire/engines/text": "tests/kwire/engines/test_compiled.py: what is generated is run",
    "kwire/engines/reader": "tests/kwire/engines/test_compiled.py",
    "kwire/engines/writer": "tests/kwire/engines/test_compiled.py",
    "kwire/assignors/sticky_*": "tests/kwire/assignors/test_sticky.py, all of them together",
    "kwire/capture/call": "tests of what makes calls",
    "kwire/capture/salvage": "tests/kwire/capture/test_hostile.py",
    "kwire/capture/records": "tests/kwire/capture/test_files.py",
    "kwire/capture/gzipped": "tests/kwire/capture/test_files.py and test_hostile.py",
    "kwire/capture/framelog": "tests/kwire/capture/test_files.py",
    "kwire/capture/pcap*": "tests/kwire/capture/test_files.py and test_hostile.py",
    "kwire/capture/exchange": "tests/kwire/capture/test_calls.py",
    "kwire/capture/limits": "tests/kwire/capture/test_hostile.py, and those of what is limited",
    "kwire/analysis/generations": "tests/kwire/analysis/test_classic.py",
    "kwire/analysis/sessions": "tests/kwire/analysis/test_classic.py and test_exact.py",
    "kwire/analysis/outcome": "tests/kwire/analysis/test_classic.py and test_consumer.py",
    "kwire/analysis/frames": "tests/kwire/analysis/test_run.py",
    "kwire/analysis/view": "tests/kwire/cli/test_groups.py",
    "kwire/cli/lines": "tests of the verbs",
    "kwire/cli/frames": "tests of the verbs",
    "kwire/spark/*": "tests/spark, in one session of Spark",
    "kwire/cli/pipeline": "tests/spark/test_job.py",
    "*/__main__": "cli/test_main.py, as a process",
    "*/__init__": "test_init.py, or the tests beside it",
}
NO_HANDLERS = {"handlers/handler"}  # files in handlers/ that all of them share
TESTS_OF_MANY = [
    "test_bad_inputs",
    "test_golden",
    "test_init",
    "test_typing",
    "cli/test_main",
    "messages/test_definitions",
]
TESTS_OF_MANY += ["analysis/test_exact", *(f"assignors/test_{name}" for name in ("init", "properties", "documents"))]
TESTS_OF_MANY += ["records/test_init", "records/test_hostile", "capture/test_hostile"]


@cache
def modules(package: str) -> dict[str, Path]:
    """Every file of a package by its name, ``cli/decode``."""
    root = ROOT / package
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.py"))}


def place(package: str, name: str) -> int | None:
    return next((n for n, pattern in enumerate(ORDER[package]) if fits(name, pattern)), None)


def fits(name: str, pattern: str) -> bool:
    """Like fnmatch, but ``*`` stays inside one folder."""
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def module_of(dotted: str) -> tuple[str, str] | None:
    """``kwire.cli.lines.report`` -> (kwire, cli/lines); None if it is not ours."""
    package, _, rest = dotted.partition(".")
    if package not in PACKAGES:
        return None
    parts = rest.split(".") if rest else []
    while parts:
        for name in ("/".join(parts), "/".join([*parts, "__init__"])):
            if name in modules(package):
                return package, name
        parts.pop()
    return package, "__init__"


def imports(tree: ast.AST, package: str, name: str) -> Iterator[str]:
    """Dotted names that a file imports, wherever in it."""
    folder = [package, *name.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def order_problems(package: str, name: str, tree: ast.AST) -> list[str]:
    here = place(package, name)
    if here is None:
        return ["has no place in ORDER"]
    found = []
    for dotted in imports(tree, package, name):
        match module_of(dotted):
            case (other, target) if other == package:
                there = place(package, target)
                if target != name and (there is None or there >= here):
                    found.append(f"imports {dotted}, which is not above it")
            case (other, _) if PACKAGES.index(other) > PACKAGES.index(package):
                found.append(f"imports {dotted}")
            case _:
                pass
    return found


def used_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of whatever is imported or used, aliases resolved."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                known |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in names}
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                known |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            dotted = ast.unparse(node)
            first, _, rest = dotted.partition(".")
            yield node.lineno, ".".join(part for part in (known.get(first, first), rest) if part)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile":
            yield node.lineno, "re.compile" if ast.unparse(node.func) == "re.compile" else ANY_COMPILE


def ban_problems(where: str, tree: ast.AST) -> list[str]:
    found = set()
    for line, name in used_names(tree):
        for ban in BANS:
            if (name == ban.name or name.startswith(f"{ban.name}.")) and not any(fits(where, p) for p in ban.allowed):
                found.add(f"line {line}: {ban.name}; use {ban.instead}")
    found |= {f"line {node.lineno}: import *; name what is needed" for node in ast.walk(tree) if is_star(node)}
    return sorted(found)


def is_star(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


FILES = [(package, name) for package in PACKAGES for name in modules(package)]


def parsed(package: str, name: str) -> ast.AST:
    return ast.parse(modules(package)[name].read_text("utf-8"))


@pytest.mark.parametrize(("package", "name"), FILES)
def test_imports_only_from_above(package: str, name: str) -> None:
    assert order_problems(package, name, parsed(package, name)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_line_of_the_order_is_used(package: str) -> None:
    assert [p for p in ORDER[package] if not any(fits(name, p) for name in modules(package))] == []


@pytest.mark.parametrize(("package", "name"), FILES)
def test_nothing_banned(package: str, name: str) -> None:
    assert ban_problems(f"{package}/{name}", parsed(package, name)) == []


def test_every_message_has_frames_of_its_stem() -> None:
    messages = {name.partition("/")[2] for name in modules("kwire") if fits(name, "messages/[!_]*")}
    frames = {path.name.removesuffix(".jsonl.gz") for path in (ROOT / "fixtures" / "frames").glob("*.jsonl.gz")}
    assert messages == frames


def test_every_handler_has_a_message_of_its_stem() -> None:
    handlers = {name for name in modules("mockbroker") if fits(name, "handlers/[!_]*")}
    assert handlers - NO_HANDLERS <= {name.replace("messages/", "handlers/") for name in modules("kwire")}


def test_kwire_and_its_tests_are_one_tree() -> None:
    tests = ROOT / "tests" / "kwire"
    found = {path.relative_to(tests).with_suffix("").as_posix() for path in tests.rglob("test_*.py")}
    modules_alone = {
        name for name in modules("kwire") if not any(fnmatch(f"kwire/{name}", pattern) for pattern in TESTED_ELSEWHERE)
    }
    expected = {(Path(name).parent / f"test_{Path(name).name}").as_posix() for name in modules_alone}
    assert found == expected | set(TESTS_OF_MANY)


BAD_FILES = [  # text, what is said of it
    ("import time\ntime.time()", "line 2: time.time; use the `now` that the caller gives"),
    ("from time import time", "line 1: time.time; use the `now` that the caller gives"),
    ("import datetime as d\nd.datetime.now()", "line 2: datetime.datetime.now; use the `now` that the caller gives"),
    ("import random", "line 1: random; use an injected source"),
    ("def f():\n    import trio.testing", "line 2: trio; use effects that a shell carries out"),
    ("import socket", "line 1: socket; use effects that a shell carries out"),
    ("print('x')", "line 1: print; use click.echo in a command"),
    ("schema.compile()", "line 1: construct.Construct.compile; use the engines"),
    ("from kwire import *", "line 1: import *; name what is needed"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES)
def test_the_bans_notice(text: str, problem: str) -> None:
    assert problem in ban_problems("kwire/codec", ast.parse(text))


@pytest.mark.parametrize("text", ["import re\nre.compile('x')", "from datetime import timedelta", "fingerprint('x')"])
def test_the_bans_leave_alone(text: str) -> None:
    assert ban_problems("kwire/codec", ast.parse(text)) == []


BAD_IMPORTS = [
    ("layout", "from kwire import codec"),
    ("layout", "from kwire.codec import decode"),
    ("layout", "import kwire.codec"),
    ("layout", "def f():\n    from kwire import decode"),
    ("messages/fetch", "from kwire.messages import produce"),
    ("messages/fetch", "from . import produce"),
    ("cli/decode", "from kwire.cli import main"),
    ("errors", "import mockbroker.server"),
]


@pytest.mark.parametrize(("name", "text"), BAD_IMPORTS)
def test_the_order_notices(name: str, text: str) -> None:
    assert len(order_problems("kwire", name, ast.parse(text))) == 1

"""What is mutated, and the tests and simulations that each mutant has to fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Target:
    """A part of the code.

    Attributes:
        sources: files and folders that are mutated.
        tests: files and folders with tests of the part, beside the tests of each module.
        simulated: seeds of the simulator to run: scheme -> number of seeds. It has no codec, clients
            of the tree or SASL.
        without: files that are not mutated.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    simulated: dict[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()


HANDLERS = "tests/mockbroker/broker/handlers"
TARGETS = {
    "groups": Target(
        ("mockbroker/groups",),
        ("tests/mockbroker/groups", "tests/mockbroker/importing", "tests/mockbroker/share", HANDLERS),
        {"swarm": 6, "streams": 3, "shares": 3},
    ),
    "transactions": Target(
        ("mockbroker/transactions",), ("tests/mockbroker/transactions", HANDLERS), {"data": 6, "swarm": 3}
    ),
    "storage": Target(
        ("mockbroker/storage",),
        ("tests/mockbroker/storage", "tests/mockbroker/groups/records", "tests/mockbroker/importing"),
        {"data": 6, "swarm": 3},
    ),
    "topics": Target(
        ("mockbroker/topics",),
        (
            "tests/mockbroker/topics",
            "tests/mockbroker/broker",
            "tests/mockbroker/storage/test_random_changes.py",
            "tests/mockbroker/storage/test_recovery.py",
        ),
        {"data": 6, "swarm": 3},
    ),
    "sasl": Target(
        ("mockbroker/broker/sasl",),
        (
            "tests/mockbroker/broker/sasl",
            "tests/mockbroker/broker/test_authentication.py",
            "tests/mockbroker/broker/test_token_requests.py",
            "tests/mockbroker/net/test_sasl_connection.py",
        ),
    ),
    "failover": Target(
        (
            "mockbroker/broker/failover.py",
            "mockbroker/broker/partition_metadata.py",
            "mockbroker/broker/paused_replicas.py",
            "mockbroker/broker/reassignments.py",
        ),
        ("tests/mockbroker/broker", "tests/mockbroker/topics/test_log_dirs.py"),
        {"swarm": 6, "data": 3},
    ),
    "wire": Target(
        ("kwire/codec.py", "kwire/frames.py", "kwire/records"),
        (
            "tests/kwire/test_codec.py",
            "tests/kwire/test_frames.py",
            "tests/kwire/records",
            "tests/kwire/test_golden.py",
            "tests/kwire/test_connection.py",
        ),
        without=("kwire/records/native.py",),  # its tests need the native engine
    ),
    "consumer": Target(("mockbroker/client",), ("tests/mockbroker/client",)),
}
CONVERSATIONS = ROOT / "fixtures" / "conversations" / "4.2.0"
# Recorded conversations about a module: the first matching folder or file -> beginnings of names.
ABOUT = {
    "mockbroker/groups/consumer": ("kip848",),
    "mockbroker/groups/streams": ("kip1071",),
    "mockbroker/groups/share": ("share",),
    "mockbroker/groups/classic": (
        "join",
        "sync",
        "static",
        "heartbeat",
        "leave",
        "session",
        "initial",
        "parked",
        "group",
    ),
    "mockbroker/groups": ("commit", "offset", "simple", "txn", "delete", "describe", "kip848_off", "share_off"),
    "mockbroker/transactions": ("txn", "transactional", "idempotent"),
    "mockbroker/topics": (
        "records",
        "compaction",
        "retention",
        "fetch",
        "leader",
        "list",
        "config",
        "topic",
        "segments",
    ),
    "mockbroker/broker/sasl": ("sasl", "scram", "tokens"),
    "mockbroker/broker": ("elections", "leader", "brokers", "reassignments", "cluster", "metadata"),
}
PROCESSES = ("cli", "interop")  # parts of paths of tests that start processes: they would run code without the mutant


def sources(target: Target) -> list[str]:
    """Return the paths of the files that are mutated."""
    found: list[str] = []
    for source in target.sources:
        path = ROOT / source
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [file.relative_to(ROOT).as_posix() for file in files]
    return [file for file in found if file not in target.without]


def conversations(path: str) -> list[Path]:
    """Return the files of the recorded conversations about a module."""
    names = next((names for about, names in ABOUT.items() if path.startswith(about)), ())
    return [file for file in sorted(CONVERSATIONS.glob("*.json.gz")) if names and file.name.startswith(names)]


def tests_of(path: str) -> tuple[str, ...]:
    """Return the test files of a module: the one of its stem, or those that tests/test_tidy.py lists for it."""
    module = Path(path)
    own = Path("tests") / module.parent / f"test_{module.stem}.py"
    return (own.as_posix(),) if (ROOT / own).exists() else tuple(_tests_elsewhere(path.removesuffix(".py")))


def _tests_elsewhere(module: str) -> Iterator[str]:
    from test_tidy import TESTED_ELSEWHERE

    for pattern, text in TESTED_ELSEWHERE.items():
        if not fnmatch(module, pattern):
            continue
        folder = "tests"
        for name in re.findall(r"[\w/]+\.py|tests/[\w/]+", text):
            path = name if name.startswith("tests/") else f"{folder}/{name}"
            folder = path.rpartition("/")[0]
            if (ROOT / path).exists() and not any(part in PROCESSES for part in path.split("/")):
                yield path
        return

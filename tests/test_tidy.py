"""Rules of the code base that a machine can check. The data at the top are the rules; the tests apply them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from pathlib import Path

import pytest

from kwire.apikeys import ApiKey

ROOT = Path(__file__).parent.parent
PACKAGES = ["kwire", "mockbroker"]

# Modules and folders at the top of a package, one line per rank, the lowest first: a name imports only names of lower
# ranks. Inside the folders, at every depth, only cycles are forbidden: of modules, and of two folders that import each
# other. mockbroker may import all of kwire; kwire must not import mockbroker.
RANKS: Mapping[str, list[str]] = {
    "kwire": [
        "apikeys buffers counted errorcodes errors extras file_locks filter java lazy lazy_dataclass limits process redact topic_address",
        "client_properties command frames schema",
        "codegen headers layout messages",
        "body_fields completion engines versions",
        "codec",
        "blobs envelope",
        "assignors connection recording records",
        "json",
        "__init__ explain fuzz",
        "capture",
        "analysis anonymize",
        "spark",
        "cli",
        "__main__",
    ],
    "mockbroker": [
        "base client quotas",  # a client: no other name imports it, but its public face
        "security",
        "consumer topics",
        "share telemetry",
        "groups storage",
        "transactions",
        "broker",
        "faults",
        "authorizer throttling",
        "importing net",
        "proxy",
        "recording",
        "api",
        "replay",
        "__init__ control lab",
        "pytest_plugin",
        "cli",
        "__main__",
    ],
}

# Classes of groups by type: what depends on the type of a group is behind groups/group_type.py. Only where a group
# changes its type is it asked for.
GROUP_CLASSES = {"ClassicGroup", "ConsumerGroup", "ShareGroup", "CoordinatedGroup"}
ASKS_FOR_GROUP_TYPE = "groups/migration/*"
# Modules of the coordinator that do not depend on a group type: they import nothing from the folders of the types.
GROUP_TYPE_FOLDERS = ("groups/classic/", "groups/consumer/", "groups/share/", "groups/migration/")
NAMES_GROUP_TYPES = {"groups/group_types"}

# Files that talk to the world outside: sockets, clocks, chance.
SHELLS = [
    "kwire/cli/*",
    "kwire/fuzz/live",
    "kwire/capture/files/packet_ring",
    "kwire/spark/*",
    "mockbroker/client/consumer",
    "mockbroker/client/driver",
    "mockbroker/client/share/consumer",
    "mockbroker/net/accepting",
    "mockbroker/net/addresses",
    "mockbroker/net/bound_listeners",
    "mockbroker/net/clock",
    "mockbroker/net/durability",
    "mockbroker/net/dynamic_tls",
    "mockbroker/net/in_process",
    "mockbroker/net/readiness",
    "mockbroker/net/server",
    "mockbroker/net/slices",
    "mockbroker/net/sockets",
    "mockbroker/net/timekeeper",
    "mockbroker/net/tls",
    "mockbroker/proxy/relay",
    "mockbroker/proxy/session",
    "mockbroker/proxy/upstream",
    "mockbroker/recording/files",
    "mockbroker/recording/topic",
    "mockbroker/recording/topic_connections",
    "mockbroker/replay/clock",
    "mockbroker/replay/connection",
    "mockbroker/replay/server",
    "mockbroker/api/cluster",
    "mockbroker/api/faults",
    "mockbroker/api/home",
    "mockbroker/api/proxied_cluster",
    "mockbroker/api/open_listeners",
    "mockbroker/api/plan",
    "mockbroker/api/thread",
    "mockbroker/api/thread_handle",
    "mockbroker/lab/demo/*",
    "mockbroker/lab/live_demo",
    "mockbroker/lab/conform/*",
    "mockbroker/lab/torture/handshakes",
    "mockbroker/lab/torture/process",
    "mockbroker/lab/torture/runner",
    "mockbroker/control/app",
    "mockbroker/control/control",
    "mockbroker/control/feed",
    "mockbroker/control/followers",
    "mockbroker/control/request_feed",
    "mockbroker/control/resources/apis",
    "mockbroker/control/resources/request_frames",
    "mockbroker/control/resources/request_stream",
    "mockbroker/control/resources/requests",
    "mockbroker/control/server",
    "mockbroker/control/shared_state",
    "mockbroker/control/slices",
    "mockbroker/control/streams",
    "mockbroker/cli/*",
]
INJECTED = [
    "kwire/fuzz/values",
    "kwire/fuzz/mutate",
    "kwire/fuzz/session",
    "mockbroker/lab/torture/case",
    "mockbroker/lab/torture/cases/handshakes",
]  # name random.Random as the type of an argument
SEEDED = [
    "mockbroker/faults/malforming",
    "mockbroker/faults/occurrence",
    "mockbroker/lab/torture/handshakes",
    "mockbroker/lab/torture/stage",
]  # random.Random with the seed of a fault rule
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
    Ban("random", "an injected source", [*SHELLS, *INJECTED, *SEEDED]),
    Ban("secrets", "an injected source", SHELLS),
    Ban("uuid.uuid4", "an injected source", SHELLS),
    Ban("trio", "effects that a shell carries out", SHELLS),
    Ban("socket", "effects that a shell carries out", SHELLS),
    Ban("pyspark", "kwire.spark", ["kwire/spark/*"]),
    *(
        Ban(name, "kwire.spark.plain: it can run code", ["kwire/spark/plain"])
        for name in ("pickle", "marshal", "shelve")
    ),
    Ban("asyncio", "trio, in a shell", ["mockbroker/lab/demo/client", "mockbroker/api/thread_handle"]),
    Ban("print", "click.echo in a command", [*COMMANDS, "mockbroker/lab/demo/client"]),
    Ban("construct.Construct.compile", "the engines", []),
    Ban("click.FloatRange", "kwire.command.FiniteRange: NaN is in each range of click", ["kwire/command"]),
]
ANY_COMPILE = "construct.Construct.compile"  # every .compile() but that of re counts as this

# Modules without a test file of the same name, and test files without a module: the files that have the tests instead.
TESTED_ELSEWHERE = {
    "kwire/messages/[!_]*": "tests/kwire/messages/test_definitions.py and test_golden.py, all of them alike",
    "kwire/schema/checks": "tests/kwire/schema/test_declare.py: declarations that are refused",
    "kwire/engines/generated": "tests/kwire/engines/test_compiled.py: what is generated is run",
    "kwire/engines/reader": "tests/kwire/engines/test_compiled.py",
    "mockbroker/api/kafka_cluster": "tests/test_types.py",
    "mockbroker/api/names": "tests/test_types.py",
    "mockbroker/lab/torture/broker": "tests/mockbroker/lab/torture/test_runner.py: each run has one",
    "mockbroker/lab/torture/case": "tests/mockbroker/lab/torture/test_catalogue.py",
    "mockbroker/lab/torture/cases/*": "tests/mockbroker/lab/torture/test_stage.py: changes; test_handshakes.py; test_catalogue.py",
    "kwire/engines/writer": "tests/kwire/engines/test_compiled.py",
    "kwire/assignors/sticky_*": "tests/kwire/assignors/test_sticky.py, all of them together",
    "kwire/capture/calls/model": "tests of what makes calls",
    "kwire/capture/files/salvage": "tests/kwire/capture/test_hostile.py",
    "kwire/capture/files/blocks": "tests/kwire/capture/files/test_capture_file.py",
    "kwire/capture/files/gzipped": "tests/kwire/capture/files/test_capture_file.py and test_hostile.py",
    "kwire/capture/files/framelog": "tests/kwire/capture/files/test_capture_file.py",
    "kwire/capture/files/pcap*": "tests/kwire/capture/files/test_capture_file.py and test_hostile.py",
    "kwire/cli/analysed": "tests/kwire/cli/test_groups.py, test_readiness.py and test_compare.py",
    **dict.fromkeys(
        (
            f"kwire/capture/calls/{part}"
            for part in ("bodies", "exchange", "frame_checks", "lost", "pending", "sasl_tokens")
        ),
        "tests/kwire/capture/calls/test_conversation.py and tests/kwire/capture/test_hostile.py",
    ),
    "kwire/capture/tcp/headers": "tests/kwire/capture/tcp/test_packets.py",
    "kwire/capture/tcp/fragments": "tests/kwire/capture/tcp/test_packets.py and tests/kwire/capture/test_hostile.py",
    "kwire/capture/limits": "tests/kwire/capture/test_hostile.py, and those of what is limited",
    "kwire/analysis/groups/classic_*": "tests/kwire/analysis/groups/test_classic.py and test_exact.py",
    "kwire/analysis/groups/consumer_*": "tests/kwire/analysis/groups/test_consumer.py and test_exact.py",
    "kwire/analysis/groups/generations": "tests/kwire/analysis/groups/test_classic.py",
    "kwire/analysis/groups/sessions": "tests/kwire/analysis/groups/test_classic.py and test_exact.py",
    "kwire/analysis/groups/outcome": "tests/kwire/analysis/groups/test_classic.py and test_consumer.py",
    "kwire/analysis/findings/*": "tests/kwire/analysis/findings/test_fold.py, stories with planted trouble",
    "kwire/analysis/frames": "tests/kwire/analysis/test_run.py",
    "kwire/analysis/report/by_group": "tests/kwire/cli/test_groups.py",
    **dict.fromkeys(
        (f"kwire/analysis/report/{part}" for part in ("group_section", "lanes", "parts", "traffic_sections")),
        "tests/kwire/analysis/report/test_html_page.py",
    ),
    "kwire/anonymize/fields": "tests/kwire/anonymize/test_bodies.py and test_frames.py",
    "kwire/recording/frame_log": "tests/kwire/recording/test_pcapng.py, both forms together",
    "mockbroker/recording/recorder": "tests/mockbroker/recording/test_topic_recorder.py and test_chunks.py",
    "kwire/recording/packets": "tests/kwire/recording/test_pcapng.py",
    "kwire/cli/lines": "tests of the verbs",
    "kwire/cli/frames": "tests of the verbs",
    "kwire/spark/*": "tests/spark, in one session of Spark",
    "kwire/cli/pipeline": "tests/spark/test_job.py",
    "mockbroker/consumer": "tests/mockbroker/client/test_consumer.py: its public names",
    **dict.fromkeys(
        (
            f"mockbroker/api/{name}"
            for name in ("certificates", "clock", "open_listeners", "plan", "records", "snapshots", "wait")
        ),
        "tests/mockbroker/api/test_cluster.py and test_thread.py, with a whole cluster",
    ),
    **dict.fromkeys(
        (f"mockbroker/broker/share_fetch/{part}" for part in ("acknowledgements", "leaders", "release")),
        "tests/mockbroker/broker/handlers/test_share_fetch.py and test_share_acknowledge.py",
    ),
    "mockbroker/broker/share_fetch/pending": "tests/mockbroker/broker/share_fetch/test_delayed_share_fetch.py",
    "mockbroker/broker/share_fetch/state_requests": "tests of handlers/initialize_share_group_state",
    **dict.fromkeys(
        (
            f"mockbroker/broker/handlers/{name}"
            for name in (
                "delete_share_group_state",
                "read_share_group_state",
                "read_share_group_state_summary",
                "write_share_group_state",
            )
        ),
        "tests/mockbroker/broker/handlers/test_initialize_share_group_state.py, all of them together",
    ),
    "mockbroker/base/effects": "data of the machines",
    "mockbroker/base/texts": "tests/mockbroker/broker/handlers/test_delete_topics.py, and those of other handlers",
    "mockbroker/base/timers": "tests/mockbroker/broker/test_router.py",
    "mockbroker/authorizer/*": "tests/mockbroker/authorizer/test_stage.py and test_runner.py of the conversations acl_*",
    "mockbroker/broker/redacted_frames": "tests/mockbroker/proxy/test_observer.py and those of /v1/requests",
    "mockbroker/broker/group_descriptions": "tests/mockbroker/broker/handlers/test_share_group_describe.py, and others",
    "mockbroker/broker/acl_requests": "tests/mockbroker/broker/handlers/test_create_acls.py, test_delete_acls.py",
    "mockbroker/broker/slices": "tests/mockbroker/net/test_pump.py",
    "mockbroker/broker/fetch/*": "tests/mockbroker/broker/handlers/test_fetch.py",
    "mockbroker/broker/sasl/mechanism": "tests of the mechanisms",
    "mockbroker/security/acl*": "tests/mockbroker/security/test_standard_authorizer.py",
    **dict.fromkeys(
        (f"mockbroker/broker/handlers/{name}" for name in ("*_raft_voter", "*_quorum", "unregister_broker")),
        "tests/mockbroker/broker/test_quorum.py",
    ),
    "mockbroker/broker/handlers/alter_partition_reassignments": "tests/mockbroker/broker/test_reassignments.py",
    "mockbroker/broker/handlers/alter_replica_log_dirs": "tests/mockbroker/topics/test_log_dirs.py",
    "mockbroker/topics/reassignment": "tests/mockbroker/broker/test_reassignments.py",
    "mockbroker/security/delegation_tokens": "tests/mockbroker/broker/test_token_requests.py",
    "mockbroker/security/identity": "tests/mockbroker/net/test_sasl_connection.py, test_tls_connection.py",
    **dict.fromkeys(
        (f"mockbroker/broker/handlers/{verb}_delegation_token" for verb in ("create", "renew", "expire", "describe")),
        "tests/mockbroker/broker/test_token_requests.py, all of them together",
    ),
    "mockbroker/security/users": "tests/mockbroker/broker/sasl/test_scram.py",
    **dict.fromkeys(
        (f"mockbroker/broker/handlers/{name}" for name in ("*_txn", "*_transactions", "txn_*", "*_txn_markers")),
        "tests/mockbroker/transactions/test_registry.py, all handlers of transactions together",
    ),
    "mockbroker/broker/handlers/handler": "tests/mockbroker/broker/test_router.py",
    "mockbroker/cli/ctl/faults": "tests/mockbroker/cli/test_ctl_faults.py",
    "mockbroker/cli/ctl/presets": "tests/mockbroker/cli/test_ctl_faults.py",
    "mockbroker/cli/ctl/rule_options": "tests/mockbroker/cli/test_ctl_faults.py",
    "mockbroker/cli/ctl/*": "tests/mockbroker/cli/test_ctl.py, with a broker in a process",
    "mockbroker/cli/event_lines": "tests/mockbroker/cli/test_ctl.py",
    "mockbroker/cli/history_lines": "tests/mockbroker/lab/history/test_comparison.py",
    "mockbroker/cli/end_signals": "tests/mockbroker/cli/test_serve.py and test_serve_demo.py",
    "mockbroker/cli/simulate": "tests/mockbroker/lab/simulation/test_run.py",
    "mockbroker/client/backoff": "tests/mockbroker/client/test_network.py",
    "mockbroker/client/call": "tests/mockbroker/client/test_link.py",
    "mockbroker/client/classic/*": "tests/mockbroker/client/classic/test_member.py, all requests of a member together",
    **dict.fromkeys(
        (f"mockbroker/client/share/{name}" for name in ("engine", "fetching", "requests")),
        "tests/mockbroker/client/share/test_consumer.py",
    ),
    "mockbroker/client/committed_offsets": "tests/mockbroker/client/test_position_resolver.py",
    "mockbroker/client/engine": "tests/mockbroker/client/test_committing.py, test_errors.py and test_engine_under_faults.py",
    "mockbroker/client/log_offsets": "tests/mockbroker/client/test_position_resolver.py",
    "mockbroker/client/epoch_validation": "tests/mockbroker/client/test_fetching.py",
    **dict.fromkeys(
        (f"mockbroker/client/{name}" for name in ("components", "leader_lookup", "least_loaded", "membership")),
        "tests of the engine's parts, which share them",
    ),
    "mockbroker/api/proxied_cluster": "tests/mockbroker/proxy/test_interception.py and tests/mockbroker/cli/test_proxy.py",
    **dict.fromkeys(
        (f"mockbroker/proxy/{part}" for part in ("observed_groups", "request_observer")),
        "tests/mockbroker/proxy/test_group_observer.py and tests/mockbroker/cli/test_proxy.py",
    ),
    "mockbroker/cli/server_options": "tests of the commands serve and proxy",
    **dict.fromkeys(
        (f"mockbroker/proxy/{part}" for part in ("fetch_sessions", "observed_broker", "orders", "session", "upstream")),
        "tests/mockbroker/proxy/test_interception.py, test_relay.py and test_login.py, with a whole proxy",
    ),
    "mockbroker/api/fault_*": "tests/mockbroker/api/test_faults.py",
    "mockbroker/api/thread_faults": "tests/mockbroker/api/test_faults.py",
    "mockbroker/api/request_report": "tests/mockbroker/api/test_assertions.py",
    "mockbroker/api/unused_faults": "tests/mockbroker/test_pytest_plugin.py",
    "mockbroker/api/thread_handle": "tests/mockbroker/api/test_thread.py",
    "mockbroker/faults/affected": "tests/mockbroker/faults/test_stage.py",
    "mockbroker/control/control": "tests/mockbroker/control/test_streams.py and resources/test_groups.py",
    **dict.fromkeys(
        (f"mockbroker/control/{name}" for name in ("paging", "problems", "routes", "table")),
        "tests/mockbroker/control/test_app.py, test_openapi.py and those of the resources",
    ),
    "mockbroker/control/request_feed": "tests/mockbroker/control/resources/test_request_stream.py",
    "mockbroker/control/resources/request_rows": "tests/mockbroker/control/resources/test_request_stream.py",
    "mockbroker/control/page/shapes": "tests/mockbroker/control/page/test_state_stream.py",
    "kwire/body_fields": "tests/kwire/test_filter.py and tests/mockbroker/faults/test_applicability.py",
    "mockbroker/faults/malformed": "tests/mockbroker/faults/test_applicability.py and test_parsing_action.py",
    "mockbroker/faults/preset": "tests/mockbroker/faults/test_presets.py",
    "mockbroker/faults/rule": "tests/mockbroker/faults/test_parsing.py",
    "mockbroker/faults/sections": "tests/mockbroker/faults/test_parsing.py",
    "kwire/assignors/shared_partitions": "tests/kwire/assignors/test_simple.py, and test_assignors.py of interop",
    "mockbroker/groups/coordinated": "tests/mockbroker/groups/test_changes.py",
    "mockbroker/groups/events": "data of the machines",
    "mockbroker/groups/group_type": "tests/mockbroker/groups/test_group_types.py, with a type of its own",
    "mockbroker/groups/classic/*": "tests/mockbroker/groups/classic/test_machine.py and test_stateful.py, as one machine",
    "mockbroker/groups/share/*": "tests/mockbroker/groups/share/test_machine.py and test_stateful.py, as one machine",
    "mockbroker/groups/consumer/*": "tests/mockbroker/groups/consumer/test_machine.py and test_stateful.py, as one machine",
    "mockbroker/groups/streams/*": "tests/mockbroker/groups/streams/test_machine.py and test_stateful.py, as one machine",
    "mockbroker/groups/records/*": "tests/mockbroker/groups/records/test_writer.py and test_restart.py",
    "mockbroker/importing/forms": "tests/mockbroker/importing/test_data_dir.py",
    "mockbroker/lab/conform/*": "tests/mockbroker/lab/conform/test_runner.py and test_pace.py",
    "mockbroker/lab/demo/*": "tests/mockbroker/cli/test_demo.py, as a whole",
    "mockbroker/lab/history/*": "tests/mockbroker/lab/history/test_comparison.py, all schemes together",
    "mockbroker/lab/history/draft/*": "tests/mockbroker/lab/history/draft/test_cluster.py",
    "mockbroker/lab/simulation/*": "tests/mockbroker/lab/simulation/test_run.py",
    "mockbroker/lab/simulation/tcp/*": "tests/mockbroker/lab/simulation/test_tcp.py and test_planted.py",
    "mockbroker/lab/simulation/checkers/*": "tests/mockbroker/lab/simulation/test_checkers.py and test_planted.py",
    "mockbroker/lab/simulation/clients/*": "tests/mockbroker/lab/simulation/test_clients.py",
    "mockbroker/lab/simulation/invariants/*": "tests/mockbroker/lab/simulation/test_invariants.py and test_planted.py",
    "mockbroker/net/connection_limits": "tests/mockbroker/quotas/test_connection_quotas.py",
    "mockbroker/net/bound_listeners": "tests/mockbroker/net/test_server.py",
    "mockbroker/net/durability": "tests/mockbroker/net/test_server_on_disk.py",
    "mockbroker/net/timekeeper": "tests/mockbroker/net/test_clock.py",
    "mockbroker/net/tls*": "tests/mockbroker/test_security.py",
    **dict.fromkeys(
        (f"mockbroker/storage/{name}" for name in ("catalogue", "disk", "layout", "work")),
        "tests/mockbroker/storage/test_data_dir.py and test_recovery.py, as one directory",
    ),
    "mockbroker/topics/broker_alteration": "tests/mockbroker/topics/test_alteration.py, with the other resource types",
    "mockbroker/topics/logger_alteration": "tests/mockbroker/topics/test_alteration.py, with the other resource types",
    "mockbroker/topics/config_changes": "tests/mockbroker/topics/test_alteration.py, with the other resource types",
    "mockbroker/transactions/*": "tests/mockbroker/transactions/test_registry.py",
    "*/__main__": "cli/test_main.py, as a process",
    "*/__init__": "test_init.py, or the tests beside it",
}
NO_HANDLERS = {"broker/handlers/handler"}  # files in handlers/ that all of them share
TESTS_OF_MANY: Mapping[str, list[str]] = {  # scenarios and properties that concern several modules
    "kwire": [
        "test_bad_inputs",
        "test_golden",
        "test_init",
        "test_typing",
        "cli/test_main",
        "messages/test_definitions",
        "analysis/test_exact",
        "analysis/test_lossy",
        "assignors/test_documents",
        "assignors/test_init",
        "assignors/test_properties",
        "capture/test_hostile",
        "records/test_hostile",
        "records/test_init",
    ],
    "mockbroker": [
        "test_other_systems",
        "test_bad_input",  # malformed bytes to a served broker
        "page/test_built",  # TypeScript
        "page/test_page",
        "test_costs",  # work of one request
        "test_documents",  # facts of docs/sources.md
        "test_init",  # the public names
        "test_load",  # many groups and members
        "test_memory",  # of topics, groups, connections
        "test_scenarios",  # failures of a coordinator
        "test_security",  # SASL and TLS on sockets
        "broker/test_recorded_failover",  # beside a real broker
        "cli/test_ctl",  # a broker in a process
        "cli/test_ctl_faults",
        "cli/test_main",
        "cli/test_serve_data_dir",  # processes that are killed
        "proxy/test_observation_slices",  # of all observers
        "client/test_engine_under_faults",  # members and errors at random
        "broker/fetch/test_followers",
        "storage/test_random_changes",
        "client/test_no_duplicate_records",
        "client/test_custom_assignors",
        "client/test_reading",
        "client/test_slow_handlers",
        "client/test_commit_before_revocation",
        "client/test_commit_after_leaving",
        "faults/test_holds",  # events while a request is held
        "groups/test_documents",
        "groups/*/test_stateful",  # the machine of a type under any requests
        "groups/classic/test_size",
        "groups/classic/test_static",
        "groups/records/test_deadlines_after_failover",
        "groups/records/test_modern_records",
        "groups/records/test_restart",
        "lab/history/draft/test_anything",
        "lab/history/draft/test_slow",
        "lab/simulation/test_checkers",
        "lab/simulation/test_clients",
        "lab/simulation/test_farm",
        "lab/simulation/test_invariants",
        "lab/simulation/test_planted",
        "lab/simulation/test_tcp",
        "net/test_server_on_disk",
    ],
}


@cache
def modules(package: str) -> dict[str, Path]:
    """Return every file of a package by its name, such as ``cli/decode``."""
    root = ROOT / package
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.py"))}


def fits(name: str, pattern: str) -> bool:
    """Return whether a path matches a pattern, as in fnmatch, except that ``*`` does not match a slash."""
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def module_of(dotted: str) -> tuple[str, str] | None:
    """Return the module of a dotted name: ``kwire.cli.lines.report`` -> (kwire, cli/lines); None for other packages."""
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
    """Yield the dotted names that a file imports, at any place in the file."""
    folder = [package, *name.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imported_modules(package: str, name: str, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield package and name of each of our modules that a file imports."""
    modules = {module for dotted in imports(tree, package, name) if (module := module_of(dotted)) is not None}
    yield from sorted(modules - {(package, name)})


def top(name: str) -> str:
    return name.partition("/")[0]


@cache
def ranks(package: str) -> Mapping[str, int]:
    return {name: rank for rank, names in enumerate(RANKS[package]) for name in names.split()}


def rank_problems(package: str, name: str, tree: ast.AST) -> list[str]:
    rank = ranks(package)
    if top(name) not in rank:
        return [f"{package}/{name}: {top(name)} has no place in RANKS"]
    problems = []
    for other, target in imported_modules(package, name, tree):
        what = f"{package}/{name} imports {other}/{target}"
        if PACKAGES.index(other) > PACKAGES.index(package):
            problems.append(f"{what}: {package} imports nothing of {other}")
        here, there = rank[top(name)], rank.get(top(target), len(rank))
        if other == package and top(target) != top(name) and there >= here:
            problems.append(
                f"{what}: {top(name)} has rank {here} and imports only lower ranks, {top(target)} has {there}"
            )
    return problems


@cache
def graph(package: str) -> Mapping[str, set[str]]:
    """Return the modules that each module of a package imports from the same package."""
    return {
        name: {target for other, target in imported_modules(package, name, parsed(package, name)) if other == package}
        for name in modules(package)
    }


def module_cycles(imported: Mapping[str, Iterable[str]]) -> list[str]:
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return [f"{' imports '.join(reversed(error.args[1]))}: modules must not form an import cycle"]
    return []


def folder_cycles(imported: Mapping[str, Iterable[str]]) -> list[str]:
    """Return pairs of folders in the same folder that import each other, at every depth."""
    examples: dict[tuple[Path, Path], str] = {}
    for name, targets in imported.items():
        for target in targets:
            sides = folders_apart(name, target)
            if sides is not None:
                examples.setdefault(sides, f"{name} imports {target}")
    return [
        f"{what}, {examples[there, here]}: the folders {here} and {there} must not import each other"
        for (here, there), what in examples.items()
        if here < there and (there, here) in examples
    ]


def folders_apart(name: str, target: str) -> tuple[Path, Path] | None:
    """Return the folders of two modules directly below their common folder; None if a module is in that folder."""
    ours, theirs = Path(name).parts[:-1], Path(target).parts[:-1]
    for depth, (here, there) in enumerate(zip(ours, theirs, strict=False), 1):
        if here != there:
            return Path(*ours[:depth]), Path(*theirs[:depth])
    return None


def used_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of each imported or used name, with aliases resolved."""
    known: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Import(names=names):
                known |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in names}
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                known |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case _:
                pass
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, _, rest = dotted_name(node).partition(".")
            yield node.lineno, ".".join(part for part in (known.get(first, first), rest) if part)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile":
            yield node.lineno, "re.compile" if ast.unparse(node.func) == "re.compile" else ANY_COMPILE


def dotted_name(node: ast.expr) -> str:
    """Return the names of an expression, separated by dots, with "" in place of a call or another expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted_name(value)}.{name}"
        case _:
            return ""


def ban_problems(where: str, tree: ast.AST) -> list[str]:
    problems, nodes = set(), list(ast.walk(tree))
    for line, name in used_names(nodes):
        for ban in BANS:
            if (name == ban.name or name.startswith(f"{ban.name}.")) and not any(fits(where, p) for p in ban.allowed):
                problems.add(f"line {line}: {ban.name}; use {ban.instead}")
    problems |= {f"line {node.lineno}: import *; name what is needed" for node in nodes if is_star(node)}
    return sorted(problems)


def is_star(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


FILES = [(package, name) for package in PACKAGES for name in modules(package)]


@cache
def parsed(package: str, name: str) -> ast.Module:
    return ast.parse(modules(package)[name].read_text("utf-8"))


def test_imports_only_lower_ranks() -> None:
    assert [problem for file in FILES for problem in rank_problems(*file, parsed(*file))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_at_the_top_has_one_rank(package: str) -> None:
    assert {top(name) for name in modules(package)} == set(ranks(package))
    assert len(ranks(package)) == sum(len(names.split()) for names in RANKS[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycles(package: str) -> None:
    assert module_cycles(graph(package)) + folder_cycles(graph(package)) == []


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def restated_keys(tree: ast.Module) -> list[str]:
    """Return the constants of a module that have the name of an API and a number."""
    found = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case ast.Assign(targets=[name], value=value):
                pairs = [(name, value)]
            case ast.AnnAssign(target=name, value=ast.expr() as value):
                pairs = [(name, value)]
            case _:
                continue
        numbers = [ast.unparse(name) for name, value in pairs if is_number(value)]
        found += [name for name in numbers if name.lstrip("_") in ApiKey.__members__]
    return found


def test_api_keys_are_stated_once() -> None:
    assert {file: keys for file in FILES if (keys := restated_keys(parsed(*file)))} == {}


RESTATED = [  # text, the constants that kwire.apikeys has already
    ("JOIN_GROUP = 11", ["JOIN_GROUP"]),
    ("_END_TXN: int = 26", ["_END_TXN"]),
    ("PRODUCE, LIMIT, FETCH = 0, 5, 1", ["PRODUCE", "FETCH"]),
    ("JOIN_GROUP = Api(11, versions='0-9', flexible='6+')", []),
    ("JOIN = ApiKey.JOIN_GROUP", []),
    ("METADATA = 'metadata'", []),
]


@pytest.mark.parametrize(("text", "found"), RESTATED)
def test_restated_keys_are_noticed(text: str, found: list[str]) -> None:
    assert restated_keys(ast.parse(text)) == found


def test_nothing_banned() -> None:
    assert {file: problems for file in FILES if (problems := ban_problems("/".join(file), parsed(*file)))} == {}


def type_tests(tree: ast.AST) -> list[str]:
    """Return the places where a value is tested to be a group of a type."""
    tests = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
            names = {ast.unparse(inner).rpartition(".")[2] for inner in ast.walk(node.args[1]) if named(inner)}
            if names & GROUP_CLASSES:
                tests.append(f"line {node.lineno}: {ast.unparse(node)}; ask its GroupType")
        elif isinstance(node, ast.MatchClass) and ast.unparse(node.cls).rpartition(".")[2] in GROUP_CLASSES:
            tests.append(f"line {node.cls.lineno}: case {ast.unparse(node.cls)}(); ask its GroupType")
    return tests


def named(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def test_only_migration_tests_the_type_of_a_group() -> None:
    others = [name for name in modules("mockbroker") if not fits(name, ASKS_FOR_GROUP_TYPE)]
    assert {name: type_tests_ for name in others if (type_tests_ := type_tests(parsed("mockbroker", name)))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(group, ClassicGroup)",
        "isinstance(x, (A, state.ConsumerGroup))",
        "match g:\n case ClassicGroup(): pass",
    ],
)
def test_tests_of_the_type_of_a_group_are_noticed(text: str) -> None:
    assert len(type_tests(ast.parse(text))) == 1


def test_the_coordinator_knows_no_group_type() -> None:
    """The registry, the record writer and other modules outside of the types' folders import none of them."""
    imports_ = [
        f"{name} imports {target}"
        for name, targets in graph("mockbroker").items()
        if name.startswith("groups/") and not name.startswith(GROUP_TYPE_FOLDERS) and name not in NAMES_GROUP_TYPES
        for target in targets
        if target.startswith(GROUP_TYPE_FOLDERS)
    ]
    assert imports_ == []


def test_group_types_do_not_import_each_other() -> None:
    *types, migration = GROUP_TYPE_FOLDERS
    forbidden = [*permutations(types, 2), *((each, migration) for each in types), (migration, "groups/share/")]
    imports_of = graph("mockbroker").items()
    assert [
        f"{name} imports {target}"
        for name, targets in imports_of
        for target in targets
        if any(name.startswith(here) and target.startswith(there) for here, there in forbidden)
    ] == []


def test_every_message_has_frames_of_its_stem() -> None:
    messages = {name.partition("/")[2] for name in modules("kwire") if fits(name, "messages/[!_]*")}
    frames = {path.name.removesuffix(".jsonl.gz") for path in (ROOT / "fixtures" / "frames").glob("*.jsonl.gz")}
    assert messages == frames


def test_every_handler_has_a_message_of_its_stem() -> None:
    handlers = {name for name in modules("mockbroker") if fits(name, "broker/handlers/[!_]*")}
    assert handlers - NO_HANDLERS <= {name.replace("messages/", "broker/handlers/") for name in modules("kwire")}


def proven_elsewhere(package: str, name: str) -> bool:
    return any(fnmatch(f"{package}/{name}", pattern) for pattern in TESTED_ELSEWHERE)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_and_its_tests_are_one_tree(package: str) -> None:
    tests = ROOT / "tests" / package
    test_files = {path.relative_to(tests).with_suffix("").as_posix() for path in tests.rglob("test_*.py")}
    expected = {
        (Path(name).parent / f"test_{Path(name).name}").as_posix(): proven_elsewhere(package, name)
        for name in modules(package)
    }
    missing = {test for test, elsewhere in expected.items() if not elsewhere and test not in test_files}
    assert missing == set(), "write the test, or say in TESTED_ELSEWHERE where the proof is"
    alone = {
        test for test in test_files - expected.keys() if not any(fits(test, each) for each in TESTS_OF_MANY[package])
    }
    assert alone == set(), "name the test after its module, or list it in TESTS_OF_MANY"


def test_the_lists_of_tests_name_files_that_exist() -> None:
    for pattern, where in TESTED_ELSEWHERE.items():
        package, _, _ = pattern.partition("/")
        packages = PACKAGES if package == "*" else [package]
        assert any(fnmatch(f"{each}/{module}", pattern) for each in packages for module in modules(each)), pattern
        assert all((ROOT / path).exists() for path in re.findall(r"tests/[\w/]+(?:\.py)?", where)), where
    for package, patterns in TESTS_OF_MANY.items():
        for pattern in patterns:
            assert list((ROOT / "tests" / package).glob(f"{pattern}.py")), pattern


BAD_FILES = [  # text, problems
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


BAD_IMPORTS = [  # module, its text, problems
    ("layout", "from kwire import codec", "kwire/layout imports kwire/codec: layout has rank"),
    ("layout", "from kwire.codec import decode", "kwire/layout imports kwire/codec: layout has rank"),
    ("layout", "import kwire.codec", "kwire/layout imports kwire/codec: layout has rank"),
    ("layout", "def f():\n    from kwire import decode", "kwire/layout imports kwire/__init__: layout has rank"),
    (
        "messages/fetch",
        "from kwire.headers import header_versions",
        "kwire/messages/fetch imports kwire/headers: messages",
    ),
    ("records/batch", "from ..capture.limits import US", "kwire/records/batch imports kwire/capture/limits: records"),
    ("errors", "import mockbroker.net.server", "kwire imports nothing of mockbroker"),
    ("elsewhere", "", "elsewhere has no place in RANKS"),
]


@pytest.mark.parametrize(("name", "text", "problem"), BAD_IMPORTS)
def test_the_ranks_notice(name: str, text: str, problem: str) -> None:
    (found,) = rank_problems("kwire", name, ast.parse(text))
    assert problem in found


CYCLES = [  # imports of modules, problems
    ({"a": ["b"], "b": ["a"]}, "a imports b imports a: modules must not"),
    ({"x/a": ["y/b"], "y/c": ["x/d"]}, "x/a imports y/b, y/c imports x/d: the folders x and y must not"),
    ({"f/x/a": ["f/y/g/b"], "f/y/c": ["f/x/h/d"]}, "the folders f/x and f/y must not"),
]


@pytest.mark.parametrize(("imported", "problem"), CYCLES)
def test_cycles_are_noticed(imported: dict[str, list[str]], problem: str) -> None:
    (cycle,) = module_cycles(imported) + folder_cycles(imported)
    assert problem in cycle


NO_CYCLES = [
    {"a": ["b"], "b": ["c"]},
    {"x/a": ["y/b"], "x/c": ["d"], "d": ["x/e"]},
    {"x/g/a": ["x/b"], "x/c": ["x/g/d"]},
]


@pytest.mark.parametrize("imported", NO_CYCLES)
def test_imports_that_are_not_a_cycle(imported: dict[str, list[str]]) -> None:
    assert module_cycles(imported) + folder_cycles(imported) == []


# The name of a test states a rule. A reader cannot look up the number of a section, row or rule of a document.
NUMBERED_TEST = r"test_(\d|(rule|row|case|section|step)_\d).*"
AMOUNT = r"\d[\d_,.^]* (bytes?|kB|KB|KiB|MB|MiB|GB|GiB|ms|seconds?|of|topics|elements|tags|messages|members|digits)\b.*"


@cache
def parsed_tests() -> Mapping[str, ast.Module]:
    """Return the syntax tree of every file in tests/, by its path there."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return {path.relative_to(ROOT / "tests").as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def numbered(tree: ast.Module) -> list[str]:
    """Return the names and ids of tests that begin with the number of a document."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.fullmatch(NUMBERED_TEST, node.name):
            names.append(node.name)
        elif isinstance(node, ast.keyword) and node.arg in {"id", "ids"}:
            texts = [inner.value for inner in ast.walk(node.value) if isinstance(inner, ast.Constant)]
            names += [text for text in texts if re.match(r"\d+\S* ", str(text)) and not re.match(AMOUNT, text)]
    return names


def test_no_test_is_named_by_a_number() -> None:
    assert {path: names for path, tree in parsed_tests().items() if (names := numbered(tree))} == {}


NUMBERED = [
    ("def test_10_16_second_member(): ...", ["test_10_16_second_member"]),
    ("async def test_rule_1_no_heartbeat(): ...", ["test_rule_1_no_heartbeat"]),
    ("param(1, id='3.1-6 no such group')", ["3.1-6 no such group"]),
    ("param(1, id='116 too short')", ["116 too short"]),
    ("parametrize('a', [1], ids=['2 states'])", ["2 states"]),
    ("param(1, id=f'4.2-6 unknown, {state}')", ["4.2-6 unknown, "]),
    ("param(1, id='2 MB')", []),
    ("param(1, id='4096 of two bytes each')", []),
    ("def test_v10_unknown_topic_id(): ...", []),
]


@pytest.mark.parametrize(("text", "found"), NUMBERED)
def test_numbers_in_names_are_noticed(text: str, found: list[str]) -> None:
    assert numbered(ast.parse(text)) == found


LONGEST_TEST_NAME = 60  # a longer name states two rules, and is hard to find by its words


def too_long(tree: ast.Module) -> list[str]:
    """Return the names of tests that are longer than the limit."""
    return [
        name
        for name in map(function_name, ast.walk(tree))
        if name.startswith("test_") and len(name) > LONGEST_TEST_NAME
    ]


def function_name(node: ast.AST) -> str:
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""


def test_no_test_has_a_long_name() -> None:
    assert {path: names for path, tree in parsed_tests().items() if (names := too_long(tree))} == {}


@pytest.mark.parametrize(("length", "found"), [(LONGEST_TEST_NAME, 0), (LONGEST_TEST_NAME + 1, 1)])
def test_long_names_are_noticed(length: int, found: int) -> None:
    name = "test_".ljust(length, "a")
    assert len(too_long(ast.parse(f"class A:\n async def {name}(self): ..."))) == found


def bare(tree: ast.Module) -> list[str]:
    """Return the functions that are not tests and lack the type of an argument or of their result."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    helpers = [node for node in functions if not node.name.startswith("test_")]
    return [node.name for node in helpers if node.returns is None or not all(map(is_typed, arguments(node.args)))]


def arguments(given: ast.arguments) -> list[ast.arg]:
    collecting = [arg for arg in (given.vararg, given.kwarg) if arg is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *collecting]


def is_typed(arg: ast.arg) -> bool:
    return arg.annotation is not None or arg.arg in {"self", "cls"}


def test_helpers_of_tests_have_types() -> None:
    assert {path: names for path, tree in parsed_tests().items() if (names := bare(tree))} == {}


BARE = [  # text, the helpers that lack a type
    ("def test_it(a, b): ...", []),
    ("def helper(self, a: int, *, b: str, **how: int) -> None: ...", []),
    ("def helper(a: int): ...", ["helper"]),
    ("async def helper(a: int, *rest) -> None: ...", ["helper"]),
    ("def test_it(a):\n    def inner(b) -> None: ...", ["inner"]),
]


@pytest.mark.parametrize(("text", "found"), BARE)
def test_helpers_without_types_are_noticed(text: str, found: list[str]) -> None:
    assert bare(ast.parse(text)) == found


MARKERS = re.compile("^(<{7} |>{7} )", re.MULTILINE)  # of a merge
OF_TEXT = ("*.md", "*.py", "*.js", "*.ts", "*.tsx", "*.rs", "*.toml", "*.txt", "*.tsv", "Makefile")


def test_no_file_has_markers_of_a_merge() -> None:
    """No other check notices them in a docstring or page."""
    files = {
        path
        for folder in ("kwire", "mockbroker", "tests", "docs", "tools", "benchmarks", "fuzzing", "native/src")
        for pattern in OF_TEXT
        for path in (ROOT / folder).rglob(pattern)
    }
    files |= {path for pattern in OF_TEXT for path in ROOT.glob(pattern)}
    texts = ((path, path.read_text("utf-8")) for path in sorted(files) if "node_modules" not in path.parts)
    assert [str(path.relative_to(ROOT)) for path, text in texts if MARKERS.search(text)] == []


@pytest.mark.parametrize("marker", ["<" * 7 + " HEAD", ">" * 7 + " 86def1b0 (top: a commit)"])
def test_markers_of_a_merge_are_noticed(marker: str) -> None:
    assert MARKERS.search(f"a line\n{marker}\nanother")

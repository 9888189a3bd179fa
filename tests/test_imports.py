"""What imports load, of other distributions and of our own packages: no more than is listed here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection

import pytest

OWN = ("kwire", "mockbroker")
TRIO = {"attr", "attrs", "cffi", "idna", "outcome", "sniffio", "sortedcontainers", "trio"}  # trio and what it requires
ALL_NAMES = "import {0}; [getattr({0}, name) for name in {0}.__all__]"

KWIRE = """kwire apikeys codec codegen connection engines envelope errorcodes errors frames headers layout lazy limits
    messages schema"""
SERVING_KWIRE = "blobs filter java json records redact"
SERVING = "mockbroker api base broker faults groups net quotas security share storage telemetry topics transactions"

LOADS: list[tuple[str, str, set[str], str, str]] = [
    # what is loaded, the code, other packages, names at the top of kwire, of mockbroker
    ("kwire", "import kwire", set(), "kwire lazy", ""),
    ("public names of kwire", ALL_NAMES.format("kwire"), set(), KWIRE, ""),
    ("mockbroker", "import mockbroker", set(), "kwire lazy", "mockbroker"),
    (
        "public names of mockbroker",
        ALL_NAMES.format("mockbroker"),
        {"cramjam", "google_crc32c", *TRIO},
        f"{KWIRE} {SERVING_KWIRE}",
        SERVING,
    ),
]
PRINT = """
import json, sys
before = set(sys.modules)
{code}
loaded = set(sys.modules) - before
print(json.dumps(sorted(loaded)))
"""


def loaded_by(code: str) -> list[str]:
    words = [sys.executable, "-c", PRINT.format(code=code)]
    modules: list[str] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return modules


def tops(modules: Collection[str], package: str) -> set[str]:
    """The package itself, and names at its top that were loaded."""
    inside = {name.split(".")[1] for name in modules if name.startswith(f"{package}.")}
    return inside | ({package} & set(modules))


@pytest.mark.parametrize(
    ("code", "others", "kwire", "mockbroker"), [row[1:] for row in LOADS], ids=[row[0] for row in LOADS]
)
def test_imports_load_only_listed_modules(code: str, others: set[str], kwire: str, mockbroker: str) -> None:
    modules = loaded_by(code)
    foreign = {name.partition(".")[0] for name in modules} - {*OWN, *sys.stdlib_module_names, "kwire_native"}
    assert {name for name in foreign if not name.startswith("_")} - TRIO == others - TRIO
    assert bool(foreign & TRIO) == ("trio" in others)
    assert tops(modules, "kwire") == set(kwire.split())
    assert tops(modules, "mockbroker") == set(mockbroker.split())


def test_the_plugin_loads_nothing_of_the_broker() -> None:
    """pytest loads the plugin in every run."""
    ours = [name for name in loaded_by("import mockbroker.pytest_plugin") if name.partition(".")[0] in OWN]
    assert ours == ["kwire", "kwire.lazy", "mockbroker", "mockbroker.pytest_plugin"]


def test_a_cluster_in_memory_loads_no_data_directory() -> None:
    modules = loaded_by("import mockbroker\nwith mockbroker.run_cluster(): pass")
    stored = [name for name in modules if name.startswith("mockbroker.storage")]
    assert stored == ["mockbroker.storage", "mockbroker.storage.disk"]  # where the public DataDirError is


@pytest.mark.parametrize(
    "code", ["mockbroker.open_cluster", "mockbroker.run_cluster", "with mockbroker.run_cluster(): pass"]
)
def test_a_cluster_without_faults_loads_no_code_of_faults(code: str) -> None:
    assert [name for name in loaded_by(f"import mockbroker\n{code}") if name.startswith("mockbroker.faults")] == []


def test_cluster_loads_modern_group_types_on_first_use() -> None:
    """The other modules of a group type are imported when its first group is created."""
    modules = loaded_by("import mockbroker\nwith mockbroker.run_cluster(): pass")
    for name in ("consumer", "share", "streams"):
        folder = f"mockbroker.groups.{name}"
        assert [each for each in modules if each.startswith(folder)] == [folder, f"{folder}.declaration"]
    folders = ("mockbroker.groups.migration", "mockbroker.broker.share_fetch", "kwire.assignors")
    assert [each for each in modules if each.startswith(folders)] == []


def test_a_started_cluster_has_loaded_few_messages() -> None:
    """The others are imported with the first request of their API."""
    modules = loaded_by("import mockbroker\nwith mockbroker.run_cluster(): pass")
    assert not {f"kwire.messages.{name}" for name in ("metadata", "offset_commit", "create_acls", "produce")} & {
        *modules
    }
    assert not {"asyncio", "decimal"} & {*modules}

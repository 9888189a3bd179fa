"""Modules that imports load, from other distributions and our own packages: only those that are listed here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from golden import ROOT
from plain_client import RawConnection

from kwire.messages.metadata import MetadataRequest

OWN = ("kwire", "mockbroker")
TRIO = {"attr", "attrs", "cffi", "idna", "outcome", "sniffio", "sortedcontainers", "trio"}  # trio and what it requires
ALL_NAMES = "import {0}; [getattr({0}, name) for name in {0}.__all__]"

KWIRE = """kwire apikeys buffers codec codegen connection engines envelope errorcodes errors frames headers layout lazy
    lazy_dataclass limits messages schema"""
SERVING_KWIRE = "blobs body_fields counted filter java json records redact"
SERVING = "mockbroker api base broker faults groups net quotas security share storage telemetry topics transactions"

LOADS: list[tuple[str, str, set[str], str, str]] = [
    # what is loaded, the code, other packages, names at the top of kwire, of mockbroker
    ("kwire", "import kwire", set(), "kwire lazy", ""),
    ("public names of kwire", ALL_NAMES.format("kwire"), set(), KWIRE, ""),
    ("mockbroker", "import mockbroker", set(), "kwire lazy", "mockbroker"),
    (
        "public names of mockbroker",
        ALL_NAMES.format("mockbroker"),
        {"google_crc32c", *TRIO},
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

SERVE_MODULES = Path(__file__).with_name("serve_modules.txt")
CAPTURE_MODULES = Path(__file__).with_name("capture_modules.txt")
CAPTURE = f"""
from contextlib import redirect_stdout
import io
sys.argv[1:] = ["capture", {str(ROOT / "fixtures" / "captures" / "aiokafka-0.14.0__kafka-4.2.0__idempotent.pcap")!r}]
from kwire.__main__ import main
with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
"""
ENGINES = "kwire.engines."  # which of them are loaded depends on the engine in use
SERVE = """
import json, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print(json.dumps(sorted(sys.modules)), flush=True))
sys.argv[1:] = ["serve", "--port", "0"]
from mockbroker.__main__ import main
main()
"""


def loaded_by(code: str) -> list[str]:
    words = [sys.executable, "-c", PRINT.format(code=code)]
    modules: list[str] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return modules


def tops(modules: Collection[str], package: str) -> set[str]:
    """Return the package itself, and the loaded names at its top."""
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
    assert stored == ["mockbroker.storage", "mockbroker.storage.disk"]  # the modules of the public DataDirError


@pytest.mark.parametrize(
    "code", ["mockbroker.open_cluster", "mockbroker.run_cluster", "with mockbroker.run_cluster(): pass"]
)
def test_a_cluster_without_faults_loads_no_code_of_faults(code: str) -> None:
    assert [name for name in loaded_by(f"import mockbroker\n{code}") if name.startswith("mockbroker.faults")] == []


def test_cluster_loads_group_types_on_first_use() -> None:
    """The other modules of a group type are imported when its first group is created."""
    modules = loaded_by("import mockbroker\nwith mockbroker.run_cluster(): pass")
    for name in ("classic", "consumer", "share", "streams"):
        folder = f"mockbroker.groups.{name}"
        assert [each for each in modules if each.startswith(folder)] == [folder, f"{folder}.declaration"]
    folders = (
        "mockbroker.groups.migration",
        "mockbroker.broker.share_fetch",
        "kwire.assignors",
        "kwire.blobs.offsets_topic",
        "kwire.blobs.consumer_protocol",
    )
    assert [each for each in modules if each.startswith(folders)] == []


def test_a_started_cluster_has_loaded_few_messages() -> None:
    """The others are imported with the first request of their API."""
    modules = loaded_by("import mockbroker\nwith mockbroker.run_cluster(): pass")
    assert not {f"kwire.messages.{name}" for name in ("metadata", "offset_commit", "create_acls", "produce")} & {
        *modules
    }
    assert not {"asyncio", "decimal"} & {*modules}


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a POSIX signal asks the process for its modules")
def test_serve_loads_listed_modules_until_it_answers_metadata() -> None:
    """A module that is not needed for the first response belongs to the first request or option that uses it."""
    listed = set(SERVE_MODULES.read_text().split())
    loaded = {name for name in loaded_by_serve() if name.partition(".")[0] in OWN}
    engines = {name for name in loaded | listed if name.startswith(ENGINES)}
    assert sorted(loaded - listed - engines) == []
    assert sorted(listed - loaded - engines) == []


def test_capture_loads_listed_modules_and_numpy() -> None:
    """Only the messages of the capture are loaded, and of other packages only these two."""
    modules = loaded_by(CAPTURE)
    engines = {name for name in modules if name.startswith(ENGINES)}
    foreign = {name.partition(".")[0] for name in modules} - {*OWN, *sys.stdlib_module_names, "kwire_native"}
    assert {name for name in foreign if not name.startswith("_")} == {"click", "numpy"}
    listed = CAPTURE_MODULES.read_text().split()
    loaded = [name for name in modules if name.partition(".")[0] in OWN and name not in engines]
    assert [name for name in loaded if name not in listed] == []
    assert [name for name in listed if name not in loaded] == []


def loaded_by_serve() -> list[str]:
    """Return the modules that ``mockbroker serve`` has loaded after the response to a Metadata request."""
    with subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().rpartition("=")[2].strip()
            with RawConnection(address) as client:
                assert client.ask(MetadataRequest(), 9).brokers
            process.send_signal(signal.SIGUSR1)
            modules: list[str] = json.loads(process.stdout.readline())
            return modules
        finally:
            process.terminate()

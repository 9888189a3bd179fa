"""The conclusions of a soak test: which records are lost or not exactly once, and how fast a value grows."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import soak
import trio
import trio.testing
from soak_broker import BrokerProcess, free_ports, open_files
from soak_clients import ROLES
from soak_disk import SIZE
from soak_figures import Overtaken, Sample, lost, not_exactly_once, slope
from soak_foreign import FAMILIES
from soak_server import TaskCount, read_tasks, write_objects


def test_promised_values_must_be_delivered() -> None:
    assert lost(["a", "b"], ["b", "c", "b"]) == ["a"]
    assert lost(["a"], ["a", "a"]) == [], "at least once"


def test_records_that_retention_deletes_first_are_not_promised() -> None:
    overtaken = Overtaken()
    overtaken.see({0: 0, 1: 0}, {0: 10})
    overtaken.see({0: 10, 1: 5}, {0: 12, 1: 5})
    assert overtaken.ranges == {1: [(0, 5)]}
    overtaken.see({0: 15, 1: 5}, {0: 15})
    assert [offset for offset in range(20) if overtaken.includes(0, offset)] == [12, 13, 14]


PROCESSED = [  # values in the log, processed values, those not exactly once
    (["a", "b"], ["b", "a"], []),
    (["a"], ["a", "a"], ["a"]),
    (["a"], [], ["a"]),
    ([], ["a"], ["a"]),
    (["a", "a"], ["a"], ["a"]),
]


@pytest.mark.parametrize(("stored", "processed", "wrong"), PROCESSED)
def test_processed_exactly_once(stored: list[str], processed: list[str], wrong: list[str]) -> None:
    assert not_exactly_once(stored, processed) == wrong


def samples(run: int, level: float, growth: float, noise: Random | None = None, count: int = 60) -> list[Sample]:
    values = [level + growth * n / 10 + (noise.gauss(0, 5) if noise else 0) for n in range(count)]
    return [Sample(run, n / 10, {"memory": value}) for n, value in enumerate(values)]


def test_slope_is_common_to_runs_with_different_levels() -> None:
    found = slope(samples(1, 100, 2) + samples(2, 50, 2), "memory", after=0)
    assert found is not None
    assert found.per_minute == pytest.approx(2)
    assert found.bound == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("growth", [0.0, 7.0])
def test_bound_contains_the_slope(growth: float) -> None:
    found = slope(samples(1, 100, growth, Random(4), 300), "memory", after=1)
    assert found is not None
    assert abs(found.per_minute - growth) < found.bound < 1


def test_slope_needs_samples_after_the_beginning() -> None:
    assert slope(samples(1, 100, 1), "memory", after=5.8) is None


def test_every_client_has_a_role() -> None:
    foreign = {f"{role}-{family}" for role in ("produce", "consume") for family in FAMILIES}
    assert {role for role, _ in (soak.CLIENTS | soak.AUDITORS).values()} == ROLES.keys() | foreign
    assert {name for names in soak.GROUPS.values() for name in names} | set(soak.PRODUCERS) < soak.CLIENTS.keys()


def test_clients_of_missing_families_are_left_out(tmp_path: Path) -> None:
    without = soak.Soak(tmp_path, Random(1), BrokerProcess(tmp_path, Random(1)), {"java": ["java"]})
    assert without.groups.keys() == {"modern", "classic", "classic-aio", "java"}
    assert without.producers == ["pc", "pk", "pa", "pj"]
    roles = {role for role, _ in without.all_clients.values()}
    assert roles == ROLES.keys() | {"produce-java", "consume-java"}


def test_most_grown_types_follow_the_memory_blocks() -> None:
    half, end = {"memory blocks": 5, "list": 7, "dict": 9}, {"memory blocks": 6, "list": 9, "set": 50, "dict": 1}
    assert soak.most_grown(half, end) == {"memory blocks": (5, 6), "set": (0, 50), "list": (7, 9), "dict": (9, 1)}


async def test_tasks_of_the_event_loop_are_counted(tmp_path: Path) -> None:
    instrument = TaskCount(tmp_path / "tasks")
    trio.lowlevel.add_instrument(instrument)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(trio.sleep, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert read_tasks(tmp_path) == 1
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(instrument)
    assert read_tasks(tmp_path) == 0


def test_objects_are_counted_by_type(tmp_path: Path) -> None:
    kept = [soak.Overtaken() for _ in range(7)]
    write_objects(tmp_path / "objects.json")
    found = json.loads((tmp_path / "objects.json").read_text("utf-8"))
    assert found["types"]["soak_figures.Overtaken"] == len(kept)
    assert found["blocks"] > 10_000


STUCK = """
import ctypes, sys, time
sys.path.insert(0, sys.argv[1])
from soak_clients import ended_if_stuck
with ended_if_stuck(30):
    print("in time", flush=True)
time.sleep(0.01)
with ended_if_stuck(0.2):
    ctypes.CDLL(None).pause()  # as a call of librdkafka that ignores its timeout
"""


def test_a_client_that_is_stuck_in_a_call_ends() -> None:
    """Signal handlers of Python do not run while a call of a C library blocks."""
    command = [sys.executable, "-c", STUCK, str(Path(soak.__file__).parent)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "in time\n"
    assert ended.returncode == -signal.SIGALRM, ended.stderr


KEPT = {"lost from the log": [], "not delivered": {"g": []}, "not exactly once": [], "errors": 0, "exit code": 0}
BROKEN: list[dict[str, object]] = [
    {"lost from the log": ["a"]},
    {"not delivered": {"g": ["a"]}},
    {"not exactly once": ["a"]},
    {"errors": 1},
    {"exit code": -11},
]


@pytest.mark.parametrize("changes", BROKEN, ids=lambda changes: next(iter(changes)))
def test_a_broken_promise_fails_the_soak(changes: dict[str, object]) -> None:
    assert soak.holds(KEPT)
    assert not soak.holds(KEPT | changes)


def test_kept_soaks_are_by_seed_and_kind(tmp_path: Path) -> None:
    for seed, steady, minutes in ((1, False, 1), (1, True, 2), (2, False, 1), (1, False, 5)):
        soak.keep(tmp_path / "kept.json", {"seed": seed, "steady": steady, "minutes": minutes})
    kept = json.loads((tmp_path / "kept.json").read_text("utf-8"))
    assert [(each["seed"], each["steady"], each["minutes"]) for each in kept] == [
        (1, True, 2),
        (2, False, 1),
        (1, False, 5),
    ]


def test_open_files_are_listed_by_kind(tmp_path: Path) -> None:
    with socket.socket(), (tmp_path / "000.log").open("wb"):
        opened = open_files(os.getpid())
    assert str(tmp_path / "000.log") in opened
    assert any(name.startswith("socket:") for name in opened)


def test_ports_are_free_and_consecutive() -> None:
    assert 20_000 <= free_ports(Random(1), 3) < 32_000


WRITE = "import sys; sys.stdin.read(1); open(sys.argv[1], 'wb').write(b'x' * 10_000)"


FILL = """
import errno, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import soak_disk
soak_disk.enter_namespace()
disk = soak_disk.Disk(Path(sys.argv[2]))
print(disk.sized, flush=True)
if disk.sized:
    disk.fill()
    try:
        (disk.folder / "log").write_bytes(bytes(100_000))
    except OSError as error:
        print(errno.errorcode[error.errno])
    disk.free()
    (disk.folder / "log").write_bytes(bytes(100_000))
disk.close()
print(sorted(disk.folder.iterdir()))
"""


def test_full_disk_has_no_space_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILL, str(Path(soak.__file__).parent), str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.stdout.startswith("False"):
        pytest.skip("this system permits no mount namespace")
    assert done.stdout.splitlines() == ["True", "ENOSPC", "[]"], done.stderr
    assert shutil.disk_usage(tmp_path).total != SIZE, "only the namespace sees the file system"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's")
def test_limited_process_gets_an_error_when_it_writes(tmp_path: Path) -> None:
    """The full disk of a soak where no file system can be mounted: the limit on the length of files."""
    command = [sys.executable, "-c", WRITE, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
        _, errors = process.communicate("x")
    assert "File too large" in errors
    assert os.path.getsize(tmp_path / "file") == 4_096

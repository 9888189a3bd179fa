"""Each operation is written once. Every handle of a cluster has it, with its signature and documentation."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from need import lacking

from mockbroker import Clock, Cluster, ThreadClock, ThreadCluster, open_cluster, run_cluster
from mockbroker.api.clock import ClockOperations
from mockbroker.api.operations import ClusterOperations, operation

SCRIPTS = Path(sysconfig.get_path("scripts"))
USE = """
from mockbroker import Cluster, ThreadCluster


async def use(cluster: Cluster, handle: ThreadCluster) -> None:
    reveal_type(cluster.create_topic("t", 2))  # None
    reveal_type(handle.create_topic("t", partitions=2))  # None
    reveal_type(handle.committed("g"))  # dict[tuple[str, int], int]
    reveal_type(await cluster.wait_group("g", members=2))  # GroupSnapshot
    reveal_type(handle.wait_group("g", members=2))  # GroupSnapshot
    reveal_type(await handle.wait_group_async("g", timeout=1))  # GroupSnapshot
    reveal_type(handle.clock.advance(1.0))  # list[Event]
    reveal_type(handle.clock.running)  # bool
    handle.create_topic(2)  # error
    handle.committed()  # error
    handle.wait_group("g", member=2)  # error
    handle.clock.advance("1")  # error
    cluster.kill_broker(0, noticed_after="1")  # error
"""


@operation
def running_thread(self: ClusterOperations) -> str:
    """Return the name of the thread that runs the operation."""
    return threading.current_thread().name


@pytest.fixture
def handle() -> Iterator[ThreadCluster]:
    with run_cluster() as cluster:
        yield cluster


async def test_an_operation_that_is_added_once_is_on_both_handles(
    handle: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterOperations, "running_thread", running_thread, raising=False)
    name = "running_thread"
    assert getattr(handle, name)() == "mockbroker"
    async with open_cluster() as cluster:
        assert getattr(cluster, name)() == threading.current_thread().name
    for kind in (Cluster, ThreadCluster):
        assert inspect.getdoc(getattr(kind, name)) == "Return the name of the thread that runs the operation."


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("attribute", ["", "clock", "faults"])
def test_a_handle_cannot_be_pickled_or_copied(
    handle: ThreadCluster, attribute: str, duplicate: Callable[[object], object]
) -> None:
    part = operator.attrgetter(attribute)(handle) if attribute else handle
    with pytest.raises(TypeError, match=f"a {type(part).__name__} cannot be pickled or copied: pass bootstrap_servers"):
        duplicate(part)


def names(operations: type) -> list[str]:
    return [name for name in vars(operations) if not name.startswith("_")]


HANDLES = [(Cluster, ThreadCluster, ClusterOperations), (Clock, ThreadClock, ClockOperations)]


@pytest.mark.parametrize(("here", "there", "operations"), HANDLES)
def test_no_handle_writes_an_operation_again(here: type, there: type, operations: type) -> None:
    assert names(operations)
    assert not [name for name in names(operations) if name in vars(here) or name in vars(there)]
    assert not [name for name in names(operations) if not inspect.getdoc(getattr(operations, name))]


WAITING = [
    (Cluster.wait_group, ThreadCluster.wait_group),
    (Cluster.wait_group, ThreadCluster.wait_group_async),
    (Clock.advance, ThreadClock.advance),
]


@pytest.mark.parametrize(("method", "made"), WAITING, ids=["wait_group", "wait_group_async", "advance"])
def test_blocking_method_has_signature_and_doc_of_its_original(method: object, made: object) -> None:
    assert callable(method)
    assert callable(made)
    assert inspect.signature(made) == inspect.signature(method)
    assert (inspect.getdoc(made) or "").startswith(inspect.getdoc(method) or "nothing")


def run(tool: str, *options: str, folder: Path) -> str:
    command = SCRIPTS / tool
    if not command.exists():
        lacking(f"{tool} is not installed: it is run over a user's project (extra dev)")
    return subprocess.run([command, *options, "use.py"], cwd=folder, capture_output=True, text=True, timeout=300).stdout


CHECKERS = [  # the command, the format of an error, the format of a revealed type
    (
        ["mypy", "--strict", "--python-executable", sys.executable],
        r"use\.py:(\d+): error",
        r'use\.py:(\d+): note: Revealed type is "(.*)"',
    ),
    (
        ["pyright", "--pythonpath", sys.executable],
        r"use\.py:(\d+):\d+ - error",
        r'use\.py:(\d+):\d+ - information: Type of ".*" is "(.*)"',
    ),
]


@pytest.mark.parametrize(("command", "error", "revealed"), CHECKERS, ids=["mypy", "pyright"])
def test_type_checkers_see_full_signatures(command: list[str], error: str, revealed: str, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE, "utf-8")
    text = run(*command, folder=tmp_path)
    lines = list(enumerate(USE.splitlines(), 1))
    assert {int(line) for line in re.findall(error, text)} == {n for n, line in lines if "# error" in line}, text
    types = {int(line): re.sub(r"\b(?:\w+\.)+(?=[A-Za-z])", "", found) for line, found in re.findall(revealed, text)}
    assert types == {n: line.partition("  # ")[2] for n, line in lines if "reveal_type" in line}

"""The owners of tasks in a streams group: processes, not members (KIP-1071)."""

from __future__ import annotations

import pytest

from mockbroker.groups.streams.state import Owners
from mockbroker.groups.streams.tasks import AssignedTasks

TASK, OTHER = ("0", 0), ("0", 1)


def tasks(*kinds: str, task: tuple[str, int] = TASK) -> AssignedTasks:
    """Return tasks of a member: ``task`` in each of some kinds."""
    replicas = {kind: frozenset({task}) for kind in kinds if kind != "active"}
    return AssignedTasks(active={task: 1} if "active" in kinds else {}, **replicas)


REPLICAS = [  # tasks of the process, whether it replicates TASK
    (tasks("standby"), True),
    (tasks("warmup"), True),
    (tasks("standby", "warmup"), True),
    (tasks("active"), False),
    (tasks("standby", "warmup", task=OTHER), False),
]


@pytest.mark.parametrize(("owned", "replicates"), REPLICAS)
def test_process_replicates_its_standby_and_warm_up_tasks(owned: AssignedTasks, replicates: bool) -> None:
    owners = Owners()
    owners.add(owned, "p")
    assert (owners.replicates(TASK, "p"), owners.replicates(TASK, "q")) == (replicates, False)
    owners.remove(owned, "p")
    assert owners == Owners()


def test_task_remains_with_the_processes_that_own_it() -> None:
    owners = Owners()
    for process in ("p", "q"):
        owners.add(tasks("active", "standby"), process)
    owners.remove(tasks("active", "standby"), "p")
    assert (owners.active, owners.standby) == ({TASK: "q"}, {TASK: {"q"}})

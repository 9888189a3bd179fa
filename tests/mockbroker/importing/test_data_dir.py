"""A data directory of imported groups is served by mockbroker."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from golden import ROOT

from mockbroker import open_cluster
from mockbroker.base.settings import Settings
from mockbroker.importing import data_dir
from mockbroker.importing.forms import json_lines
from mockbroker.importing.groups import Imported, read_groups
from mockbroker.storage.disk import DataDirError
from tests.mockbroker.importing.test_groups import DIRS, LogDir, commit

STOPPED = ROOT / "fixtures" / "log_dirs" / "4.2.0-stopped" / "data"
SETTINGS = Settings()


def write(found: Imported, folder: Path, brokers: int = 1) -> list[str]:
    ids = iter(range(1, 1000))
    return data_dir.write(found, folder, brokers, SETTINGS, lambda: UUID(int=next(ids)), 1_700_000_000_000)


def groups_of(found: Imported) -> dict[str, dict[str, Any]]:
    """Return the groups without pending offsets; omit groups that have nothing else."""
    *groups, _ = json_lines(found, SETTINGS)
    return {
        group["group_id"]: group | {"waiting": []}
        for group in groups
        if group["offsets"] or group.get("generation") or group.get("epoch")
    }


@pytest.mark.parametrize("folder", DIRS, ids=lambda path: path.name)
def test_import_of_a_written_data_dir_is_the_same(folder: Path, tmp_path: Path) -> None:
    result = read_groups([folder / "data"], SETTINGS)
    notes = write(result, tmp_path / "out")
    again = read_groups([tmp_path / "out"], SETTINGS)
    assert (again.problems, again.notes, again.passed_over) == ([], [], {})
    assert groups_of(again) == groups_of(result)
    topics = {name: topic for name, topic in result.topics.items() if not name.startswith("__")}
    assert {name: again.topics[name] for name in topics} == topics
    assert again.topics["__consumer_offsets"].partitions == 50
    lost = [] if "compacted" in folder.name else ["t-open", "t-waiting"]
    assert notes == [f"group {name!r}: 2 pending offsets of open transactions are not imported" for name in lost]


@pytest.mark.parametrize("brokers", [1, 3])
async def test_imported_groups_are_served(tmp_path: Path, brokers: int) -> None:
    write(read_groups([STOPPED], SETTINGS), tmp_path / "out", brokers)
    async with open_cluster(port=0, brokers=brokers, data_dir=tmp_path / "out") as cluster:
        groups = cluster.groups()
        stable = groups["c-stable"]
        assert (stable.state, stable.generation, len(stable.members), stable.protocol) == ("Stable", 2, 3, "range")
        assert sorted(n for each in stable.members for n in each.assignment["orders"]) == [0, 1, 2, 3]
        new = groups["n-stable"]
        assert (new.state, new.generation, len(new.members), new.group_type) == ("Stable", 3, 3, "consumer")
        assert sorted(n for each in new.members for n in each.assignment["orders"]) == [0, 1, 2, 3]
        assert cluster.committed("s-simple") == {("orders", 0): 5, ("bills-2026-01", 1): 2**40}
        assert cluster.committed("t-overtaken") == {("orders", 0): 9, ("orders", 1): 7}


def test_groups_larger_than_a_batch(tmp_path: Path) -> None:
    log_dir = LogDir(tmp_path / "logs")
    log_dir.write(*(commit("g", n, n) for n in range(2 * data_dir.RECORDS_PER_BATCH + 1)))
    result = read_groups([log_dir.folder], SETTINGS)
    assert write(result, tmp_path / "out") == []
    assert groups_of(read_groups([tmp_path / "out"], SETTINGS)) == groups_of(result)


def test_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    result = read_groups([STOPPED], SETTINGS)
    before = sorted(STOPPED.rglob("*"))
    (tmp_path / "file").touch()
    for folder in (STOPPED, tmp_path, tmp_path / "file"):
        with pytest.raises(DataDirError, match="the folder is not empty; use an empty or a new one"):
            write(result, folder)
    assert sorted(STOPPED.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    write(result, tmp_path / "empty")
    assert "c-stable" in read_groups([tmp_path / "empty"], SETTINGS).groups

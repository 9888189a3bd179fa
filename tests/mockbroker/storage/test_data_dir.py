"""A data directory over a pretend disk: what was made sure is there after a crash at any moment, once and in order."""

from __future__ import annotations

import pytest
from tools.story import Story, ids, nodes, opened, tell

from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.pretend import CrashError, PretendDisk, none


def half(unsure: int) -> int:
    return unsure // 2


def everything(unsure: int) -> int:
    return unsure


CRASHES = {  # what survives of unsynced bytes, and of unsynced names
    "nothing": (none, False),
    "names": (none, True),
    "half of the bytes": (half, False),
    "names and half of the bytes": (half, True),
    "all bytes": (everything, False),
    "everything, as after kill -9": (everything, True),
}


def crash_at(disk: PretendDisk, number: int) -> None:
    """The machine goes down in the operation of this number, from now on."""
    number += disk.operations

    def before(operation: str, file: str) -> None:
        if disk.operations >= number:
            raise CrashError(f"{operation} {file}")

    disk.before = before


def go_on(disk: PretendDisk) -> None:
    disk.before = lambda *_: None


def told(disk: PretendDisk) -> Story:
    story = Story(DataDir(disk, "DIR"))
    try:
        story.data_dir.open(nodes(), ids())
        tell(story)
    except CrashError:
        pass
    return story


def length() -> int:
    disk = PretendDisk()
    told(disk)
    return disk.operations


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_at_every_operation(crash: str) -> None:
    survives, names = CRASHES[crash]
    total = length()
    assert total > 100
    for number in range(1, total + 1):
        disk = PretendDisk()
        crash_at(disk, number)
        story = told(disk)
        go_on(disk)
        disk.crash(survives, names=names)
        story.check(opened(disk, 1_000).cluster)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_while_another_is_mended(crash: str) -> None:
    survives, names = CRASHES[crash]
    for number in range(1, length() + 1, 3):
        for second in range(1, 40):
            disk = PretendDisk()
            crash_at(disk, number)
            story = told(disk)
            disk.crash(survives, names=names)
            crash_at(disk, second)
            try:
                opened(disk, 1_000)
            except CrashError:
                pass
            else:
                break  # it had less to do
            go_on(disk)
            disk.crash(survives, names=names)
            story.check(opened(disk, 2_000).cluster)

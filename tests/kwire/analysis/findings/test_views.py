"""The names of members, and the search for high watermarks, in the view of a group."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tools.handmade_calls import CallLog

from kwire.analysis.findings.views import BLOCK, GroupView

PLACE = "tea", 0


class Counted(list[tuple[int, int]]):
    """A list that counts how often its elements are read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return super().__getitem__(index)


def view(marks: Sequence[tuple[int, int]]) -> GroupView:
    return GroupView("g", [], [], [], [], [], [], {PLACE: marks})


@pytest.mark.parametrize("seed", range(20))
def test_the_first_mark_above_an_offset(seed: int) -> None:
    random = Random(seed)
    marks = [(2 * number, random.choice([3, random.randrange(1_000)])) for number in range(random.randrange(1_200))]
    group = view(marks)
    for _ in range(50):
        offset, since = random.choice([2, 999, random.randrange(1_000)]), random.randrange(-1, 2_500)
        before = [mark for mark in marks if mark[0] <= since][-1:]
        after = [ts for ts, mark in marks if ts > since and mark > offset]
        expected = since if before and before[0][1] > offset else after[0] if after else None
        assert group.first_mark_above(PLACE, offset, since) == expected


def test_a_search_reads_few_of_many_marks() -> None:
    """Otherwise, the work for a capture with commits beyond the end of the log would be quadratic in its size."""
    marks = Counted((number, 5) for number in range(100 * BLOCK))
    group = view(marks)
    group.first_mark_above(PLACE, 10, 0)
    marks.reads = 0
    assert group.first_mark_above(PLACE, 10, 1) is None
    assert marks.reads < 2 * BLOCK


def test_leader_client_id_names_no_other_member() -> None:
    """The SyncGroup of B contains the assignment of A."""
    log = CallLog()
    log.join("a", 0, 1, took=10)
    log.join("b", 0, 1, "b", "a", took=10)
    log.sync("b", 20, 1, [1], {"a": [0], "b": [1]})
    log.sync("a", 20, 1, [0])
    log.commit("a", 500, 0, 0, 5, error=22)
    sentences = [row["sentence"] for row in log.tables()["findings"] if row["finding"] == "stale-commit"]
    assert [sentence.split(" to ")[0] for sentence in sentences] == ["`a` sent 1 stale commit"]

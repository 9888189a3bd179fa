"""The tables of a group whose journal is known, when packets are lost or cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.lossy import WHOLE, Score, Scores, degraded, known_story, scores
from tools.story import Story


@pytest.fixture(scope="module")
def story() -> Story:
    return known_story(0)


def found(story: Story, folder: Path, lost: float = 0.0, snap: int = WHOLE) -> Scores:
    return scores(story, degraded(story, lost, snap), folder)


def test_whole_capture_equals_the_journal(story: Story, tmp_path: Path) -> None:
    for score in vars_of(found(story, tmp_path)):
        assert score == Score(known=score.known, found=score.known)
        assert score.known > 5


def test_lost_packets_give_no_wrong_row_without_a_mark(story: Story, tmp_path: Path) -> None:
    shown = found(story, tmp_path, lost=0.05)
    assert 0.5 * shown.commits.known < shown.commits.found < shown.commits.known
    assert [score.unmarked for score in vars_of(shown)] == [0, 0, 0]


def test_snap_length_of_96_shows_no_calls(story: Story, tmp_path: Path) -> None:
    assert [score.found for score in vars_of(found(story, tmp_path, snap=96))] == [0, 0, 0]


def vars_of(shown: Scores) -> list[Score]:
    return [shown.generations, shown.members, shown.commits]

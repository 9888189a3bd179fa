from __future__ import annotations

from dataclasses import replace

import pytest
from tools.handmade_calls import two_members

from kwire.analysis.live import LiveState
from kwire.analysis.live_groups import LiveGroup
from kwire.cli.top_text import fitted, frame, text_width


def many_groups(count: int) -> LiveState:
    """Return a state with ``count`` groups, of which the first is the one with members."""
    state = LiveState()
    for call in two_members().calls:
        state.note(call)
    billing = state.groups["billing"]
    billing.members |= {f"x{number}": replace(billing.members["a"]) for number in range(12)}
    for number in range(1, count):
        state.groups[f"a-group-with-a-long-name-{number}"] = LiveGroup()
    return state


@pytest.mark.parametrize("columns", [40, 60, 79, 80, 120, 200])
@pytest.mark.parametrize("lines", [10, 24, 60])
def test_a_frame_fits_the_terminal(columns: int, lines: int) -> None:
    """The cursor is in the line after the frame, so a frame of ``lines`` lines would scroll."""
    state = many_groups(40)
    state.lost = 13_144
    shown = list(frame(state, columns, lines))
    assert max(map(text_width, shown)) <= columns
    assert len(shown) < lines
    assert any("13144 packets lost" in line for line in shown)


def test_a_narrow_terminal_keeps_members_and_lag() -> None:
    titles = [
        next(line for line in frame(many_groups(1), width) if line.startswith("group ")) for width in (40, 60, 200)
    ]
    assert [title.split() for title in titles] == [
        ["group", "members", "lag"],
        ["group", "members", "gener.", "rebalances", "lag"],
        ["group", "protocol", "members", "gener.", "rebalances", "lag", "refused", "last", "rebalance"],
    ]


def test_members_are_left_out_before_groups() -> None:
    shown = list(frame(many_groups(3), 110, 9))
    assert shown[-1].startswith("  2 partitions: a x0 at ")
    assert [line.split()[0] for line in shown[2:]] == [
        "a-group-with-a-long-name-2",
        "a-group-with-a-long-name-1",
        "billing",
        "2",
        "2",
    ]


def test_groups_that_are_left_out_are_counted() -> None:
    assert list(frame(many_groups(31)))[-1] == "and 1 more group"
    assert list(frame(many_groups(40), 80, 24))[-1] == "and 20 more groups"


def test_wide_characters_take_two_columns() -> None:
    assert fitted("日本語グループ", 14) == "日本語グループ"
    assert fitted("日本語グループ", 13) == "日本語グル.."
    assert fitted("billing", 6) == "bill.."

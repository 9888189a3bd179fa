"""The text that ``kwire top`` prints: totals, then a table of groups with their members, as large as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from unicodedata import combining, east_asian_width

from kwire.analysis.live import LiveState
from kwire.analysis.live_groups import LiveGroup
from kwire.analysis.report.by_group import moment
from kwire.command import one_line
from kwire.counted import counted

MOST_GROUPS = 30
MOST_MEMBERS = 10
WIDTHS = {  # of the columns after the group id
    "protocol": 9,
    "members": 8,
    "gener.": 7,
    "rebalances": 10,
    "lag": 10,
    "refused": 9,
    "last rebalance": 15,
}
LEFT_OUT = ("last rebalance", "protocol", "refused", "gener.", "rebalances", "members")  # in this order, if too narrow
NAME_WIDTH = 40  # of group ids, if there is no terminal
LEAST_NAME_WIDTH = 16  # of group ids in a terminal
OTHER_LINES = 3  # titles, number of further groups, and the line of the cursor


def frame(state: LiveState, columns: int | None = None, lines: int | None = None) -> Iterator[str]:
    """Yield the lines that ``kwire top`` prints.

    The groups with the latest events are first. At most MOST_GROUPS groups, and MOST_MEMBERS members of each group, are
    included.

    Args:
        state: live state of all groups.
        columns: width of the terminal; None for no limit. Columns of the table that do not fit are left out, and longer
            lines are cut.
        lines: height of the terminal; None for no limit. Members that do not fit are left out first, then groups.
    """
    for line in _whole_lines(state, columns, lines):
        yield line if columns is None else fitted(line, columns)


def _whole_lines(state: LiveState, columns: int | None, lines: int | None) -> Iterator[str]:
    """Yield the lines of ``frame`` before they are cut. Arguments: those of ``frame``."""
    groups = list(reversed(state.groups.items()))
    totals = list(_totals(state, columns))
    room = len(groups) if lines is None else max(lines - len(totals) - OTHER_LINES, 0)
    shown = groups[: min(MOST_GROUPS, room)]
    table = _Table(columns, (name for name, _ in shown))
    yield from totals
    yield table.line("group", {title: title for title in WIDTHS})
    room = MOST_GROUPS * (MOST_MEMBERS + 1) if lines is None else room - len(shown)
    for name, group in shown:
        yield table.line(name, _cells(state, group))
        members = list(_members(group))[:room]
        yield from members
        room -= len(members)
    if len(groups) > len(shown):
        yield f"and {counted(len(groups) - len(shown), 'more group')}"


def _totals(state: LiveState, columns: int | None) -> Iterator[str]:
    """Yield one line with the time and the totals, or more in a narrow terminal. ``columns``: width of the terminal."""
    line = f"{(moment(state.clock_us) or '')[:19]} UTC" if state.now_us else "no calls yet"
    counts = [
        counted(len(state.groups), "group"),
        counted(sum(api.requests for api in state.apis.values()), "request"),
        counted(sum(state.errors.values()), "error"),
        counted(state.problems, "problem"),
    ]
    if state.lost:
        counts.append(f"{counted(state.lost, 'packet')} lost")
    for count in counts:
        if columns is not None and len(line) + 2 + len(count) > columns:
            yield line
            line = count
        else:
            line = f"{line}  {count}"
    yield line


def _cells(state: LiveState, group: LiveGroup) -> Mapping[str, object]:
    """Return the values of a group by title of the column."""
    lags = [lag for *_, lag in state.lags(group) if lag is not None]
    ago = None if group.rebalanced_us is None else (state.clock_us - group.rebalanced_us) / 1e6
    return {
        "protocol": group.protocol or "",
        "members": len(group.members),
        "gener.": "-" if group.generation is None else group.generation,
        "rebalances": group.rebalances,
        "lag": sum(lags) if lags else "-",
        "refused": group.refused,
        "last rebalance": "" if ago is None else f"{ago:.0f} s ago",
    }


def _members(group: LiveGroup) -> Iterator[str]:
    """Yield a line for each of the first MOST_MEMBERS members of a group, and a line with the number of the others."""
    for member_id, member in list(group.members.items())[:MOST_MEMBERS]:
        share = counted(member.partitions, "partition")
        yield one_line(f"  {share}: {member.client_id or ''} {member_id} at {member.host}")
    if len(group.members) > MOST_MEMBERS:
        yield f"  and {counted(len(group.members) - MOST_MEMBERS, 'more member')}"


class _Table:
    """The table of groups, with the columns that fit into the terminal.

    Args:
        columns: width of the terminal; None for no limit.
        names: group ids.
    """

    def __init__(self, columns: int | None, names: Iterable[str]) -> None:
        self._titles = list(WIDTHS)
        self._name_width, self._is_cut = NAME_WIDTH, columns is not None
        if columns is None:
            return
        for title in LEFT_OUT:
            if self._width_of_names(columns) < LEAST_NAME_WIDTH:
                self._titles.remove(title)
        longest = max((text_width(one_line(name)) for name in names), default=0)
        self._name_width = max(min(self._width_of_names(columns), longest), LEAST_NAME_WIDTH)

    def _width_of_names(self, columns: int) -> int:
        """Return the width that the other columns leave for group ids. ``columns``: width of the terminal."""
        return columns - sum(1 + WIDTHS[title] for title in self._titles)

    def line(self, name: str, cells: Mapping[str, object]) -> str:
        """Return a line of the table.

        Args:
            name: group id, or the title of its column.
            cells: values by title of the column.
        """
        name = one_line(name)
        if self._is_cut:
            name = fitted(name, self._name_width)
        padding = " " * (self._name_width - text_width(name))
        values = (f"{cells[title]:{'<' if title == 'protocol' else '>'}{WIDTHS[title]}}" for title in self._titles)
        return " ".join([name + padding, *values]).rstrip()


def text_width(text: str) -> int:
    """Return the number of columns of a terminal that printable text takes: 2 for each wide character, as in CJK."""
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def fitted(text: str, width: int) -> str:
    """Return text that takes at most ``width`` columns of a terminal. Longer text is cut and ends in ``..``."""
    if text_width(text) <= width:
        return text
    kept = text[:width]
    while kept and text_width(kept) + 2 > width:
        kept = kept[:-1]
    return f"{kept}.."[:width]

"""The data of a group's swim lanes: the periods of membership, the reader of each partition over time, and the lag at
commits.

The page contains the data as compressed JSON, with times in units of 0.1 ms. ``page.js`` draws the lanes from the data,
by member and by partition.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kwire.analysis.columns import MS, Row, Tables
from kwire.analysis.events import partition_name
from kwire.analysis.transactions import COMMITTED

MOST_LANES = 200  # members, or partitions
MOST_POINTS = 4000  # commits of one group
UNIT = 100  # µs

Key = tuple[str | None, int, int]  # protocol, life and generation


def packed(content: Any) -> str:
    """Return content as compressed JSON in base64, because base64 contains no characters of HTML markup."""
    return b64encode(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0)).decode()


def lanes(own: Tables, called: dict[str, str]) -> dict[str, Any] | None:
    """Return the data of the swim lanes of a group, as JSON values; None if the group has no generation with members.

    Times are in units of 0.1 ms. ``begin`` is relative to 1970, and all further times are relative to ``begin``.

    - A member has ``bands`` (periods of reading, encoded by ``_differences``) and ``open``. The latter are stops that
      did not end, each with the index of a generation, begin and end.
    - ``owners`` of a partition are pairs: the index of a generation, and the index of the member that owns the
      partition from this generation on. The index is -1 if no member owns the partition.

    Args:
        own: rows of the group by table name.
        called: display names by member id.
    """
    end = max((row["ts"] for row in own["group_events"]), default=0)
    keys = _generations(own["members"])
    if not keys:
        return None
    by_member: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(own["members"], key=lambda row: (row["joined_ts"] or 0, row["generation"])):
        by_member[row["member_id"]].append(row)
    drawn = dict(list(by_member.items())[:MOST_LANES])
    times = [row[name] for row in own["members"] for name in ("stopped_ts", "resumed_ts") if row[name] is not None]
    begin = min([*times, *(row["ts"] for row in own["group_events"])], default=0) // UNIT
    places = {member: place for place, member in enumerate(by_member)}
    partitions, owners = _owners(own["assignments"], keys, places)
    commits, left_out = _commits(own["offset_commits"], partitions, begin)
    return {
        "begin": begin,
        "end": end // UNIT - begin,
        "generations": [[life, generation] for _, life, generation in keys],
        "names": [called[member] for member in by_member],
        "members": [_lane(rows, end, begin, keys) for rows in drawn.values()],
        "partitions": partitions[:MOST_LANES],
        "owners": owners[:MOST_LANES],
        "commits": commits,
        "left_out": [len(by_member) - len(drawn), max(len(partitions) - MOST_LANES, 0), left_out],
        "rebalances": [_rebalance(row, begin, keys) for row in own["rebalances"]],
    }


def _generations(members: Iterable[Row]) -> dict[Key, int]:
    """Return the index of each generation on the page. Generations are numbered from 0, by life and then by start time.

    ``members``: rows of ``members``."""
    first: dict[Key, int] = {}
    for row in members:
        key = row["protocol"], row["life"] or 1, row["generation"]
        moment = row["resumed_ts"] or row["stopped_ts"] or row["joined_ts"] or 0
        first[key] = min(moment, first.get(key, moment))
    ordered = sorted(first, key=lambda key: (key[1], first[key], key[2], key[0] or ""))
    return {key: index for index, key in enumerate(ordered)}


def _key(row: Row, generation: str = "generation") -> Key:
    return row["protocol"], row["life"] or 1, row[generation]


def _lane(rows: Sequence[Row], end: int, begin: int, keys: dict[Key, int]) -> dict[str, Any]:
    bands: list[list[int]] = []
    unfinished: list[list[int]] = []
    for row, until in zip(rows, _ends(rows, end), strict=True):
        resumed, stopped = row["resumed_ts"], row["stopped_ts"]
        index = keys[_key(row)]
        if resumed is not None:
            since = 0 if stopped is None else max(resumed - stopped, 0)
            last = max(until, resumed) // UNIT - begin
            bands.append([index, resumed // UNIT - begin, last, -(-since // UNIT)])
        elif stopped is not None:
            unfinished.append([index, stopped // UNIT - begin, max(until, stopped) // UNIT - begin])
    return {"bands": _differences(bands), "open": unfinished}


def _differences(bands: Iterable[Sequence[int]]) -> list[int]:
    """Return the bands of a member as differences, because differences compress well.

    A band is a period in which the member reads. Each band becomes four numbers: the change of the generation index
    since the previous band, the gap since the previous band, the length of the band, and the length of the stop before
    the band minus the gap.

    ``bands``: for each band, the index of its generation, the begin, the end, and the length of the stop before it, in
    units of 0.1 ms.
    """
    made: list[int] = []
    before, last = 0, 0
    for index, begin, end, stopped in bands:
        made += [index - before, begin - last, end - begin, stopped - (begin - last)]
        before, last = index, end
    return made


def _ends(rows: Sequence[Row], end: int) -> list[int]:
    """Return the end of each generation of a member, in microseconds since 1970.

    A generation ends at the member's next stop or next assignment, or when its membership ends.

    Args:
        rows: rows of ``members`` of one member, in order.
        end: time of the group's last event, in microseconds since 1970.
    """
    ends: list[int] = []
    later: int | None = None
    for row in reversed(rows):
        last: int | None = row["left_ts"]
        ends.append(min(one for one in (later, end if last is None else last) if one is not None))
        begins = _stops_reading(row)
        later = later if begins is None else begins
    return ends[::-1]


def _stops_reading(row: Row) -> int | None:
    """Return the time at which a member revoked its previous assignment, in microseconds since 1970.

    If the row has no ``stopped_ts``, the result is ``resumed_ts``, which may be None.

    This may be later than ``stopped_ts`` of the row: ``stopped_ts`` also counts the time in which partitions that the
    member received had no reader. ``row``: row of ``members``.
    """
    stopped: int | None = row["stopped_ts"]
    resumed: int | None = row["resumed_ts"]
    waited: float | None = row["join_ms"]
    if stopped is None or resumed is None or waited is None:
        return resumed if stopped is None else stopped
    return max(stopped, resumed - round(waited * MS))


def _owners(
    assignments: Iterable[Row], keys: dict[Key, int], places: dict[str, int]
) -> tuple[list[str], list[list[int]]]:
    """Return the names of all partitions in order, and the changes of owner of each partition.

    The changes are a flat list: index of a generation, index of the new owner (-1 for no owner), and the same for the
    next change.

    Args:
        assignments: rows of ``assignments``.
        keys: index of each generation, by protocol, life and generation.
        places: indexes of members by member id.
    """
    owned: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for row in assignments:
        index = keys.get(_key(row))
        if index is not None:
            owned[row["topic"], row["partition"]][index] = places.get(row["member_id"], -1)
    made = []
    for _, by_index in sorted(owned.items()):
        changes: list[int] = []
        before = -1
        for index in range(len(keys)):
            owner = by_index.get(index, -1)
            if owner != before:
                changes += [index, owner]
            before = owner
        made.append(changes)
    return [partition_name(*place) for place in sorted(owned)], made


def _commits(rows: Iterable[Row], partitions: list[str], begin: int) -> tuple[dict[str, list[list[int]]], int]:
    """Return the successful offset commits for the swim lanes, and the number of commits that were left out.

    A commit is its time since ``begin`` in units of 0.1 ms, and the lag (-1 if unknown). The key is the partition name.
    If there are more than MOST_POINTS commits, two kinds of commits remain for each partition: every nth commit, where
    n is the smallest sufficient number, and the commit with the largest lag. Commits to partitions after the first
    MOST_LANES are not returned, and the number does not include them.

    Args:
        rows: rows of ``offset_commits``.
        partitions: names of the partitions in the page's order; empty to include all partitions.
        begin: beginning of the swim lanes, in units of 0.1 ms since 1970.
    """
    lines: dict[str, list[list[int]]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == COMMITTED:
            lag = -1 if row["lag"] is None else row["lag"]
            lines[partition_name(row["topic"], row["partition"])].append([row["ts"] // UNIT - begin, lag])
    drawn = {name: points for name, points in lines.items() if name in partitions[:MOST_LANES] or not partitions}
    number = sum(map(len, drawn.values()))
    step = -(-number // MOST_POINTS) or 1
    kept: dict[str, list[list[int]]] = {}
    for name, points in sorted(drawn.items()):
        largest = max(points, key=lambda point: point[1])
        chosen = points[::step]
        kept[name] = chosen if largest in chosen else sorted([*chosen, largest])
    return kept, number - sum(map(len, kept.values()))


def _rebalance(row: Row, begin: int, keys: dict[Key, int]) -> list[int]:
    """Return begin and end of a rebalance, and the indexes of the generations before and after it (-1 if unknown).

    Begin and end are since ``begin`` in units of 0.1 ms.

    Args:
        row: row of ``rebalances``.
        begin: beginning of the swim lanes, in units of 0.1 ms since 1970.
        keys: index of each generation, by protocol, life and generation.
    """
    ended = row["ended_ts"] or row["joined_ts"] or row["started_ts"]
    generations = (
        -1 if row[name] is None else keys.get(_key(row, name), -1) for name in ("from_generation", "to_generation")
    )
    return [row["started_ts"] // UNIT - begin, ended // UNIT - begin, *generations]

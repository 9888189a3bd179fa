"""The evidence of detectors: a bounded summary of the heartbeats, commits, high watermarks and fetches of a group.

A stream does not keep all rows of a group (``groups.thinning``). It keeps an ``Evidence`` of the rows up to a time,
which has one small object for each member and partition. ``Evidence.after`` adds the rows after this time. A capture
that is read at once uses the same function, with all rows after an empty ``Evidence``. So the detectors have the same
input in both cases, however the rows are divided. An ``Evidence`` does not depend on thresholds, and its objects are
never changed. All times are microseconds since 1970.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, compress, pairwise
from operator import attrgetter, sub
from typing import NamedTuple, Protocol

from kwire.analysis.columns import Row, column_of, values_of
from kwire.analysis.events import GroupEvent, error_name
from kwire.analysis.findings.model import MOST_EVIDENCE
from kwire.analysis.findings.observations import FetchSpan
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass

SAMPLES = 128  # most lags of a partition that are kept
_DIGITS = 3  # of an interval between heartbeats in ms: so there are at most 900 values for each power of ten
_NO_SIGNS = {"planned", "leave", "txn_commit", "txn_commit_error"}  # kinds of events
_ASKED = {"join_sent", "sync_sent"}
_COMMITS = {"commit", "commit_error"}
ALIVE = {"heartbeat", "heartbeat_error"}
_STALE_KINDS = {"commit_fenced", "commit_old_generation", "commit_not_owner"}  # of violations
_STALE_CODES = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
}
Place = tuple[str, int]  # topic and partition


class Committed(NamedTuple):
    """A successful offset commit of one partition: the columns of ``offset_commits`` with the same names."""

    ts: int
    offset: int
    lag: int | None
    member_id: str | None
    client_id: str | None


class GroupRows(Protocol):
    """The rows of one group in one cluster: a ``GroupView``."""

    @property
    def rebalances(self) -> Sequence[Row]: ...
    @property
    def members(self) -> Sequence[Row]: ...
    @property
    def commits(self) -> Sequence[Row]: ...
    @property
    def violations(self) -> Sequence[Row]: ...
    @property
    def marks(self) -> Mapping[Place, Sequence[tuple[int, int]]]: ...
    @property
    def spans(self) -> Sequence[FetchSpan]: ...
    @cached_property
    def memberships(self) -> Mapping[tuple[int, str], Row]: ...
    @cached_property
    def of_member(self) -> Mapping[str, Sequence[GroupEvent]]: ...
    @cached_property
    def of_partition(self) -> Mapping[Place, Sequence[Committed]]: ...
    @cached_property
    def end(self) -> int: ...
    def between(self, low: int, high: int) -> Sequence[GroupEvent]: ...
    def first_mark_above(self, place: Place, offset: int, since: int) -> int | None: ...


@dataclass(slots=True)
class Silence:
    """The longest time in which a member sent nothing. Time in which it waits for a rebalance does not count.

    Attributes:
        last: time and kind of the last event that shows that the member is alive.
        begin: time and kind of the last event before the silence; None if there is only one event.
        end: time and kind of the first event after it.
    """

    last: tuple[int, str]
    begin: tuple[int, str] | None = None
    end: tuple[int, str] | None = None

    @property
    def length(self) -> int:
        """Duration in microseconds; 0 without a silence."""
        return self.end[0] - self.begin[0] if self.begin and self.end else 0


@dataclass(slots=True)
class Beats:
    """The intervals between the heartbeats of a member.

    Attributes:
        last: time and kind of the last event that shows that the member is alive, without commits.
        intervals: number of intervals by length: whole milliseconds, rounded down to three digits.
        asked: interval in ms that the broker requested last (KIP-848 groups); None if it requested none.
    """

    last: tuple[int, str]
    intervals: dict[int, int] = field(default_factory=dict)
    asked: int | None = None


@dataclass(slots=True)
class Lags:
    """The lag of a partition at its commits.

    Attributes:
        first: time and lag of the first commit with a known lag.
        last: time and lag of the last one.
        count: number of these commits.
        step: each commit whose number is a multiple of this power of two is a sample. The first number is 0.
        samples: lags of the samples, at most SAMPLES.
    """

    first: tuple[int, int]
    last: tuple[int, int]
    count: int
    step: int
    samples: list[int]


@dataclass(slots=True)
class Growth:
    """The offsets of a partition in its commits and high watermarks.

    Attributes:
        low: lowest offset.
        high: highest offset.
        begin: time of the first one.
        end: time of the last one.
    """

    low: int
    high: int
    begin: int
    end: int


@dataclass(slots=True)
class Standstill:
    """A period in which the committed offset of a partition was the same, and the longest such period before it.

    Attributes:
        begin: time of the first commit with this offset.
        offset: the offset.
        member_id: member of the last commit.
        since: time from which the partition has a record after the offset; None if it has none.
        longest: the longest earlier period with such a record: ``since``, the time of the next commit with another
            offset, and the offset. None if there was none.
    """

    begin: int
    offset: int
    member_id: str | None
    since: int | None = None
    longest: tuple[int, int, int] | None = None


@dataclass(slots=True)
class CommitGap:
    """The longest time in which a member committed nothing, although its partitions had new records.

    The partitions of a member are those whose last commit is from it.

    Attributes:
        client_id: client id of the first commit.
        last: time of the last commit.
        begin: time of the first new record, but not before the previous commit.
        end: time of the next commit; 0 without a gap.
        after: time of the previous commit.
        alive: time of the last heartbeat up to ``end``; -1 without one.
        fetched: latest end of a fetch that began up to ``end``; -1 without one.
    """

    client_id: str | None
    last: int
    begin: int = 0
    end: int = 0
    after: int = 0
    alive: int = -1
    fetched: int = -1


@dataclass(slots=True)
class Polls:
    """The longest pause between the fetches of a member.

    Attributes:
        reached: end of the fetches so far.
        begin: begin of the pause.
        end: end of the pause; 0 if there was none.
        is_alive: whether the member sent a heartbeat in the pause.
    """

    reached: int
    begin: int = 0
    end: int = 0
    is_alive: bool = False


@dataclass(slots=True)
class Reads:
    """The times in which no member fetched a partition.

    Attributes:
        reached: end of the fetches so far.
        pauses: begin and end of the pauses that overlap with a rebalance.
    """

    reached: int
    pauses: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class StaleCommits:
    """The invalid commits of a member, see the detector ``stale-commit``.

    Attributes:
        count: number of commits, counted by partition.
        accepted: number of commits without an error.
        errors: names of the errors of the rejected commits.
        client_id: client id of the first commit.
        begin: time of the first commit.
        end: time of the last commit.
        first: time, topic and partition of the first MOST_EVIDENCE commits.
    """

    count: int
    accepted: int
    errors: set[str]
    client_id: str | None
    begin: int
    end: int
    first: list[tuple[int, str | None, int | None]]


@dataclass(slots=True)
class Evidence:
    """The evidence of detectors for one group in one cluster: a summary of the rows up to a time.

    Attributes:
        until: time up to which rows are included.
        end: latest time in the data of the group when rows were added last, see ``GroupView.end``.
        decided: number of included commits in transactions that were committed.
        silences: by member id.
        beats: by member id.
        lags: by topic and partition.
        growths: by topic and partition.
        standstills: by topic and partition.
        commits: time of the last successful commit, by member id.
        stale: by member id; the key is empty for commits without a member id.
        heartbeats: time of the last successful heartbeat, by member id.
        fetched: latest end of a fetch that began up to ``until``; -1 without one.
        gaps: by member id.
        polls: by life and member id.
        reads: by topic and partition.
    """

    until: int = -1
    end: int = 0
    decided: int = 0
    silences: dict[str, Silence] = field(default_factory=dict)
    beats: dict[str, Beats] = field(default_factory=dict)
    lags: dict[Place, Lags] = field(default_factory=dict)
    growths: dict[Place, Growth] = field(default_factory=dict)
    standstills: dict[Place, Standstill] = field(default_factory=dict)
    commits: dict[str | None, int] = field(default_factory=dict)
    stale: dict[str, StaleCommits] = field(default_factory=dict)
    heartbeats: dict[str, int] = field(default_factory=dict)
    fetched: int = -1
    gaps: dict[str, CommitGap] = field(default_factory=dict)
    polls: dict[tuple[int, str], Polls] = field(default_factory=dict)
    reads: dict[Place, Reads] = field(default_factory=dict)

    def is_valid_for(self, group: GroupRows) -> bool:
        """Return whether no included row has changed: a commit in a transaction whose end became known later."""
        return self.decided == _decided(group, self.until)

    def after(self, group: GroupRows, until: int) -> Evidence:
        """Return the evidence of the rows up to ``until``.

        Args:
            group: the group, with all rows after ``self.until``, and all fetches that end after it. It may have earlier
                rows, which are not added again. Of the high watermarks of each partition up to ``self.until``, it must
                have the last one.
            until: time up to which rows are added, at least ``self.until``.
        """
        signs: dict[str, list[GroupEvent]] = defaultdict(list)
        for event in group.between(self.until + 1, until):
            if event.member_id and not event.inferred and event.event not in _NO_SIGNS:
                signs[event.member_id].append(event)
        commits = {place: own for place, rows in group.of_partition.items() if (own := self._fresh(rows, until))}
        marks = {place: some for place, every in group.marks.items() if (some := self._fresh_marks(every, until))}
        times: dict[str | None, dict[int, Committed]] = defaultdict(dict)  # a commit of each time, by member id
        for own in commits.values():
            for row in own:
                times[row.member_id].setdefault(row.ts, row)
        return Evidence(
            until=until,
            end=group.end,
            decided=_decided(group, until),
            silences=self.silences | {one: _silence(self.silences.get(one), own) for one, own in signs.items()},
            beats=self._beats(signs),
            lags=self._lags(commits),
            growths=self.growths
            | {
                place: _growth(self.growths.get(place), commits.get(place, ()), marks.get(place, ()))
                for place in {*commits, *marks}
            },
            standstills={
                place: standstill
                for place in {*self.standstills, *commits}
                if (standstill := self._standstill(place, commits.get(place, ()), group, until)) is not None
            },
            commits=self.commits | {member: max(own) for member, own in times.items()},
            stale=self._stale(group, until),
            heartbeats=self.heartbeats | {member: self.last_heartbeat(group, member, until) for member in signs},
            fetched=self.last_fetch(group, until),
            gaps=self._gaps(times, commits, group),
            polls=self._polls(group, until),
            reads=self._reads(group, until),
        )

    def last_heartbeat(self, group: GroupRows, member: str, until: int, kinds: Collection[str] = ("heartbeat",)) -> int:
        """Return the time of the last heartbeat of a member up to ``until``; -1 without one.

        Args:
            group: the group.
            member: member id.
            until: time in microseconds since 1970.
            kinds: kinds of events that count.
        """
        events = group.of_member.get(member, ())
        place = bisect_right(events, until, key=attrgetter("ts"))
        last = next((events[n].ts for n in range(place - 1, -1, -1) if events[n].event in kinds), -1)
        known = self.heartbeats.get(member, -1)
        return max(last, known if known <= until else -1)

    def last_fetch(self, group: GroupRows, until: int) -> int:
        """Return the latest end of a fetch of the group that began up to ``until``; -1 without one."""
        number = bisect_right(group.spans, until, key=attrgetter("begin"))
        return max([self.fetched, *(span.end for span in group.spans[:number])])

    def first_new(self, member: str) -> int | None:
        """Return the time of the first record of a member's partitions after their committed offsets; None without one.

        The result is at least the time of the last commit of the member.
        """
        own = [one.since for one in self.standstills.values() if one.member_id == member and one.since is not None]
        return max(min(own), self.gaps[member].last) if own else None

    def _gaps(
        self,
        times: Mapping[str | None, Mapping[int, Committed]],
        commits: Mapping[Place, Sequence[Committed]],
        group: GroupRows,
    ) -> dict[str, CommitGap]:
        """Return the gaps of all members after their new commits.

        Args:
            times: a commit of each time, by member id and time.
            commits: commits after ``self.until``, by topic and partition.
            group: the group, with the high watermarks and fetches.
        """
        places: dict[str | None, set[Place]] = defaultdict(set)  # that a member has committed
        for place, standstill in self.standstills.items():
            places[standstill.member_id].add(place)
        for place, rows in commits.items():
            for member in {row.member_id for row in rows}:
                places[member].add(place)
        found = dict(self.gaps)
        for member, own in times.items():
            if not member:
                continue
            known = {place: commits.get(place, ()) for place in places[member] if place in group.marks}
            ordered = sorted(own)
            gap = replace(found[member]) if member in found else CommitGap(own[ordered[0]].client_id, ordered[0])
            known_end = gap.end
            for ts in ordered:
                if ts - gap.last > gap.end - gap.begin:
                    begin = self._first_new(member, gap.last, ts, known, group)
                    if ts - begin > gap.end - gap.begin:
                        gap.begin, gap.end, gap.after = begin, ts, gap.last
                gap.last = ts
            if gap.end > known_end:
                gap.alive = self.last_heartbeat(group, member, gap.end, ALIVE)
                gap.fetched = self.last_fetch(group, gap.end)
            found[member] = gap
        return found

    def _first_new(
        self, member: str, since: int, until: int, commits: Mapping[Place, Sequence[Committed]], group: GroupRows
    ) -> int:
        """Return the time of the first record of a member's partitions after their committed offsets.

        The result is ``until`` without such a record before ``until``.

        Args:
            member: member id.
            since: time of the last commit of the member, which is the earliest result.
            until: time of its next commit. Partitions that another member has committed until then do not count.
            commits: commits after ``self.until`` of the partitions that the member has committed, by partition.
            group: the group, with the high watermarks.
        """
        first = until
        for place, rows in commits.items():
            known = self.standstills.get(place)
            number = bisect_left(rows, until, key=attrgetter("ts"))
            last = rows[number - 1] if number else known
            if last is None or last.member_id != member:
                continue
            above = known.since if known is not None and last is known else None
            if above is None:
                above = group.first_mark_above(place, last.offset, max(since, self.until))
            if above is not None:
                first = min(first, max(above, since))
        return first

    def _polls(self, group: GroupRows, until: int) -> dict[tuple[int, str], Polls]:
        """Return the longest pauses of all members between fetches that begin up to ``until``."""
        by_client: dict[tuple[str | None, str | None], list[FetchSpan]] = defaultdict(list)
        for span in group.spans:
            by_client[span.client_id, span.host].append(span)
        found = dict(self.polls)
        for about, row in group.memberships.items():
            joined, left = row["joined_ts"], row["left_ts"] or until
            if joined is None:
                continue
            known = found.get(about)
            polls = replace(known) if known is not None else None
            known_end = known.end if known is not None else 0
            for span in by_client.get((row["client_id"], row["host"]), ()):
                if span.begin > min(left, until):
                    break
                if span.end < joined:
                    continue
                if polls is None:
                    polls = Polls(span.end)
                if span.begin - polls.reached > polls.end - polls.begin:
                    polls.begin, polls.end = polls.reached, span.begin
                polls.reached = max(polls.reached, span.end)
            if polls is None:
                continue
            if polls.end > known_end:
                polls.is_alive = self.last_heartbeat(group, about[1], polls.end - 1) > polls.begin
            found[about] = polls
        return found

    def _reads(self, group: GroupRows, until: int) -> dict[Place, Reads]:
        """Return the pauses of all partitions between fetches that begin up to ``until``."""
        clients = {(row["client_id"], row["host"]) for row in group.members}
        starts = [row["started_ts"] for row in group.rebalances]
        latest = list(accumulate(map(ended_ts, group.rebalances), max))  # up to each rebalance
        found: dict[Place, Reads] = {place: Reads(one.reached, [*one.pauses]) for place, one in self.reads.items()}
        for span in group.spans[: bisect_right(group.spans, until, key=attrgetter("begin"))]:
            if (span.client_id, span.host) not in clients:
                continue
            reads = found.setdefault((span.topic, span.partition), Reads(span.end))
            begin, end = reads.reached, span.begin
            number = bisect_right(starts, end)
            if end > begin and number and latest[number - 1] >= begin:
                reads.pauses.append((begin, end))
            reads.reached = max(begin, span.end)
        return found

    def _fresh(self, rows: Sequence[Committed], until: int) -> Sequence[Committed]:
        """Return the commits after ``self.until``, up to ``until``."""
        low = bisect_right(rows, self.until, key=attrgetter("ts"))
        return rows[low : bisect_right(rows, until, key=attrgetter("ts"))]

    def _fresh_marks(self, marks: Sequence[tuple[int, int]], until: int) -> Sequence[tuple[int, int]]:
        """Return the high watermarks after ``self.until``, up to ``until``."""
        low = bisect_right(marks, (self.until, 2**63))
        return marks[low : bisect_right(marks, (until, 2**63))]

    def _beats(self, signs: Mapping[str, Sequence[GroupEvent]]) -> dict[str, Beats]:
        found = dict(self.beats)
        for member, own in signs.items():
            if kept := [sign for sign in own if sign.event not in _COMMITS]:
                found[member] = _beats(found.get(member), kept)
        return found

    def _lags(self, commits: Mapping[Place, Sequence[Committed]]) -> dict[Place, Lags]:
        found = dict(self.lags)
        for place, rows in commits.items():
            if known := [(row.ts, row.lag) for row in rows if row.lag is not None]:
                found[place] = _lags(found.get(place), known)
        return found

    def _standstill(self, place: Place, rows: Sequence[Committed], group: GroupRows, until: int) -> Standstill | None:
        """Return the standstill of a partition after its new commits.

        Args:
            place: topic and partition.
            rows: commits after ``self.until``, in order.
            group: the group, with the high watermarks.
            until: time up to which high watermarks count.
        """
        known = self.standstills.get(place)
        if known is None:
            known = Standstill(rows[0].ts, rows[0].offset, rows[0].member_id)
        begin, offset, since, longest = known.begin, known.offset, known.since, known.longest
        for row in rows:
            if row.offset == offset:
                continue
            if since is None:
                since = group.first_mark_above(place, offset, max(begin, self.until))
            if since is not None and row.ts - since > (longest[1] - longest[0] if longest else 0):
                longest = since, row.ts, offset
            begin, offset, since = row.ts, row.offset, None
        if since is None:
            since = group.first_mark_above(place, offset, max(begin, self.until))
            since = since if since is not None and since <= until else None
        return Standstill(begin, offset, rows[-1].member_id if rows else known.member_id, since, longest)

    def _stale(self, group: GroupRows, until: int) -> dict[str, StaleCommits]:
        names = "member_id", "ts", "topic", "partition"
        kinds = column_of(group.violations, "kind")
        places = values_of(group.violations, *names)
        seen = {place for kind, place in zip(kinds, places, strict=True) if kind in _STALE_KINDS}
        found = dict(self.stale)
        codes, clients = column_of(group.commits, "error_code"), column_of(group.commits, "client_id")
        if not seen and _STALE_CODES.isdisjoint(codes):
            return found
        for code, client_id, place in zip(codes, clients, values_of(group.commits, *names), strict=True):
            member, ts, topic, partition = place
            if not self.until < ts <= until or (code not in _STALE_CODES and place not in seen):
                continue
            known = found.get(member or "") or StaleCommits(0, 0, set(), client_id, ts, ts, [])
            found[member or ""] = StaleCommits(
                known.count + 1,
                known.accepted + (not code),
                known.errors | ({error_name(code) or ""} if code else set()),
                known.client_id,
                known.begin,
                ts,
                [*known.first, (ts, topic, partition)] if known.count < MOST_EVIDENCE else known.first,
            )
        return found


def ended_ts(rebalance: Row) -> int:
    """Return the latest known time of a rebalance. ``rebalance``: row of ``rebalances``."""
    ended: int = rebalance["ended_ts"] or rebalance["joined_ts"] or rebalance["started_ts"]
    return ended


def _decided(group: GroupRows, until: int) -> int:
    """Return the number of commits up to ``until`` in transactions that were committed."""
    transactional = column_of(group.commits, "transactional")
    if not any(transactional):
        return 0
    columns = values_of(group.commits, "ts", "outcome")
    return sum(ts <= until and outcome == "committed" for ts, outcome in compress(columns, transactional))


def _silence(known: Silence | None, signs: Sequence[GroupEvent]) -> Silence:
    """Return the longest silence of a member. ``signs``: further events that show that the member is alive."""
    every = [(sign.ts, sign.event) for sign in signs]
    if known is not None:
        every.insert(0, known.last)
    found = replace(known, last=every[-1]) if known else Silence(every[-1])
    longest = found.length
    times = [ts for ts, _ in every]
    if max(map(sub, times[1:], times), default=0) > longest:
        for begin, end in pairwise(every):
            if end[0] - begin[0] > longest and begin[1] not in _ASKED:
                longest, found.begin, found.end = end[0] - begin[0], begin, end
    return found


def _beats(known: Beats | None, signs: Sequence[GroupEvent]) -> Beats:
    """Return the intervals between the heartbeats of a member. ``signs``: further events, without commits."""
    times, kinds = [sign.ts for sign in signs], [sign.event for sign in signs]
    numbers = list(range(len(signs)))  # of the later event of each pair in ``signs``
    if known is not None:
        times.insert(0, known.last[0])
        kinds.insert(0, known.last[1])
    else:
        numbers.pop(0)
    pairs = zip(times, times[1:], kinds, kinds[1:], numbers, strict=False)
    beats = [(end - begin, n) for begin, end, a, b, n in pairs if a == b == "heartbeat" and end > begin]
    intervals = Counter(known.intervals if known else {})
    for ms, count in Counter(us // 1000 for us, _ in beats).items():
        unit = 10 ** max(len(str(ms)) - _DIGITS, 0)
        intervals[ms // unit * unit] += count
    asked = signs[beats[-1][1]].interval_ms if beats else known.asked if known else None
    return Beats((times[-1], kinds[-1]), dict(intervals), asked)


def _lags(known: Lags | None, lags: Sequence[tuple[int, int]]) -> Lags:
    """Return the lags of a partition. ``lags``: time and lag of further commits, in order, at least one."""
    count, step, samples = (known.count, known.step, known.samples) if known else (0, 1, [])
    samples = [*samples, *(lag for _, lag in lags[-count % step :: step])]
    while len(samples) > SAMPLES:
        samples, step = samples[::2], step * 2
    return Lags(known.first if known else lags[0], lags[-1], count + len(lags), step, samples)


def _growth(known: Growth | None, commits: Sequence[Committed], marks: Sequence[tuple[int, int]]) -> Growth:
    """Return the offsets of a partition, with further commits and high watermarks, each in order of time."""
    offsets = [*(row.offset for row in commits), *(offset for _, offset in marks)]
    times = [*(row.ts for row in (*commits[:1], *commits[-1:])), *(ts for ts, _ in (*marks[:1], *marks[-1:]))]
    if known is not None:
        offsets += known.low, known.high
        times += known.begin, known.end
    return Growth(min(offsets), max(offsets), min(times), max(times))

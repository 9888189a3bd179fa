"""Comparison of the captured history of a group with a replay: rows of ``what_if`` and ``what_if_assignments``.

A replay computes the assignments of all generations again, with an assignor that the user selects. docs/pipeline.md
defines the columns, and the assumptions for information that the capture lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis.columns import MS, Row
from kwire.analysis.events import CLASSIC
from kwire.analysis.groups.outcome import EAGER
from kwire.analysis.tables import ON_REQUEST, WHAT_IF, WHAT_IF_ASSIGNMENTS
from kwire.analysis.what_if.evidence import Evidence
from kwire.analysis.what_if.replay import Replay, Shares, replay_of
from kwire.analysis.what_if.rounds import MOST_PARTITIONS, Round, lives_of, rounds_of
from kwire.assignors import AssignorError, TopicPartition
from kwire.lazy_dataclass import dataclass

NO_SHARE_SEEN = "no member received an assignment"

Owners = dict[TopicPartition, str]


def fold(assignor: str, tables: Mapping[str, Sequence[Row]], evidence: Evidence) -> dict[str, Sequence[Row]]:
    """Replay all groups with one group id; return the rows of ``what_if`` and ``what_if_assignments`` by table name.

    If the assignor is unknown or fails, the row of the generation has the reason in the column ``note``.

    Args:
        assignor: name of the assignor with which the groups are replayed.
        tables: rows of these groups by table name, from ``history.fold``.
        evidence: subscriptions of members and partitions of topics.
    """
    rows_by_table: dict[str, list[Row]] = {name: [] for name in ON_REQUEST}
    for life in lives_of(tables):
        for name, row in _Group(assignor, evidence).rows(rounds_of(life, evidence)):
            rows_by_table[name].append(row)
    return {name: table.sorted(rows_by_table[name]) for name, table in ON_REQUEST.items()}


@dataclass(slots=True)
class _ReplayedGeneration:
    """The result of a replay in one generation.

    Attributes:
        shares: replayed assignment, by member id.
        before: last owner of each partition before this generation, in the replay.
        rebalances: number of rebalances that the replayed assignor needs.
        moved: number of partitions with a new owner.
        stopped: time without an owner, summed over all partitions, in microseconds.
    """

    shares: Shares
    before: Owners = field(default_factory=dict)
    rebalances: int = 0
    moved: int = 0
    stopped: int = 0


class _Group:
    """The replay of one life of a group, which ends when the group is deleted, expires or loses its state.

    Attributes:
        assignor: name of the assignor with which the group is replayed.
        evidence: subscriptions of members and partitions of topics.
        replay: assignor instances and their current assignments; None before the first replayed generation.
        shares: latest replayed assignment, by member id.
        owners: last owner of each partition in the replay.
        free: time at which a partition was revoked, in microseconds since 1970, for each partition without an owner in
            the replay.
        instances: latest member id of each static member, by instance id.
        pending: True if the replayed assignor needs a follow-up rebalance.
    """

    def __init__(self, assignor: str, evidence: Evidence) -> None:
        self.assignor = assignor
        self.evidence = evidence
        self.replay: Replay | None = None
        self.shares: Shares = {}
        self.owners: Owners = {}
        self.free: dict[TopicPartition, int] = {}
        self.instances: dict[str, str] = {}
        self.pending = False

    def rows(self, rounds: Sequence[Round]) -> Iterator[tuple[str, Row]]:
        """Yield pairs of table name and row: for each generation with members, its row and the rows of its assignment.

        A generation that cannot be replayed has the reason in the column ``note``, and no rows of an assignment.

        ``rounds``: generations of the life, in order.
        """
        for number, one in enumerate(rounds):
            if not one.members:
                self._forget()
                continue
            following = rounds[number + 1] if number + 1 < len(rounds) else None
            note = self._why_not(one)
            would = None
            if note is None:
                try:
                    would = self._would(one, following)
                except AssignorError as error:
                    note = f"{self.assignor}: {error}"
            yield WHAT_IF.name, self._row(one, would, note)
            if would is not None:
                yield from self._assignments(one, would)
            self._move_to_returned(one)

    def _forget(self) -> None:
        """Reset the replay, because the group has become empty: no partition has an owner."""
        self.replay, self.shares, self.owners, self.free, self.instances, self.pending = None, {}, {}, {}, {}, False

    def _replay(self, one: Round) -> Replay:
        """Return the replay of the group; create it for the first generation.

        If the generation before the first was not captured, the new replay begins with the captured assignment of the
        first generation.
        """
        if self.replay is None:
            self.replay = replay_of(self.assignor, one.row["protocol"], self.evidence.topic_id)
            if one.row["from_generation"] is None:
                self.replay.owns(one.shares, one.generation - 1)
        return self.replay

    @staticmethod
    def _why_not(one: Round) -> str | None:
        unknown = sum(member not in one.subscriptions for member in one.members)
        if unknown:
            return f"the subscriptions of {unknown} of {len(one.members)} members were not captured"
        if one.too_large is not None:
            return f"{one.too_large} would have more than {MOST_PARTITIONS} partitions"
        if any(one.shares.values()) and not one.topics:
            return "the partition counts of its topics were not captured"
        return None if one.informed else NO_SHARE_SEEN

    def _would(self, one: Round, following: Round | None) -> _ReplayedGeneration:
        replay = self._replay(one)
        self._same_instance(one)
        if one.follow_up and not self.pending:
            return _ReplayedGeneration(self.shares, self.owners)
        would = _ReplayedGeneration({}, dict(self.owners))
        self._assign(replay, one, would, extra=False)
        if (
            self.pending
            and (following is None or not following.follow_up)
            and self._has_time_for_follow_up(one, following)
        ):
            self._assign(replay, one, would, extra=True)
        return would

    @staticmethod
    def _has_time_for_follow_up(one: Round, following: Round | None) -> bool:
        """Return whether a follow-up rebalance of a generation would have begun before the next generation.

        The result is True if the next generation began after the rebalance of ``one`` had ended, and for the last
        generation.

        Args:
            one: the generation.
            following: the next generation; None for the last one.
        """
        return following is None or following.started >= one.ended

    def _assign(self, replay: Replay, one: Round, would: _ReplayedGeneration, *, extra: bool) -> None:
        wanted = {member: one.subscriptions[member] for member in one.members}
        self.shares, self.pending = replay.assign(wanted, one.topics, one.generation, one.informed)
        would.shares = self.shares
        would.rebalances += 1
        owners = {partition: member for member, share in self.shares.items() for partition in share}
        for partition, member in owners.items():
            before = self.owners.get(partition)
            if before is None:
                continue
            would.moved += before != member
            would.stopped += self._stop(replay.kind, one, partition, before, member, extra=extra)
        if self.pending:
            for partition, before in self.owners.items():
                if partition not in owners and before in one.member_rows:
                    self.free.setdefault(partition, one.resumed.get(before, one.ended))
        for partition in owners:
            self.free.pop(partition, None)
        self.owners |= owners

    def _stop(self, kind: str, one: Round, partition: TopicPartition, before: str, after: str, *, extra: bool) -> int:
        """Return the time for which a partition would have had no owner with the replayed assignor, in microseconds.

        Args:
            kind: rebalance protocol of the replayed assignor: ``eager``, ``cooperative`` or ``consumer``.
            one: the generation.
            partition: the partition.
            before: member id of the previous owner in the replay.
            after: member id of the new owner in the replay.
            extra: True if the partition moves in a follow-up rebalance that is not in the capture.
        """
        if kind == EAGER or (before != after and one.gave_up_by_itself(before, partition)):
            return _unowned_after_revocation(one, before, after)
        if before == after or after not in one.informed:
            return 0
        if extra:
            return one.ended - one.started
        if one.owners_before.get(partition) == before and partition in one.shares.get(after, ()):
            really = None if one.row["stw_kind"] == EAGER else one.measured.get((one.generation, partition))
            if really is not None:
                return really
        end = one.resumed.get(after, one.ended) if one.row["protocol"] == CLASSIC else one.ended
        if partition in self.free:
            return max(end - self.free[partition], 0)
        return max(end - one.gone.get(before, one.started), 0) if before not in one.present else end - one.started

    def _same_instance(self, one: Round) -> None:
        """Move the partitions of static members that rejoined with a new member id to the new member id."""
        self._rename({old: new for i, new in one.instances.items() if (old := self.instances.get(i, new)) != new})
        self.instances |= one.instances

    def _move_to_returned(self, one: Round) -> None:
        """Move the partitions of static members that returned after the rebalance to their new member ids."""
        for new in one.late:
            instance = one.member_rows[new]["instance_id"]
            old = self.instances.get(instance)
            self.instances[instance] = new
            if old is not None and self.replay is not None:
                self.replay.rename(old, new)
                self._rename({old: new})

    def _rename(self, moves: Mapping[str, str]) -> None:
        if moves:
            self.owners = {partition: moves.get(member, member) for partition, member in self.owners.items()}
            self.shares = {moves.get(member, member): share for member, share in self.shares.items()}

    # --- rows ---

    def _row(self, one: Round, would: _ReplayedGeneration | None, note: str | None) -> Row:
        stopped = None if not one.informed else _unowned_time(one)
        kind = None if self.replay is None else self.replay.kind
        row = WHAT_IF.row(
            **self._about(one),
            started_ts=one.started,
            protocol_name=one.row["protocol_name"],
            stw_kind=one.row["stw_kind"],
            stw_kind_what_if=kind,
            members=len(one.members),
            partitions=one.partitions(),
            sized_by=one.sized_by,
            moved=one.row["partitions_moved"],
            imbalance=_imbalance(one.members, one.shares) if one.informed else None,
            stopped_ms=None if stopped is None else stopped / MS,
            note=note,
        )
        if would is not None and stopped is not None:
            row |= {
                "rebalances_what_if": would.rebalances,
                "moved_what_if": would.moved,
                "imbalance_what_if": _imbalance(one.members, would.shares),
                "stopped_ms_what_if": would.stopped / MS,
                "avoided_ms": (stopped - would.stopped) / MS,
                "elsewhere": _elsewhere(one.shares, would.shares),
            }
        return row

    def _assignments(self, one: Round, would: _ReplayedGeneration) -> Iterator[tuple[str, Row]]:
        for member, share in would.shares.items():
            for topic, partition in share:
                yield (
                    WHAT_IF_ASSIGNMENTS.name,
                    WHAT_IF_ASSIGNMENTS.row(
                        **self._about(one),
                        member_id=member,
                        client_id=one.member_rows[member]["client_id"],
                        topic=topic,
                        partition=partition,
                        from_prev_owner=would.before.get((topic, partition)),
                    ),
                )

    def _about(self, one: Round) -> dict[str, Any]:
        about = {name: one.row[name] for name in ("capture_id", "group_id", "cluster", "life", "protocol")}
        return {**about, "generation": one.generation, "assignor": self.assignor}


def _unowned_time(one: Round) -> int:
    """Return how long partitions had no owner in the captured rebalance to a generation, in microseconds.

    The times of all assigned partitions are added up. Partitions that had no owner before the rebalance do not count.

    ``one``: the generation.
    """
    total = 0
    for member, share in one.shares.items():
        for partition in share:
            before = one.owners_before.get(partition)
            if before is None:
                continue
            if one.row["stw_kind"] == EAGER or (before != member and one.gave_up_by_itself(before, partition)):
                total += _unowned_after_revocation(one, before, member)
            elif before != member:
                total += one.measured.get((one.generation, partition), 0)
    return total


def _unowned_after_revocation(one: Round, before: str, after: str) -> int:
    """Return the time for which a partition has no owner if its previous owner revokes it before the rebalance.

    The result is in microseconds. In a classic group the time begins when the previous owner rejoins or leaves, and
    ends when the new owner receives its assignment. In a KIP-848 group, whose members do not rejoin, it begins and ends
    with the rebalance. The result is 0 if the new owner received no assignment.

    Args:
        one: the generation.
        before: member id of the previous owner.
        after: member id of the new owner.
    """
    if after not in one.informed:
        return 0
    classic = one.row["protocol"] == CLASSIC
    begin = one.asked.get(before, one.started) if classic else one.started
    if before not in one.present:
        begin = one.gone.get(before, begin)
    return max((one.resumed.get(after, one.ended) if classic else one.ended) - begin, 0)


def _imbalance(members: Sequence[str], shares: Mapping[str, Sequence[TopicPartition]]) -> int:
    sizes = [len(shares.get(member, ())) for member in members]
    return max(sizes) - min(sizes)


def _elsewhere(shares: Mapping[str, Sequence[TopicPartition]], others: Mapping[str, Sequence[TopicPartition]]) -> int:
    owners, would = (
        {partition: member for member, share in each.items() for partition in share} for each in (shares, others)
    )
    return sum(owners.get(partition) != would.get(partition) for partition in owners.keys() | would.keys())

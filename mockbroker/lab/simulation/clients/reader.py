"""The base class of clients that read partitions: their positions, commits, and lookups of committed offsets."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.plans import Place, by_topic

MOST_READ = 50  # maximum number of records between two commits

NOT_HERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Reader(Client):
    """A client that reads partitions and commits offsets.

    Attributes:
        positions: partition -> next offset to read. A partition has no entry until its committed offset is known.
        owned: partitions that the client reads.
        wants: whether an OffsetFetch request is in flight.
        polls_at: earliest virtual time of the next poll, seconds.
    """

    commit_version = 8

    def begin(self) -> None:
        self.positions: dict[Place, int] = {}
        self.owned: frozenset[Place] = frozenset()
        self.wants = False
        self.polls_at = 0.0
        self.later(self.script.commit * (0.5 + self.dice.random()), self._poll)

    @property
    def identity(self) -> tuple[str, int]:
        """The membership fields of a commit: member id, and generation or member epoch."""
        raise NotImplementedError

    @property
    def polling(self) -> bool:
        return self.queue.now >= self.polls_at

    def own(self, share: frozenset[Place]) -> None:
        """Set the partitions to read from now on. New partitions start at their committed offsets.

        ``share``: the partitions.
        """
        self.owned = share
        self.positions = {place: at for place, at in self.positions.items() if place in share}
        self.fetch_positions()

    def fetch_positions(self) -> None:
        unknown = frozenset(place for place in self.owned if place not in self.positions)
        if not unknown or self.wants or self.coordinator is None:
            return
        member_id, epoch = self.identity
        kind = OffsetFetchRequest.Group
        topics = [kind.Topic(name=name, partition_indexes=indexes) for name, indexes in by_topic(unknown).items()]
        asked = kind(group_id=self.script.group, member_id=member_id or None, member_epoch=epoch, topics=topics)
        self.wants = True
        self.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[asked], require_stable=True), self._positions_known)

    def _positions_known(self, answer: OffsetFetchResponse) -> None:
        self.wants = False
        (group,) = answer.groups
        if group.error_code:
            self.offsets_refused(group.error_code)
            return
        for topic in group.topics:
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                if place in self.owned and not partition.error_code:
                    self.start_at(place, partition.committed_offset)

    def start_at(self, place: Place, committed: int) -> None:
        """Set the position of an owned partition that has no position.

        Args:
            place: the partition.
            committed: committed offset; -1 if no offset was committed, for the position 0.
        """
        self.positions.setdefault(place, max(committed, 0))

    def _poll(self) -> None:
        if self.polling:
            self.polled()
        self.later(self.script.commit * (0.8 + 0.4 * self.dice.random()), self._poll)

    def polled(self) -> None:
        """Look up missing positions. If the client may commit, advance each position by a random number of records, and
        commit the positions.

        The client calls this method at each poll.
        """
        self.fetch_positions()
        if self.positions and self.may_commit:
            for place in self.positions:
                self.positions[place] += self.dice.whole(1, MOST_READ)
            self.commit()

    @property
    def may_commit(self) -> bool:
        raise NotImplementedError

    def commit(self) -> None:
        member_id, generation = self.identity
        kind = OffsetCommitRequest.Topic
        lines: dict[str, list[Any]] = {}
        for (topic, index), offset in sorted(self.positions.items()):
            line = kind.Partition(partition_index=index, committed_offset=offset, committed_metadata="")
            lines.setdefault(topic, []).append(line)
        request = OffsetCommitRequest(
            group_id=self.script.group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=self.script.instance if member_id else None,
            topics=[kind(name=topic, partitions=partitions) for topic, partitions in lines.items()],
        )
        self.ask(ApiKey.OFFSET_COMMIT, self.commit_version, request, self._committed)

    def _committed(self, answer: OffsetCommitResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    self.offsets_refused(partition.error_code)
                    return

    def offsets_refused(self, error: int) -> None:
        """Handle the error code in a response to OffsetCommit or OffsetFetch."""
        if error == NOT_YET:
            self.later(BACKOFF, self.fetch_positions)
        else:
            self.refused(error)

    def refused(self, error: int) -> None:
        """Handle the error code of a response of any API."""
        if error in NOT_HERE:
            self.find_later()

    def disconnected(self, connection: Any) -> None:
        if connection is self.coordinator:
            self.wants = False
        super().disconnected(connection)

    def drop_coordinator(self) -> None:
        self.wants = False
        super().drop_coordinator()

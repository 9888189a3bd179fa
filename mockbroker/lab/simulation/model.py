"""A reference model of the committed offsets, computed from the journal and the broker's responses.

Offsets of a transaction become visible when the transaction is committed. If the offset of a partition is committed
twice, with and without a transaction, the offset of the later commit request is valid. A crash may undo only
unacknowledged changes. After a crash, the model takes over the broker's offsets, if they are possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call

Place = tuple[str, int]  # topic name and partition
Key = tuple[str, Place]  # group id and place

ABORTING = (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)  # of InitProducerId: the open transaction is aborted


@dataclass(slots=True)
class Stored:
    """A committed offset, or a pending offset of a transaction.

    Attributes:
        offset: the offset.
        order: number of the change (see Model) that stored it.
        at: broker time of the commit, seconds.
    """

    offset: int
    order: int
    at: float


@dataclass(slots=True)
class Model:
    """The reference model of the committed offsets.

    Changes are numbered in order. Acknowledged changes survive a crash. In the attributes below, a key is a group with
    a partition.

    Attributes:
        offsets: group -> partition -> committed offset.
        held: producer id -> key -> pending offset in the open transaction.
        producers: transactional id -> producer id.
        order: number of the last change.
        durable: number of the last acknowledged change.
        history: key -> list of (number of a change, offset after the change). The offset is None if the change deleted
            it. The list starts with the last acknowledged change.
        ended: (number of the change, producer id, pending offsets) of each transaction with an unacknowledged end.
        undecided: ids of producers whose transaction may or may not have ended before a crash.
        unsettled: (key -> pending offset) of each transaction that was in ``undecided`` when InitProducerId ended the
            transaction. Offsets are removed when their group is loaded.
        numbers: (connection, correlation id) of an unacknowledged response -> number of its last change.
        parts: (connection, correlation id) of a pending OffsetCommit -> partitions and offsets stored so far.
        kept: transactional id -> producer id whose InitProducerId was acknowledged.
    """

    offsets: dict[str, dict[Place, Stored]] = field(default_factory=dict)
    held: dict[int, dict[Key, Stored]] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    order: int = 0
    durable: int = 0
    history: dict[Key, list[tuple[int, Stored | None]]] = field(default_factory=dict)
    ended: list[tuple[int, int, dict[Key, Stored]]] = field(default_factory=list)
    undecided: dict[int, None] = field(default_factory=dict)
    unsettled: list[dict[Key, Stored]] = field(default_factory=list)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    parts: dict[tuple[int, int], list[tuple[Place, int]]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def of(self, group: str) -> dict[Place, int]:
        return {place: stored.offset for place, stored in self.offsets.get(group, {}).items()}

    def unstable(self, group: str) -> set[Place]:
        """Return the partitions of a group that have pending offsets of an open transaction. ``group``: group id."""
        return {place for held in self.held.values() for name, place in held if name == group}

    def stored(self, call: Call[Any], offsets: Mapping[str, Mapping[int, int]], now: float) -> None:
        """Record that the broker has stored the offsets of an OffsetCommit, or of a slice of it.

        A slice is the part of a request that is handled before other requests get a turn. The method ``answered`` later
        checks that the response accepts exactly the stored offsets.

        Args:
            call: the request.
            offsets: topic -> partition -> offset.
            now: broker time, seconds.
        """
        places = self.parts.setdefault((call.ticket.connection, call.ticket.correlation_id), [])
        for topic, partitions in offsets.items():
            for index, offset in partitions.items():
                places.append(((topic, index), offset))
                self._store((call.request.group_id, (topic, index)), self._next(offset, now))

    def answered(self, call: Call[Any], response: Any, now: float) -> str:
        """Check the response to a request, and apply its effects to the model.

        Args:
            call: the request.
            response: the response.
            now: broker time, seconds.

        Returns: a description of the error in the response, or "" if the response is correct.
        """
        request = call.request
        match call.ticket.api_key:
            case ApiKey.OFFSET_COMMIT:
                places = self.parts.pop((call.ticket.connection, call.ticket.correlation_id), [])
                if places != (reported := accepted(request, response)):
                    return f"a commit to {request.group_id} stored {places}, but its response accepts {reported}"
            case ApiKey.TXN_OFFSET_COMMIT:
                held = self.held.setdefault(request.producer_id, {})
                for place, offset in accepted(request, response):
                    held[request.group_id, place] = self._next(offset, now)
            case ApiKey.END_TXN if not response.error_code:
                self._finish(request.producer_id, committed=request.committed)
            case ApiKey.INIT_PRODUCER_ID if response.error_code in ABORTING:
                producer_id = self.producers.get(request.transactional_id, -1)
                if producer_id in self.undecided:
                    self.unsettled.append(dict(self.held.get(producer_id, {})))
                self._finish(producer_id, committed=False)
                if not response.error_code:
                    self.producers[request.transactional_id] = response.producer_id
            case ApiKey.DELETE_GROUPS:
                for result in response.results:
                    if not result.error_code:
                        self.delete(result.group_id)
            case ApiKey.OFFSET_DELETE if not response.error_code:
                for topic in response.topics:
                    for partition in topic.partitions:
                        if not partition.error_code:
                            self.forget(request.group_id, (topic.name, partition.partition_index))
        self.numbers[call.ticket.connection, call.ticket.correlation_id] = self.order
        return ""

    def acknowledged(self, call: Call[Any]) -> None:
        """Record that the response to a request was sent: the changes of the request and all earlier changes survive
        a crash.

        ``call``: the request.
        """
        number = self.numbers.pop((call.ticket.connection, call.ticket.correlation_id), 0)
        if call.ticket.api_key == ApiKey.INIT_PRODUCER_ID and call.request.transactional_id in self.producers:
            self.kept[call.request.transactional_id] = self.producers[call.request.transactional_id]
        if number > self.durable:
            self.durable = number
            self.ended = [each for each in self.ended if each[0] > number]

    def delete(self, group: str) -> None:
        """Remove the committed and pending offsets of a group that was deleted. ``group``: group id."""
        for place in list(self.offsets.get(group, {})):
            self._change((group, place), None)
        self.offsets.pop(group, None)
        self._drop([key for held in self.held.values() for key in held if key[0] == group])
        self.settle(group, {})

    def committed_by_itself(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Record that the broker committed offsets of a transaction after a crash, without a request.

        The model adopts the offsets if they are the pending offsets of a transaction in ``undecided``.

        Args:
            group: group id.
            offsets: topic -> partition -> committed offset.
        """
        reported = {
            (group, (topic, index)): at for topic, partitions in offsets.items() for index, at in partitions.items()
        }
        for producer_id in list(self.undecided):
            held = self.held.get(producer_id, {})
            if reported and all(key in held and held[key].offset == at for key, at in reported.items()):
                done = {key: held.pop(key) for key in list(held) if key[0] == group}
                for key, stored in done.items():
                    self._store(key, stored)
                self._end(producer_id, done)

    def settle(self, group: str, committed: Mapping[Place, int]) -> None:
        """Decide for each transaction in ``unsettled`` whether it committed to the group before a crash.

        A transaction was committed if all its offsets for the group are in ``committed``.

        Args:
            group: group id.
            committed: partition -> committed offset in the broker's group.
        """
        for transaction in self.unsettled:
            self._decide(transaction, group, committed)
        self.unsettled = [transaction for transaction in self.unsettled if transaction]

    def load(self, group: str, committed: Mapping[Place, int], pending: Collection[int]) -> None:
        """Record that a coordinator has loaded a group.

        A transaction in ``undecided`` without a pending offset in the loaded group has ended. It was committed if the
        loaded group has its offsets, else aborted.

        Args:
            group: group id.
            committed: partition -> committed offset in the loaded group.
            pending: ids of the producers with pending offsets in the loaded group.
        """
        self.settle(group, committed)
        for producer_id in self.undecided:
            if producer_id not in pending and (done := self._decide(self.held.get(producer_id, {}), group, committed)):
                self._end(producer_id, done)

    def _decide(self, held: dict[Key, Stored], group: str, committed: Mapping[Place, int]) -> dict[Key, Stored]:
        """Remove the pending offsets that a transaction has for a group, and return the removed offsets by key.

        If all removed offsets are in ``committed``, the transaction was committed. In this case, the removed offsets
        become committed offsets of the model. A key is a group with a partition.

        Args:
            held: key -> pending offset of the transaction.
            group: group id.
            committed: partition -> committed offset in the broker's group.
        """
        done = {key: held.pop(key) for key in list(held) if key[0] == group}
        if all(committed.get(key[1]) == stored.offset for key, stored in done.items()):
            for key, stored in done.items():
                self._store(key, stored)
        return done

    def forget(self, group: str, place: Place) -> None:
        if place in self.offsets.get(group, {}):
            self._change((group, place), None)
        self._drop([(group, place)])

    def _drop(self, keys: list[Key]) -> None:
        """Remove the pending offsets of the given keys from all transactions."""
        for producer_id, held in self.held.items():
            gone = {key: held.pop(key) for key in keys if key in held}
            if gone:
                self._end(producer_id, gone)

    def _end(self, producer_id: int, held: dict[Key, Stored]) -> None:
        """Record that a transaction has ended, by storing its pending offsets in ``ended`` until the end is
        acknowledged.

        Args:
            producer_id: producer id.
            held: pending offsets of the transaction, by key (group with partition).
        """
        self.order += 1
        self.ended.append((self.order, producer_id, held))

    def _unsettled(self, key: Key) -> list[Stored]:
        """Return the pending offsets of a key (group with partition) in transactions that have ended with an unknown
        result.

        The result of such a transaction, commit or abort, is decided when its groups are loaded.
        """
        return [transaction[key] for transaction in self.unsettled if key in transaction]

    def may_be(self, key: Key) -> list[int | None]:
        """Return the offsets that a group and partition may have after a crash.

        The list contains the last acknowledged offset, the later offsets, and the offsets of transactions with an
        unknown result. None in the list means that there is no committed offset.

        ``key``: group with partition.
        """
        entries = self.history.get(key, [])
        sure = [stored for order, stored in entries if order <= self.durable][-1:] or [None]
        possible = sure + [stored for order, stored in entries if order > self.durable]
        possible += self._unsettled(key)
        return [None if stored is None else stored.offset for stored in possible]

    def adopt(self, group: str, place: Place, offset: int | None) -> None:
        """Set the committed offset of a partition to the broker's committed offset after a crash.

        It also becomes the only entry of the partition in ``history``.

        Args:
            group: group id.
            place: the partition.
            offset: the offset of the broker; None without a committed offset.
        """
        key = group, place
        asked = [*(stored for _, stored in self.history.get(key, [])), *self._unsettled(key)]
        stored = next((each for each in reversed(asked) if each and each.offset == offset), None)
        self.history[group, place] = [(self.durable, stored)]
        if stored is None:
            self.offsets.get(group, {}).pop(place, None)
        else:
            self.offsets.setdefault(group, {})[place] = stored

    def adopt_held(self, now_held: dict[int, dict[Key, int]]) -> str:
        """Replace the pending offsets of the model with the pending offsets of the broker, after a crash.

        The ends of transactions and the responses that were not acknowledged are forgotten. A transaction that has
        pending offsets in the broker is ``undecided`` from now on if it was before, or if its end was not acknowledged.
        After an error, nothing is replaced.

        Args:
            now_held: producer id -> key (group with partition) -> pending offset in the broker.

        Returns: a description of a pending offset in the broker that no request contained, or "" if requests contained
        all of them.
        """
        known: dict[int, dict[Key, list[Stored]]] = {}
        for producer_id, held in [*self.held.items(), *((each[1], each[2]) for each in self.ended)]:
            for key, stored in held.items():
                known.setdefault(producer_id, {}).setdefault(key, []).append(stored)
        adopted: dict[int, dict[Key, Stored]] = {}
        for producer_id, there in now_held.items():
            for key, offset in there.items():
                asked = [each for each in known.get(producer_id, {}).get(key, []) if each.offset == offset]
                if not asked:
                    return (
                        f"partition {key[1][0]}-{key[1][1]} of group {key[0]} has the pending offset {offset} of "
                        f"producer id {producer_id}, which no request contained"
                    )
                adopted.setdefault(producer_id, {})[key] = asked[-1]
        open_still = [*self.undecided, *(producer_id for _, producer_id, _ in self.ended)]
        self.undecided = {producer_id: None for producer_id in open_still if producer_id in adopted}
        self.held, self.ended, self.numbers, self.unsettled, self.parts = adopted, [], {}, [], {}
        self.producers = dict(self.kept)  # an unacknowledged producer id may be assigned to another transactional id
        return ""

    def _next(self, offset: int, now: float) -> Stored:
        self.order += 1
        return Stored(offset, self.order, now)

    def _store(self, key: Key, stored: Stored) -> None:
        there = self.offsets.get(key[0], {}).get(key[1])
        if there is None or there.order < stored.order:
            self._change(key, stored)

    def _change(self, key: Key, stored: Stored | None) -> None:
        self.order += 1
        entries = self.history.setdefault(key, [])
        sure = [entry for entry in entries if entry[0] <= self.durable]
        if len(sure) > 1:
            self.history[key] = entries = entries[len(sure) - 1 :]
        entries.append((self.order, stored))
        there = self.offsets.setdefault(key[0], {})
        if stored is None:
            there.pop(key[1], None)
        else:
            there[key[1]] = stored

    def _finish(self, producer_id: int, *, committed: bool) -> None:
        self.undecided.pop(producer_id, None)
        held = self.held.pop(producer_id, {})
        for key, stored in held.items():
            if committed:
                self._store(key, stored)
        if held:
            self._end(producer_id, held)


def accepted(request: Any, response: Any) -> list[tuple[Place, int]]:
    """Return the partitions for which a commit response has the error code NONE, each with the offset in the
    request.

    Args:
        request: body of the commit request.
        response: body of the response.
    """
    asked = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in request.topics
        for partition in topic.partitions
    }
    return [
        ((topic.name, partition.partition_index), asked[topic.name, partition.partition_index])
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE
    ]

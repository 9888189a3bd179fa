"""Clients in the simulation that write keyed records to a topic with a cleanup policy, and read the remaining
records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.apikeys import ApiKey
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, batches, build_batch
from mockbroker.lab.simulation.clients.direct import DirectClient
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.history import EARLIEST, LATEST
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.upkeep_history import KeyedBatch, LogStart, Scan

FETCH_VERSION, LIST_VERSION, PRODUCE_VERSION = 11, 7, 9
KEYS = 6
MOST_RECORDS = 4
TOMBSTONES = 0.2  # probability that a record of a compacted topic is a tombstone
FINAL_STEP = 0.3  # seconds between two attempts of the final keeper


class LogReader(DirectClient):
    """A client that looks up the start of a log, and reads all its records. It reads one partition at a time.

    Attributes:
        final: whether the client reads at the end of the run, after the last fault.
    """

    final = False

    def begin(self) -> None:
        super().begin()
        self._reads: Place | None = None

    def list_start(self, place: Place) -> None:
        """Look up the log start offset of a partition (``place``) with ListOffsets; add the result to the history."""
        sent_at = self.queue.now

        def listed(offset: int) -> None:
            self.history.upkeep.starts.append(LogStart(place, offset, sent_at, self.queue.now, self.final))

        self._list(place, EARLIEST, listed)

    def scan(self, place: Place) -> None:
        """Read all records of a partition, from the start of the log to its current end, and add them to the history as
        a Scan.

        If another scan is in progress, nothing is done. After an error or a lost connection, the scan is abandoned.

        ``place``: the partition.
        """
        if self._reads is not None:
            return
        self._reads = place
        began = Scan(place, 0, 0, self.queue.now, 0.0, [], self.final)

        def started(start: int) -> None:
            began.start = start
            self._fetch(began, start)

        def ended(end: int) -> None:
            began.end = end
            self._list(place, EARLIEST, started)

        self._list(place, LATEST, ended)

    def _list(self, place: Place, timestamp: int, then: Callable[[int], None]) -> None:
        node, kind = self.leaders.nodes.get(place), ListOffsetsRequest.Topic
        if node is None:
            self._abandon()
            return

        def listed(answer: Any) -> None:
            partition = answer.topics[0].partitions[0]
            if partition.error_code:
                self._abandon()
            else:
                then(partition.offset)

        line = kind.Partition(partition_index=place[1], timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[kind(name=place[0], partitions=[line])])
        self.send(self.leaders.wire(node), ApiKey.LIST_OFFSETS, LIST_VERSION, request, listed)

    def _fetch(self, scan: Scan, position: int) -> None:
        node, kind = self.leaders.nodes.get(scan.place), FetchRequest.Topic
        if position >= scan.end:
            scan.done_at = self.queue.now
            self.history.upkeep.scans.append(scan)
            self._reads = None
            return
        if node is None:
            self._abandon()
            return
        line = kind.Partition(partition=scan.place[1], fetch_offset=position, partition_max_bytes=self._bytes())
        topics = [kind(topic=scan.place[0], partitions=[line])]
        request = FetchRequest(max_wait_ms=100, max_bytes=1 << 20, session_epoch=-1, topics=topics)
        wire = self.leaders.wire(node)
        self.send(wire, ApiKey.FETCH, FETCH_VERSION, request, lambda answer: self._fetched(scan, position, answer))

    def _bytes(self) -> int:
        return self.dice.pick([1, 1_000, 1 << 20])

    def _fetched(self, scan: Scan, position: int, answer: Any) -> None:
        partition = answer.responses[0].partitions[0]
        if partition.error_code:
            self._abandon()
            return
        end = position
        for batch in batches(partition.records or b""):
            if batch.last_offset >= position:
                end = batch.last_offset + 1
                scan.records += [  # type: ignore[operator]
                    (each.offset, each.key, each.value) for each in batch.records() if each.offset >= position
                ]
        if end == position:  # the rest of the log was compacted, or there was no time to read it
            self._abandon()
        else:
            self._fetch(scan, end)

    def _abandon(self) -> None:
        self._reads = None
        self.leaders.refresh_later()

    def disconnected(self, connection: Wire) -> None:
        self._reads = None
        super().disconnected(connection)


class Keeper(LogReader):
    """A client that writes keyed records to topics with a cleanup policy, and reads the remaining records."""

    def begin(self) -> None:
        super().begin()
        self._numbers = 0
        self.later(self.script.commit * self.dice.random(), self._step)

    def _step(self) -> None:
        self.later(self.script.commit * (0.2 + self.dice.random()), self._step)
        places = self.leaders.known()
        if not places:
            self.leaders.refresh_later()
            return
        place = self.dice.pick(places)
        self.dice.pick([self._write, self._write, self.list_start, self.scan])(place)

    def _write(self, place: Place) -> None:
        compacted = self.history.upkeep.policies[place[0]].compact
        records = [self._record(compacted) for _ in range(self.dice.whole(1, MOST_RECORDS))]
        timestamp = self.broker_ms()
        data = build_batch([Record(key=key, value=value, timestamp=timestamp) for key, value in records])
        batch = KeyedBatch(place, records, timestamp, len(data), self.queue.now)
        self.history.upkeep.batches.append(batch)

        def written(answer: Any) -> None:
            partition = answer.responses[0].partition_responses[0]
            if partition.error_code:
                self.leaders.refresh_later()
            else:
                batch.offset, batch.done_at = partition.base_offset, self.queue.now

        kind = ProduceRequest.Topic
        topics = [kind(name=place[0], partition_data=[kind.Partition(index=place[1], records=data)])]
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
        self.send(self.leaders.wire(self.leaders.nodes[place]), ApiKey.PRODUCE, PRODUCE_VERSION, request, written)

    def _record(self, compacted: bool) -> tuple[bytes, bytes | None]:
        key = f"k{self.dice.below(KEYS)}".encode()
        if compacted and self.dice.chance(TOMBSTONES):
            return key, None
        self._numbers += 1
        text = f"{self.name}.{self.life}.{self._numbers}"
        return key, text.encode() + bytes(self.dice.pick([0, 100, 1_000]))


class FinalKeeper(LogReader):
    """A client that reads all logs with a cleanup policy at the end of a run, after the last fault.

    Attributes:
        done: whether the start of each log was looked up and each log was read.
    """

    final = True

    def begin(self) -> None:
        super().begin()
        self.later(FINAL_STEP, self._step)

    def _bytes(self) -> int:
        return 1 << 20

    def _left(self) -> list[Place]:
        upkeep = self.history.upkeep
        listed = {each.place for each in upkeep.starts if each.final}
        scanned = {each.place for each in upkeep.scans if each.final}
        places = [(topic, index) for topic in self.topics for index in range(self.partitions(topic))]
        return [place for place in places if place not in listed or place not in scanned]

    @property
    def done(self) -> bool:
        return not self._left()

    def _step(self) -> None:
        left = self._left()
        if left:
            self.later(FINAL_STEP, self._step)
            self.list_start(left[0])
            self.scan(left[0])

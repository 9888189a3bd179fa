"""Consumers in the simulation that fetch records and commit their positions, and clients that read everything at the
end of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.lab.simulation.clients.classic import ClassicClient
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.consumer import ConsumerClient
from mockbroker.lab.simulation.clients.fetcher import Fetcher
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import NOT_YET, Reader
from mockbroker.lab.simulation.clients.recording import recording_commit, recording_lookup
from mockbroker.lab.simulation.history import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Read,
)
from mockbroker.lab.simulation.network import Wire

OLD, NEW = 11, 16  # versions of Fetch: with topic names, and with topic ids
POLL = 0.3  # seconds between two calls of the fetcher


class RecordReader(Reader):
    """A consumer that fetches the records of its partitions, and commits its positions.

    Attributes:
        leaders: leaders of the partitions.
        fetcher: sender of the Fetch requests.
        reset: ``auto.offset.reset`` as a timestamp of ListOffsets: EARLIEST or LATEST.
    """

    def begin(self) -> None:
        self.leaders = Leaders(self)
        isolation = self.isolation
        self.fetcher = Fetcher(
            self, self.leaders, isolation, self.dice.pick([OLD, NEW]), lambda: self.positions, self.on_read
        )
        self.reset = EARLIEST if self.script.number % 4 else LATEST
        self.fetcher.on_out_of_range = self._reset
        self._unset: set[Place] = set()  # owned partitions without a committed offset or a position
        super().begin()
        self.leaders.start()
        self.later(POLL, self._fetch)

    @property
    def isolation(self) -> int:
        """The isolation level of the consumer."""
        return READ_COMMITTED if self.script.number % 3 else READ_UNCOMMITTED

    def _fetch(self) -> None:
        self.later(POLL * (0.5 + self.dice.random()), self._fetch)
        if self.polling:
            if self._unset:
                self.fetcher.list_offsets(self._unset, self.reset, self._set)
            lost = [place for place in self.owned if place not in self.positions and place not in self._unset]
            if lost:
                self.fetch_positions()
            self.fetcher.fetch_all()

    def on_read(self, read: Read) -> None:
        """Handle the records (``read``) of a successful fetch of a partition."""

    def own(self, share: frozenset[Place]) -> None:
        """Set the partitions to read from now on. ``share``: the partitions."""
        self._unset &= share
        super().own(share)

    def start_at(self, place: Place, committed: int) -> None:
        """Set the position of a partition to its committed offset. Without a committed offset, the position is looked
        up later with ListOffsets.

        Args:
            place: the partition.
            committed: committed offset; -1 if no offset was committed.
        """
        if committed >= 0:
            self.positions.setdefault(place, committed)
        elif place not in self.positions:
            self._unset.add(place)

    def _reset(self, place: Place) -> None:
        """Look up a new position of a partition (``place``), because the records at the old position were deleted."""
        if place in self.owned:
            self._unset.add(place)

    def _set(self, place: Place, offset: int) -> None:
        if place in self._unset:
            self._unset.discard(place)
            if place in self.owned:
                self.positions.setdefault(place, offset)

    def polled(self) -> None:
        """Look up missing positions, and commit the positions if the client may commit.

        The client calls this method at each poll.
        """
        self.fetch_positions()
        if self.positions and self.may_commit:
            self.commit()

    def ask(self, api_key: int, version: int, request: Any, then: Callable[..., None], timeout: float = 0.0) -> None:
        """Send a request to the coordinator. Add each OffsetCommit and OffsetFetch to the history.

        If the coordinator is unknown, do nothing.

        Args:
            api_key: API key of the request.
            version: version of the request.
            request: body of the request.
            then: function that is called with the response body.
            timeout: request timeout in seconds; 0 for REQUEST_TIMEOUT.
        """
        if self.coordinator is None:
            return
        if api_key == ApiKey.OFFSET_COMMIT:
            then = recording_commit(self, request, then)
        elif api_key == ApiKey.OFFSET_FETCH:
            then = recording_lookup(self, then)
        super().ask(api_key, version, request, then, timeout)

    def refused(self, error: int) -> None:
        super().refused(error)
        if error == NOT_YET:
            self.later(BACKOFF, self.fetch_positions)

    def disconnected(self, connection: Wire) -> None:
        self.fetcher.disconnected(connection)
        if self.leaders.disconnected(connection):
            return
        super().disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.leaders.close()
            self.fetcher.sessions.clear()
        super().stop()


class RecordClassic(RecordReader, ClassicClient):
    """A classic group member that fetches records."""

    @property
    def cooperates(self) -> bool:
        return self.script.number % 2 == 0

    @property
    def strategy(self) -> str:
        return "data"


class RecordConsumer(RecordReader, ConsumerClient):
    """A consumer group member (KIP-848) that fetches records."""


class FinalReader(Client):
    """A client that reads all records of some topics at the end of a run, after the last fault.

    Attributes:
        isolation: isolation level.
        done: whether all records were read.
    """

    isolation = READ_UNCOMMITTED

    def begin(self) -> None:
        self.positions: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        self.leaders = Leaders(self)
        self.fetcher = Fetcher(self, self.leaders, self.isolation, NEW, lambda: self.positions, self._mark_final)
        self.fetcher.max_bytes = 1 << 20
        self.fetcher.min_bytes = 1
        self.leaders.start()
        self.later(POLL, self._step)

    def find(self) -> None:
        """Do nothing: this client is not in a group, and needs no coordinator."""

    def _step(self) -> None:
        self.later(POLL, self._step)
        places = [(topic, index) for topic in self.topics for index in range(self.partitions(topic))]
        if missing := [place for place in places if place not in self.ends]:
            self.fetcher.list_offsets(missing, LATEST, self.ends.__setitem__)
        elif missing := [place for place in places if place not in self.positions]:
            self.fetcher.list_offsets(missing, EARLIEST, self.positions.__setitem__)
        else:
            self.history.ends[self.isolation] = self.ends
            if not self.done:
                self.fetcher.fetch_all()

    @property
    def done(self) -> bool:
        return bool(self.ends) and all(self.positions.get(place, -1) >= end for place, end in self.ends.items())

    def _mark_final(self, read: Read) -> None:
        read.final = True

    def disconnected(self, connection: Wire) -> None:
        self.fetcher.disconnected(connection)
        self.leaders.disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.leaders.close()
        super().stop()


class FinalCommittedReader(FinalReader):
    """A FinalReader with the isolation level read_committed."""

    isolation = READ_COMMITTED

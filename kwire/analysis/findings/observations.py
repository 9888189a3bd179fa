"""The data of calls that detectors need in addition to group events, collected for each connection separately.

Observations of one connection depend on no other connection, so connections can be processed in any order and in
parallel. The calls of one connection can be cut into slices, each with an Observer of its own; ``Observer.merge``
combines them. All times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis.topics import topic_key
from kwire.analysis.transactions import FENCING, producer_of, response_codes
from kwire.analysis.usage import Refusal
from kwire.apikeys import ApiKey
from kwire.capture.calls.model import KAFKA, Call, Connection
from kwire.lazy_dataclass import dataclass

WINDOW_US = 10_000_000  # width of the windows in which calls are counted
IDLE_US = 250_000  # a consumer that sends the next Fetch within this time after a response reads without a pause
STEP_US = 1_000_000  # of the requests of a transaction, one is kept per connection in this time

# Kinds of steps of a transaction.
INIT, WORK, COMMIT, ABORT, FENCED, LAST, CLOSED = "init", "work", "commit", "abort", "fenced", "last", "closed"

Who = tuple[str, str, str | None, str]  # connection id, broker, client id and host

_FIRST_FETCH_EPOCH = (0, -1)  # session epochs of a full Fetch request


@dataclass(slots=True)
class Tally:
    """The calls of one API in one window of WINDOW_US on one connection.

    Attributes:
        host: address of the client.
        window: start of the window.
        calls: number of requests.
        throttle_ms: sum of ``throttle_time_ms`` of the responses.
        errors: number of responses with an error code, and the times of the first and the last, by error code.
    """

    conn_id: str
    broker: str
    client_id: str | None
    host: str
    window: int
    api_key: int
    calls: int = 0
    throttle_ms: int = 0
    first_ts: int = 2**62
    last_ts: int = 0
    errors: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Connected:
    """The beginning and the end of a connection. ``closed``: ``fin`` or ``rst``; None if it was still open."""

    conn_id: str
    broker: str
    client_id: str | None
    host: str
    first_ts: int
    last_ts: int
    syn_seen: bool
    closed: str | None


@dataclass(slots=True)
class Step:
    """A call of a transactional producer, or the end of its connection.

    Attributes:
        kind: INIT, COMMIT, ABORT (accepted), FENCED (refused because the producer is fenced), WORK (a request that
            needs or begins a transaction), LAST (last packet of an open connection) or CLOSED (of a closed one).
        timeout_ms: transaction timeout in milliseconds, of an INIT; else None.
        api_key: API of the request; -1 for LAST and CLOSED.
        number: number of the call on its connection; -1 for LAST and CLOSED.
    """

    ts: int
    conn_id: str
    broker: str
    client_id: str | None
    host: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: str
    timeout_ms: int | None = None
    api_key: int = -1
    number: int = -1


@dataclass(slots=True, frozen=True)
class FetchSpan:
    """A period in which one connection fetched one partition without a pause.

    Attributes:
        topic: topic name; if it is unknown, the text ``id:`` followed by the topic id.
        begin: first request.
        end: last response.
    """

    conn_id: str
    broker: str
    client_id: str | None
    host: str
    topic: str
    partition: int
    begin: int
    end: int


class Observer:
    """The collector of the observations of one connection, or of a slice of its calls.

    Fetch requests of a session name only partitions that changed (KIP-227), so the partitions of the session are
    tracked. If the capture begins in the middle of a session, its unchanged partitions are unknown.

    Args:
        is_first: True if no calls precede; False for a later slice, which depends on what the earlier slices end with.
    """

    __slots__ = (
        "_active",
        "_begun",
        "_fetched",
        "_fetches",
        "_first_full",
        "_first_gone",
        "_first_named",
        "_last_steps",
        "_producers",
        "_tallies",
        "_waiting",
        "_who",
        "is_first",
    )

    def __init__(self, *, is_first: bool = True) -> None:
        self.is_first = is_first
        self._tallies: dict[tuple[int, int], Tally] = {}
        self._producers: dict[str, tuple[int, int]] = {}
        self._last_steps: dict[str, int] = {}
        self._active: list[list[int]] = []  # spans of time in which Fetch requests followed each other
        self._fetched: dict[tuple[str, int], list[list[int | None]]] = {}  # when partitions were in the session
        self._who: Who = ("", "", None, "")  # of the last call
        # Only for a slice that is not the first:
        self._begun: set[str] = set()  # transactional ids with a step of another kind than WORK
        self._waiting: dict[str, list[Step]] = {}  # steps of the kind WORK before that, by transactional id
        self._fetches = 0  # requests of consumers
        self._first_full: tuple[int, int] | None = None  # number and time of the first full Fetch request
        self._first_gone: dict[tuple[str, int], tuple[int, int]] = {}  # the same of partitions that leave the session
        self._first_named: dict[tuple[str, int], int] = {}  # number of the first request that names a partition

    def note(self, call: Call, refusals: Sequence[Refusal]) -> None:
        """Count a call. ``refusals``: errors in its response."""
        if call.api_key is None or call.request_us is None:
            return
        host = call.client.rpartition(":")[0]
        self._who = call.connection, call.broker, call.client_id, host
        window = call.request_us - call.request_us % WINDOW_US
        tally = self._tallies.get((window, call.api_key))
        if tally is None:
            tally = self._tallies[window, call.api_key] = Tally(
                call.connection, call.broker, call.client_id, host, window, call.api_key
            )
        tally.calls += 1
        tally.first_ts = min(tally.first_ts, call.request_us)
        tally.last_ts = max(tally.last_ts, call.response_us or call.request_us)
        if call.response is not None and call.response_us is not None:
            tally.throttle_ms += max(getattr(call.response, "throttle_time_ms", 0) or 0, 0)
            for code in {one.code for one in refusals}:
                count = tally.errors.setdefault(code, [0, call.response_us, call.response_us])
                count[0] += 1
                count[2] = call.response_us
        if call.api_key == ApiKey.FETCH and call.request is not None:
            self._fetch(call)

    def drain(self) -> list[Tally]:
        """Return the counts since the last call of this method. Several counts may have the same window and API; the
        caller must add such counts.
        """
        tallies, self._tallies = list(self._tallies.values()), {}
        return tallies

    def steps(self, call: Call) -> Iterator[Step]:
        """Yield the transaction step that a call represents, if any."""
        request = call.request
        if call.api_key is None or call.api_key not in _TRANSACTIONAL or request is None or call.request_us is None:
            return
        name, producer_id, epoch = _identity(call)
        if not name:
            return
        response = call.response if call.response_us is not None else None
        ts, kind, timeout = call.response_us or call.request_us, WORK, None
        codes = set() if response is None else response_codes(response) | _produce_codes(call, response)
        if codes & FENCING:
            kind = FENCED
        elif call.api_key == ApiKey.INIT_PRODUCER_ID:
            if response is None or response.error_code:
                return
            kind, timeout = INIT, request.transaction_timeout_ms
            producer_id, epoch = response.producer_id, response.producer_epoch
        elif call.api_key == ApiKey.END_TXN:
            if response is None or response.error_code:
                return
            kind, ts = COMMIT if request.committed else ABORT, call.request_us
        elif codes - {0}:
            return
        else:
            ts = call.request_us
        who = call.connection, call.broker, call.client_id, call.client.rpartition(":")[0]
        yield from self._keep(Step(ts, *who, name, producer_id, epoch, kind, timeout, call.api_key, call.number))

    def _keep(self, step: Step) -> Iterator[Step]:
        """Yield a step, unless it is WORK that follows other WORK of the producer within STEP_US.

        A slice that is not the first does not know the time of earlier WORK, so it yields no WORK before the first step
        of another kind; ``merge`` does.
        """
        name = step.transactional_id
        if step.kind != WORK:
            self._last_steps.pop(name, None)
            if not self.is_first:
                self._begun.add(name)
        elif not self.is_first and name not in self._begun:
            self._waiting.setdefault(name, []).append(step)
            return
        else:
            if step.ts - self._last_steps.get(name, -STEP_US) < STEP_US:
                return
            self._last_steps[name] = step.ts
        self._producers[name] = step.producer_id, step.producer_epoch
        yield step

    def merge(self, later: Observer) -> Iterator[Step]:
        """Add the observations of the slice that follows; yield its steps that depended on this one.

        The result is the same as that of one Observer for all calls of both slices. ``later`` must not be used again.
        Its counts are not added: ``drain`` returns them.
        """
        for step in (step for steps in later._waiting.values() for step in steps):
            yield from self._keep(step)
        for name in later._begun:
            self._last_steps.pop(name, None)
            if not self.is_first:
                self._begun.add(name)
        self._last_steps |= later._last_steps
        self._producers |= later._producers
        for begin, end in later._active:
            self._add_active(begin, end)
        for place, times in self._fetched.items():
            if times[-1][1] is None:
                self._continue_fetch(place, times, later)
        for place, times in later._fetched.items():
            self._fetched.setdefault(place, []).extend(times)
        if not self.is_first:
            self._add_firsts(later)
        self._fetches += later._fetches
        if later._who != ("", "", None, ""):
            self._who = later._who

    def _continue_fetch(self, place: tuple[str, int], times: list[list[int | None]], later: Observer) -> None:
        """Set the end of the last time in which a partition is in the session, if a later slice shows it.

        Args:
            place: topic and partition.
            times: times of the partition in this slice. The last one has no end.
            later: slice that follows.
        """
        named = later._first_named.get(place, later._fetches)
        ends = [later._first_gone[place]] if place in later._first_gone else []  # before the request that names it
        if later._first_full is not None and later._first_full[0] < named:
            ends.append(later._first_full)
        if ends:
            times[-1][1] = min(ends)[1]
        elif place in later._fetched:
            times[-1][1] = later._fetched[place].pop(0)[1]

    def _add_firsts(self, later: Observer) -> None:
        """Complete the first requests of this slice, which is not the first, with those of the slice that follows."""
        if self._first_full is None and later._first_full is not None:
            self._first_full = self._fetches + later._first_full[0], later._first_full[1]
        for place, (number, begin) in later._first_gone.items():
            if place not in self._first_named:
                self._first_gone.setdefault(place, (self._fetches + number, begin))
        for place, number in later._first_named.items():
            self._first_named.setdefault(place, self._fetches + number)

    def finish(self, connection: Connection) -> tuple[Connected | None, list[Step], list[FetchSpan]]:
        """Return the last observations of a connection that has ended: the connection, steps, and fetched partitions.

        The connection is None if no Kafka request was found on it.
        """
        host = connection.client.rpartition(":")[0]
        who = connection.id, connection.broker, connection.client_id, host
        whole = None
        if connection.status == KAFKA:
            times = connection.first_us, connection.last_us, connection.syn_seen, connection.closed
            whole = Connected(*who, *times)
        kind = LAST if connection.closed is None else CLOSED
        last = [
            Step(connection.last_us, *who, name, producer_id, epoch, kind)
            for name, (producer_id, epoch) in sorted(self._producers.items())
        ]
        return whole, last, list(self._spans())

    def continued(self) -> Observer:
        """Return the observer for the next part of a stream, after ``finish``: it knows the partitions of the Fetch
        session, and no earlier spans.
        """
        self._active = self._active[-1:]
        last = self._active[0][1] if self._active else 0
        self._active = [[last, last]] if self._active else []
        self._fetched = {
            place: [[last, None]] for place, times in self._fetched.items() if times and times[-1][1] is None
        }
        return self

    # --- fetch ---

    def _fetch(self, call: Call) -> None:
        begin = call.request_us
        assert begin is not None
        end = call.response_us or begin
        request = call.request
        if request.replica_id >= 0 or getattr(getattr(request, "replica_state", None), "replica_id", -1) >= 0:
            return  # a follower
        self._add_active(begin, end)
        named = {
            (topic_key(topic.topic, topic.topic_id), partition.partition)
            for topic in request.topics
            for partition in topic.partitions
        }
        if request.session_epoch in _FIRST_FETCH_EPOCH:
            gone: Iterable[tuple[str, int]] = self._fetched.keys() - named
        else:
            gone = [
                (topic_key(topic.topic, topic.topic_id), partition)
                for topic in request.forgotten_topics_data
                for partition in topic.partitions
            ]
        if not self.is_first:
            self._note_firsts(begin, named, None if request.session_epoch in _FIRST_FETCH_EPOCH else gone)
        for place in gone:
            times = self._fetched.get(place)
            if times and times[-1][1] is None:
                times[-1][1] = begin
        for place in named:
            times = self._fetched.setdefault(place, [])
            if not times or times[-1][1] is not None:
                times.append([begin, None])

    def _add_active(self, begin: int, end: int) -> None:
        """Add a span of time in which Fetch requests followed each other.

        Args:
            begin: first request.
            end: last response.
        """
        if self._active and begin - self._active[-1][1] <= IDLE_US:
            self._active[-1][1] = max(self._active[-1][1], end)
        else:
            self._active.append([begin, end])

    def _note_firsts(
        self, begin: int, named: Iterable[tuple[str, int]], gone: Iterable[tuple[str, int]] | None
    ) -> None:
        """Record what a Fetch request shows about partitions that earlier slices have in the session.

        Args:
            begin: time of the request.
            named: partitions of the request.
            gone: partitions that leave the session; None for a full request, with which all others leave it.
        """
        number = self._fetches
        self._fetches += 1
        if gone is None:
            self._first_full = self._first_full or (number, begin)
        for place in gone or ():
            if place not in self._first_named:
                self._first_gone.setdefault(place, (number, begin))
        for place in named:
            self._first_named.setdefault(place, number)

    def _spans(self) -> Iterator[FetchSpan]:
        for (topic, partition), times in sorted(self._fetched.items()):
            for since, until in times:
                assert since is not None
                for begin, end in self._active:
                    low, high = max(begin, since), end if until is None else min(end, until)
                    if low <= high and low < (until or low + 1):
                        yield FetchSpan(*self._who, topic, partition, low, high)


_TRANSACTIONAL = {
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
}


def _identity(call: Call) -> tuple[str | None, int, int]:
    """Return the transactional id, producer id and producer epoch of a request. In a Produce request, the producer id
    and the epoch are in the record batches.
    """
    if call.api_key == ApiKey.PRODUCE:
        return call.request.transactional_id, -1, -1
    return producer_of(call.request)


def _produce_codes(call: Call, response: Any) -> set[int]:
    if call.api_key != ApiKey.PRODUCE:
        return set()
    return {partition.error_code for topic in response.responses for partition in topic.partition_responses}

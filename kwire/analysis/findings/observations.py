"""Collection of the data that detectors of findings need in addition to group events, for each connection separately.

The data are call counts, calls of transactional producers, and periods in which partitions were fetched. The data of a
connection depend only on its own calls, so connections can be processed in any order and in parallel. The calls of one
connection can be divided into slices (numbers of consecutive calls). Then each slice has a separate ``Observer``, and
``Observer.merge`` combines the observers. All times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis.events import host_of
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

_FETCH = int(ApiKey.FETCH)  # integers are compared faster than members of an enumeration
_FIRST_FETCH_EPOCH = (0, -1)  # session epochs of a full Fetch request


@dataclass(slots=True)
class Tally:
    """The count of the calls of one API on one connection in one time window, which is WINDOW_US long.

    Times are microseconds since 1970.

    Attributes:
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        client_id: client id in the request headers; None if they contain none.
        host: address of the client.
        window: start of the window.
        api_key: API key.
        calls: number of requests.
        throttle_ms: sum of ``throttle_time_ms`` in the responses, in milliseconds.
        first_ts: time of the first request.
        last_ts: time of the last response, or of the last request if its response was not captured.
        errors: for each error code, the number of responses with this code, the time of the first of these responses,
            and the time of the last.
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
    """The beginning and the end of a connection. Times are microseconds since 1970.

    Attributes:
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        client_id: client id in the request headers; None if they contain none.
        host: address of the client.
        first_ts: time of the first packet.
        last_ts: time of the last packet.
        syn_seen: True if the capture contains the SYN packet; False if the connection was open before the capture.
        closed: ``fin`` or ``rst``; None if the connection was still open at the end of the capture.
    """

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
    """A call of a transactional producer, or the last packet of its connection.

    Attributes:
        ts: time in microseconds since 1970.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        client_id: client id of the producer.
        host: address of the producer.
        transactional_id: transactional id.
        producer_id: producer id; -1 if unknown, as for a Produce request.
        producer_epoch: producer epoch; -1 if unknown.
        kind: one of these kinds:
            INIT, COMMIT and ABORT: successful InitProducerId or EndTxn.
            FENCED: request that failed because the producer is fenced.
            WORK: any other request that begins a transaction or is part of a transaction.
            CLOSED: last packet of a closed connection.
            LAST: last captured packet of a connection that is still open.
        timeout_ms: transaction timeout in milliseconds in an INIT; None for all other kinds.
        api_key: API key of the request; -1 for LAST and CLOSED.
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


def order_of(step: Step) -> tuple[int, str, int, str]:
    """Return the sort key of a step: time, connection, number of the call, and kind."""
    return step.ts, step.conn_id, step.number, step.kind


@dataclass(slots=True, frozen=True)
class FetchSpan:
    """A period in which a consumer fetched one partition on one connection without a pause.

    Attributes:
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        client_id: client id of the consumer.
        host: address of the consumer.
        topic: topic name; if it is unknown, the text ``id:`` followed by the topic id.
        partition: partition number.
        begin: time of the first Fetch request of the period, in microseconds since 1970.
        end: time of the last Fetch response of the period, in microseconds since 1970.
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
    """A collector of call counts, calls of transactional producers (``Step``) and fetched partitions of one connection.

    An observer processes all calls of the connection, or a slice of them: a number of consecutive calls. ``merge``
    combines the observers of slices.

    A Fetch request in a fetch session contains only the partitions that have changed in the session (KIP-227).
    Therefore the observer stores the partitions of the session. If the capture begins in the middle of a session, the
    unchanged partitions are unknown.

    Args:
        is_first: True for all calls of a connection or its first slice; False for a later slice.
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
        """Count a call, and record the partitions of a Fetch request. ``refusals``: errors in the response."""
        if call.api_key is None or call.request_us is None:
            return
        key, sent = call.api_key, call.request_us
        self._who = who = call.connection, call.broker, call.client_id, host_of(call.client)
        window = sent - sent % WINDOW_US
        tally = self._tallies.get((window, key))
        if tally is None:
            tally = self._tallies[window, key] = Tally(*who, window, key)
        tally.calls += 1
        last = call.response_us or sent
        if sent < tally.first_ts:
            tally.first_ts = sent
        if last > tally.last_ts:
            tally.last_ts = last
        if call.response is not None and call.response_us is not None:
            throttled = getattr(call.response, "throttle_time_ms", 0)
            if throttled > 0:
                tally.throttle_ms += throttled
            for code in {one.code for one in refusals} if refusals else ():
                count = tally.errors.setdefault(code, [0, call.response_us, call.response_us])
                count[0] += 1
                count[2] = call.response_us
        if key == _FETCH and call.request is not None:
            self._fetch(call)

    def drain(self) -> list[Tally]:
        """Return and remove the call counts since the previous ``drain``.

        The results of several ``drain`` calls may contain counts of the same time window and API. The caller must add
        these counts.
        """
        tallies, self._tallies = list(self._tallies.values()), {}
        return tallies

    def steps(self, call: Call) -> Iterator[Step]:
        """Yield the step of a call of a transactional producer.

        Yield nothing for all other calls, for a call that failed without a fencing error, and for a WORK step that
        follows another WORK step of the same producer within STEP_US. A later slice yields its first WORK steps only in
        ``merge``.
        """
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
        who = call.connection, call.broker, call.client_id, host_of(call.client)
        yield from self._keep(Step(ts, *who, name, producer_id, epoch, kind, timeout, call.api_key, call.number))

    def _keep(self, step: Step) -> Iterator[Step]:
        """Yield a step, unless it is a WORK step that follows another WORK step of the producer within STEP_US.

        In a later slice, the time of the previous WORK step is in an earlier slice. Therefore the WORK steps at the
        beginning of a later slice are stored, up to the first step of another kind. ``merge`` yields them.
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
        """Add the data of the next slice of the connection, and yield the steps that ``later`` has stored for this.

        Afterwards this object is the same as if it had processed the calls of both slices. The exception is the call
        counts, which the caller gets from ``later.drain``. All steps must be consumed.

        ``later``: observer of the next slice. It must not be used again.
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
        """Set the time at which a partition left the fetch session, if the next slice shows this time.

        Args:
            place: topic and partition.
            times: periods in which the partition was in the session, in this slice. The last period has no end; the
                method sets the end.
            later: observer of the next slice.
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
        """Add the first Fetch requests of the next slice, ``later``, to the first Fetch requests of this slice.

        Only a later slice stores its first requests: the first request that contains a partition, the first request
        that removes a partition from the session, and the first full request.
        """
        if self._first_full is None and later._first_full is not None:
            self._first_full = self._fetches + later._first_full[0], later._first_full[1]
        for place, (number, begin) in later._first_gone.items():
            if place not in self._first_named:
                self._first_gone.setdefault(place, (self._fetches + number, begin))
        for place, number in later._first_named.items():
            self._first_named.setdefault(place, self._fetches + number)

    def finish(self, connection: Connection) -> tuple[Connected | None, list[Step], list[FetchSpan]]:
        """Return the data that are complete only at the end of the connection.

        Returns: the beginning and end of the connection, or None if it is not a Kafka connection; a LAST or CLOSED step
            for each transactional id; and the periods in which partitions were fetched.
        """
        host = host_of(connection.client)
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
        """Prepare this observer for the next part of a stream, after ``finish``, and return it.

        The partitions of the fetch session are kept. The periods in which partitions were fetched are removed, because
        ``finish`` has returned them.
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
        """Add a period of fetching, or extend the previous period if the pause between both is at most IDLE_US.

        Args:
            begin: time of the first Fetch request, in microseconds since 1970.
            end: time of the last Fetch response, in microseconds since 1970.
        """
        if self._active and begin - self._active[-1][1] <= IDLE_US:
            self._active[-1][1] = max(self._active[-1][1], end)
        else:
            self._active.append([begin, end])

    def _note_firsts(
        self, begin: int, named: Iterable[tuple[str, int]], gone: Iterable[tuple[str, int]] | None
    ) -> None:
        """Record the first Fetch requests of a later slice, which ``merge`` of the earlier slice needs.

        Args:
            begin: time of the request, in microseconds since 1970.
            named: partitions in the request.
            gone: partitions that the request removes from the fetch session. None for a full request, which removes all
                partitions that are not in ``named``.
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
    """Return the transactional id, producer id and producer epoch of a request.

    For a Produce request, producer id and producer epoch are -1, because only its record batches contain them.
    """
    if call.api_key == ApiKey.PRODUCE:
        return call.request.transactional_id, -1, -1
    return producer_of(call.request)


def _produce_codes(call: Call, response: Any) -> set[int]:
    if call.api_key != ApiKey.PRODUCE:
        return set()
    return {partition.error_code for topic in response.responses for partition in topic.partition_responses}

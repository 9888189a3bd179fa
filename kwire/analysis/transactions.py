"""Ends of transactions, and the outcome of offset commits in transactions.

EndTxn commits or aborts a transaction. The coordinator itself aborts a transaction in two cases: a producer sends
InitProducerId for the transactional id of an open transaction, or the transaction times out. After a timeout the
producer is fenced. Source: KIP-98, KIP-890, and Kafka's TransactionCoordinator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import MS
from kwire.analysis.events import GroupEvent
from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass

COMMITTED, ABORTED, REFUSED, NOT_KNOWN = "committed", "aborted", "refused", "unknown"

COMMIT, ABORT, INIT, FENCED = "commit", "abort", "init", "fenced"  # kinds of endings
_OF_PRODUCERS = {
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
}
FENCING = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
# Twice transaction.abort.timed.out.transaction.cleanup.interval.ms: by then the coordinator has aborted a transaction
# that timed out.
CLEANUP_US = 20_000_000  # microseconds


@dataclass(slots=True, frozen=True)
class Ending:
    """A call that ended, or that may have ended, a transaction.

    Attributes:
        ts: time in microseconds since 1970: time of the request for COMMIT and ABORT, time of the response for INIT and
            FENCED.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        transactional_id: transactional id.
        producer_id: producer id in the request; for INIT, in the response.
        producer_epoch: producer epoch in the request; for INIT, in the response.
        kind: COMMIT or ABORT for EndTxn, INIT for InitProducerId, FENCED for any request with a fencing error.
        answered: True if the response was captured.
        timeout_ms: for INIT, the transaction timeout in milliseconds of later transactions, or None if transactions do
            not time out; None for all other kinds.
    """

    ts: int
    conn_id: str
    broker: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: str
    answered: bool = True
    timeout_ms: int | None = None


def endings(call: Call) -> Iterator[Ending]:
    """Yield one ``Ending`` if a call ends, or may end, a transaction; nothing for all other calls.

    EndTxn and InitProducerId can end a transaction, and so can a fencing error in any response to the producer.
    """
    request = call.request
    if call.api_key not in _OF_PRODUCERS or request is None or call.request_us is None:
        return
    name, producer_id, epoch = producer_of(request)
    if not name:
        return
    new_ending = partial(Ending, conn_id=call.connection, broker=call.broker, transactional_id=name)
    of_sender = partial(new_ending, producer_id=producer_id, producer_epoch=epoch)
    if call.response is None or call.response_us is None:
        if call.api_key == ApiKey.END_TXN:
            yield of_sender(call.request_us, kind=COMMIT if request.committed else ABORT, answered=False)
        return
    response = call.response
    if response_codes(response) & FENCING:
        yield of_sender(call.response_us, kind=FENCED)
    elif call.api_key == ApiKey.END_TXN and not response.error_code:
        yield of_sender(call.request_us, kind=COMMIT if request.committed else ABORT)
    elif call.api_key == ApiKey.INIT_PRODUCER_ID and not response.error_code and not request.keep_prepared_txn:
        timeout = None if request.enable2_pc else request.transaction_timeout_ms
        identity = {"producer_id": response.producer_id, "producer_epoch": response.producer_epoch}
        yield new_ending(call.response_us, **identity, kind=INIT, timeout_ms=timeout)


def producer_of(request: object) -> tuple[str | None, int, int]:
    """Return transactional id, producer id and producer epoch of a request of a transactional producer.

    For AddPartitionsToTxn, the result is from the fields ``v3_and_below_...``.
    """
    of, old = attrgetter("transactional_id", "producer_id", "producer_epoch"), "v3_and_below_"
    if hasattr(request, f"{old}producer_id"):
        of = attrgetter(*(f"{old}{name}" for name in ("transactional_id", "producer_id", "producer_epoch")))
    identity: tuple[str | None, int, int] = of(request)
    return identity


def response_codes(response: object) -> set[int]:
    """Return the top-level error code of a response, and the error codes of its partitions."""
    codes = {getattr(response, "error_code", 0)}
    for topic in getattr(response, "topics", ()):
        codes |= {partition.error_code for partition in topic.partitions}
    for topic in getattr(response, "results_by_topic_v3_and_below", ()):
        codes |= {partition.partition_error_code for partition in topic.results_by_partition}
    return codes


class Transactions:
    """The ends of all transactions in a capture, from which the outcome of offset commits is derived.

    Args:
        endings: calls that ended, or may have ended, a transaction, in any order.
        clusters: clusters of the brokers; None if unknown.
    """

    def __init__(self, endings: Iterable[Ending] = (), clusters: Clusters | None = None) -> None:
        where = clusters or Clusters()
        self._of: dict[tuple[str | None, str], list[Ending]] = defaultdict(list)
        self._joined: dict[tuple[str | None, str], _Timeline] = {}
        for one in endings:
            self._of[where.id_of(one.conn_id, one.broker, one.ts), one.transactional_id].append(one)

    def outcome(self, event: GroupEvent, cluster: str | None, last: int) -> tuple[str, int | None]:
        """Return the outcome of an offset commit, and the time at which its transaction ended.

        The outcome is COMMITTED, ABORTED, REFUSED (the response has an error) or NOT_KNOWN. The time is in microseconds
        since 1970. It is None if the end of the transaction is unknown, and for a commit without a transaction or with
        an error.

        Args:
            event: event of the commit.
            cluster: id of the group's cluster; None if unknown.
            last: time of the group's last event, in microseconds since 1970.
        """
        if event.error_code:
            return REFUSED, None
        if event.transactional_id is None:
            return (NOT_KNOWN if event.error_code is None else COMMITTED), None
        line = self._timeline(cluster, event.transactional_id)
        decided, ts = _decide(line.after(event.ts), (event.producer_id, event.producer_epoch))
        if decided == COMMITTED and event.error_code is None:
            return NOT_KNOWN, ts  # no response captured: it may not have been part of the transaction
        if ts is None and (over := line.times_out(event.ts)) is not None and over < last:
            return ABORTED, over
        return decided, ts

    def _timeline(self, cluster: str | None, name: str) -> _Timeline:
        """Return the ends of the transactions of one transactional id in one cluster.

        Calls to brokers whose cluster is unknown are included.

        Args:
            cluster: cluster id; None if unknown.
            name: transactional id.
        """
        if (cluster, name) not in self._joined:
            endings = [one for where in {cluster, None} for one in self._of.get((where, name), ())]
            self._joined[cluster, name] = _Timeline(sorted(endings, key=attrgetter("ts", "conn_id", "kind")))
        return self._joined[cluster, name]


class _Timeline:
    """The ends of the transactions of one transactional id, in order of time.

    Args:
        endings: the ends, sorted by time.
    """

    def __init__(self, endings: Sequence[Ending]) -> None:
        self._endings = endings
        self._times = [one.ts for one in endings]
        self._inits = [one for one in endings if one.kind == INIT]

    def after(self, ts: int) -> Iterator[Ending]:
        """Yield the ends after the time ``ts``, in microseconds since 1970."""
        return (self._endings[n] for n in range(bisect_right(self._times, ts), len(self._endings)))

    def times_out(self, ts: int) -> int | None:
        """Return the time after which the coordinator has certainly aborted a transaction because of its timeout.

        The result is in microseconds since 1970; None if the transaction timeout is unknown or transactions do not time
        out.

        ``ts``: time of an offset commit in the transaction, in microseconds since 1970.
        """
        place = bisect_right(self._inits, ts, key=attrgetter("ts"))
        timeout = self._inits[place - 1].timeout_ms if place else None
        return None if timeout is None else ts + timeout * MS + CLEANUP_US


def _decide(later: Iterable[Ending], identity: tuple[int | None, int | None]) -> tuple[str, int | None]:
    """Return the outcome of an offset commit in a transaction, and the time of the call that decides the outcome.

    The time is in microseconds since 1970; it is None if no later call decides the outcome. If this call is an EndTxn
    without a captured response, the outcome is NOT_KNOWN.

    Args:
        later: ends of transactions after the commit, in order.
        identity: producer id and producer epoch of the commit.
    """
    end_txn: Ending | None = None
    for one in later:
        same = (one.producer_id, one.producer_epoch) == identity
        is_end = one.kind in _WORDS
        if one.kind == FENCED and not same:
            continue  # an earlier producer of the transactional id
        if is_end and not one.answered:
            end_txn = end_txn or (one if same else None)
        elif end_txn is not None and is_end and one.producer_id == identity[0]:
            return _WORDS[end_txn.kind], end_txn.ts  # a retry, or the next end: a producer does nothing else in between
        elif is_end:
            return (_WORDS[one.kind] if same else NOT_KNOWN), one.ts
        else:
            return (ABORTED if end_txn is None or end_txn.kind == ABORT else NOT_KNOWN), one.ts
    return NOT_KNOWN, None if end_txn is None else end_txn.ts


_WORDS = {COMMIT: COMMITTED, ABORT: ABORTED}

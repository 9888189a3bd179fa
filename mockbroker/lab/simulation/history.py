"""The history of a run: the requests and responses of the clients, with virtual times.

The history contains no internal state of the broker, and the checkers in ``checkers`` use nothing but the history. A
result is UNKNOWN if the response was lost. In this case, the broker may have applied the request, may not have applied
it, or may apply it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from math import inf

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.simulation.upkeep_history import Upkeep

Place = tuple[str, int]  # topic name and partition
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NOTHING = -1  # value of a register that does not exist
EARLIEST, LATEST = -2, -1  # timestamps of ListOffsets


class Result(StrEnum):
    """The result of an operation, as far as its client knows it.

    Attributes:
        UNKNOWN: the client has received no response.
        DONE: the operation succeeded.
        REFUSED: the operation failed with an error.
    """

    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"


class Choice(StrEnum):
    """The end of a transaction that its client has requested.

    Attributes:
        OPEN: the client has not sent EndTxn yet.
        COMMIT: the client has requested a commit.
        ABORT: the client has requested an abort.
    """

    OPEN = "open"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction of a client.

    Attributes:
        transactional_id: transactional id.
        producer: producer id and epoch.
        client: client name and the number of its start.
        number: number of the transaction since this start of the client.
        choice: the requested end.
        result: result of EndTxn.
        decided_at: virtual time of the first EndTxn, seconds; inf before.
        ended_at: virtual time of the response to EndTxn, seconds; inf before.
        sources: partition and offset of each record that the transaction has read.
    """

    transactional_id: str
    producer: tuple[int, int]
    client: tuple[str, int]
    number: int
    choice: Choice = Choice.OPEN
    result: Result = Result.UNKNOWN
    decided_at: float = inf
    ended_at: float = inf
    sources: list[tuple[Place, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"transaction {self.number} of {self.transactional_id} in epoch {self.producer[1]}"

    @property
    def may_be_committed(self) -> bool:
        return self.choice is Choice.COMMIT and self.result is not Result.REFUSED

    @property
    def is_committed(self) -> bool:
        return self.choice is Choice.COMMIT and self.result is Result.DONE


@dataclass(slots=True, eq=False)
class Write:
    """A record batch that a client has sent, once or several times with the same sequence numbers.

    Attributes:
        client: client name and the number of its start.
        place: partition.
        values: values of the records; each is unique in the run.
        acks: value of ``acks`` in the requests: -1 (all), 0 or 1.
        producer: producer id and epoch; None for a producer that is not idempotent.
        sequence: sequence number of the first record.
        transaction: transaction of the batch; None outside a transaction.
        sent_at: virtual time of the first request, seconds.
        done_at: virtual time of the successful response, seconds; inf without a successful response.
        result: result of the requests.
        offset: base offset in the response; -1 if it is unknown.
        error: error code after which the producer gave up; 0 if the producer did not give up.
    """

    client: tuple[str, int]
    place: Place
    values: tuple[bytes, ...]
    acks: int
    producer: tuple[int, int] | None = None
    sequence: int = -1
    transaction: Transaction | None = None
    sent_at: float = inf
    done_at: float = inf
    result: Result = Result.UNKNOWN
    offset: int = -1
    error: int = 0


@dataclass(slots=True, eq=False)
class Read:
    """The records of one partition that a client received in one Fetch response.

    Attributes:
        client: client name and the number of its start.
        place: partition.
        isolation: READ_UNCOMMITTED or READ_COMMITTED.
        start: position before the fetch.
        end: position after the fetch.
        records: offset and value of each record.
        at: virtual time of the response, seconds.
        final: whether the client is one of the clients that read all records at the end of the run.
    """

    client: tuple[str, int]
    place: Place
    isolation: int
    start: int
    end: int
    records: Sequence[tuple[int, bytes]]
    at: float
    final: bool = False


@dataclass(slots=True, eq=False)
class Fenced:
    """A request of a transactional producer, recorded to check the fencing of producers (I32).

    Attributes:
        transactional_id: transactional id.
        producer: producer id and epoch.
        what: name of the request's API.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the successful response, seconds; inf without a successful response.
    """

    transactional_id: str
    producer: tuple[int, int]
    what: str
    sent_at: float
    done_at: float = inf


@dataclass(slots=True, eq=False)
class OffsetOperation:
    """A commit or a lookup (OffsetFetch) of the committed offset of one group and partition.

    Attributes:
        group: group id.
        place: partition.
        offset: offset of the commit, or result of the lookup; -1 without a committed offset.
        write: True for a commit, False for a lookup.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds; inf without a response.
        result: result of the request.
        transaction: transaction of the commit; None outside a transaction. The commit takes effect when this
            transaction ends.
    """

    group: str
    place: Place
    offset: int
    write: bool
    sent_at: float
    done_at: float = inf
    result: Result = Result.UNKNOWN
    transaction: Transaction | None = None


@dataclass(slots=True, eq=False)
class Listing:
    """A ListOffsets result for one partition.

    Attributes:
        client: client name.
        place: partition.
        isolation: READ_UNCOMMITTED or READ_COMMITTED.
        timestamp: timestamp of the request: EARLIEST or LATEST.
        offset: offset in the response.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds.
    """

    client: str
    place: Place
    isolation: int
    timestamp: int
    offset: int
    sent_at: float
    done_at: float


@dataclass(slots=True, eq=False)
class RegisterOperation:
    """A request of an administrator that writes or reads a register, such as the number of partitions of a topic.

    Attributes:
        name: name of the register.
        value: the value that is set or was read; NOTHING if it is removed or does not exist.
        write: True for a write, False for a read.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds; inf without a response.
        result: result of the request.
    """

    name: str
    value: int
    write: bool
    sent_at: float
    done_at: float = inf
    result: Result = Result.UNKNOWN


@dataclass(slots=True, eq=False)
class Deletion:
    """A DeleteRecords request for one partition.

    Attributes:
        place: partition.
        offset: offset before which the records are deleted.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the successful response, seconds; inf without a successful response.
        low_watermark: start of the log in the response; -1 without a successful response.
    """

    place: Place
    offset: int
    sent_at: float
    done_at: float = inf
    low_watermark: int = -1


@dataclass(slots=True, eq=False)
class Answer:
    """The error code, or another value, in a response to an operator, which knows the values that are possible.

    Attributes:
        what: the client and the request, for the description of a violation.
        value: the value.
        possible: the values that are possible.
        at: virtual time of the response, seconds.
    """

    what: str
    value: int
    possible: frozenset[int]
    at: float


@dataclass(slots=True, eq=False)
class CredentialChange:
    """An alteration of a SCRAM credential or of a delegation token.

    Attributes:
        name: name of the credential.
        password: the password from then on; "" if the credential or the token is deleted.
        sent_at: virtual time of the request, seconds.
        done_at: virtual time of the response, seconds; inf without a response.
        result: result of the request.
        earliest_ms: earliest possible expiry time of a token, on the broker's clock in milliseconds since 1970; inf for
            a SCRAM credential.
        latest_ms: the latest possible one.
    """

    name: str
    password: str
    sent_at: float
    done_at: float = inf
    result: Result = Result.UNKNOWN
    earliest_ms: float = inf
    latest_ms: float = inf


@dataclass(slots=True, eq=False)
class Login:
    """A login on a new connection, whose result the client has received.

    Attributes:
        client: client name.
        credential: name of the credential.
        password: the password with which the client has logged in.
        accepted: whether the broker has answered a request after the login; False if it has refused the login.
        sent_at: virtual time at which the login began, seconds.
        sent_ms: the same on the broker's clock, in milliseconds since 1970.
        done_at: virtual time of the result, seconds.
        done_ms: the same on the broker's clock, in milliseconds since 1970.
    """

    client: str
    credential: str
    password: str
    accepted: bool
    sent_at: float
    sent_ms: int
    done_at: float
    done_ms: int


@dataclass(slots=True)
class History:
    """The history of a run.

    Attributes:
        writes: record batches, in the order of their first requests.
        reads: reads of records, in order.
        transactions: transactions, in the order in which they began.
        requests: requests of transactional producers.
        offsets: commits and lookups of offsets.
        listings: results of ListOffsets.
        registers: operations of administrators.
        deletions: DeleteRecords requests.
        answers: values in the responses to operators.
        credentials: alterations of credentials with which clients log in.
        logins: logins with these credentials.
        out_of_range: (partition, position, client name) of each fetch that was refused with OFFSET_OUT_OF_RANGE.
        jumps: virtual time of each jump of the broker's clock, and its length; both in seconds.
        upkeep: the operations of the clients of the scheme ``upkeep``.
        ends: isolation level -> partition -> log end offset that a reader at the end of the run has received.
    """

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    requests: list[Fenced] = field(default_factory=list)
    offsets: list[OffsetOperation] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    registers: list[RegisterOperation] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    credentials: list[CredentialChange] = field(default_factory=list)
    logins: list[Login] = field(default_factory=list)
    out_of_range: list[tuple[Place, int, str]] = field(default_factory=list)
    ends: dict[int, dict[Place, int]] = field(default_factory=dict)
    jumps: list[tuple[float, float]] = field(default_factory=list)
    upkeep: Upkeep = field(default_factory=Upkeep)

    def broker_time(self, at: float) -> float:
        """Return the time on the broker's clock at a virtual time, both in seconds."""
        return at + sum(seconds for when, seconds in self.jumps if when <= at)

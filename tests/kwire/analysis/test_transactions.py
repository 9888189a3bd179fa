"""Offsets that are committed in transactions, for every way in which a transaction ends."""

from __future__ import annotations

import pytest
from tools.captures import capture
from tools.handmade_calls import BEGIN, GROUP, CallLog, line

from kwire.analysis.report.by_group import commits, groups
from kwire.errorcodes import ErrorCode
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    TopicResult,
)
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

ID = "orders-1"
V1, V2 = 4, 5  # versions of EndTxn: with transaction.version 1, and with 2 (KIP-890), where each brings an epoch


def init(log: CallLog, at: float, epoch: int, error: int = 0, *, timeout: int = 60_000, keep: bool = False) -> None:
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout, keep_prepared_txn=keep)
    log.call("p", at, request, InitProducerIdResponse(error_code=error, producer_id=7, producer_epoch=epoch), 6)


def commit(log: CallLog, at: float, epoch: int, offset: int, error: int | None = 0, client: str = "p") -> None:
    partition, topic = TxnOffsetCommitRequest.Topic.Partition, TxnOffsetCommitResponse.Topic
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=7,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequest.Topic(name="tea", partitions=[partition(committed_offset=offset)])],
    )
    response = TxnOffsetCommitResponse(topics=[topic(name="tea", partitions=[topic.Partition(error_code=error or 0)])])
    log.call(client, at, request, None if error is None else response, 5)


def end(log: CallLog, at: float, epoch: int, *, committed: bool, error: int | None = 0, version: int = V1) -> None:
    request = EndTxnRequest(transactional_id=ID, producer_id=7, producer_epoch=epoch, committed=committed)
    answer = EndTxnResponse(error_code=error or 0, producer_id=7, producer_epoch=epoch + (version == V2))
    log.call("p", at, request, None if error is None else answer, version)


def outcomes(log: CallLog) -> list[tuple[object, ...]]:
    return [line(row, "offset outcome outcome_ts") for row in log.tables()["offset_commits"]]


@pytest.mark.parametrize("version", [V1, V2])
def test_end_txn_decides(version: int) -> None:
    """The end of its own transaction decides about each commit, whether or not the producer keeps its epoch."""
    log, grows = CallLog(), version == V2
    init(log, 0, 3)
    for number, committed in enumerate([True, False, True, False]):
        commit(log, 100 * number + 10, 3 + grows * number, number)
        end(log, 100 * number + 20, 3 + grows * number, committed=committed, version=version)
    assert outcomes(log) == [
        (0, "committed", 20.0),
        (1, "aborted", 120.0),
        (2, "committed", 220.0),
        (3, "aborted", 320.0),
    ]


def test_outside_of_transactions() -> None:
    log = CallLog()
    log.commit("a", 10, -1, 0, 5)
    log.commit("a", 20, -1, 0, 6, error=25)
    log.commit("a", 30, -1, 0, 7)
    log.calls[-1].response = log.calls[-1].response_us = None
    assert outcomes(log) == [(5, "committed", None), (6, "refused", None), (7, "unknown", None)]


def fenced_init(log: CallLog) -> None:
    init(log, 50, 4)


def fenced_end(log: CallLog) -> None:
    end(log, 50, 3, committed=True, error=ErrorCode.PRODUCER_FENCED)


def fenced_add_offsets(log: CallLog) -> None:
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=7, producer_epoch=3, group_id=GROUP)
    log.call("p", 50, request, AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH), 3)


def fenced_add_partitions(log: CallLog) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=[Topic(name="tea", partitions=[0])],
    )
    refused = TopicResult.Partition(partition_error_code=ErrorCode.PRODUCER_FENCED)
    result = TopicResult(name="tea", results_by_partition=[refused])
    log.call("p", 50, request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result]), 3)


def fenced_commit(log: CallLog) -> None:
    commit(log, 50, 3, 99, error=ErrorCode.INVALID_PRODUCER_EPOCH)


FENCED = [fenced_init, fenced_end, fenced_add_offsets, fenced_add_partitions, fenced_commit]


@pytest.mark.parametrize("fence", FENCED)
def test_fencing_aborts(fence) -> None:  # type: ignore[no-untyped-def]
    """The producer is fenced by another producer, or by the coordinator after the transaction timed out."""
    log = CallLog()
    init(log, 0, 3)
    commit(log, 10, 3, 1)
    fence(log)
    assert outcomes(log)[0] == (1, "aborted", 51.0)


def test_fencing_of_a_former_producer_aborts_nothing() -> None:
    log = CallLog()
    init(log, 0, 3)
    init(log, 5, 4)
    commit(log, 10, 4, 1)
    end(log, 20, 3, committed=True, error=ErrorCode.PRODUCER_FENCED)
    end(log, 30, 4, committed=True)
    assert outcomes(log) == [(1, "committed", 30.0)]


def test_retriable_errors_decide_nothing() -> None:
    log = CallLog()
    init(log, 0, 3)
    commit(log, 10, 3, 1)
    end(log, 20, 3, committed=True, error=ErrorCode.CONCURRENT_TRANSACTIONS)
    init(log, 25, -1, error=ErrorCode.CONCURRENT_TRANSACTIONS)
    assert outcomes(log) == [(1, "unknown", None)]
    end(log, 30, 3, committed=True)
    assert outcomes(log) == [(1, "committed", 30.0)]


def test_prepared_transaction_is_kept() -> None:
    """KIP-939: a producer that returns to its prepared transaction does not abort it."""
    log = CallLog()
    init(log, 0, 3)
    commit(log, 10, 3, 1)
    init(log, 20, 4, keep=True)
    assert outcomes(log) == [(1, "unknown", None)]


def test_outcome_is_unknown_when_the_capture_ends_first() -> None:
    log = CallLog()
    init(log, 0, 3)
    commit(log, 10, 3, 1)
    commit(log, 59_000, 3, 2)
    assert outcomes(log) == [(1, "unknown", None), (2, "unknown", None)]


def test_timeout_of_the_transaction_aborts() -> None:
    """After 60 s, and up to 20 s until the coordinator looks for such transactions, it is aborted without EndTxn."""
    log = CallLog()
    init(log, 0, 3)
    commit(log, 10, 3, 1)
    log.beat("a", 80_009, 1)
    assert outcomes(log) == [(1, "unknown", None)]
    log.beat("a", 80_011, 1)
    assert outcomes(log) == [(1, "aborted", 80_010.0)]


UNANSWERED = [  # calls after an EndTxn without a captured response, and what they show for a commit and for an abort
    (lambda _: None, "unknown", "unknown"),
    (lambda log: init(log, 50, 4), "unknown", "aborted"),
    (lambda log: end(log, 50, 3, committed=False), "committed", "aborted"),
    (lambda log: end(log, 50, 4, committed=False, version=V2), "committed", "aborted"),
    (lambda log: end(log, 50, 3, committed=True, error=None), "unknown", "unknown"),
]


@pytest.mark.parametrize(("follows", "of_commit", "of_abort"), UNANSWERED)
def test_end_without_its_response(follows, of_commit: str, of_abort: str) -> None:  # type: ignore[no-untyped-def]
    """A producer that ends another transaction has received the response before; a restarted one perhaps has not."""
    for committed, expected in ((True, of_commit), (False, of_abort)):
        log = CallLog()
        init(log, 0, 3)
        commit(log, 10, 3, 1)
        end(log, 20, 3, committed=committed, error=None)
        follows(log)
        assert outcomes(log)[0][1] == expected


def test_commit_without_its_response() -> None:
    log = CallLog()
    commit(log, 10, 3, 1, error=None)
    end(log, 20, 3, committed=True)
    commit(log, 30, 3, 2, error=None)
    end(log, 40, 3, committed=False)
    assert [outcome for _, outcome, _ in outcomes(log)] == ["unknown", "aborted"]


def story() -> CallLog:
    """Commit offsets 10, 20, 20 and 15 of one partition, of which the first 20 is aborted; then 30, without an end."""
    log = CallLog()
    init(log, 0, 3)
    partition, topic = ListOffsetsRequest.Topic.Partition, ListOffsetsResponse.Topic
    requested = ListOffsetsRequest.Topic(name="tea", partitions=[partition(timestamp=-1)])
    result = topic(name="tea", partitions=[topic.Partition(offset=40)])
    log.call("p", 5, ListOffsetsRequest(topics=[requested]), ListOffsetsResponse(topics=[result]), 5)
    for at, offset, committed in ((10, 10, True), (110, 20, False), (210, 20, True), (310, 15, True)):
        commit(log, at, 3, offset)
        end(log, at + 10, 3, committed=committed)
    commit(log, 410, 3, 30)
    return log


def test_group_totals_count_committed_offsets() -> None:
    (group,) = groups(story().tables())
    (found,) = group["commits"]
    assert {name: found[name] for name in ("count", "committed", "refused", "aborted", "unknown")} == {
        "count": 5,
        "committed": 3,
        "refused": 0,
        "aborted": 1,
        "unknown": 1,
    }
    assert (found["last_offset"], found["last_lag"], found["largest_lag"]) == (15, 25, 30)


def test_refused_commit_is_not_the_last() -> None:
    log = CallLog()
    log.commit("a", 10, -1, 0, 5)
    log.commit("a", 20, -1, 0, 6, error=25)
    (group,) = groups(log.tables())
    assert [(one["count"], one["refused"], one["last_offset"]) for one in group["commits"]] == [(2, 1, 5)]


def test_lag_is_that_of_the_group() -> None:
    tables = story().tables()
    assert [row["lag"] for row in tables["offset_commits"]] == [30, None, 20, 25, 10]
    (summary,) = commits(tables["offset_commits"])
    assert (summary["last_lag"], summary["largest_lag"]) == (25, 30)


def test_offset_that_went_back_was_committed() -> None:
    """A commit of 15 goes back after a committed 20, but not after an aborted 20."""
    (row,) = [row for row in story().tables()["violations"] if row["kind"] == "commit_went_back"]
    assert (row["ts"] - BEGIN, row["detail"]) == (310_000, "from 20 to 15")


def test_events_have_the_producer() -> None:
    (row,) = [row for row in story().tables()["group_events"] if row["offset"] == 15]
    assert (row["event"], row["transactional_id"], row["producer_id"], row["producer_epoch"]) == (
        "txn_commit",
        ID,
        7,
        3,
    )


CLIENTS = ["kafka-python-3.0.12__kafka-4.2.0__txn"]


@pytest.mark.parametrize("name", CLIENTS)
def test_real_client(name: str) -> None:
    """The client committed one transaction and aborted one."""
    rows = capture(name)["offset_commits"]
    assert [row["outcome"] for row in rows].count("committed") == len(rows) / 2
    assert {row["outcome"] for row in rows} == {"committed", "aborted"}

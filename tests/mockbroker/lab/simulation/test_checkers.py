"""The checkers of the clients' history, without a simulation: violations that they must report, and histories that
Kafka allows."""

from __future__ import annotations

from itertools import combinations
from math import inf

import pytest

from kwire import ErrorCode as E
from mockbroker.lab.simulation.checkers import CHECKERS
from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.checkers.linearizable import first_impossible
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.history import (
    EARLIEST,
    LATEST,
    NOTHING,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Choice,
    CredentialChange,
    Deletion,
    Fenced,
    History,
    Listing,
    Login,
    OffsetOperation,
    Read,
    RegisterOperation,
    Result,
    Transaction,
    Write,
)

PLACE = "t", 0
CLIENT = "m0", 1


class Story:
    """The history of a producer, a consumer and the readers at the end."""

    def __init__(self) -> None:
        self.history = History()

    def write(
        self, *values: bytes, offset: int = -1, sequence: int = -1, transaction: Transaction | None = None
    ) -> Write:
        producer = (1, 0) if sequence >= 0 else None
        write = Write(CLIENT, PLACE, values, -1, producer, sequence, transaction, 1.0)
        if offset >= 0:
            write.result, write.offset, write.done_at = Result.DONE, offset, 2.0
        self.history.writes.append(write)
        return write

    def transaction(self, choice: Choice, result: Result = Result.DONE, *, number: int = 1) -> Transaction:
        transaction = Transaction("x", (1, 0), CLIENT, number, choice, result, 5.0, 6.0)
        self.history.transactions.append(transaction)
        return transaction

    def read(self, start: int, end: int, records: dict[int, bytes], isolation: int = READ_UNCOMMITTED) -> None:
        self.history.reads.append(Read(("m1", 1), PLACE, isolation, start, end, list(records.items()), 9.0))

    def ends_with(self, records: dict[int, bytes], committed: dict[int, bytes] | None = None) -> None:
        for isolation, seen in (
            (READ_UNCOMMITTED, records),
            (READ_COMMITTED, records if committed is None else committed),
        ):
            end = max(records, default=-1) + 1
            self.history.reads.append(Read(("m9", 1), PLACE, isolation, 0, end, list(seen.items()), 99.0, final=True))

    def commit(self, offset: int, start: float, end: float = inf, transaction: Transaction | None = None) -> None:
        result = Result.UNKNOWN if end == inf else Result.DONE
        self.history.offsets.append(OffsetOperation("g", PLACE, offset, True, start, end, result, transaction))

    def lookup(self, offset: int, start: float, end: float) -> None:
        self.history.offsets.append(OffsetOperation("g", PLACE, offset, False, start, end, Result.DONE))

    def request(self, epoch: int, start: float, end: float = inf) -> None:
        self.history.requests.append(Fenced("x", (1, epoch), "Produce", start, end))

    def list_end(self, offset: int, start: float, end: float, isolation: int = READ_UNCOMMITTED) -> None:
        self.history.listings.append(Listing("m1", PLACE, isolation, LATEST, offset, start, end))

    def list_start(self, offset: int, start: float, end: float) -> None:
        self.history.listings.append(Listing("m1", PLACE, READ_UNCOMMITTED, EARLIEST, offset, start, end))

    def delete(self, offset: int, start: float, end: float = inf) -> None:
        self.history.deletions.append(Deletion(PLACE, offset, start, end, offset if end < inf else -1))

    def register(self, value: int, start: float, end: float, *, write: bool, result: Result = Result.DONE) -> None:
        self.history.registers.append(RegisterOperation("access", value, write, start, end, result))

    @property
    def broken(self) -> dict[str, str]:
        """Return the violated invariants."""
        log = FinalLog(self.history)
        return {name: text for name, check in CHECKERS.items() if (text := check(log))}


@pytest.fixture
def story() -> Story:
    return Story()


def test_records_that_are_there_violate_nothing(story):
    story.write(b"a", b"b", offset=0, sequence=0)
    story.read(0, 2, {0: b"a", 1: b"b"})
    story.ends_with({0: b"a", 1: b"b"})
    assert not story.broken


def test_an_acknowledged_record_is_lost(story):
    story.write(b"a", offset=0)
    story.ends_with({})
    assert story.broken == {"I27": "a was acknowledged in t-0 at offset 0, but is not in the log at the end"}


def test_an_unacknowledged_record_may_be_lost(story):
    story.write(b"a")
    story.ends_with({})
    assert not story.broken


def test_a_response_has_the_wrong_offset(story):
    story.write(b"a", offset=1)
    story.ends_with({0: b"a"})
    assert story.broken == {"I27": "a was acknowledged in t-0 at offset 1, but is at offset 0 of t-0"}


def test_a_record_of_a_committed_transaction_is_lost(story):
    story.write(b"a", offset=0, sequence=0, transaction=story.transaction(Choice.COMMIT))
    story.ends_with({0: b"a"}, committed={})
    assert list(story.broken) == ["I27"]


def test_a_record_is_duplicated(story):
    story.write(b"a", sequence=0)
    story.ends_with({0: b"a", 1: b"a"})
    assert story.broken == {"I28": "a of an idempotent producer is in t-0 at 0 and 1"}


def test_producers_without_idempotence_may_duplicate(story):
    story.write(b"a")
    story.ends_with({0: b"a", 1: b"a"})
    assert not story.broken


def test_records_are_out_of_order(story):
    story.write(b"a", sequence=0)
    story.write(b"b", sequence=1)
    story.ends_with({0: b"b", 1: b"a"})
    assert story.broken == {"I28": "a was sent before b, but is after it in t-0"}


def test_a_record_was_never_sent(story):
    story.ends_with({0: b"a"})
    assert story.broken == {"I28": "a is in t-0, but was never sent to it"}


def test_a_batch_is_stored_in_part(story):
    story.write(b"a", b"b", sequence=0)
    story.ends_with({0: b"a"})
    assert list(story.broken) == ["I28"]


def test_the_next_batch_is_refused(story):
    write = story.write(b"a", sequence=0)
    write.error, write.result = E.OUT_OF_ORDER_SEQUENCE_NUMBER, Result.REFUSED
    story.ends_with({})
    assert list(story.broken) == ["I28"]


@pytest.mark.parametrize(
    ("choice", "result"), [(Choice.ABORT, Result.DONE), (Choice.OPEN, Result.UNKNOWN), (Choice.COMMIT, Result.REFUSED)]
)
def test_an_uncommitted_record_is_read(story, choice, result):
    story.write(b"a", offset=0, sequence=0, transaction=story.transaction(choice, result))
    story.ends_with({0: b"a"})
    assert story.broken["I29"].startswith("m9 has read a at offset 0 of t-0 of transaction 1 of x in epoch 0, which")


def test_a_commit_without_a_response_may_be_read(story):
    story.write(b"a", offset=0, sequence=0, transaction=story.transaction(Choice.COMMIT, Result.UNKNOWN))
    story.ends_with({0: b"a"})
    assert not story.broken


def test_a_record_is_read_before_the_commit(story):
    transaction = story.transaction(Choice.COMMIT)
    transaction.decided_at = transaction.ended_at = 10.0
    story.write(b"a", offset=0, sequence=0, transaction=transaction)
    story.read(0, 1, {0: b"a"}, READ_COMMITTED)
    story.ends_with({0: b"a"})
    assert list(story.broken) == ["I29"]


def test_a_transaction_is_visible_in_part(story):
    transaction = story.transaction(Choice.COMMIT, Result.UNKNOWN)
    story.write(b"a", offset=0, sequence=0, transaction=transaction)
    story.write(b"b", offset=1, sequence=1, transaction=transaction)
    story.ends_with({0: b"a", 1: b"b"}, committed={0: b"a"})
    assert story.broken == {"I29": "1 of 2 records of transaction 1 of x in epoch 0 are visible"}


def test_a_refused_record_is_read(story):
    story.write(b"a").result = Result.REFUSED
    story.ends_with({0: b"a"})
    assert list(story.broken) == ["I29"]


@pytest.mark.parametrize("records", [{}, {0: b"b"}, {1: b"b", 0: b"a"}], ids=["skipped", "changed", "not in order"])
def test_a_read_differs_from_the_log(story, records):
    story.write(b"a")
    story.write(b"b")
    story.read(0, 2, records)
    story.ends_with({0: b"a", 1: b"b"})
    assert list(story.broken) == ["I30"]


def test_a_position_is_out_of_range(story):
    story.history.out_of_range.append((PLACE, 7, "m1"))
    assert story.broken == {"I30": "m1 had the position 7 in t-0, which is out of range"}


def test_two_transactions_have_read_each_other(story):
    first, second = story.transaction(Choice.COMMIT), story.transaction(Choice.COMMIT)
    second.client = "m2", 1
    story.write(b"a", offset=0, sequence=0, transaction=first)
    story.write(b"b", offset=1, sequence=1, transaction=second)
    first.sources, second.sources = [(PLACE, 1)], [(PLACE, 0)]
    story.ends_with({0: b"a", 1: b"b"})
    assert list(story.broken) == ["I31"]


def test_a_later_record_is_before_an_acknowledged_one(story):
    story.write(b"a", offset=1)
    later = story.write(b"b", offset=0)
    later.sent_at, later.done_at = 3.0, 4.0
    story.ends_with({0: b"b", 1: b"a"})
    text = "b was sent after a was acknowledged, but is before it in t-0, at offset 0 instead of one after 1"
    assert story.broken == {"I31": text}


def test_records_that_overlap_may_have_any_order(story):
    story.write(b"a", offset=1)
    story.write(b"b", offset=0).sent_at = 2.0
    story.ends_with({0: b"b", 1: b"a"})
    assert not story.broken


def test_overlapping_transactions_may_write_in_opposite_orders(story):
    """A write cycle (G0): Kafka does not isolate writers from each other."""
    first, second = story.transaction(Choice.COMMIT), story.transaction(Choice.COMMIT)
    second.client = "m2", 1
    for transaction, offset in ((first, 0), (second, 1)):
        story.write(b"%d" % offset, offset=offset, transaction=transaction)
        story.write(b"%d" % (3 - offset), offset=3 - offset, transaction=transaction)
    story.ends_with({number: b"%d" % number for number in range(4)})
    assert not story.broken


def test_a_fenced_producer_succeeds(story):
    story.request(1, 1.0, 2.0)
    story.request(0, 3.0, 4.0)
    assert list(story.broken) == ["I32"]


def test_a_response_of_a_fenced_producer_may_be_late(story):
    story.request(0, 1.0, 4.0)
    story.request(1, 2.0, 3.0)
    story.request(0, 5.0)
    assert not story.broken


def test_a_lookup_finds_the_last_commit(story):
    story.commit(1, 1.0, 2.0)
    story.commit(2, 3.0, 4.0)
    story.lookup(2, 5.0, 6.0)
    assert not story.broken


def test_a_lookup_finds_an_older_commit(story):
    story.commit(1, 1.0, 2.0)
    story.commit(2, 3.0, 4.0)
    story.lookup(1, 5.0, 6.0)
    assert story.broken == {"I33": "the lookup of 1 for t-0 of group g at 5.000 s fits no order of the commits"}


def test_a_commit_without_a_response_may_come_later(story):
    story.commit(1, 1.0)
    story.commit(2, 3.0, 4.0)
    story.lookup(2, 5.0, 6.0)
    story.lookup(1, 7.0, 8.0)
    assert not story.broken


def test_lookup_of_an_older_offset_is_found(story):
    story.commit(1, 1.0)
    story.commit(2, 3.0, 4.0)
    story.lookup(1, 5.0, 6.0)
    story.lookup(2, 7.0, 8.0)
    assert list(story.broken) == ["I33"]


def test_a_transaction_commits_at_its_end(story):
    story.commit(1, 1.0, 2.0, story.transaction(Choice.COMMIT))
    story.lookup(-1, 3.0, 5.5)
    story.lookup(1, 7.0, 8.0)
    assert not story.broken


def test_an_offset_of_an_aborted_transaction_is_found(story):
    story.commit(1, 1.0, 2.0, story.transaction(Choice.ABORT))
    story.lookup(1, 7.0, 8.0)
    assert list(story.broken) == ["I33"]


def test_a_record_is_processed_twice(story):
    for number, value in enumerate([b"a", b"b|g:t-0@0", b"c|g:t-0@0"]):
        story.write(value, offset=number)
    story.ends_with({0: b"a", 1: b"b|g:t-0@0", 2: b"c|g:t-0@0"})
    assert story.broken == {"I34": "g:t-0@0 was processed twice: b|g:t-0@0 and c|g:t-0@0"}


def test_an_uncommitted_record_is_processed(story):
    story.write(b"a", offset=0, sequence=0, transaction=story.transaction(Choice.ABORT))
    story.write(b"b|g:t-0@0", offset=1)
    story.ends_with({0: b"a", 1: b"b|g:t-0@0"}, committed={1: b"b|g:t-0@0"})
    assert story.broken == {"I34": "b|g:t-0@0 was made from offset 0 of t-0, which is not committed"}


def test_sequence_numbers_have_a_gap(story):
    story.write(b"a", sequence=0)
    story.write(b"b", sequence=1)
    story.write(b"c", sequence=2)
    story.ends_with({0: b"a", 1: b"c"})
    assert story.broken == {"I28": "c is in t-0 without the sequence numbers 1 to 1 before it"}


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_the_end_is_after_all_that_was_read(story, isolation):
    story.write(b"a")
    story.read(0, 1, {0: b"a"}, isolation)
    story.list_end(1, 10.0, 11.0, isolation)
    story.ends_with({0: b"a"})
    assert not story.broken
    story.list_end(0, 10.0, 11.0, isolation)
    assert story.broken == {
        "I36": "m1 got the end 0 of t-0 at 11.000 s, but offset 0 was read or acknowledged before the request"
    }


def test_end_offset_may_omit_unacknowledged_records(story):
    story.write(b"a", offset=0)
    story.list_end(0, 1.5, 3.0)
    story.ends_with({0: b"a"})
    assert not story.broken


def test_an_end_is_too_high(story):
    story.list_end(1, 0.1, 0.2)
    story.write(b"a", offset=0)
    story.ends_with({0: b"a"})
    assert story.broken == {"I36": "m1 got the end 1 of t-0 at 0.200 s, but a record that was sent later has offset 0"}


def has_order(operations: list[OffsetOperation], value: int = -1) -> bool:
    """Return whether some order explains all operations, by trying all orders of the operations."""
    first_end = min((each.done_at for each in operations), default=inf)
    return not operations or any(
        has_order([other for other in operations if other is not each], each.offset)
        for each in operations
        if each.sent_at <= first_end and (each.write or each.offset == value)
    )


def is_possible(operations: list[OffsetOperation]) -> bool:
    answered = [each for each in operations if each.done_at < inf]
    others = [each for each in operations if each.done_at == inf]
    subsets = (some for size in range(len(others) + 1) for some in combinations(others, size))
    return any(has_order([*answered, *some]) for some in subsets)


def test_impossible_lookups_are_those_that_no_order_explains():
    dice, impossible = Dice("registers"), 0
    for _ in range(400):
        operations = []
        for _ in range(dice.whole(2, 6)):
            write = dice.chance(0.6)
            start = 10 * dice.random()
            end = inf if write and dice.chance(0.4) else start + 4 * dice.random()
            operations.append(OffsetOperation("g", PLACE, dice.whole(1 if write else -1, 2), write, start, end))
        possible = is_possible(operations)
        assert (first_impossible(operations) is None) is possible
        impossible += not possible
    assert 100 < impossible < 300


def test_a_pending_offset_blocks_lookups(story):
    story.commit(1, 1.0, 2.0, story.transaction(Choice.COMMIT))
    story.lookup(-1, 1.5, 4.0)  # the lookup may have been before the commit
    story.lookup(-1, 4.5, 5.5)  # the lookup may have been after the end of the transaction
    assert "I37" not in story.broken
    story.lookup(-1, 3.0, 4.0)
    assert story.broken["I37"] == (
        "the lookup of t-0 of group g at 3.000 s returned -1, while transaction 1 of x in epoch 0 had the pending"
        " offset 1"
    )


def test_an_open_transaction_may_have_been_aborted(story):
    story.commit(1, 1.0, 2.0, story.transaction(Choice.OPEN, Result.UNKNOWN))
    story.lookup(-1, 3.0, 4.0)
    assert not story.broken


def test_a_register_has_the_last_value(story):
    story.register(NOTHING, 0.1, 0.2, write=False)
    story.register(2, 1.0, 2.0, write=True)
    story.register(2, 3.0, 4.0, write=False)
    story.register(NOTHING, 5.0, 6.0, write=True, result=Result.REFUSED)
    story.register(2, 7.0, 8.0, write=False)
    assert not story.broken


def test_a_denied_principal_writes(story):
    story.register(2, 1.0, 2.0, write=True)
    story.register(NOTHING, 3.0, 4.0, write=False)
    assert story.broken == {"I38": "access: a response with no value at 3.000 s fits no order of the requests"}


def test_deleted_records_may_be_missing(story):
    story.write(b"a", b"b", offset=0, sequence=0)
    story.write(b"c", offset=2)
    story.read(0, 2, {0: b"a", 1: b"b"})
    story.history.out_of_range.append((PLACE, 0, "m1"))
    story.delete(1, 3.0, 4.0)
    story.list_start(1, 5.0, 6.0)
    story.ends_with({1: b"b", 2: b"c"})
    assert not story.broken


@pytest.mark.parametrize(("start", "least", "most"), [(0, 1, 1), (2, 1, 1)], ids=["too low", "too high"])
def test_the_start_of_a_log_is_wrong(story, start, least, most):
    story.delete(1, 3.0, 4.0)
    story.list_start(start, 5.0, 6.0)
    assert story.broken == {
        "I39": f"m1 got the start {start} of t-0 at 6.000 s, but DeleteRecords moved it to {least} or at most {most}"
    }


def test_a_deletion_without_a_response_may_have_no_effect(story):
    story.delete(1, 3.0)
    story.list_start(0, 5.0, 6.0)
    story.list_start(1, 7.0, 8.0)
    assert not story.broken


def test_the_low_watermark_is_below_the_requested_offset(story):
    story.history.deletions.append(Deletion(PLACE, 2, 3.0, 4.0, 1))
    assert story.broken == {"I39": "DeleteRecords before 2 of t-0 returned the low watermark 1"}


def changed(password: str, sent_at: float, done_at: float = inf, expires_ms: float = inf) -> CredentialChange:
    result = Result.UNKNOWN if done_at == inf else Result.DONE
    return CredentialChange("c", password, sent_at, done_at, result, expires_ms, expires_ms)


def wrong_login(*changes: CredentialChange, password: str, accepted: bool, at: float, ends: float | None = None) -> str:
    ends = at if ends is None else ends
    history = History(credentials=list(changes))
    history.logins.append(Login("m1", "c", password, accepted, at, int(at * 1_000), ends, int(ends * 1_000)))
    return CHECKERS["I48"](FinalLog(history))


ALTERED = changed("old", 1.0, 2.0), changed("new", 3.0, 4.0), changed("", 5.0, 6.0)
LOGINS = {  # password, time, and whether a login may be accepted or refused
    "before the first alteration": ("old", 0.5, False, True),
    "during the first alteration": ("old", 1.5, True, True),
    "the only password": ("old", 2.5, True, False),
    "a password that comes later": ("new", 2.5, False, True),
    "the old one during the alteration": ("old", 3.5, True, True),
    "the new one during the alteration": ("new", 3.5, True, True),
    "the old one after the alteration": ("old", 4.5, False, True),
    "the new one after the alteration": ("new", 4.5, True, False),
    "during the deletion": ("new", 5.5, True, True),
    "after the deletion": ("new", 6.5, False, True),
}


@pytest.mark.parametrize("case", LOGINS)
def test_only_the_current_password_is_accepted(case: str) -> None:
    password, at, accepted, refused = LOGINS[case]
    assert (not wrong_login(*ALTERED, password=password, accepted=True, at=at)) is accepted
    assert (not wrong_login(*ALTERED, password=password, accepted=False, at=at)) is refused


@pytest.mark.parametrize("accepted", [True, False])
def test_a_login_may_overlap_an_alteration(accepted: bool) -> None:
    for password in ("old", "new"):
        assert not wrong_login(*ALTERED[:2], password=password, accepted=accepted, at=2.5, ends=3.5)
    lost = changed("new", 3.0)
    for password in ("old", "new"):
        assert not wrong_login(ALTERED[0], lost, password=password, accepted=accepted, at=9.0)
    lost.result = Result.REFUSED
    assert bool(wrong_login(ALTERED[0], lost, password="new", accepted=accepted, at=9.0)) is accepted


def test_a_token_is_accepted_until_its_expiry_time() -> None:
    created, renewed = changed("t", 1.0, 1.0, 3_000), changed("t", 2.0, 2.5, 8_000)
    assert not wrong_login(created, password="t", accepted=True, at=2.9, ends=3.1)
    assert not wrong_login(created, password="t", accepted=False, at=2.9, ends=3.1)
    assert wrong_login(created, password="t", accepted=False, at=2.9).startswith("a login of m1 with c, from 2.900")
    assert wrong_login(created, password="t", accepted=True, at=3.1)
    assert not wrong_login(created, renewed, password="t", accepted=True, at=3.1)
    assert wrong_login(created, renewed, password="t", accepted=False, at=3.1)
    assert wrong_login(created, renewed, password="t", accepted=True, at=8.1)

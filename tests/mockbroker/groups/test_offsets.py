"""Committed offsets of one group."""

from __future__ import annotations

import pytest

from mockbroker.groups.offsets import Committed, Offsets, is_metadata_too_large


def test_there_are_no_offsets_at_first():
    offsets = Offsets()
    assert offsets.get("t", 0) is None
    assert offsets.by_topic() == {}


def test_the_last_commit_replaces_earlier_ones():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=5, leader_epoch=1, metadata="a"))
    offsets.store("t", 0, Committed(offset=3))
    assert offsets.get("t", 0) == Committed(offset=3, leader_epoch=-1, metadata="")


def test_offsets_are_kept_by_topic_and_partition():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=1))
    offsets.store("t", 1, Committed(offset=2))
    offsets.store("u", 0, Committed(offset=-7))
    assert offsets.get("u", 1) is None
    assert offsets.by_topic() == {
        "t": {0: Committed(offset=1), 1: Committed(offset=2)},
        "u": {0: Committed(offset=-7)},
    }


def test_topics_have_the_order_of_their_first_commits():
    offsets = Offsets()
    for topic, partition in (("b", 3), ("a", 1), ("b", 0), ("b", 3)):
        offsets.store(topic, partition, Committed(offset=0))
    assert [(topic, list(found)) for topic, found in offsets.by_topic().items()] == [("b", [3, 0]), ("a", [1])]


# --- offsets of transactions --------------------------------------------------------------------------------------


def pending(*commits: tuple[int, int, int]) -> Offsets:
    """Return offsets with pending commits: producer id, partition, offset."""
    offsets = Offsets()
    for producer_id, partition, offset in commits:
        offsets.store_transactional(producer_id, 0, "t", partition, Committed(offset=offset))
    return offsets


def stored(offsets: Offsets) -> dict[int, int]:
    return {partition: committed.offset for (_, partition), committed in offsets.committed.items()}


def test_transaction_commits_or_discards_its_offsets() -> None:
    for committed, result in ((True, {0: 5, 1: 6}), (False, {})):
        offsets = pending((7, 0, 5), (7, 1, 6))
        assert (stored(offsets), offsets.is_unstable("t", 0), offsets.is_unstable("t", 2)) == ({}, True, False)
        assert offsets.end_transaction(7, committed=committed) == {("t", each): result[each] for each in result}
        assert (stored(offsets), offsets.is_unstable("t", 0), offsets.pending_transactional) == (result, False, {})
        assert offsets.end_transaction(7, committed=True) == {}


def test_partition_is_unstable_until_all_transactions_end() -> None:
    offsets = pending((7, 0, 5), (8, 0, 6))
    offsets.end_transaction(7, committed=True)
    assert offsets.is_unstable("t", 0)
    offsets.end_transaction(8, committed=False)
    assert not offsets.is_unstable("t", 0)
    assert stored(offsets) == {0: 5}


def test_later_request_wins_over_the_end_of_a_transaction() -> None:
    """In OffsetMetadataManager, the order of the requests matters, not the order in which the transactions end."""
    offsets = pending((7, 0, 5))
    offsets.store("t", 0, Committed(offset=9))
    assert offsets.end_transaction(7, committed=True) == {}
    assert stored(offsets) == {0: 9}
    offsets.store_transactional(8, 0, "t", 0, Committed(offset=3))
    assert offsets.end_transaction(8, committed=True) == {("t", 0): 3}
    offsets = pending((7, 0, 1), (8, 0, 2))
    offsets.end_transaction(8, committed=True)
    assert offsets.end_transaction(7, committed=True) == {}
    assert stored(offsets) == {0: 2}


def test_restored_offsets_have_the_order_of_the_log() -> None:
    for log_offset, result in ((4, 9), (6, 1)):
        offsets = Offsets()
        offsets.restore({("t", 0): (log_offset, Committed(offset=1))})
        offsets.restore_transactional(7, {("t", 0): (5, Committed(offset=9))})
        assert offsets.is_unstable("t", 0)
        offsets.end_transaction(7, committed=True)
        assert (stored(offsets), offsets.is_unstable("t", 0)) == ({0: result}, False)


def test_commit_after_a_restore_is_the_latest() -> None:
    offsets = Offsets()
    offsets.restore({("t", 0): (0, Committed(offset=1))})
    offsets.restore_transactional(7, {("t", 0): (90, Committed(offset=2)), ("t", 1): (4, Committed(offset=3))})
    offsets.store("t", 0, Committed(offset=4))
    offsets.end_transaction(7, committed=True)
    assert stored(offsets) == {0: 4, 1: 3}
    offsets = Offsets()
    offsets.restore({("t", 0): (90, Committed(offset=1))})
    offsets.store_transactional(7, 0, "t", 0, Committed(offset=5))
    offsets.end_transaction(7, committed=True)
    assert stored(offsets) == {0: 5}
    offsets = Offsets()
    offsets.restore({("t", 0): (0, Committed(offset=1))})
    offsets.restore_transactional(7, {("t", 0): (0, Committed(offset=2))})
    assert offsets.end_transaction(7, committed=True) == {}, "the same record"


def test_deleted_offset_leaves_no_pending_one() -> None:
    offsets = pending((7, 0, 5), (7, 1, 6), (8, 0, 7))
    offsets.store("t", 0, Committed(offset=1))
    offsets.mark_written()
    offsets.delete("t", 0)
    assert (stored(offsets), list(offsets.unwritten), offsets.is_unstable("t", 0)) == ({}, [("t", 0)], False)
    assert {key: list(value) for key, value in offsets.pending_transactional.items()} == {7: [("t", 1)]}
    assert offsets.end_transaction(8, committed=True) == {}
    assert offsets.end_transaction(7, committed=True) == {("t", 1): 6}


def test_deleted_offset_has_no_earlier_request() -> None:
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=1))
    offsets.delete("t", 0)
    offsets.restore_transactional(7, {("t", 0): (0, Committed(offset=2))})
    offsets.end_transaction(7, committed=True)
    assert stored(offsets) == {0: 2}


def test_topics_have_committed_and_pending_offsets() -> None:
    offsets = pending((7, 3, 5))
    offsets.store("u", 0, Committed(offset=1))
    offsets.store("v", 0, Committed(offset=2))
    assert sorted(offsets.of_topics({"t", "u", "w"})) == [("t", 3), ("u", 0)]


def test_changes_are_unwritten_until_they_are_marked() -> None:
    offsets = pending((7, 0, 5))
    offsets.store("t", 1, Committed(offset=1))
    assert list(offsets.unwritten) == [("t", 1)]
    assert {key: list(value) for key, value in offsets.unwritten_transactional.items()} == {(7, 0): [("t", 0)]}
    offsets.mark_written()
    assert (offsets.unwritten, offsets.unwritten_transactional) == ({}, {})


def test_copy_has_the_offsets_of_its_time() -> None:
    offsets = pending((7, 0, 5))
    offsets.store("t", 1, Committed(offset=1))
    copied = offsets.copy()
    offsets.store("t", 1, Committed(offset=2))
    offsets.end_transaction(7, committed=True)
    assert (stored(copied), copied.is_unstable("t", 0), copied.pending_transactional) == ({1: 1}, True, {})


@pytest.mark.parametrize(
    ("metadata", "limit", "too_large"),
    [
        (None, 0, False),
        ("", 0, False),
        ("abcd", 4, False),
        ("abcde", 4, True),
        ("\U0001f600" * 2, 4, False),
        ("\U0001f600" * 2, 3, True),
        ("\ud800" * 4, 4, False),
        ("ab", 4, False),
    ],
)
def test_metadata_is_measured_in_code_units(metadata: str | None, limit: int, too_large: bool) -> None:
    assert is_metadata_too_large(metadata, limit) is too_large


def test_offset_without_details_has_the_defaults_of_kafka() -> None:
    committed = Committed(offset=5)
    assert (committed.leader_epoch, committed.metadata, committed.expires) == (-1, "", None)

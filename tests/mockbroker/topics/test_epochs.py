"""The leader epochs of a partition: restoring and lookup."""

from __future__ import annotations

import pytest

from mockbroker.topics.epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Return a cache with epoch 1 from offset 5, epoch 2 from offset 8, and epoch 6 from offset 9."""
    epochs = LeaderEpochs()
    epochs.restore([(1, 5), (1, 6), (2, 8), (6, 9)], 6, 12)
    return epochs


def test_restored_epochs_begin_with_their_first_batch(epochs: LeaderEpochs) -> None:
    assert epochs.entries == [(1, 5), (2, 8), (6, 9)]
    epochs.restore([(3, 0), (2, 4)], 4, 7)  # replaces all entries; an epoch never decreases
    assert epochs.entries == [(3, 0), (4, 7)]
    epochs.restore([(1, 5)], 2, 9)
    assert epochs.entries == [(1, 5), (2, 9)]
    epochs.restore([(1, 0)], 1, 9)
    assert epochs.entries == [(1, 0)]
    epochs.restore([], 0, 0)
    assert epochs.entries == [(0, 0)]


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (4, -1), (5, 1), (7, 1), (8, 2), (9, 6), (100, 6)])
def test_epoch_of_a_record(epochs: LeaderEpochs, offset: int, epoch: int) -> None:
    assert epochs.of(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 8)), (2, (2, 9)), (3, (2, 9)), (5, (2, 9)), (6, (6, 12)), (7, (-1, -1))],
)
def test_end_of_an_epoch_is_the_start_of_the_next(epochs: LeaderEpochs, epoch: int, answer: tuple[int, int]) -> None:
    """As in LeaderEpochFileCache.endOffsetFor, an epoch without records has the end offset of the previous epoch."""
    assert epochs.end_of(epoch, 12) == answer


def test_log_without_epochs_has_no_end_of_any() -> None:
    assert [LeaderEpochs().end_of(epoch, 0) for epoch in (-1, 0, 1)] == [(-1, -1)] * 3


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (4, [(1, 5), (2, 8), (6, 9)]),
        (5, [(1, 5), (2, 8), (6, 9)]),
        (6, [(1, 6), (2, 8), (6, 9)]),
        (8, [(2, 8), (6, 9)]),
        (10, [(6, 10)]),
    ],
)
def test_first_epoch_begins_at_the_log_start_offset(
    epochs: LeaderEpochs, start: int, entries: list[tuple[int, int]]
) -> None:
    epochs.truncate_from_start(start)
    assert epochs.entries == entries


@pytest.mark.parametrize(
    ("epoch", "offset", "entries"),
    [
        (7, 12, [(1, 5), (2, 8), (6, 9), (7, 12)]),
        (7, 9, [(1, 5), (2, 8), (7, 9)]),
        (7, 8, [(1, 5), (7, 8)]),
        (6, 12, [(1, 5), (2, 8), (6, 12)]),
        (2, 12, [(1, 5), (2, 12)]),
        (7, 5, [(7, 5)]),
    ],
)
def test_new_epoch_replaces_those_without_records(
    epochs: LeaderEpochs, epoch: int, offset: int, entries: list[tuple[int, int]]
) -> None:
    epochs.begin(epoch, offset)
    assert epochs.entries == entries

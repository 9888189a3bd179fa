"""The leader epochs of a partition, as they are restored and looked up."""

from __future__ import annotations

import pytest

from mockbroker.topics.epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epoch 1 from offset 5, epoch 2 from offset 8, epoch 6 from offset 9."""
    epochs = LeaderEpochs()
    epochs.restore([(1, 5), (1, 6), (2, 8), (6, 9)], 6, 12)
    return epochs


def test_restored_epochs_begin_with_their_first_batch(epochs: LeaderEpochs) -> None:
    assert epochs.entries == [(1, 5), (2, 8), (6, 9)]
    epochs.restore([(3, 0), (2, 4)], 4, 7)  # replaces what was there; an epoch never decreases
    assert epochs.entries == [(3, 0), (4, 7)]
    epochs.restore([], 0, 0)
    assert epochs.entries == [(0, 0)]


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (4, -1), (5, 1), (7, 1), (8, 2), (9, 6), (100, 6)])
def test_epoch_of_a_record(epochs: LeaderEpochs, offset: int, epoch: int) -> None:
    assert epochs.of(offset) == epoch

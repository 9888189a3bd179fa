from __future__ import annotations

import pytest

from kwire.anonymize.permutation import Permutation


@pytest.mark.parametrize("size", [2, 3, 64, 65, 300])
def test_each_number_is_the_image_of_another(size: int) -> None:
    permutation = Permutation(b"key", b"label", size)
    images = [permutation.image(number) for number in range(size)]
    assert sorted(images) == list(range(size))
    assert all(number != image for number, image in enumerate(images))


def test_a_single_number_is_its_own_image() -> None:
    assert Permutation(b"key", b"label", 1).image(0) == 0


def test_key_and_label_change_the_permutation() -> None:
    first, *others = (
        [Permutation(key, label, 1000).image(number) for number in range(50)]
        for key, label in ((b"key", b"label"), (b"other", b"label"), (b"key", b"other"))
    )
    assert first not in others

"""A random number generator that produces the same sequences in every Python version."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")
FACTOR, STEP, MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1  # Knuth's MMIX
SCALE = 2.0**-53


class Dice:
    """A stream of random numbers, with a text as its seed. Streams with different seeds are independent.

    ``label``: the parts of the seed, which are converted to text and joined.
    """

    def __init__(self, *label: object) -> None:
        text = " ".join(map(str, label)).encode()
        self._state = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")

    def random(self) -> float:
        """Return a number from 0 (inclusive) to 1 (exclusive)."""
        self._state = state = self._state * FACTOR + STEP & MASK
        return ((state ^ state >> 29) >> 11) * SCALE

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit`` - 1."""
        return int(self.random() * limit)

    def whole(self, first: int, last: int) -> int:
        """Return an integer from ``first`` to ``last``, both included."""
        return first + self.below(last - first + 1)

    def between(self, least: float, most: float) -> float:
        return least + (most - least) * self.random()

    def chance(self, of_one: float) -> bool:
        """Return True with the probability ``of_one`` (0 to 1), else False."""
        return self.random() < of_one

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T]) -> list[T]:
        """Return a random subset of ``choices`` in the same order, with at least one element."""
        subset = [each for each in choices if self.chance(0.5)]
        return subset or [self.pick(choices)]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(len(choices))]

    def uuid(self) -> UUID:
        return UUID(int=self.below(1 << 62) << 62 | self.below(1 << 62))

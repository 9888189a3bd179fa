"""Chance that is the same everywhere: a seed gives the same numbers in every version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")
FACTOR, STEP, MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1  # Knuth's MMIX
BITS = 53


class Dice:
    """A stream of its own for every label, so that what one draws changes nothing for another."""

    def __init__(self, *label: object) -> None:
        text = " ".join(map(str, label)).encode()
        self._state = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")

    def random(self) -> float:
        """From 0 up to, and without, 1."""
        self._state = state = (self._state * FACTOR + STEP) & MASK
        return ((state ^ state >> 29) >> 11) / (1 << BITS)

    def below(self, limit: int) -> int:
        """From 0 to ``limit`` - 1."""
        return int(self.random() * limit)

    def whole(self, first: int, last: int) -> int:
        """From ``first`` to ``last``, both of them included."""
        return first + self.below(last - first + 1)

    def between(self, least: float, most: float) -> float:
        return least + (most - least) * self.random()

    def chance(self, of_one: float) -> bool:
        """True with this probability."""
        return self.random() < of_one

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T]) -> list[T]:
        """At least one of them, in their order."""
        found = [each for each in choices if self.chance(0.5)]
        return found or [self.pick(choices)]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(len(choices))]

    def uuid(self) -> UUID:
        return UUID(int=self.below(1 << 62) << 62 | self.below(1 << 62))

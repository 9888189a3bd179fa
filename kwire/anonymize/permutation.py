"""Keyed permutations of numbers. With them, different short texts get different pseudonyms."""

from __future__ import annotations

import hmac

ROUNDS = 8


class Permutation:
    """A keyed permutation of the numbers below ``size`` that maps no number to itself if ``size`` is above 1.

    It is a Feistel network over the next larger power of four. A result that is not below ``size`` is permuted again
    (cycle walking). To exclude fixed points, the permutation, a rotation by one and the inverse permutation are applied
    in this order.

    Args:
        key: secret key.
        label: bytes that distinguish the permutations of one key.
        size: number of elements, at least 1.
    """

    __slots__ = ("_half", "_key", "_label", "_mask", "_rotation", "_width", "size")

    def __init__(self, key: bytes, label: bytes, size: int) -> None:
        self.size = size
        self._key = key
        self._label = label
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        self._width = (self._half + 7) // 8
        self._rotation = 1 + self._mac(b"rotation") % (size - 1) if size > 1 else 0

    def image(self, number: int) -> int:
        """Return the number that replaces ``number``."""
        position = (self._walk(number, range(ROUNDS - 1, -1, -1), swap=True) + self._rotation) % self.size
        return self._walk(position, range(ROUNDS), swap=False)

    def _walk(self, number: int, rounds: range, *, swap: bool) -> int:
        while True:
            number = self._feistel(number, rounds, swap)
            if number < self.size:
                return number

    def _feistel(self, number: int, rounds: range, swap: bool) -> int:
        """Apply rounds of the Feistel network to a number, and return the result.

        If the rounds are applied in reverse order and with ``swap``, the result is the inverse of the permutation.

        Args:
            number: number to permute.
            rounds: numbers of the rounds, in the order in which they are applied.
            swap: True to swap both halves of the number, before the first round and after the last round.
        """
        left, right = number >> self._half, number & self._mask
        if swap:
            left, right = right, left
        for each in rounds:
            left, right = right, left ^ (self._mac(bytes((each,)) + right.to_bytes(self._width, "big")) & self._mask)
        if swap:
            left, right = right, left
        return left << self._half | right

    def _mac(self, message: bytes) -> int:
        return int.from_bytes(hmac.digest(self._key, self._label + message, "sha256"), "big")

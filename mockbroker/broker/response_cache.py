"""Answers that stay the same until the cluster changes: made once, encoded once."""

from __future__ import annotations

from collections.abc import Hashable

MOST = 40_000_000  # bytes that all of it may take, roughly

Answer = tuple[object, dict[int, bytes]]  # a response, and its bytes by version (see calls.Reply)


class Answers:
    """``epoch``: what the answers were made from; with another one all are forgotten."""

    def __init__(self) -> None:
        self._epoch = -1
        self._kept: dict[Hashable, Answer] = {}
        self._weights: dict[Hashable, int] = {}
        self._weight = 0

    def get(self, epoch: int, question: Hashable) -> Answer | None:
        """The answer to this question, if it was kept since the cluster became as it is."""
        return self._kept.get(question) if epoch == self._epoch else None

    def weight(self, question: Hashable) -> int:
        """The weight of an answer that is kept."""
        return self._weights[question]

    def keep(self, epoch: int, question: Hashable, response: object, weight: int) -> Answer:
        """Keep a response, which must not be changed any more. ``weight``: bytes that it takes, roughly."""
        answer: Answer = response, {}
        if weight > MOST:
            return answer
        if epoch != self._epoch or self._weight + weight > MOST:
            self._epoch, self._weight = epoch, 0
            self._kept.clear()
            self._weights.clear()
        self._kept[question] = answer
        self._weights[question] = weight
        self._weight += weight
        return answer

    def __len__(self) -> int:
        return len(self._kept)

"""The counters of a rule, which decide whether the rule is applied to a matching request."""

from __future__ import annotations

import random

from mockbroker.faults.rule import Delay, Occurrence


class Counters:
    """The counters of a fault rule, which decide to which matching requests the rule is applied.

    Random decisions are seeded, so the same rule and the same requests always lead to the same decisions.

    Args:
        occurrence: the settings that limit how often the rule is applied.

    Attributes:
        matched: number of requests that matched the rule.
        applied: number of requests to which the rule was applied.
        ended: whether the rule has ended, so that it is applied to no further request.
    """

    def __init__(self, occurrence: Occurrence) -> None:
        self.matched = 0
        self.applied = 0
        self.ended = False
        self._occurrence = occurrence
        self._random = random.Random(occurrence.seed)  # noqa: S311 not a secret

    @property
    def exhausted(self) -> bool:
        """Whether the rule is applied to no further request."""
        return self.ended or (self._occurrence.times is not None and self.applied >= self._occurrence.times)

    def record_match(self) -> bool:
        """Count a matching request. Return True, and count an application, if the rule applies to the request."""
        self.matched += 1
        after_skip = self.matched - self._occurrence.skip - 1
        if after_skip < 0 or after_skip % self._occurrence.every or not self._is_drawn() or self.exhausted:
            return False
        self.applied += 1
        return True

    def undo(self) -> None:
        """Subtract one application of the rule from the counter ``applied``, because the fault has no effect, or
        because its effect is not known before the response.
        """
        self.applied -= 1

    def record_effect(self) -> bool:
        """Count an application whose effect was not known before the response. Return False, and count nothing, if the
        rule was meanwhile applied to as many other requests as it may be.
        """
        if self.exhausted:
            return False
        self.applied += 1
        return True

    def delay_ms(self, delay: Delay) -> int:
        """Return the time in milliseconds by which a request is delayed, including random jitter.

        ``delay``: the action.
        """
        return delay.delay_ms + (self._random.randint(0, delay.jitter_ms) if delay.jitter_ms else 0)

    def _is_drawn(self) -> bool:
        return self._occurrence.probability >= 1 or self._random.random() < self._occurrence.probability

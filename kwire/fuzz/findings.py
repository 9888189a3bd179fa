"""What a broker did wrong, as a file that says how to do it again, and how that is made small. No sockets here."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kwire.envelope import Response
from kwire.frames import pack
from kwire.fuzz.session import Names, Step
from kwire.messages.join_group import JoinGroupResponse

CRASH, HANG, HARM, UNREADABLE, CORRELATION = "crash", "hang", "harm", "unreadable", "correlation"
KINDS: Mapping[str, str] = {
    CRASH: "the broker takes no connections any more",
    HANG: "no answer and no close in the time that the request allows",
    HARM: "the healthy group lost its member, its generation or its offsets, or the broker stopped answering it",
    UNREADABLE: "an answer that cannot be decoded, or has bytes behind it",
    CORRELATION: "an answer with another correlation id than the request",
}
FORM = 1  # of the file


class FindingError(ValueError):
    """A file that is not a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind``: one of KINDS; ``steps``: what was sent, in the names of the run that found it."""

    kind: str
    detail: str
    seed: int
    case: int
    names: Names
    steps: tuple[Step, ...]

    @property
    def what(self) -> str:
        """The step that was broken, or the last if it is not there any more."""
        return next((step.what for step in self.steps if step.broken), self.steps[-1].what if self.steps else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "detail": self.detail,
            "what": self.what,
            "seed": self.seed,
            "case": self.case,
            "nonce": self.names.nonce,
            "topic_id": str(self.names.topic_id),
            "steps": [
                {"hex": step.data.hex(), "what": step.what, "broken": step.broken, "learned": step.learned}
                for step in self.steps
            ],
            "form": FORM,
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Finding:
        """Raises: FindingError."""
        try:
            given = json.loads(text)
            steps = tuple(
                Step(bytes.fromhex(step["hex"]), str(step["what"]), bool(step["broken"]), str(step["learned"]))
                for step in given["steps"]
            )
            names = Names(str(given["nonce"]), UUID(given["topic_id"]))
            found = cls(str(given["kind"]), str(given["detail"]), int(given["seed"]), int(given["case"]), names, steps)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FindingError(f"not a finding: {error!r}") from None
        if found.kind not in KINDS or given.get("form") != FORM:
            raise FindingError(f"not a finding of form {FORM}: kind {found.kind!r}")
        return found


class Recorded:
    """The steps of a finding, said again: with the names of another run, and the member ids that it is given.

    What a broker made up then is replaced by what it makes up now, where both have the same length, as member ids of
    one client id have.
    """

    def __init__(self, steps: Sequence[Step], then: Names, now: Names) -> None:
        self.steps: list[Step] = []
        self._rest = list(steps)
        self._now: dict[bytes, bytes] = {then.nonce.encode(): now.nonce.encode()}
        if then.topic_id.int:
            self._now[then.topic_id.bytes] = now.topic_id.bytes

    def next(self) -> Step | None:
        """What is sent next; None at the end."""
        if not self._rest:
            return None
        step = self._rest.pop(0)
        data = step.data
        for then, now in self._now.items():
            data = data.replace(then, now)
        self.steps.append(replace(step, data=data))
        return self.steps[-1]

    def answered(self, response: Response) -> None:
        """Take what the broker said to the step last given."""
        step = self.steps[-1]
        if isinstance(response.body, JoinGroupResponse) and len(response.body.member_id) == len(step.learned) > 0:
            self._now[step.learned.encode()] = response.body.member_id.encode()
            self.steps[-1] = replace(step, learned=response.body.member_id)


def shrink(steps: Sequence[Step], holds: Callable[[Sequence[Step]], bool], tries: int) -> tuple[Step, ...]:
    """Fewer steps, and fewer bytes in the last, that still do it; ``holds`` tells, at most ``tries`` times."""
    left = tries
    best = list(steps)
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(best):
            if left <= 0:
                break
            left -= 1
            if holds(smaller):
                best, progress = smaller, True
                break
    return tuple(best)


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    """Ways to have less, the largest first: a step gone, then a piece of the last, which shows what is wrong."""
    if len(steps) > 1:
        yield from (steps[:at] + steps[at + 1 :] for at in range(len(steps)))
    if steps:
        yield from ([*steps[:-1], smaller] for smaller in _shorter(steps[-1]))


def _shorter(step: Step) -> Iterator[Step]:
    frame = step.data[4:]
    if struct.unpack_from(">i", step.data)[0] != len(frame):
        return  # the length itself is what is wrong
    size = len(frame) // 2
    while size:
        for start in range(len(frame) - size, 7, -size):
            yield replace(step, data=pack(frame[:start] + frame[start + size :]))
        size //= 2

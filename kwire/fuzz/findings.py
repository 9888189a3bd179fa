"""Findings: files that describe how to reproduce a failure of a broker, and functions that reduce findings to fewer
steps.

This module uses no sockets.
"""

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
    CRASH: "the broker no longer accepts connections",
    HANG: "no response and no close within the time that the request allows",
    HARM: "the healthy group lost its member, its generation or its offsets, or the broker stopped responding to it",
    UNREADABLE: "a response that cannot be decoded, or has trailing bytes",
    CORRELATION: "a response whose correlation id differs from that of the request",
}
FORM = 1  # version of the file format


class FindingError(ValueError):
    """The error for a file that does not contain a valid finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure of a broker, with the requests that reproduce it.

    Attributes:
        kind: kind of failure, one of KINDS.
        detail: description of the failure.
        seed: seed of the run.
        case: number of the case in the run.
        names: topic, group and member names of the run that found the failure.
        steps: requests that were sent in that run.
    """

    kind: str
    detail: str
    seed: int
    case: int
    names: Names
    steps: tuple[Step, ...]

    @property
    def what(self) -> str:
        """The description of the malformed request.

        If that request was removed, the description of the last step; "" without steps.
        """
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
        """Decode a finding from the JSON text of a file. Raises: FindingError if the text is not a valid finding."""
        try:
            form = json.loads(text)
            steps = tuple(
                Step(bytes.fromhex(step["hex"]), str(step["what"]), bool(step["broken"]), str(step["learned"]))
                for step in form["steps"]
            )
            names = Names(str(form["nonce"]), UUID(form["topic_id"]))
            finding = cls(str(form["kind"]), str(form["detail"]), int(form["seed"]), int(form["case"]), names, steps)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise FindingError(f"the file is not a valid finding: {reason}") from None
        if finding.kind not in KINDS or form.get("form") != FORM:
            raise FindingError(
                f"the finding has form {form.get('form')!r} and kind {finding.kind!r}: "
                f"expected form {FORM} and one of the kinds {', '.join(KINDS)}"
            )
        return finding


class Recorded:
    """The steps of a finding, adapted to another run.

    The names in the steps are replaced by the names of the new run, and the member ids by those that the broker assigns
    in the new run. A member id is replaced only by one of equal length, which all member ids of one client id have.
    """

    def __init__(self, steps: Sequence[Step], then: Names, now: Names) -> None:
        self.steps: list[Step] = []
        self._rest = list(steps)
        self._now: dict[bytes, bytes] = {then.nonce.encode(): now.nonce.encode()}
        if then.topic_id.int:
            self._now[then.topic_id.bytes] = now.topic_id.bytes

    def next(self) -> Step | None:
        """Return the next request to send; None after the last one."""
        if not self._rest:
            return None
        step = self._rest.pop(0)
        data = step.data
        for then, now in self._now.items():
            data = data.replace(then, now)
        self.steps.append(replace(step, data=data))
        return self.steps[-1]

    def answered(self, response: Response) -> None:
        """Process the response to the last step: if it is a JoinGroup response, store its member id."""
        step = self.steps[-1]
        if isinstance(response.body, JoinGroupResponse) and len(response.body.member_id) == len(step.learned) > 0:
            self._now[step.learned.encode()] = response.body.member_id.encode()
            self.steps[-1] = replace(step, learned=response.body.member_id)


def shrink(steps: Sequence[Step], holds: Callable[[Sequence[Step]], bool], tries: int) -> tuple[Step, ...]:
    """Remove steps of a finding, and bytes of its last step, as long as the failure is reproduced; return the remaining
    steps.

    Args:
        steps: steps of the finding.
        holds: function that returns True if steps reproduce the failure.
        tries: maximum number of calls of ``holds``.
    """
    remaining = tries
    best = list(steps)
    progress = True
    while progress and remaining > 0:
        progress = False
        for smaller in _smaller_variants(best):
            if remaining <= 0:
                break
            remaining -= 1
            if holds(smaller):
                best, progress = smaller, True
                break
    return tuple(best)


def _smaller_variants(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield smaller variants of a sequence of steps, the largest reduction first."""
    if len(steps) > 1:
        yield from (steps[:at] + steps[at + 1 :] for at in range(len(steps)))
    if steps:
        yield from ([*steps[:-1], smaller] for smaller in _shorter(steps[-1]))


def _shorter(step: Step) -> Iterator[Step]:
    frame = step.data[4:]
    if struct.unpack_from(">i", step.data)[0] != len(frame):
        return  # the length prefix itself is the mutation
    size = len(frame) // 2
    while size:
        for start in range(len(frame) - size, 7, -size):
            yield replace(step, data=pack(frame[:start] + frame[start + size :]))
        size //= 2

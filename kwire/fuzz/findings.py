"""Findings: files with the requests that reproduce a failure of a broker.

``shrink`` reduces a finding to fewer and shorter requests. This module uses no sockets.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as shorten
from typing import Any
from uuid import UUID

from kwire.envelope import Response
from kwire.frames import pack
from kwire.fuzz.session import NONCE, Names, Step
from kwire.lazy_dataclass import dataclass
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
    """The error for a finding file whose content is not valid."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure of a broker, with the requests that reproduce it.

    Attributes:
        kind: kind of failure, one of KINDS.
        detail: description of the failure.
        seed: seed of the random choices of the run.
        case: number of the test case in the run, from 0.
        names: names of the topic and the groups of the run that found the failure.
        steps: requests of the test case that reproduce the failure.
    """

    kind: str
    detail: str
    seed: int
    case: int
    names: Names
    steps: tuple[Step, ...]

    @property
    def what(self) -> str:
        """The description of the malformed request; "" if the finding has no requests.

        If ``shrink`` has removed the malformed request, this is the description of the last request.
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
                Step(bytes.fromhex(step["hex"]), str(step["what"]), bool(step["broken"]), _utf8(step["learned"]))
                for step in form["steps"]
            )
            names = Names(_nonce(str(form["nonce"])), UUID(form["topic_id"]))
            finding = cls(str(form["kind"]), str(form["detail"]), int(form["seed"]), int(form["case"]), names, steps)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise FindingError(f"the file is not a valid finding: {_reason(error)}") from None
        if form.get("form") != FORM:
            raise FindingError(f"format {form.get('form')!r} of the finding is not supported: expected {FORM}")
        if finding.kind not in KINDS:
            raise FindingError(f"unknown kind {finding.kind!r} of the finding: expected one of {', '.join(KINDS)}")
        return finding


def _reason(error: Exception) -> str:
    """Return the reason why a file is not a valid finding."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _nonce(text: str) -> str:
    """Return the nonce of a finding. Raises: ValueError if it could not be the nonce of a run."""
    if len(text) != NONCE or not text.isascii():
        raise ValueError(f"nonce {shorten(text)} does not have {NONCE} ASCII characters")
    return text


def _utf8(value: object) -> str:
    """Return a value as text. Raises: ValueError if the text cannot be encoded as UTF-8."""
    text = str(value)
    text.encode()
    return text


class Recorded:
    """A script that sends the requests of a finding again, adapted to a new run.

    The names of the run that found the failure are replaced by the names of the new run. Member ids are replaced by the
    member ids that the broker assigns in the new run. A new member id must have the same length as the old member id;
    this is true for equal client ids.

    Args:
        steps: requests of the finding.
        then: names of the run that found the failure.
        now: names of the new run.

    Attributes:
        steps: requests that were sent so far, as they were sent.
    """

    def __init__(self, steps: Sequence[Step], then: Names, now: Names) -> None:
        self.steps: list[Step] = []
        self._rest = list(steps)
        self._now: dict[bytes, bytes] = {then.nonce.encode(): now.nonce.encode()}
        if then.topic_id.int:
            self._now[then.topic_id.bytes] = now.topic_id.bytes

    def next(self) -> Step | None:
        """Return the next request to send, or None after the last request."""
        if not self._rest:
            return None
        step = self._rest.pop(0)
        data = step.data
        for then, now in self._now.items():
            data = data.replace(then, now)
        self.steps.append(replace(step, data=data))
        return self.steps[-1]

    def answered(self, response: Response) -> None:
        """Process the response to the last request. From a JoinGroup response, the new member id is stored."""
        step = self.steps[-1]
        if isinstance(response.body, JoinGroupResponse) and len(response.body.member_id) == len(step.learned) > 0:
            self._now[step.learned.encode()] = response.body.member_id.encode()
            self.steps[-1] = replace(step, learned=response.body.member_id)


def shrink(steps: Sequence[Step], holds: Callable[[Sequence[Step]], bool], tries: int) -> tuple[Step, ...]:
    """Remove requests of a finding, and bytes of its last request, as long as the failure is reproduced.

    Args:
        steps: requests of the finding.
        holds: function that returns True if the passed requests reproduce the failure.
        tries: maximum number of calls of ``holds``.

    Returns: the remaining requests.
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
    """Yield smaller variants of a sequence of requests.

    The first variants lack one request. In the following variants the last request is shorter, at first by half.
    """
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

"""The stage that changes the responses of one API, as a case describes."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Generator, Sequence
from functools import partial
from random import Random
from typing import Any

from kwire import WireError
from kwire.envelope import decode_response, encode_response
from mockbroker.base.effects import Call, Delivery, Effects, Reply
from mockbroker.broker.request_log import api_key
from mockbroker.broker.router import NOT_LOGGED
from mockbroker.broker.stages import Stage
from mockbroker.lab.torture.case import EVERY, Case, Turn

LENGTH = struct.Struct(">i")  # of a frame
SHOWN = 1 << 16  # bytes of the last changed frame that are kept for the report


class HostileStage(Stage):
    """A stage that changes each response of the API that the case names (``Case.step``), until ``on`` is False.

    Args:
        case: case with ``change`` or ``frames``.
        seed: seed of the random numbers.
        brokers: node id, host and port of each broker.

    Attributes:
        on: whether responses are changed.
        changed: number of responses that were changed.
        last: at most SHOWN bytes of the last changed response frame, without length prefix; API key; API version. None
            before the first change.
    """

    def __init__(self, case: Case, seed: int, brokers: Sequence[tuple[int, str, int]] = ()) -> None:
        self.on = True
        self.changed = 0
        self.last: tuple[bytes, int, int] | None = None
        self._case = case
        self._seen = 0  # responses of the step
        self._key = None if case.step == EVERY or case.gets_all else api_key(case.step)
        self._kept: dict[int, bytes] = {}  # ``Turn.kept`` by connection
        self._turn = Turn(0, Random(seed), brokers=brokers)  # noqa: S311 - not for secrets

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:  # noqa: ARG002
        wanted = self._key in (None, call.ticket.api_key) and call.request.__class__ not in NOT_LOGGED
        return call if self.on and wanted else None

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        if not self.on:
            return effects
        return [self._changed(call, each) if isinstance(each, Reply) else each for each in effects]

    def _changed(self, call: Call[Any], reply: Reply) -> Reply:
        delivery = dataclasses.replace(reply.delivery or Delivery(), alter=partial(self._alter, call))
        return Reply(reply.ticket, reply.response, delivery=delivery)

    def _alter(self, call: Call[Any], frame: bytes) -> Generator[None, None, bytes]:
        """Return the changed bytes of a response, or the same bytes if they cannot be changed or ``on`` is False.

        The function is a generator because the overridden method is one. It yields nothing.

        Args:
            call: the request.
            frame: the response frame with its length prefix.
        """
        yield from ()  # in one slice
        if not self.on:
            return frame
        turn, case = self._turn, self._case
        turn.number, turn.api_key, turn.version = self._seen, call.ticket.api_key, call.ticket.version
        self._seen += 1
        number = call.ticket.connection
        turn.kept = self._kept.pop(number, b"")
        changed = self._with_change(call, frame) if case.frames is None else case.frames(frame, turn)
        if turn.kept:
            self._kept[number] = turn.kept
        if changed != frame:
            self.changed += 1
            self.last = changed[LENGTH.size : LENGTH.size + SHOWN], turn.api_key, turn.version
        return changed

    def _with_change(self, call: Call[Any], frame: bytes) -> bytes:
        assert self._case.change is not None
        response = decode_response(frame[LENGTH.size :], call.ticket.api_key, call.ticket.version)
        self._case.change(response.body, call.request, self._turn)
        number = response.header.correlation_id
        try:
            changed = encode_response(response.body, response.version, correlation_id=number, header=response.header)
        except WireError:  # this version has no such field
            return frame
        return LENGTH.pack(len(changed)) + changed

    def forget_connection(self, number: int) -> None:
        self._kept.pop(number, None)


class WatchingStage(Stage):
    """A stage that stores the last response that a fault rule has changed.

    This stage must get requests before the stage of the fault rules does. Stages process responses in the opposite
    order, so this stage then gets the responses after the fault rules have changed them.

    Attributes:
        last: at most SHOWN bytes of the changed response frame, without length prefix; API key; API version. None
            before the first changed response.
    """

    def __init__(self) -> None:
        self.last: tuple[bytes, int, int] | None = None

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:  # noqa: ARG002
        return call

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        return [self._watched(call, each) if isinstance(each, Reply) else each for each in effects]

    def _watched(self, call: Call[Any], reply: Reply) -> Reply:
        delivery = reply.delivery or Delivery()
        watched = dataclasses.replace(delivery, alter=partial(self._store, call, delivery.alter))
        return Reply(reply.ticket, reply.response, delivery=watched)

    def _store(
        self, call: Call[Any], alter: Callable[[bytes], Generator[None, None, bytes]] | None, frame: bytes
    ) -> Generator[None, None, bytes]:
        sent = frame if alter is None else (yield from alter(frame))
        if call.ticket.fault:
            self.last = sent[LENGTH.size : LENGTH.size + SHOWN], call.ticket.api_key, call.ticket.version
        return sent

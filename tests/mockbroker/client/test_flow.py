"""Steps that wait for the next advance, for a poll, or for the listener."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from mockbroker.client.flow import POLL, WAIT, Flow, ListenerCall

ON_REVOKED = ListenerCall("revoked", (("t", 0),))


def run(*waits: Any, received: list[Any] | None = None) -> Flow:
    def steps() -> Generator[Any, Exception | None, None]:
        for wait in waits:
            result = yield wait
            if received is not None:
                received.append(result)
            if isinstance(result, Exception):
                raise result

    return Flow(steps())


def test_each_advance_runs_one_step() -> None:
    flow = run(WAIT, WAIT)
    for _ in range(3):
        assert not flow.done
        flow.advance(polling=False)
    assert flow.done


def test_wait_for_a_poll_continues_at_once_in_a_poll() -> None:
    flow = run(POLL, POLL, WAIT)
    for _ in range(3):
        flow.advance(polling=False)
    assert not flow.done
    flow.advance(polling=True)
    flow.advance(polling=False)
    assert flow.done


def test_listener_call_waits_until_the_listener_has_returned() -> None:
    received: list[object] = []
    flow = run(ON_REVOKED, received=received)
    flow.advance(polling=True)
    flow.advance(polling=True)
    assert (flow.listener_call, received) == (ON_REVOKED, [])
    flow.listener_returned(None)
    assert (flow.listener_call, flow.done, received) == (None, True, [None])


def test_listener_error_is_raised_in_the_step() -> None:
    flow = run(ON_REVOKED)
    flow.advance(polling=True)
    with pytest.raises(OSError, match="mine"):
        flow.listener_returned(OSError("mine"))
    assert (flow.done, flow.listener_call) == (True, None)
    flow.advance(polling=True)


def test_closed_flow_is_done() -> None:
    flow = run(ON_REVOKED)
    flow.advance(polling=True)
    flow.close()
    assert (flow.done, flow.listener_call) == (True, None)


def test_close_ends_the_steps_at_once() -> None:
    ended = []

    def steps() -> Generator[Any, Exception | None, None]:
        try:
            yield WAIT
        finally:
            ended.append(True)

    held = steps()
    flow = Flow(held)
    flow.advance(polling=False)
    flow.close()
    assert ended == [True]
    flow.advance(polling=True)
    assert flow.done

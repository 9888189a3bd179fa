"""Steps that wait for anything, for the user to poll, or for the listener."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from mockbroker.client.flow import POLL, WAIT, Flow, ListenerCall

TELL = ListenerCall("revoked", (("t", 0),))


def run(*waits: Any, said: list[Any] | None = None) -> Flow:
    def steps() -> Generator[Any, Exception | None, None]:
        for wait in waits:
            got = yield wait
            if said is not None:
                said.append(got)
            if isinstance(got, Exception):
                raise got

    return Flow(steps())


def test_each_advance_is_a_step() -> None:
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


def test_a_tell_waits_until_it_was_told() -> None:
    said: list[object] = []
    flow = run(TELL, said=said)
    flow.advance(polling=True)
    flow.advance(polling=True)
    assert (flow.listener_call, said) == (TELL, [])
    flow.listener_returned(None)
    assert (flow.listener_call, flow.done, said) == (None, True, [None])


def test_what_the_listener_raised_comes_out_where_it_was_told() -> None:
    flow = run(TELL)
    flow.advance(polling=True)
    with pytest.raises(OSError, match="mine"):
        flow.listener_returned(OSError("mine"))
    assert (flow.done, flow.listener_call) == (True, None)
    flow.advance(polling=True)


def test_one_that_is_closed_is_over() -> None:
    flow = run(TELL)
    flow.advance(polling=True)
    flow.close()
    assert (flow.done, flow.listener_call) == (True, None)

"""The base of handles whose operations run in the broker's thread and return their results through futures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from inspect import getdoc
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import trio

from mockbroker.api.operations import Handle
from mockbroker.api.wait import WaitTimeoutError
from mockbroker.base.errors import ConflictError, FaultRuleError, NotFoundError
from mockbroker.base.settings import SettingsError

T = TypeVar("T")
P = ParamSpec("P")
CALLER_ERRORS = (SettingsError, FaultRuleError, NotFoundError, ConflictError, WaitTimeoutError)


class ThreadHandle(Handle):
    """The base class of handles whose operations run in the broker's thread."""

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        """Start an async function in the broker's thread without waiting for it; return a future of its result.

        ``wait``: the function, which is called with the object that owns the cluster.
        """
        raise NotImplementedError


def blocking(method: Callable[Concatenate[Any, P], Awaitable[T]], note: str = "") -> Callable[Concatenate[Any, P], T]:
    """Return a method for a ThreadHandle: it runs an async method in the broker's thread, and blocks until that method
    returns.

    Args:
        method: the async method, such as ``Cluster.wait_group``.
        note: text to append to the docstring of the method.
    """

    @wraps(method)
    def blocked(self: ThreadHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        waiting = self._start(lambda owner: method(owner, *args, **kwargs))
        try:
            return result_of(waiting)
        finally:
            waiting.cancel()

    blocked.__doc__ = _documentation(method, note)
    return blocked


def awaited(
    method: Callable[Concatenate[Any, P], Awaitable[T]], note: str = ""
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return an async method for a ThreadHandle: it runs an async method in the broker's thread, and awaits its result.

    The returned method works in asyncio and trio. Its name is that of ``method`` with the suffix ``_async``.

    Args:
        method: the async method, such as ``Cluster.wait_group``.
        note: text to append to the docstring of the method.
    """

    @wraps(method)
    async def waited(self: ThreadHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        waiting = self._start(lambda owner: method(owner, *args, **kwargs))
        try:
            await done(waiting)
            return result_of(waiting)
        finally:
            waiting.cancel()

    waited.__name__ = f"{method.__name__}_async"
    waited.__doc__ = _documentation(method, note)
    return waited


def _documentation(method: Callable[..., object], note: str) -> str:
    return "\n\n".join(text for text in (getdoc(method), note) if text)


def result_of(future: Future[T]) -> T:
    """Return the result of a future, or raise its exception.

    An error that the caller caused, such as SettingsError, is raised without the traceback of the broker's thread.
    """
    __tracebackhide__ = True
    try:
        return future.result()
    except CALLER_ERRORS as error:
        raise error.with_traceback(None) from None


class _Event(Protocol):
    """The methods that the Event classes of trio and asyncio share."""

    def set(self) -> None: ...
    async def wait(self) -> Any: ...


async def done(future: Future[Any]) -> None:
    """Wait, in a task of trio or asyncio, until a future of the broker's thread is done."""
    event: _Event
    call_soon: Callable[[Callable[[], None]], object]
    if trio.lowlevel.in_trio_task():
        event, call_soon = trio.Event(), trio.lowlevel.current_trio_token().run_sync_soon
    else:
        import asyncio  # a test without a coroutine does not need it

        event, call_soon = asyncio.Event(), asyncio.get_running_loop().call_soon_threadsafe

    def set_event(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            call_soon(event.set)

    future.add_done_callback(set_event)
    await event.wait()

"""The fault rules of a cluster that runs in its own thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mockbroker.api.faults import WAIT_TIMEOUT, FaultHandle, FaultOperations, Faults, FaultState
from mockbroker.api.thread_handle import ThreadHandle, awaited, blocking

T = TypeVar("T")
BLOCKS = "Blocks the calling thread. On the event loop that runs the clients, use ``{}_async``."
AWAITS = "Awaitable in asyncio and trio; the event loop keeps running."


class ThreadFault(FaultHandle):
    """A fault rule of a ``ThreadCluster``, usable from any thread and any event loop."""

    _faults: ThreadFaults

    def wait_applied(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Block until the rule was applied ``count`` times in total; return its state.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        __tracebackhide__ = True
        return self._faults.wait(self.name, applied=count, timeout=timeout)

    def wait_holding(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Block until the rule holds ``count`` requests at the same time; return its state.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        __tracebackhide__ = True
        return self._faults.wait(self.name, holding=count, timeout=timeout)

    async def wait_applied_async(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Wait until the rule was applied ``count`` times in total; return its state. The method works in asyncio and
        trio.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        return await self._faults.wait_async(self.name, applied=count, timeout=timeout)

    async def wait_holding_async(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Wait until the rule holds ``count`` requests at the same time; return its state. The method works in asyncio
        and trio.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        return await self._faults.wait_async(self.name, holding=count, timeout=timeout)


class ThreadFaults(ThreadHandle, FaultOperations[ThreadFault]):
    """The fault rules of a ``ThreadCluster``, usable from any thread and any event loop."""

    def __init__(self, cluster: ThreadHandle) -> None:
        self._cluster = cluster

    wait = blocking(Faults.wait, BLOCKS.format("wait"))
    wait_async = awaited(Faults.wait, AWAITS)

    def _handle(self, name: str) -> ThreadFault:
        return ThreadFault(self, name)

    def _perform(self, call: Callable[[Any], T]) -> T:
        __tracebackhide__ = True
        return self._cluster._perform(lambda cluster: call(cluster.faults))

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        return self._cluster._start(lambda cluster: wait(cluster.faults))

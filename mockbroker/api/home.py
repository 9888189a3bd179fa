"""The check that the handle of a cluster is used only in the process and the thread that have opened the cluster."""

from __future__ import annotations

import os
import threading

import trio


class ClusterClosedError(RuntimeError):
    """The error for a handle that is used after its cluster was closed, after its test has finished, or in a forked
    process.
    """


class Home:
    """The process, thread and trio run that created a handle. The handle must be used in the same process, thread and
    trio run, until the cluster is closed.

    Attributes:
        closed: Whether the cluster is closed.
    """

    def __init__(self) -> None:
        self.closed = False
        self._process = os.getpid()
        self._thread = threading.current_thread()
        self._token = trio.lowlevel.current_trio_token()

    def check(self) -> None:
        """Raise an error if the cluster is closed, or the caller is in a process or thread that does not run it.

        Raises: ClusterClosedError if the cluster is closed, and in a forked process; RuntimeError in a thread that does
        not run the cluster.
        """
        check_process(self._process)
        if self.closed:
            raise ClusterClosedError("the cluster is closed")
        if threading.get_ident() != self._thread.ident:
            raise RuntimeError(
                f"this handle belongs to thread {self._thread.name}, and this is thread "
                f"{threading.current_thread().name}: call it through trio.from_thread.run_sync, or open the cluster "
                "with run_cluster, whose handle can be used in any thread"
            )

    def check_run(self) -> None:
        """Raise an error if the caller is not a task of the trio run in which the cluster runs.

        Raises: ClusterClosedError if the cluster is closed, and in a forked process; RuntimeError in a thread that does
        not run the cluster, or outside of the trio run.
        """
        self.check()
        if not trio.lowlevel.in_trio_task() or trio.lowlevel.current_trio_token() is not self._token:
            raise RuntimeError(
                "this handle waits only in the trio run that has opened the cluster: in asyncio, open the cluster with "
                "run_cluster, and await the methods of its handle that end in _async"
            )


def check_process(process: int) -> None:
    """Check that the caller is in the process that runs the cluster.

    ``process``: id of the process that runs the cluster.

    Raises: ClusterClosedError in a forked process.
    """
    if os.getpid() != process:
        raise ClusterClosedError(
            f"the cluster runs in process {process}, and this is process {os.getpid()}, forked from it: "
            "call the handle in the parent process; clients can connect to bootstrap_servers from any process"
        )

"""The protocol of a member and the test: stdin has commands, and events are written to stdout as JSON lines."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
POLL = 0.1  # seconds that a poll may take before the next check for commands
AGAIN = 0.05  # seconds until the signal of a command that still waits is repeated

_commands: SimpleQueue[str] = SimpleQueue()


def _listen() -> None:
    for line in sys.stdin:
        _commands.put(line.strip())
        _came.set()
    os._exit(3)  # the test has ended, so the member exits


def _interrupt() -> None:
    """Send the signal of a command, and repeat it until the member takes the command.

    A signal that arrives just before the main thread blocks on a lock does not end this wait: Python calls the handler
    only between two of its instructions, and the wait for the lock is then not interrupted.
    """
    while True:
        _came.wait(None if _commands.empty() else AGAIN)
        _came.clear()
        if not _commands.empty():
            os.kill(os.getpid(), signal.SIGUSR1)


_came = threading.Event()
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
threading.Thread(target=_listen, daemon=True).start()
threading.Thread(target=_interrupt, daemon=True).start()


def interrupt_on_command(handler: Callable[..., object]) -> None:
    """Call the handler in the main thread, which is interrupted at any point, while a command waits to be taken."""
    signal.signal(signal.SIGUSR1, handler)


def command() -> str:
    """Return the next command, or "" if there is none."""
    return "" if _commands.empty() else _commands.get()


def awaited() -> list[str]:
    """Wait for the next command, and return its words."""
    return _commands.get().split()


def transact(take: Callable[[int], T], commit: Callable[[], object], abort: Callable[[T], object]) -> None:
    """Follow commands until ``leave``: ``take`` reads some records in a transaction, which is committed or aborted.

    ``abort`` gets the last result of ``take``: the position at which it must continue.
    """
    taken: list[T] = []
    while (requested := awaited())[0] != "leave":
        match requested:
            case ["take", wanted]:
                taken = [take(int(wanted))]
                tell("taken")
            case ["commit"]:
                commit()
                tell("committed")
            case ["abort"]:
                abort(taken[0])
                tell("aborted")


def waiting() -> int:
    """Return the number of waiting commands."""
    return _commands.qsize()


def tell(event: str, **what: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **what}) + "\n")
    sys.stdout.flush()


def tell_partitions(event: str, partitions: Iterable[Any]) -> None:
    """Report an event with partitions. Accepts the TopicPartition of any client."""
    tell(event, partitions=sorted([partition.topic, partition.partition] for partition in partitions))


def tell_record(topic: str, partition: int, offset: int, value: bytes) -> None:
    tell("record", topic=topic, partition=partition, offset=offset, value=value.decode())


def transformed(value: bytes) -> bytes:
    """Return the output value for the value of an input record."""
    return value + b", done"


def tell_fenced(error: object) -> NoReturn:
    """Report that another client uses this instance id or transactional id, and exit as in a crash."""
    tell("fenced", error=repr(error))
    os._exit(4)


def tell_left() -> None:
    """Report that the member has left the group, and exit without waiting for the thread that reads stdin."""
    tell("left")
    os._exit(0)

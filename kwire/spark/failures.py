"""Errors of Spark on the command line: one line each, and nothing about Ctrl-C."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kwire.command import one_line
from kwire.spark.output import StreamedError
from kwire.spark.plain import PlainError
from kwire.spark.stream_lock import LockedError

_STACK = re.compile(r"^\s+at ", re.MULTILINE)  # first line of a Java stack
_CAUSE = re.compile(r"^(?:: )?(?:[\w$]+\.)*([\w$]*(?:Error|Exception)\b.*)$", re.MULTILINE)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Convert an error of Spark, inside the ``with`` block, to a click.ClickException with one line.

    Spark has logged the traceback of a failed task or micro-batch. Ctrl-C adds no traceback to stderr. Errors
    about the state of a stream are converted, too.
    """
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise click.ClickException(f"Spark failed: {one_line(cause(str(error)))}") from error
    except (LockedError, PlainError, StreamedError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        logging.getLogger().removeFilter(_is_no_interrupt)


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a Ctrl-C inside the ``with`` block at the end of the block.

    If it ends the start of Spark, pyspark deletes the folder in which the JVM reports its port, and the JVM then never
    exits. From its handler of SIGINT on, which Spark sets when the JVM runs, Ctrl-C takes effect at once.
    """
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C interrupts only the main thread
        yield
        return
    received: list[int] = []

    def remember(number: int, _frame: object) -> None:
        received.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is remember:
            signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


def cause(text: str) -> str:
    """Return the line of an error message of Spark that names the cause.

    ``text``: the message. It may contain the messages of further errors, from the outermost to the innermost, each with
    a Python traceback, and then a Java stack.
    """
    causes = _CAUSE.findall(_STACK.split(text, maxsplit=1)[0])
    return causes[-1] if causes else text.partition("\n")[0]


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return False for a record with which py4j logs that Ctrl-C ended a call.

    Spark's handler of SIGINT cancels all jobs. If a call waits for its answer, this call fails with a RuntimeError,
    because it would read from the same buffer.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, KeyboardInterrupt) and not isinstance(getattr(error, "cause", None), RuntimeError)

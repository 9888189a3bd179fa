"""A stream whose Python process did not connect in time is started again."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from kwire.spark.command import ATTEMPTS, SLOW, run_stream


class Query:
    """A query that ends at once: with an error, or without one if ``reason`` is empty."""

    def __init__(self, reason: str, progress: Any) -> None:
        self.reason, self.lastProgress = reason, progress
        self.is_stopped = False

    def awaitTermination(self) -> None:
        if self.reason:
            raise StreamingQueryException(self.reason)

    def stop(self) -> None:
        self.is_stopped = True


class Followed:
    """A stream with one query for each start: the reason of its end, and whether it completed a micro-batch before."""

    def __init__(self, *outcomes: tuple[str, bool]) -> None:
        self.queries = [Query(reason, {"batchId": 1} if progress else None) for reason, progress in outcomes]
        self.started: list[Query] = []

    def start(self, spark: Any, *, once: bool) -> Query:
        self.started.append(self.queries[len(self.started)])
        return self.started[-1]


def run(followed: Any) -> None:
    run_stream(followed, None, once=True)  # type: ignore[arg-type]


def test_slow_python_process_restarts_the_stream():
    followed = Followed(*[(f"[STREAM_FAILED] {SLOW}.", True)] * (2 * ATTEMPTS), ("", False))
    run(followed)
    assert len(followed.started) == 2 * ATTEMPTS + 1
    assert all(query.is_stopped for query in followed.started)


FAILURES = [
    ([("[STREAM_FAILED] disk full", True)], 1),
    ([(SLOW, False)] * (ATTEMPTS + 1), ATTEMPTS),
    ([(SLOW, False), (SLOW, True), *[(SLOW, False)] * ATTEMPTS], ATTEMPTS + 1),
]


@pytest.mark.parametrize(("outcomes", "starts"), FAILURES)
def test_other_failures_end_the_stream(outcomes, starts):
    followed = Followed(*outcomes)
    with pytest.raises(StreamingQueryException):
        run(followed)
    assert len(followed.started) == starts
    assert all(query.is_stopped for query in followed.started)

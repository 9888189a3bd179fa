"""The pytest fixtures ``kafka_cluster`` and ``kafka_cluster_factory``, and the marker ``kafka``.

Every run of pytest in the environment loads this module, so nothing but pytest is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mockbroker.api.thread import BrokerThread, ThreadCluster

MARK = "kafka"
MARK_HELP = (
    f"{MARK}(topics=None, config=None, brokers=1, listeners=(), users=None, clock='real'): configure the fixture "
    "kafka_cluster: topics (name to number of partitions), config (broker settings by Kafka's names, such as "
    '{"group.max.size": 2}), number of brokers, listeners (such as "SASL_SSL"), users (name to password), '
    'clock ("manual" for a stopped clock that the test advances).'
)
MARK_ARGUMENTS = {"topics", "config", "brokers", "listeners", "users", "clock"}

# Kafka's defaults suit production. A test should not wait 3 s for more members, 6 s until a dead member is evicted, or
# 0.1 s until a failed authentication is answered.
TEST_CONFIG = {
    "connection.failed.authentication.delay.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 10,
}

_USED = pytest.StashKey["ThreadCluster"]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_HELP)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafka_threads: _Threads) -> Iterator[ThreadCluster]:
    """Return a Kafka cluster without data; ``@pytest.mark.kafka(...)`` sets topics, settings and brokers."""
    brokers, topics, config, listeners, users, clock = _mark_arguments(request.node)
    thread = _kafka_threads.get(brokers)
    cluster = thread.start_over(topics, TEST_CONFIG | config, listeners, users, clock)
    request.node.stash[_USED] = cluster
    yield cluster
    _kafka_threads.check(brokers)


@pytest.fixture
def kafka_cluster_factory() -> Iterator[Callable[..., ThreadCluster]]:
    """Return a function that creates Kafka clusters, which are closed at the end of the test.

    Use it as ``factory(brokers=1, topics={"orders": 6}, config={...})``.
    """
    from mockbroker.api.thread import run_cluster

    with ExitStack() as stack:

        def make(
            *,
            brokers: int = 1,
            topics: Mapping[str, int] | None = None,
            config: Mapping[str, object] | None = None,
            listeners: Iterable[str] = (),
            users: Mapping[str, str] | None = None,
            clock: str = "real",
        ) -> ThreadCluster:
            merged = TEST_CONFIG | dict(config or {})
            return stack.enter_context(
                run_cluster(
                    brokers=brokers, topics=topics, config=merged, listeners=listeners, users=users, clock=clock
                )
            )

        yield make


@pytest.fixture(scope="session")
def _kafka_threads() -> Iterator[_Threads]:
    threads = _Threads()
    yield threads
    threads.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last group events to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed and (cluster := item.stash.get(_USED, None)) is not None:
        from mockbroker.api.cluster import ClusterClosedError
        from mockbroker.api.wait import event_report

        try:
            events = cluster.events()
        except ClusterClosedError:
            events = []
        if events:
            report.sections.append(("Kafka groups", "\n".join(event_report(events))))
    return report


class _Threads:
    """The broker threads of this process: one thread for each number of brokers that a test has requested."""

    def __init__(self) -> None:
        self._threads: dict[int, BrokerThread] = {}

    def get(self, brokers: int) -> BrokerThread:
        from mockbroker.api.thread import BrokerThread

        if brokers in self._threads:
            self.check(brokers)
        else:
            self._threads[brokers] = BrokerThread(brokers=brokers)
        return self._threads[brokers]

    def check(self, brokers: int) -> None:
        """Check that a thread is running; if not, drop the thread, so that the next test starts a new thread.

        Args:
            brokers: Number of brokers of the thread.

        Raises: the exception that ended the thread.
        """
        from mockbroker.api.cluster import ClusterClosedError

        thread = self._threads[brokers]
        try:
            thread.check()
        except ClusterClosedError:
            del self._threads[brokers]
            thread.close()

    def close(self) -> None:
        while self._threads:
            self._threads.popitem()[1].close()


def _mark_arguments(
    item: pytest.Item,
) -> tuple[int, Mapping[str, int], dict[str, object], Iterable[str], Mapping[str, str], str]:
    """Return the merged arguments of the test's marks: brokers, topics, config, listeners, users and clock.

    Of several marks, the mark closest to the test takes precedence.

    Raises: TypeError if a mark contains positional or unknown arguments.
    """
    brokers = 1
    topics: dict[str, int] = {}
    config: dict[str, object] = {}
    listeners: Iterable[str] = ()
    users: dict[str, str] = {}
    clock = "real"
    for mark in reversed(list(item.iter_markers(MARK))):
        if mark.args or not set(mark.kwargs) <= MARK_ARGUMENTS:
            invalid = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in MARK_ARGUMENTS)]
            raise TypeError(
                f"invalid argument of @pytest.mark.{MARK}: {', '.join(invalid)}; "
                f"expected keyword arguments of {', '.join(sorted(MARK_ARGUMENTS))}"
            )
        brokers = mark.kwargs.get("brokers", brokers)
        topics |= mark.kwargs.get("topics") or {}
        config |= mark.kwargs.get("config") or {}
        listeners = mark.kwargs.get("listeners", listeners)
        users |= mark.kwargs.get("users") or {}
        clock = mark.kwargs.get("clock", clock)
    return brokers, topics, config, listeners, users, clock

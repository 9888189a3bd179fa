"""Fixtures for tests that need a Kafka cluster: ``kafka_cluster`` and ``kafka_cluster_factory``.

Nothing but pytest is imported before a fixture is used: every run of pytest in the environment loads this file.
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
    f"{MARK}(topics=None, config=None, brokers=1, listeners=(), users=None, clock='real'): what the fixture "
    "kafka_cluster begins with in this test: topics as name to partitions, config by Kafka's names, as in "
    '{"group.max.size": 2}, how many brokers, listeners such as "SASL_SSL", users as name to password, '
    'clock "manual" for one that the test advances.'
)
MARK_WORDS = {"topics", "config", "brokers", "listeners", "users", "clock"}

# Kafka's defaults suit a cluster in production; a test waits neither 3 s for more members, nor 6 s for a dead one, nor
# 0.1 s for being refused.
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
    """A Kafka cluster that is empty at the start of the test; @pytest.mark.kafka(...) gives it topics and settings."""
    brokers, topics, config, listeners, users, clock = _wanted(request.node)
    thread = _kafka_threads.get(brokers)
    cluster = thread.start_over(topics, TEST_CONFIG | config, listeners, users, clock)
    request.node.stash[_USED] = cluster
    yield cluster
    _kafka_threads.check(brokers)


@pytest.fixture
def kafka_cluster_factory() -> Iterator[Callable[..., ThreadCluster]]:
    """Makes Kafka clusters: factory(brokers=1, topics={"orders": 6}, config={...}); closed at the end of the test."""
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
            given = TEST_CONFIG | dict(config or {})
            return stack.enter_context(
                run_cluster(brokers=brokers, topics=topics, config=given, listeners=listeners, users=users, clock=clock)
            )

        yield make


@pytest.fixture(scope="session")
def _kafka_threads() -> Iterator[_Threads]:
    threads = _Threads()
    yield threads
    threads.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed tells what happened in the groups."""
    report = yield
    if report.when == "call" and report.failed and (cluster := item.stash.get(_USED, None)) is not None:
        from mockbroker.api.cluster import ClusterClosedError
        from mockbroker.api.wait import events_told

        try:
            events = cluster.events()
        except ClusterClosedError:
            events = []
        if events:
            report.sections.append(("Kafka groups", "\n".join(events_told(events))))
    return report


class _Threads:
    """The brokers of this process, one thread for each number of brokers that was asked for."""

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
        """Raises: what the thread died of, if it did; the next test gets another."""
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


def _wanted(
    item: pytest.Item,
) -> tuple[int, Mapping[str, int], dict[str, object], Iterable[str], Mapping[str, str], str]:
    """What the marks say: those nearer to the test win, name by name. Raises: TypeError for a mark that is wrong."""
    brokers = 1
    topics: dict[str, int] = {}
    config: dict[str, object] = {}
    listeners: Iterable[str] = ()
    users: dict[str, str] = {}
    clock = "real"
    for mark in reversed(list(item.iter_markers(MARK))):
        if mark.args or not set(mark.kwargs) <= MARK_WORDS:
            raise TypeError(f"@pytest.mark.{MARK} takes {', '.join(sorted(MARK_WORDS))}, by name")
        brokers = mark.kwargs.get("brokers", brokers)
        topics |= mark.kwargs.get("topics") or {}
        config |= mark.kwargs.get("config") or {}
        listeners = mark.kwargs.get("listeners", listeners)
        users |= mark.kwargs.get("users") or {}
        clock = mark.kwargs.get("clock", clock)
    return brokers, topics, config, listeners, users, clock

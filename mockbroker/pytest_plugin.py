"""The pytest fixtures ``kafka_cluster``, ``kafka_cluster_factory`` and ``kafka_torture``, and their markers.

Every run of pytest in the environment loads this module. Therefore it imports only pytest before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mockbroker.api.fault_options import RuleGiven
    from mockbroker.api.names import ClockMode
    from mockbroker.api.thread import BrokerThread, ThreadCluster
    from mockbroker.lab.torture.testing import Torture

MARK = "kafka"
MARK_HELP = (
    f"{MARK}(topics=None, config=None, brokers=1, listeners=(), users=None, clock='real', as_version=None, "
    "data_dir=None, port=0, faults=()): configure the fixture kafka_cluster: topics (name to number of partitions), "
    "config (broker settings by Kafka's names, such as "
    '{"group.max.size": 2}), number of brokers, listeners (such as "SASL_SSL"), users (name to password), '
    'clock ("manual" for a stopped clock that the test advances), as_version (the Kafka release to emulate, such as '
    '"3.9"), data_dir (a relative path is below the tmp_path of the test), port of broker 0 (broker n: port + n), '
    'faults (initial fault rules, such as {"api": "OffsetCommit", "error": "REBALANCE_IN_PROGRESS"}).'
)

TORTURE_MARK = "kafka_torture"
TORTURE_HELP = (
    f"{TORTURE_MARK}(*names, seed=0): run the test once for each case of a hostile broker whose name matches one of "
    "the names, which may have wildcards (default: all cases); the fixture kafka_torture runs a client against it."
)

# Kafka's defaults suit production. A test should not wait 3 s for more members, 6 s until a dead member is evicted, or
# 0.1 s until a failed authentication is answered.
TEST_CONFIG = {
    "connection.failed.authentication.delay.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 10,
}

MERGED = {"topics", "config", "users"}  # arguments of which several marks are merged

_USED = pytest.StashKey["list[ThreadCluster]"]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_HELP)
    config.addinivalue_line("markers", TORTURE_HELP)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture ``kafka_torture`` once for each torture case that its mark selects.

    Without a mark, the test runs once for each torture case.
    """
    if "kafka_torture" not in metafunc.fixturenames:
        return
    from mockbroker.lab.torture.catalogue import select, unmatched

    mark = metafunc.definition.get_closest_marker(TORTURE_MARK)
    patterns = ("*",) if mark is None or not mark.args else mark.args
    if mark is not None and (invalid := mark.kwargs.keys() - {"seed"}):
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {TORTURE_MARK}: invalid argument {', '.join(sorted(invalid))}; "
            "expected names of cases, and seed"
        )
    seed = 0 if mark is None else mark.kwargs.get("seed", 0)
    if (unknown := unmatched(patterns)) is not None:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {TORTURE_MARK}: no case has the name {unknown!r}: "
            "mockbroker torture --list prints all cases"
        )
    cases = select(patterns)
    metafunc.parametrize(
        "kafka_torture", [(case, seed) for case in cases], ids=[case.name for case in cases], indirect=True
    )


@pytest.fixture
def kafka_torture(request: pytest.FixtureRequest) -> Torture:
    """Return a torture case, which runs a client against a broker that misbehaves.

    For example, ``kafka_torture.run([sys.executable, "app.py"]).survived`` runs the client app.py.
    """
    from mockbroker.lab.torture.testing import Torture

    return Torture(*request.param)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafka_threads: _Threads) -> Iterator[ThreadCluster]:
    """Return a new, empty Kafka cluster; ``@pytest.mark.kafka(...)`` sets topics, settings and brokers."""
    options = _mark_arguments(request.node)
    with _own_cluster(options, request) if options.own else _kafka_threads.cluster(options) as cluster:
        _used(request.node).append(cluster)
        yield cluster


@pytest.fixture
def kafka_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., ThreadCluster]]:
    """Return a function that creates Kafka clusters. All clusters are closed at the end of the test.

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
            clock: ClockMode = "real",
            as_version: str | None = None,
            data_dir: str | Path | None = None,
            port: int = 0,
            faults: Sequence[RuleGiven] = (),
        ) -> ThreadCluster:
            options = _Options(
                brokers, topics or {}, config or {}, listeners, users or {}, clock, as_version, data_dir, port, faults
            )
            cluster = stack.enter_context(run_cluster(**options.arguments()))
            _used(request.node).append(cluster)
            return cluster

        yield make


@pytest.fixture(scope="session")
def _kafka_threads() -> Iterator[_Threads]:
    threads = _Threads()
    yield threads
    threads.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test if it passes although a fault rule of its clusters was never applied."""
    yield
    for cluster in item.stash.get(_USED, []):
        if report := _unused_report(cluster):
            pytest.fail(report, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop the clusters of a test after their fixtures have closed them: pytest keeps the test until the run ends."""
    try:
        yield
    finally:
        item.stash.get(_USED, []).clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last group events to the report of a failed test."""
    report = yield
    for cluster in item.stash.get(_USED, []) if report.when == "call" and report.failed else ():
        from mockbroker.api.home import ClusterClosedError
        from mockbroker.api.wait import event_report

        try:
            events = cluster.events()
        except ClusterClosedError:
            continue
        if events:
            report.sections.append(("Kafka groups", "\n".join(event_report(events))))
    return report


def _unused_report(cluster: ThreadCluster) -> str:
    """Return the report about fault rules that were never applied.

    The report is "" without such rules, or if the cluster is closed.
    """
    from mockbroker.api.home import ClusterClosedError

    try:
        if not cluster._perform(lambda owner: owner.has_faults):
            return ""
        from mockbroker.api.unused_faults import unused_report  # late: most tests have no faults

        return cluster._perform(unused_report)
    except ClusterClosedError:
        return ""


@dataclass(frozen=True)
class _Options:
    """The arguments of ``@pytest.mark.kafka`` or of the factory.

    They have the meaning of the arguments of ``run_cluster``.

    Attributes:
        as_version: The Kafka release to emulate; None for the default.
    """

    brokers: int = 1
    topics: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    listeners: Iterable[str] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    clock: ClockMode = "real"
    as_version: str | None = None
    data_dir: str | Path | None = None
    port: int = 0
    faults: Sequence[RuleGiven] = ()

    @property
    def own(self) -> bool:
        """Whether the cluster of the test needs its own thread.

        This is so if the test sets a release, a port or a data directory.

        If the result is False, the cluster runs in a thread that it shares with the clusters of earlier and later
        tests.
        """
        return self.as_version is not None or self.data_dir is not None or self.port != 0

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``run_cluster``."""
        arguments = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.as_version is None:
            del arguments["as_version"]
        return arguments | {"config": TEST_CONFIG | dict(self.config)}


class _Threads:
    """The broker threads of this process: one thread for each number of brokers that a test has requested."""

    def __init__(self) -> None:
        self._threads: dict[int, BrokerThread] = {}

    @contextmanager
    def cluster(self, options: _Options) -> Iterator[ThreadCluster]:
        """Provide a new cluster, in the thread for its number of brokers, until the end of the block."""
        thread = self.get(options.brokers)
        config = TEST_CONFIG | dict(options.config)
        yield thread.start_over(options.topics, config, options.listeners, options.users, options.clock, options.faults)
        self.check(options.brokers)

    def get(self, brokers: int) -> BrokerThread:
        from mockbroker.api.thread import BrokerThread

        if brokers in self._threads:
            self.check(brokers)
        else:
            self._threads[brokers] = BrokerThread(brokers=brokers)
        return self._threads[brokers]

    def check(self, brokers: int) -> None:
        """Check that a thread is running. If it has ended, drop it, so that the next test starts a new thread.

        Args:
            brokers: number of brokers of the thread.

        Raises: the exception that ended the thread, if there was one.
        """
        from mockbroker.api.home import ClusterClosedError

        thread = self._threads[brokers]
        try:
            thread.check()
        except ClusterClosedError:
            del self._threads[brokers]
            thread.close()

    def close(self) -> None:
        while self._threads:
            self._threads.popitem()[1].close()


@contextmanager
def _own_cluster(options: _Options, request: pytest.FixtureRequest) -> Iterator[ThreadCluster]:
    """Run a cluster for one test, in a thread that no other test uses."""
    from mockbroker.api.thread import run_cluster

    arguments = options.arguments()
    if options.data_dir is not None:
        arguments["data_dir"] = request.getfixturevalue("tmp_path") / options.data_dir  # an absolute path is unchanged
    with run_cluster(**arguments) as cluster:
        yield cluster


def _used(item: pytest.Item) -> list[ThreadCluster]:
    """Return the list of clusters that the test ``item`` uses. Callers append new clusters to the list."""
    return item.stash.setdefault(_USED, [])


def _mark_arguments(item: pytest.Item) -> _Options:
    """Return the merged arguments of the test's marks.

    If several marks set an argument, the mark closest to the test takes precedence. The arguments in MERGED are dicts;
    the dicts of all marks are merged.

    Raises: TypeError if a mark contains positional or unknown arguments, or a dict is expected.
    """
    merged: dict[str, Any] = {}
    names = [each.name for each in fields(_Options)]
    for mark in reversed(list(item.iter_markers(MARK))):
        if mark.args or not set(mark.kwargs) <= set(names):
            invalid = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in names)]
            raise TypeError(
                f"invalid argument of @pytest.mark.{MARK}: {', '.join(invalid)}; "
                f"expected keyword arguments: {', '.join(sorted(names))}"
            )
        for name, value in mark.kwargs.items():
            if name in MERGED and not isinstance(value, Mapping | None):
                raise TypeError(f"{name} of @pytest.mark.{MARK} is {value!r}: expected a dict")
            merged[name] = merged.get(name, {}) | (value or {}) if name in MERGED else value
    return _Options(**merged)

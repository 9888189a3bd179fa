"""A broker for tests that real Kafka clients cannot tell from Apache Kafka's where consumer groups are concerned."""

TYPE_CHECKING = (
    False  # type checkers take it for true, as that of typing, which takes longer to import than all of this
)
if TYPE_CHECKING:
    from mockbroker.api.clock import Clock
    from mockbroker.api.cluster import Cluster, ClusterClosedError, PortInUseError, open_cluster
    from mockbroker.api.records import Record, UnknownTopicError
    from mockbroker.api.snapshots import GroupSnapshot, MemberSnapshot
    from mockbroker.api.thread import ThreadClock, ThreadCluster, run_cluster
    from mockbroker.api.wait import WaitTimeoutError
    from mockbroker.base.event_kinds import EventKind
    from mockbroker.base.settings import SettingsError
    from mockbroker.broker.failover import FailoverError
    from mockbroker.broker.journal import Event
    from mockbroker.broker.request_log import Request
    from mockbroker.net.in_process import Line, LineClosedError
    from mockbroker.net.tls import TlsFiles
    from mockbroker.storage.disk import DataDirError
else:  # loaded when asked for: pytest loads this package in every run, also where nobody needs a broker
    _HOMES = {
        "Clock": "api.clock",
        "Cluster": "api.cluster",
        "ClusterClosedError": "api.cluster",
        "DataDirError": "storage.disk",
        "Event": "broker.journal",
        "EventKind": "base.event_kinds",
        "FailoverError": "broker.failover",
        "GroupSnapshot": "api.snapshots",
        "Line": "net.in_process",
        "LineClosedError": "net.in_process",
        "MemberSnapshot": "api.snapshots",
        "PortInUseError": "api.cluster",
        "Record": "api.records",
        "Request": "broker.request_log",
        "SettingsError": "base.settings",
        "ThreadClock": "api.thread",
        "ThreadCluster": "api.thread",
        "TlsFiles": "net.tls",
        "UnknownTopicError": "api.records",
        "WaitTimeoutError": "api.wait",
        "open_cluster": "api.cluster",
        "run_cluster": "api.thread",
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Clock",
    "Cluster",
    "ClusterClosedError",
    "DataDirError",
    "Event",
    "EventKind",
    "FailoverError",
    "GroupSnapshot",
    "Line",
    "LineClosedError",
    "MemberSnapshot",
    "PortInUseError",
    "Record",
    "Request",
    "SettingsError",
    "ThreadClock",
    "ThreadCluster",
    "TlsFiles",
    "UnknownTopicError",
    "WaitTimeoutError",
    "open_cluster",
    "run_cluster",
]

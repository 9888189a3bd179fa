"""A broker for tests that real Kafka clients cannot tell from Apache Kafka's where consumer groups are concerned."""

TYPE_CHECKING = (
    False  # type checkers take it for true, as that of typing, which takes longer to import than all of this
)
if TYPE_CHECKING:
    from mockbroker.cluster_api import Cluster, ClusterClosedError, PortInUseError, open_cluster
    from mockbroker.cluster_clock import Clock
    from mockbroker.cluster_thread import ThreadClock, ThreadCluster, run_cluster
    from mockbroker.failover import FailoverError
    from mockbroker.inside import Record, UnknownTopicError
    from mockbroker.journal import Event
    from mockbroker.line import Line, LineClosedError
    from mockbroker.request_log import Request
    from mockbroker.settings import SettingsError
    from mockbroker.snapshots import GroupSnapshot, MemberSnapshot
    from mockbroker.storage.disk import DataDirError
    from mockbroker.tls import TlsFiles
    from mockbroker.waiting import WaitTimeoutError
else:  # loaded when asked for: pytest loads this package in every run, also where nobody needs a broker
    _HOMES = {
        "Clock": "cluster_clock",
        "Cluster": "cluster_api",
        "ClusterClosedError": "cluster_api",
        "DataDirError": "storage.disk",
        "Event": "journal",
        "FailoverError": "failover",
        "GroupSnapshot": "snapshots",
        "Line": "line",
        "LineClosedError": "line",
        "MemberSnapshot": "snapshots",
        "PortInUseError": "cluster_api",
        "Record": "inside",
        "Request": "request_log",
        "SettingsError": "settings",
        "ThreadClock": "cluster_thread",
        "ThreadCluster": "cluster_thread",
        "TlsFiles": "tls",
        "UnknownTopicError": "inside",
        "WaitTimeoutError": "waiting",
        "open_cluster": "cluster_api",
        "run_cluster": "cluster_thread",
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
